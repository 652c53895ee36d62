"""How figures look: one palette that the colour-blind can tell apart, and never colour alone."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

_STYLE = Path(__file__).with_name("assets") / "figures.mplstyle"

INK, MUTED, LINE = "#1d1d1f", "#6e6e73", "#dcdce0"
"""The greys of `figures.mplstyle`; a page replaces them by its own."""

_PAGE_COLORS = {INK: "var(--ink)", MUTED: "var(--muted)", LINE: "var(--line)"}

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", (0, (4, 1.6)), (0, (1, 1.4)), (0, (6, 1.5, 1, 1.5)))


@dataclass(frozen=True)
class Look:
    """How one space is drawn in every figure."""

    PALETTE: ClassVar = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
    """Okabe and Ito's colours without yellow, which vanishes on white, and without black."""

    color: str
    marker: str
    dash: Any
    """A line style of matplotlib."""
    width: float

    @property
    def line(self) -> dict[str, Any]:
        """The line as matplotlib takes it."""
        return {"color": self.color, "linestyle": self.dash, "linewidth": self.width}

    @staticmethod
    def of(spaces: Sequence[str], n_shown: int) -> dict[str, Look]:
        """A look for each space; the first few, which are shown side by side, are heavier."""
        return {
            space: Look(
                Look.PALETTE[index % len(Look.PALETTE)],
                _MARKERS[index % len(_MARKERS)],
                "-" if index < n_shown else _DASHES[1 + index % (len(_DASHES) - 1)],
                2.2 if index < n_shown else 1.2,
            )
            for index, space in enumerate(spaces)
        }


@contextmanager
def drawing() -> Iterator[None]:
    """The style of the figures, in force while they are drawn and saved."""
    import matplotlib.style

    with warnings.catch_warnings(), matplotlib.style.context(str(_STYLE)):
        # a name in another script is drawn as boxes in PNG and PDF; the page shows it whole
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        yield


def page_svg(text: str, name: str) -> str:
    """A file of matplotlib's as an SVG element of a page.

    Greys follow the page, ids are the figure's own, and what only a separate file needs (prolog,
    metadata, namespaces) is left out.
    """
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
