"""The printed values as data: well formed, and the numbers of the paper where it is at hand."""

import re

import pytest
from helpers.repository import SHARED

from marc.errors import MarcError
from marc.paper import benchmarks, spaces, systems
from marc.paper.numbers import Printed, Table, numbers, table
from marc.paper.statements import PRINTED, STATEMENTS, stated
from marc.paper.tables import TABLES

PAPER = SHARED / "paper" / "marc.tex"
LABELS = sorted({each.label for each in TABLES if each.label.startswith("tab:")})
# Cells before the first value, where a row has a name of more than one cell.
NAME_CELLS = dict.fromkeys(
    (
        "tab:s_bootstrap_selection",
        "tab:s_protocol_controls",
        "tab:s_correlations",
        "tab:s_rho_checks",
        "tab:s_rho_ci",
    ),
    2,
)
# Tables with two values in one printed cell, which are two columns of the data.
TWO_IN_A_CELL = {"tab:swap", "tab:s_ood_sub"}
WITHOUT_RESULTS = {"tab:s_newspaces", "tab:s_spaces16_models"}  # they describe encoders in words

ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
IN_WORDS = {"sixth": "6", "sixteen": "16"} | {word: str(n) for n, word in enumerate(ONES, 1)}


def said(text):
    """The texts of the numbers in a piece of LaTeX; names, citations and references have none."""
    text = re.sub(r"(?<!\\)%.*", "", text)
    text = re.sub(r"\\(?:cite\w*|[cC]?ref|label|begin|end|setlength)\s*(?:\{[^}]*\})+", " ", text)
    text = re.sub(r"\\(?:pm|ci)(?![a-zA-Z])", " ± ", text)
    text = re.sub(r"\\times\s*10\^\{(-\d+)\}", r"e\1", text)
    text = re.sub(r"(?<!\d)10\^\{(-\d+)\}", r"1e\1", text)
    text = text.replace(r"\mathrm{e}{-}", "e-").replace("{,}", ",").replace("--", " to ")
    text = re.sub(r"[{}$]", "", re.sub(r"\\[a-zA-Z]+|\\[,!;% ]", " ", text))
    text = re.sub(r"(?<=\d)s\b", " s", text)  # a deviation or seconds, not a name
    return [each.text for each in numbers(text)]


def in_digits(text):
    """A text with its number words written in digits."""
    return re.sub(r"\b[a-z]+\b", lambda word: IN_WORDS.get(word[0], word[0]), text)


def environment(paper, label):
    """The table or figure in which a label stands."""
    place = paper.index(rf"\label{{{label}}}")
    kind = "table" if label.startswith("tab:") else "figure"
    start = paper.rindex(rf"\begin{{{kind}}}", 0, place)
    return paper[start : paper.index(rf"\end{{{kind}}}", place)]


def caption(paper, label):
    """The caption of a table or figure: from its start to the label that follows it."""
    text = environment(paper, label)
    return text[text.index(r"\caption") : text.index(r"\label")]


def section(paper, label):
    """The text of a section or subsection up to the next one, without tables and figures."""
    place = paper.index(rf"\label{{{label}}}")
    heading = paper.rindex("section{", 0, place)
    below = paper[:heading].endswith(r"\sub")
    after = re.search(r"\\(?:sub)?section\*?\{" if below else r"\\section\*?\{", paper[place:])
    text = paper[place:][: after.start() if after else None]
    return re.sub(r"\\begin\{(table|figure)\}.*?\\end\{\1\}", " ", text, flags=re.DOTALL)


def printed_rows(paper, label):
    """The numbers of each cell of each row of a table, without its head and its subtitles."""
    text = environment(paper, label)
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
    body = re.sub(r"\\(?:mid|c)rule(?:\{[^}]*\})?|\\ours\b", "", body)
    rows = [row.split("&") for row in re.split(r"\\\\", body) if "&" in row]
    skipped = NAME_CELLS.get(label, 1)
    return [[said(cell) for cell in row[skipped:]] for row in rows]


def stored_rows(label):
    """The same of the data; a label may have more than one table."""
    return [
        [[number.text for number in numbers(cell)] for cell in cells]
        for each in TABLES
        if each.label == label
        for cells in each.rows.values()
    ]


def flat(row):
    return [number for cell in row for number in cell]


def occurs(wanted, words):
    """Whether numbers stand in a text one after the other."""
    return any(words[i : i + len(wanted)] == wanted for i in range(len(words)))


@pytest.fixture(scope="module")
def paper():
    if not PAPER.exists():
        pytest.skip("no shared/paper/marc.tex beside this checkout")
    return PAPER.read_text("utf-8")


@pytest.mark.parametrize("label", LABELS)
def test_a_table_holds_the_numbers_of_the_paper(paper, label):
    printed, stored = printed_rows(paper, label), stored_rows(label)
    if label in TWO_IN_A_CELL:
        printed, stored = [[flat(row) for row in rows] for rows in (printed, stored)]
    assert stored == printed


@pytest.mark.parametrize("label", sorted(STATEMENTS))
def test_a_statement_holds_numbers_of_its_place(paper, label):
    text = section(paper, label) if label.startswith("sec:") else caption(paper, label)
    words, digits = said(text), said(in_digits(text))
    for row in STATEMENTS[label].rows:
        wanted = [number.text for number in STATEMENTS[label].numbers(row, PRINTED)]
        assert occurs(wanted, words) or occurs(wanted, digits), row


def test_what_the_text_prints_of_single_seeds(paper):
    words = said(section(paper, systems.MATCHED.label))
    for cells in systems.MATCHED.rows.values():
        assert all(occurs([each.text for each in numbers(cell)], words) for cell in cells)


def test_every_table_of_results_is_there(paper):
    found = re.findall(r"\\label\{(tab:\w+)\}", paper)
    assert set(found) - WITHOUT_RESULTS == set(LABELS)
    ours = [each.label for each in TABLES if each.label in found]
    assert list(dict.fromkeys(ours)) == [label for label in found if label not in WITHOUT_RESULTS]


def test_every_table_of_the_modules_is_listed_once():
    modules = (spaces, systems, benchmarks)
    named = [each for m in modules for each in vars(m).values() if isinstance(each, Table)]
    assert len(named) == len(TABLES)
    assert all(any(each is one for one in TABLES) for each in named)


def test_rows_have_names_of_their_own_under_each_label():
    every = [*TABLES, *STATEMENTS.values()]
    names = [(each.label, row) for each in every for row in each.rows]
    assert len(set(names)) == len(names)
    assert all(label == each.label for label, each in STATEMENTS.items())
    assert all(len(set(each.columns)) == len(each.columns) for each in every)


def test_every_cell_is_a_number_a_name_or_empty():
    letters = re.compile(r"[A-Za-z]")
    for each in TABLES:
        for row in each.rows:
            for column in each.columns:
                cell = each.cell(row, column)
                left = letters.search(cell.replace("e-", ""))
                assert bool(each.numbers(row, column)) != bool(cell == "-" or left), (row, column)


def test_every_statement_has_a_number():
    assert all(stated(label, row) for label, each in STATEMENTS.items() for row in each.rows)


def test_accuracies_are_percentages():
    for each in TABLES:
        if "accuracy" in each.columns:
            assert all(0 <= float(number) <= 100 for number in each.column("accuracy").values())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("DINOv2-L, ViT-B/16, EVA-02 CLIP, ResNet-50, DINO v1, V2, Caltech101", []),
        ("7/8", ["7", "8"]),
        ("4, 20 and 4,20 and 1,586", ["4", "20", "4", "20", "1,586"]),
        ("60.14 ± 0.38", ["60.14", "0.38"]),
        ("+1.12 [-0.62, +2.86]", ["+1.12", "-0.62", "+2.86"]),
        ("< 1e-300, 9.5e-06", ["1e-300", "9.5e-06"]),
        ("-", []),
    ],
)
def test_numbers_are_not_found_inside_names(text, found):
    assert [number.text for number in numbers(text)] == found


@pytest.mark.parametrize(
    ("latex", "found"),
    [
        (r"\best{\textbf{71.92\ci{0.18}}}", ["71.92", "0.18"]),
        (r"\gain{$\mathbf{+1.12}$} $[+0.66,+1.58]$", ["+1.12", "+0.66", "+1.58"]),
        (r"$2\mathrm{e}{-}285$ and $<10^{-300}$", ["2e-285", "1e-300"]),
        (r"$1.32\times10^{-4}$", ["1.32e-4"]),
        (r"50.84\,$\rightarrow$\,59.73", ["50.84", "59.73"]),
        (r"32.93 \small{($-17.91$)}", ["32.93", "-17.91"]),
        (r"$(4,20)$ from V2", ["4", "20"]),
        (r"TDA~\citep{karmanov2024tda} & \na", []),
        (r"$47.3$--$85.6$, $5.1\times$, $31\%$", ["47.3", "85.6", "5.1", "31"]),
        (r"$1{,}074\pm21$", ["1,074", "21"]),
    ],
)
def test_latex_is_read_as_it_is_printed(latex, found):
    assert said(latex) == found


def test_a_printed_number_reaches_half_a_digit_to_both_sides():
    number = Printed("1.32e-4")
    assert (float(number.low), float(number.high)) == (1.315e-4, 1.325e-4)
    assert (number.decimals, float(Printed("1,586").unit)) == (2, 1.0)


def test_a_row_of_a_known_name_is_refused():
    with pytest.raises(MarcError, match="more than one row"):
        table("tab:x", "space | a\nCLIP | 1.0\nCLIP | 2.0")


def test_a_cell_without_a_number_is_named():
    with pytest.raises(MarcError, match="no number at CLIP, a of tab:x"):
        table("tab:x", "space | a\nCLIP | -").at("CLIP", "a")
