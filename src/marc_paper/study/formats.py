"""A table as JSON, CSV, LaTeX and HTML, and a figure as SVG, PDF and the numbers it shows.

A figure that is a file already, because nothing in it is measured, stays the SVG that it is.
"""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from marc.report.style import drawing
from marc_paper.study.artifacts import Artifact, Estimate, Figure, Table, plain
from marc_paper.study.cells import cell_latex, cell_text, latex_text, plain_headings, plain_values

_SENTENCE = 32  # characters of text that is broken into lines

Files = dict[str, bytes]
"""Contents by path inside the folder of a study."""


def place_of(artifact: Artifact) -> str:
    """Where its files lie in the folder of a study, without their suffix."""
    return f"{'tables' if isinstance(artifact, Table) else 'figures'}/{artifact.name}"


def files_of(artifact: Artifact, about: Mapping[str, Any]) -> Files:
    """Every file of a table or figure; `about` is recorded with its data."""
    if isinstance(artifact, Table):
        return {
            f"{place_of(artifact)}.{end}": text.encode()
            for end, text in (
                ("json", _as_json(artifact, about)),
                ("csv", _as_csv(artifact)),
                ("tex", _as_latex(artifact)),
                ("html", _as_html(artifact)),
            )
        }
    return _drawn(artifact, about)


def _as_json(table: Table, about: Mapping[str, Any]) -> str:
    """The table with all its digits; percent and points are fractions of the images."""
    data = {
        **{name: getattr(table, name) for name in ("name", "title", "caption", "answers")},
        "settings": table.settings,
        "notes": table.notes,
        "columns": [asdict(column) for column in table.columns],
        "rows": [
            [asdict(cell) if isinstance(cell, Estimate) else cell for cell in row]
            for row in table.rows
        ],
        **about,
    }
    return json.dumps(plain(data), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _as_csv(table: Table) -> str:
    """One line a row, in the printed units."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = [name for column in table.columns for name in plain_headings(column)]
    rows = [
        [v for cell, c in zip(row, table.columns, strict=True) for v in plain_values(cell, c.unit)]
        for row in table.rows
    ]
    # a deviation or an interval that no row has needs no column
    used = [
        place
        for place, name in enumerate(heads)
        if not name.endswith((": sd", ": low", ": high")) or any(row[place] for row in rows)
    ]
    writer.writerows([row[place] for place in used] for row in (heads, *rows))
    return text.getvalue()


def _as_latex(table: Table) -> str:
    """A table environment that needs booktabs alone."""
    sides = "".join(_latex_side(table, place) for place in range(len(table.columns)))
    head = " & ".join(latex_text(plain_headings(column)[0]) for column in table.columns)
    rows = [
        " & ".join(
            cell_latex(cell, column.unit) for cell, column in zip(row, table.columns, strict=True)
        )
        for row in table.rows
    ]
    caption = latex_text(" ".join([f"{table.title}.", table.caption, *table.notes]))
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{caption}}}",
        f"\\label{{tab:{table.name}}}",
        f"\\begin{{tabular}}{{{sides}}}",
        "\\toprule",
        f"{head} \\\\",
        "\\midrule",
        *(f"{row} \\\\" for row in rows),
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_side(table: Table, place: int) -> str:
    """How a column is set: numbers to the right, sentences in a box."""
    if table.columns[place].unit != "text":
        return "r"
    longest = max((len(str(row[place])) for row in table.rows), default=0)
    return "l" if longest <= _SENTENCE else "p{4cm}"


def _as_html(table: Table) -> str:
    """The table element alone; a page puts words around it."""

    def line(tag: str, texts: list[tuple[str, bool]]) -> str:
        cells = (
            f"<{tag}{'' if is_text else ' class=number'}>{html.escape(text)}</{tag}>"
            for text, is_text in texts
        )
        return f"<tr>{''.join(cells)}</tr>"

    head = line("th", [(column.heading, column.unit == "text") for column in table.columns])
    rows = [
        line(
            "td",
            [
                (cell_text(cell, column.unit), column.unit == "text")
                for cell, column in zip(row, table.columns, strict=True)
            ],
        )
        for row in table.rows
    ]
    return "\n".join(["<table>", f"<thead>{head}</thead>", "<tbody>", *rows, "</tbody></table>"])


def _drawn(figure: Figure, about: Mapping[str, Any]) -> Files:
    """The figure without a date, so that it is the same whenever it is drawn."""
    data = {
        **{name: getattr(figure, name) for name in ("name", "title", "caption", "answers", "data")},
        **about,
    }
    text = json.dumps(plain(data), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    files = {f"{place_of(figure)}.json": text.encode()}
    dates: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with drawing():
        drawn = figure.draw()
        if isinstance(drawn, bytes):
            return {**files, f"{place_of(figure)}.svg": drawn}
        for end, metadata in dates.items():
            buffer = io.BytesIO()
            drawn.savefig(buffer, format=end, metadata=metadata, facecolor="white")
            files[f"{place_of(figure)}.{end}"] = buffer.getvalue()
    return files
