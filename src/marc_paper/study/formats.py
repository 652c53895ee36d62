"""A table as JSON, CSV, LaTeX and HTML, and a figure as SVG, PDF and the numbers it shows.

A number is the same in every format. A figure that is a file already, because nothing in it is
measured, stays the SVG that it is.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from marc.files import quoted
from marc.report.style import drawing
from marc.report.text import p_value, percent, points
from marc_paper.study.artifacts import Artifact, Cell, Column, Estimate, Figure, Table, Unit, plain

_EMPTY = "–"

_SCALE = {"percent": 100.0, "points": 100.0}
_PRINT: dict[Unit, Callable[[float], str]] = {
    "count": lambda value: f"{value:,.0f}",
    "number": lambda value: f"{value:.4g}",
    "percent": percent,
    "points": points,
    "correlation": lambda value: f"{value:+z.3f}",
    "seconds": lambda value: f"{1000 * value:.3g} ms",
    "ratio": lambda value: f"{value:.2f}",
    "log10 p": p_value,
}


def _is_empty(cell: Cell) -> bool:
    value = cell.value if isinstance(cell, Estimate) else cell
    return value is None or (isinstance(value, float) and math.isnan(value))


def cell_text(cell: Cell, unit: Unit) -> str:
    """A cell for a page or a terminal.

    >>> cell_text(Estimate(0.0931, 0.0843, 0.1018), "points")
    '+9.31 [+8.43, +10.18]'
    >>> cell_text(Estimate(0.6014, sd=0.0038), "percent"), cell_text(None, "points")
    ('60.14 ± 0.38', '–')
    """
    if _is_empty(cell):
        return _EMPTY
    if isinstance(cell, str) or unit == "text":
        return str(cell)
    number = _PRINT[unit]
    if not isinstance(cell, Estimate):
        return number(float(cell))  # type: ignore[arg-type]
    text = number(cell.value)
    if cell.sd is not None:
        text += f" ± {_unsigned(cell.sd, unit)}"
    if cell.low is not None and cell.high is not None:
        text += f" [{number(cell.low)}, {number(cell.high)}]"
    return text


def _cell_latex(cell: Cell, unit: Unit) -> str:
    r"""A cell for LaTeX: numbers in mathematics, a deviation as a subscript.

    >>> _cell_latex(Estimate(0.6014, sd=0.0038), "percent"), _cell_latex("50 % & more", "text")
    ('$60.14_{\\pm 0.38}$', '50 \\% \\& more')
    """
    if _is_empty(cell):
        return "---"
    if isinstance(cell, str) or unit == "text":
        return _latex_text(str(cell))
    estimate = cell if isinstance(cell, Estimate) else Estimate(float(cell))  # type: ignore[arg-type]
    text = _latex_number(_PRINT[unit](estimate.value))
    if estimate.sd is not None:
        text += f"_{{\\pm {_latex_number(_unsigned(estimate.sd, unit))}}}"
    if estimate.low is not None and estimate.high is not None:
        low, high = (_latex_number(_PRINT[unit](end)) for end in (estimate.low, estimate.high))
        text += f"\\ [{low},\\ {high}]"
    return f"${text}$"


def _latex_number(text: str) -> str:
    r"""A printed number inside mathematics.

    >>> print(_latex_number("1.8e-94"), _latex_number("1,586"), _latex_number("2.1 ms"))
    1.8\times10^{-94} 1{,}586 2.1\,\mathrm{ms}
    """
    number, _, unit = text.partition(" ")
    digits, _, exponent = number.partition("e")
    digits = digits.replace(",", "{,}")
    power = f"\\times10^{{{int(exponent)}}}" if exponent else ""
    return digits + power + (f"\\,\\mathrm{{{unit}}}" if unit else "")


def _latex_text(text: str) -> str:
    """Text with the signs that LaTeX reads as commands written out."""
    signs = {"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}"}
    plain = "".join(signs.get(sign, f"\\{sign}" if sign in "&%$#_{}" else sign) for sign in text)
    for sign, written in (
        ("–", "--"),
        ("×", "$\\times$"),
        ("→", "$\\rightarrow$"),
        ("∩", "$\\cap$"),
        ("±", "$\\pm$"),
        ("<", "$<$"),
        (">", "$>$"),
    ):
        plain = plain.replace(sign, written)
    return plain


def _plain_headings(column: Column) -> list[str]:
    """Headings of the plain columns that `_plain_values` fills."""
    if column.unit == "text":
        return [column.heading]
    unit = {"percent": "percent", "points": "points", "seconds": "s"}.get(column.unit, "")
    name = f"{column.heading}, {unit}" if unit else column.heading
    return [name, f"{name}: sd", f"{name}: low", f"{name}: high"]


def _plain_values(cell: Cell, unit: Unit) -> list[str]:
    """A cell as plain values in the printed unit: the number, its deviation, its interval."""
    if unit == "text":
        return [quoted(cell) if isinstance(cell, str) else "" if cell is None else str(cell)]
    if _is_empty(cell):
        return [""] * 4
    if isinstance(cell, str):
        return [quoted(cell), "", "", ""]
    parts = (
        (cell.value, cell.sd, cell.low, cell.high)
        if isinstance(cell, Estimate)
        else (cell, None, None, None)
    )
    scale = _SCALE.get(unit, 1.0)
    return ["" if part is None else f"{scale * part:.10g}" for part in parts]


def _unsigned(value: float, unit: Unit) -> str:
    return percent(value) if unit == "points" else _PRINT[unit](value).lstrip("+")


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
            f"{place_of(artifact)}.{end}": text.encode("utf-8", "replace")
            for end, text in (
                ("json", _as_json(artifact, about)),
                ("csv", _as_csv(artifact)),
                ("tex", _as_latex(artifact)),
                ("html", _as_html(artifact)),
            )
        }
    return _drawn(artifact, about)


def _as_json(table: Table, about: Mapping[str, Any]) -> str:
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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads = [quoted(name) for column in table.columns for name in _plain_headings(column)]
    rows = [
        [v for cell, c in zip(row, table.columns, strict=True) for v in _plain_values(cell, c.unit)]
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
    head = " & ".join(_latex_text(_plain_headings(column)[0]) for column in table.columns)
    rows = [
        " & ".join(
            _cell_latex(cell, column.unit) for cell, column in zip(row, table.columns, strict=True)
        )
        for row in table.rows
    ]
    caption = _latex_text(" ".join([f"{table.title}.", table.caption, *table.notes]))
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
    data = {
        **{name: getattr(figure, name) for name in ("name", "title", "caption", "answers", "data")},
        **about,
    }
    text = json.dumps(plain(data), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    files = {f"{place_of(figure)}.json": text.encode("utf-8", "replace")}
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
