"""Tables, lists and paragraphs of the documents, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns are aligned in the source too."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    widths[-1] = 20 if widths[-1] > 40 else widths[-1]  # a long last column may be ragged
    lines.insert(1, ["-" * width for width in widths])
    texts = (
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )
    return "\n".join(texts)


def numbered(texts: Iterable[str]) -> str:
    """A numbered list."""
    items = [f"{number}. {text}" for number, text in enumerate(texts, 1)]
    return "\n".join(_filled(item, " " * (item.index(" ") + 1)) for item in items)


def wrapped(part: str) -> str:
    """A paragraph in lines; headings, tables and lists stay as they are."""
    return part if "\n" in part or part[0] in "#|" else _filled(part)


def _filled(text: str, indent: str = "") -> str:
    return fill(text, 100, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
