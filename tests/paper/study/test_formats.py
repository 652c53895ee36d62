"""Tables in four formats and figures in three: the same numbers, and nothing breaks a reader."""

import csv
import io
import json
import math
import re
from dataclasses import replace

import pytest

from marc_paper.study.artifacts import Column, Estimate, Figure, Table
from marc_paper.study.formats import (
    _as_csv,
    _as_html,
    _as_json,
    _as_latex,
    _cell_latex,
    _latex_text,
    cell_text,
    files_of,
)

TABLE = Table(
    name="example",
    title="An example & more",
    caption="100 % made up_",
    columns=(
        Column("space"),
        Column("images", "count"),
        Column("gain", "points", "fixed"),
        Column("p", "log10 p"),
    ),
    rows=(
        ("a<b>&", 7500, Estimate(0.0931, 0.0843, 0.1018, 0.0038), -97.4),
        ("none", None, Estimate(math.nan), math.nan),
    ),
    answers=("tab:example",),
    settings={"capacity": 8},
    notes=("a note",),
)


def test_json_has_every_digit_and_no_nan():
    data = json.loads(_as_json(TABLE, {"experiment": "x"}), parse_constant=pytest.fail)
    assert data["rows"][0][2] == {"value": 0.0931, "low": 0.0843, "high": 0.1018, "sd": 0.0038}
    assert data["rows"][1][1:] == [
        None,
        {"value": None, "low": None, "high": None, "sd": None},
        None,
    ]
    assert data["columns"][2] == {"name": "gain", "unit": "points", "word": "fixed"}
    assert data["experiment"] == "x"
    assert data["settings"] == {"capacity": 8}


def test_csv_has_one_plain_number_a_cell_in_printed_units():
    rows = list(csv.DictReader(io.StringIO(_as_csv(TABLE))))
    assert rows[0]["space"] == "a<b>&"
    assert float(rows[0]["gain (fixed), points"]) == pytest.approx(9.31)
    assert float(rows[0]["gain (fixed), points: low"]) == pytest.approx(8.43)
    assert float(rows[0]["gain (fixed), points: sd"]) == pytest.approx(0.38)
    assert rows[1]["gain (fixed), points"] == ""
    assert "images: sd" not in rows[0]  # no row has one


def test_text_in_csv_is_no_formula_and_a_number_is_no_text():
    table = replace(
        TABLE,
        columns=(Column("=space"), *TABLE.columns[1:]),
        rows=(("=1+1", "@most", Estimate(-0.05), -97.4), (-3, None, None, None)),
    )
    head, first, second = csv.reader(io.StringIO(_as_csv(table)))
    assert head[0] == "'=space"
    assert first[:3] == ["'=1+1", "'@most", "-5"]
    assert second[0] == "-3"


def test_html_escapes_and_marks_numbers():
    text = _as_html(TABLE)
    assert "<td>a&lt;b&gt;&amp;</td>" in text
    assert "<td class=number>+9.31 ± 0.38 [+8.43, +10.18]</td>" in text
    assert "nan" not in text


def test_latex_escapes_and_has_as_many_cells_as_columns():
    text = _as_latex(TABLE)
    body = text.split("\\midrule\n")[1].split("\\bottomrule")[0].strip().split("\\\\\n")
    assert [len(re.findall(r"(?<!\\)&", row)) for row in body] == [3, 3]
    assert "An example \\& more. 100 \\% made up\\_ a note" in text
    assert "$+9.31_{\\pm 0.38}\\ [+8.43,\\ +10.18]$" in text
    assert "$7{,}500$" in text
    assert "$4\\times10^{-98}$" in text
    assert "---" in text


@pytest.mark.parametrize(
    ("cell", "unit", "text"),
    [
        (0.5084, "percent", "50.84"),
        (-0.00001, "points", "+0.00"),
        (0.959, "correlation", "+0.959"),
        (1586, "count", "1,586"),
        (Estimate(1074, sd=21.2), "count", "1,074 ± 21"),
        (2.584, "ratio", "2.58"),
        (0.04501, "seconds", "45 ms"),
        (-815.3421, "log10 p", "4.5e-816"),
        (15.0, "number", "15"),
        ("7/8", "count", "7/8"),
        (3, "text", "3"),
        (None, "text", "–"),
    ],
)
def test_cells_as_text(cell, unit, text):
    assert cell_text(cell, unit) == text


def test_latex_text_writes_out_commands():
    assert (
        _latex_text("a_b\\c{d}~^")
        == "a\\_b\\textbackslash{}c\\{d\\}\\textasciitilde{}\\textasciicircum{}"
    )
    assert _cell_latex(3, "text") == "3"
    assert _cell_latex(0.0021, "seconds") == "$2.1\\,\\mathrm{ms}$"
    assert _cell_latex(3e-8, "seconds") == "$3\\times10^{-5}\\,\\mathrm{ms}$"


def test_long_text_is_broken_into_lines_in_latex():
    long = Table(**{**vars(TABLE), "rows": (("word " * 20, 1, 0.1, -1.0),)})
    assert "\\begin{tabular}{p{4cm}rrr}" in _as_latex(long)
    assert "gain (fixed), points" in _as_latex(TABLE)


def test_an_interval_of_counts_is_two_numbers_in_latex():
    text = _cell_latex(Estimate(283, 1258, 1308, 10), "count")
    assert text == "$283_{\\pm 10}\\ [1{,}258,\\ 1{,}308]$"


def test_a_row_too_short_is_a_mistake_of_ours():
    with pytest.raises(ValueError, match="example: 1 cells for 4"):
        Table(**{**vars(TABLE), "rows": (("a",),)})


def draw():
    from matplotlib.figure import Figure as Drawn

    figure = Drawn(figsize=(2, 1))
    figure.subplots().plot([0, 1], [1, 0])
    return figure


def test_figures_are_the_same_whenever_they_are_drawn():
    figure = Figure("line", "A line", "It falls.", draw, ("fig:x",), {"y": [1.0, math.nan]})
    files, again = files_of(figure, {}), files_of(figure, {})
    assert files == again
    assert set(files) == {f"figures/line.{end}" for end in ("json", "svg", "pdf")}
    assert json.loads(files["figures/line.json"])["data"] == {"y": [1.0, None]}
    assert files["figures/line.pdf"].startswith(b"%PDF")
    assert b"<svg" in files["figures/line.svg"]
