"""From what was found to one HTML file: template, style and script in, nothing outside needed."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.report.style import ASSETS
from marc.report.tables import Table
from marc.results.files import write_whole

_GENERATOR = '<meta name="generator" content="marc report">'
_DIGEST = '<meta name="marc-report" content="{}">'
_HEAD = 4096  # characters in which a page says what it is


@dataclass(frozen=True)
class PlacedFigure:
    """A figure on the page, with its words and its table."""

    name: str
    title: str
    caption: str
    svg: str
    table: Table

    @property
    def alt(self) -> str:
        """What a person who does not see the figure is told; the table has the numbers."""
        return f"{self.title}. {self.caption} The numbers are in the table below."


def render(content: Mapping[str, Any], data: Mapping[str, Any], digest: str) -> str:
    """The page as text. All of `content` is escaped, except the figures, which are ours."""
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    script = (ASSETS / "page.js").read_text("utf-8")
    figures = [
        {**vars(figure), "alt": figure.alt, "svg": Markup(figure.svg)}
        for figure in content["figures"]
    ]
    text = environment.get_template("page.html").render(
        **{**content, "figures": figures},
        css=Markup((ASSETS / "page.css").read_text("utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=Markup(_as_script_data(data)),
        digest=digest,
        version=version("marc-clip"),
    )
    return text.replace("@@SIZE@@", f"{len(text.encode()) / 1e6:.2f} MB", 1)


def _as_script_data(data: Mapping[str, Any]) -> str:
    """JSON that can stand in a script element: no text in it can end the element.

    Numbers are written so that they are read back as the same float64.
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def is_there(path: Path, digest: str, *, force: bool) -> bool:
    """Whether this very page is there already; refuses to replace anything else unasked."""
    if not path.exists():
        return False
    if path.is_dir():
        raise MarcError("a report is one file", got=f"{path}: a folder", hint=f"-o {path}.html")
    if not path.is_file():
        raise MarcError("a report is a plain file", got=path, hint="-o report.html")
    with path.open("rb") as file:
        head = file.read(_HEAD).decode("utf-8", errors="replace")
    if _GENERATOR not in head:
        raise MarcError(
            "this file is not a report of marc, so it is left alone",
            got=path,
            hint="-o ANOTHER.html",
        )
    if force:
        return False
    if _DIGEST.format(digest) in head:
        return True
    raise MarcError(
        "this file holds another report",
        got=path,
        hint="another -o FILE, or --force to replace it",
    )


def write_page(path: Path, text: str) -> None:
    """Write the page in one piece: under its name there is a whole one, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode())


def referenced(queries: Sequence[Mapping[str, Any]], samples: Sequence[int]) -> list[int]:
    """Rows whose picture or id the page shows, each once."""
    rows = dict.fromkeys(samples)
    for query in queries:
        rows[query["row"]] = None
        for entries in query["entries"]:
            rows |= dict.fromkeys(entry["row"] for entry in entries)
    return list(rows)
