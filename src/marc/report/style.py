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

_MARKERS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖"}
"""Marks of matplotlib, as a page writes them beside a name."""
_DASHES = ("-", (0, (4, 1.6)), (0, (1, 1.4)), (0, (6, 1.5, 1, 1.5)))
_PLACE = "space-"  # how the elements of a look are called, until they are on a page


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
    place: int | None = None
    """Which of the spaces of a page it is: a page lets one of them stand out."""

    @property
    def page_color(self) -> str:
        """The colour as a page takes it, which has another for a dark scheme."""
        return f"var(--look-{Look.PALETTE.index(self.color)})"

    @property
    def glyph(self) -> str:
        """The mark as text."""
        return _MARKERS[self.marker]

    @property
    def name(self) -> str | None:
        """What an element of this look is called in a figure."""
        return None if self.place is None else f"{_PLACE}{self.place}"

    @property
    def line(self) -> dict[str, Any]:
        """The line as matplotlib takes it."""
        return {"color": self.color, "linestyle": self.dash, "linewidth": self.width}

    @staticmethod
    def of(spaces: Sequence[str], n_shown: int) -> dict[str, Look]:
        """A look for each space; the first few, which are shown side by side, are heavier.

        No two of 24 share colour and dash, no two of 42 colour and mark, and no two of 168 all.
        """
        n_colors, markers = len(Look.PALETTE), tuple(_MARKERS)
        return {
            space: Look(
                Look.PALETTE[place % n_colors],
                markers[place % len(markers)],
                _DASHES[place // n_colors % len(_DASHES)],
                2.2 if place < n_shown else 1.2,
                place,
            )
            for place, space in enumerate(spaces)
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

    Colours follow the page, ids are the figure's own, elements say of which space they are, and
    what only a separate file needs (prolog, metadata, namespaces) is left out.
    """
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(rf'\bid="{_PLACE}(\d+)"', r'data-space="\1"', text)
    text = re.sub(r'\b(id|href)="(#?)([^"]+)"', rf'\1="\2{name}-\3"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    page_colors = {INK: "var(--ink)", MUTED: "var(--muted)", LINE: "var(--line)"}
    page_colors |= {color: f"var(--look-{n})" for n, color in enumerate(Look.PALETTE)}
    for color, variable in page_colors.items():
        text = text.replace(color, variable)
    opening, rest = text.split(">", 1)
    opening = re.sub(r'\s(width|height)="[^"]*"', "", opening)  # the page decides the size
    return f'{opening} aria-hidden="true" focusable="false">{rest}'
