"""The printed values as data: well formed, and the numbers of the paper.

`paper_numbers.json` holds the numbers of the paper's LaTeX source in their order: those of
each row of a table with its cells apart, and those of a section or caption, once as printed and
once with number words such as *nine* in digits.
"""

import json
import re
import tomllib
from pathlib import Path

import pytest

import marc_paper.printed as printed_values
from marc.errors import MarcError
from marc_paper.printed import PRINTED, STATEMENTS, TABLES, stated, table
from marc_paper.printed.numbers import Printed, numbers, parse_table

PAPER = json.loads(Path(__file__).with_name("paper_numbers.json").read_text("utf-8"))
LABELS = sorted({each.label for each in TABLES.values() if each.label.startswith("tab:")})
# Tables with two values in one printed cell, which are two columns of the data.
TWO_IN_A_CELL = {"tab:swap", "tab:s_ood_sub"}


def printed_rows(label):
    """The numbers of each cell of each row of a table."""
    return [[cell.split() for cell in row.split("|")] for row in PAPER["tables"][label]]


def stored_rows(label):
    """The same of the data; a label may have more than one table."""
    return [
        [[number.text for number in numbers(cell)] for cell in cells]
        for each in TABLES.values()
        if each.label == label
        for cells in each.rows.values()
    ]


def flat(row):
    return [number for cell in row for number in cell]


def occurs(wanted, words):
    """Whether numbers stand in a text one after the other."""
    return any(words[i : i + len(wanted)] == wanted for i in range(len(words)))


@pytest.mark.parametrize("label", LABELS)
def test_a_table_holds_the_numbers_of_the_paper(label):
    printed, stored = printed_rows(label), stored_rows(label)
    if label in TWO_IN_A_CELL:
        printed, stored = [[flat(row) for row in rows] for rows in (printed, stored)]
    assert stored == printed


@pytest.mark.parametrize("label", sorted(STATEMENTS))
def test_a_statement_holds_numbers_of_its_place(label):
    words, digits = (PAPER["text"][label][kind].split() for kind in ("numbers", "with words"))
    for row in STATEMENTS[label].rows:
        wanted = [number.text for number in STATEMENTS[label].numbers(row, PRINTED)]
        assert occurs(wanted, words) or occurs(wanted, digits), row


def test_what_the_text_prints_of_single_seeds():
    matched = table("matched")
    words = PAPER["text"][matched.label]["numbers"].split()
    for cells in matched.rows.values():
        assert all(occurs([each.text for each in numbers(cell)], words) for cell in cells)


def test_every_table_of_results_is_there_in_the_order_of_the_paper():
    ours = [each.label for each in TABLES.values() if each.label.startswith("tab:")]
    assert list(dict.fromkeys(ours)) == list(PAPER["tables"])


def test_every_file_of_a_table_is_listed_once():
    folder = Path(printed_values.__file__).parent
    files = {path.stem for path in folder.glob("*.toml")} - {"common", "statements"}
    assert files == set(TABLES)
    listed = tomllib.loads((folder / "common.toml").read_text("utf-8"))["tables"]
    assert list(TABLES) == listed


def test_a_table_is_found_by_the_name_of_its_file():
    assert table("swap") is TABLES["swap"]
    with pytest.raises(MarcError, match="unknown printed table"):
        table("tab:swap")


def test_rows_have_names_of_their_own_under_each_label():
    every = [*TABLES.values(), *STATEMENTS.values()]
    names = [(each.label, row) for each in every for row in each.rows]
    assert len(set(names)) == len(names)
    assert all(label == each.label for label, each in STATEMENTS.items())
    assert all(len(set(each.columns)) == len(each.columns) for each in every)


def test_every_cell_is_a_number_a_name_or_empty():
    letters = re.compile(r"[A-Za-z]")
    for each in TABLES.values():
        for row in each.rows:
            for column in each.columns:
                cell = each.cell(row, column)
                left = letters.search(cell.replace("e-", ""))
                assert bool(each.numbers(row, column)) != bool(cell == "-" or left), (row, column)


def test_every_statement_has_a_number():
    assert all(stated(label, row) for label, each in STATEMENTS.items() for row in each.rows)


def test_accuracies_are_percentages():
    for each in TABLES.values():
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


def test_a_printed_number_reaches_half_a_digit_to_both_sides():
    number = Printed("1.32e-4")
    assert (float(number.low), float(number.high)) == (1.315e-4, 1.325e-4)
    assert (number.decimals, float(Printed("1,586").unit)) == (2, 1.0)


def test_a_row_of_a_known_name_is_refused():
    with pytest.raises(MarcError, match="more than one row"):
        parse_table("tab:x", "space | a\nCLIP | 1.0\nCLIP | 2.0")


def test_a_cell_without_a_number_is_named():
    with pytest.raises(MarcError, match="no number at CLIP, a of tab:x"):
        parse_table("tab:x", "space | a\nCLIP | -").at("CLIP", "a")
