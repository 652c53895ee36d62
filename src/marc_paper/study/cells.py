"""Cells as text: the same number on a page, in LaTeX and in a list of plain values."""

from __future__ import annotations

import math
from collections.abc import Callable

from marc.report.text import p_value, percent, points
from marc_paper.study.artifacts import Cell, Column, Estimate, Unit

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
    """Whether there is nothing to print."""
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


def cell_latex(cell: Cell, unit: Unit) -> str:
    r"""A cell for LaTeX: numbers in mathematics, a deviation as a subscript.

    >>> cell_latex(Estimate(0.6014, sd=0.0038), "percent"), cell_latex("50 % & more", "text")
    ('$60.14_{\\pm 0.38}$', '50 \\% \\& more')
    """
    if _is_empty(cell):
        return "---"
    if isinstance(cell, str) or unit == "text":
        return latex_text(str(cell))
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


def latex_text(text: str) -> str:
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


def plain_headings(column: Column) -> list[str]:
    """Headings of the plain columns that `plain_values` fills."""
    if column.unit == "text":
        return [column.heading]
    unit = {"percent": "percent", "points": "points", "seconds": "s"}.get(column.unit, "")
    name = f"{column.heading}, {unit}" if unit else column.heading
    return [name, f"{name}: sd", f"{name}: low", f"{name}: high"]


def plain_values(cell: Cell, unit: Unit) -> list[str]:
    """A cell as plain values in the printed unit: the number, its deviation, its interval."""
    if unit == "text":
        return ["" if cell is None else str(cell)]
    if _is_empty(cell):
        return [""] * 4
    if isinstance(cell, str):
        return [cell, "", "", ""]
    parts = (
        (cell.value, cell.sd, cell.low, cell.high)
        if isinstance(cell, Estimate)
        else (cell, None, None, None)
    )
    scale = _SCALE.get(unit, 1.0)
    return ["" if part is None else f"{scale * part:.10g}" for part in parts]


def _unsigned(value: float, unit: Unit) -> str:
    return percent(value) if unit == "points" else _PRINT[unit](value).lstrip("+")
