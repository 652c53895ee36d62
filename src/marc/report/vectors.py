"""Matplotlib figures as SVG that can stand inside a page, and as files."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marc.report.style import INK, LINE, MUTED
from marc.results.files import whole_file

_FORMATS = ("svg", "pdf", "png")
_PAGE_COLORS = {INK: "var(--ink)", MUTED: "var(--muted)", LINE: "var(--line)"}


def inline_svg(figure: Any, name: str) -> str:
    """A figure as an SVG element of a page.

    Text stays text, greys follow the page, ids are the figure's own, and what only a separate file
    needs (prolog, metadata, namespaces) is left out.
    """
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'\b(id|href)="(#?)([^"]+)"', rf'\1="\2{name}-\3"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    for color, variable in _PAGE_COLORS.items():
        text = text.replace(color, variable)
    opening, rest = text.split(">", 1)
    opening = re.sub(r'\s(width|height)="[^"]*"', "", opening)  # the page decides the size
    return f'{opening} aria-hidden="true" focusable="false">{rest}'


def save_figures(figures: Mapping[str, Any], folder: Path) -> list[Path]:
    """Every figure as SVG, PDF and PNG; the paths that were written."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in figures.items():
        for kind in _FORMATS:
            path = folder / f"{name}.{kind}"
            date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind, {})
            background = {"facecolor": "white"} if kind == "png" else {}
            with whole_file(path) as file:
                figure.savefig(file, format=kind, metadata=date, **background)
            written.append(path)
    return written
