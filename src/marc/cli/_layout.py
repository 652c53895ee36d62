"""How text and tables fit into a terminal: words wrap, wide tables fold, and nothing is cut."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from rich.cells import cell_len

_GAP = 2  # blanks between two columns
_NARROW = 14  # a column of text is not made narrower than this: few words would fit in a line
_COPIED = ("$ ", "next", "try: ", "then: ", "written: ", "already there: ", "open ", "figure: ")
"""How lines begin that a reader copies from: a break would end up in a path or a command."""
_LABEL = re.compile(r"\s*\S+ {2,}")


def wrapped(text: str, width: int) -> str:
    r"""A text with lines of at most `width`, broken between words alone.

    >>> print(wrapped("  wrong  two pictures of one name\nnext: marc run arrays/photos.npz", 20))
      wrong  two
             pictures of
             one name
    next: marc run arrays/photos.npz
    """
    return "\n".join(_wrapped_line(line, width) for line in text.split("\n"))


def _wrapped_line(line: str, width: int) -> str:
    if cell_len(line) <= width or line.lstrip().startswith(_COPIED):
        return line
    label = _LABEL.match(line)
    hang = label.end() if label else len(line) - len(line.lstrip()) + 2
    hang = hang if hang <= width // 3 else 2
    return "\n".join(
        textwrap.wrap(
            line,
            width,
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
            drop_whitespace=True,
        )
    )


def folded(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, keys: int, text: bool
) -> list[dict[int, int]]:
    """The parts of a table that fit below each other: the width of each column, by its index.

    Heads wrap first, and with `text` cells do; if that is not enough, columns go into further
    parts, each of which begins with the first `keys` columns again.

    >>> folded(["run", "gain"], [["tda", "+1.00"]], 80, keys=1, text=False)
    [{0: 3, 1: 5}]
    >>> folded(["run", "gain", "worst"], [["tda", "+1.00", "-1.00"]], 12, keys=1, text=False)
    [{0: 3, 1: 5}, {0: 3, 2: 5}]
    """
    cells = [[column, *(row[index] for row in rows)] for index, column in enumerate(columns)]
    widest = [max(map(cell_len, each)) for each in cells]
    least = [_least(each, text=text) for each in cells]
    parts: list[list[int]] = [[]]
    first = list(range(keys))
    for index in range(keys, len(columns)):
        taken = [*first, *parts[-1], index]
        if parts[-1] and _sum(least[each] for each in taken) > width:
            parts.append([])
        parts[-1].append(index)
    return [_widths([*first, *part], widest, least, width) for part in parts]


def _least(cells: Sequence[str], *, text: bool) -> int:
    """How narrow a column may be: its longest word, or of numbers the longest number."""
    head, *rest = cells
    whole = max(map(cell_len, rest), default=0)
    words = [cell_len(word) for cell in (cells if text else [head]) for word in cell.split()]
    longest = max(words, default=0)
    return max(longest, min(_NARROW, whole)) if text else max(longest, whole)


def _widths(
    taken: Sequence[int], widest: Sequence[int], least: Sequence[int], width: int
) -> dict[int, int]:
    """Each column as wide as it would be, the widest narrowed until all of them fit."""
    widths = {index: widest[index] for index in taken}
    while _sum(widths.values()) > width:
        able = [index for index in taken if widths[index] > least[index]]
        if not able:
            break
        widths[max(able, key=widths.__getitem__)] -= 1
    return widths


def _sum(widths: Iterable[int]) -> int:
    return sum(width + _GAP for width in widths) - _GAP
