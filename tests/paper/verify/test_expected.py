"""Every printed number has one place, and every place a tolerance with its reason."""

import hashlib
import json
import math
import re
from collections import Counter
from dataclasses import asdict

import pytest
from helpers.paper_names import DATASETS, EIGHT, RN50, SIXTEEN, VIT

from marc.encoders import encoder_card
from marc.errors import MarcError
from marc.pictures import NAMED_SETS
from marc.types import WEIGHTS
from marc_paper.printed import STATEMENTS, TABLES
from marc_paper.printed.numbers import parse_table
from marc_paper.printed.sheets import _parse, _sheet_of, _statements_of
from marc_paper.verify.expected import EXPECTED, Place, _declare, _expected_of
from marc_paper.verify.tolerances import (
    KINDS,
)

PRINTED = [
    (each.label, row, column, number, found.text)
    for each in (*TABLES.values(), *STATEMENTS.values())
    for row in each.rows
    for column in each.columns
    for number, found in enumerate(each.numbers(row, column))
]


def test_every_printed_number_is_expected_once():
    found = [(e.label, e.row, e.column, e.number, e.printed.text) for e in EXPECTED]
    assert Counter(found) == Counter(PRINTED)
    assert max(Counter(found).values()) == 1
    assert len(PRINTED) == 1430
    assert sum(each.place.never is None for each in EXPECTED) == 1050


def as_data(expected):
    """A number with its place; a tolerance by its name, as its words and amounts are no address."""
    found = asdict(expected)
    tolerance = expected.place.tolerance
    found["place"]["tolerance"] = tolerance.name if tolerance else None
    return found


def digest(data):
    return hashlib.sha256(json.dumps(data, ensure_ascii=False).encode()).hexdigest()


def test_no_number_and_no_address_changes_by_accident():
    """The digests are of the same values as they stood in Python before they were files."""
    tables = [
        [t.label, t.columns, list(t.rows.items())] for t in (*TABLES.values(), *STATEMENTS.values())
    ]
    assert digest(tables) == ("bb2fe0e33f9454357e0f4cf9f17d12f2faf3ed83705f90ffab9c58615ec9c7da")
    assert digest([as_data(each) for each in EXPECTED]) == (
        "cb5750c0ae41737a7c9bdb34bff55a42312a0d2f5615bc4ff69904822025465f"
    )


def test_they_stand_in_the_order_of_the_paper():
    labels = list(dict.fromkeys(each.label for each in EXPECTED))
    assert labels == list(dict.fromkeys(label for label, *_ in PRINTED))


@pytest.mark.parametrize("label", dict.fromkeys(each.label for each in EXPECTED))
def test_a_place_is_whole_or_says_why_there_is_none(label):
    for expected in (each for each in EXPECTED if each.label == label):
        place = expected.place
        if place.never is not None:
            assert place.never.reason
            continue
        assert place.table, expected.where
        assert place.column, expected.where
        assert place.tolerance in KINDS.values(), expected.where
        assert place.dataset or place.datasets, expected.where
        assert place.part in ("value", "sd", "low", "high"), expected.where
        assert expected.allowed >= 0, expected.where


def test_names_are_those_that_marc_lists():
    assert set(DATASETS.values()) <= set(NAMED_SETS)
    assert len(set(SIXTEEN)) == 16
    assert len(set(EIGHT)) == 8
    for name in (*SIXTEEN, f"{VIT}-text", f"{RN50}-text"):
        assert encoder_card(name).name == name


def test_other_papers_and_time_are_never_compared():
    by_place = {(e.label, e.row, e.column): e for e in EXPECTED}
    assert by_place["tab:ood", "ViT TDA", "A"].place.never.reason.startswith("copied")
    assert by_place["tab:s_timing", "CLIP", "1"].place.never.reason.startswith("time")
    assert by_place["tab:ood", "ViT MARC, M = 64", "A"].place.never is None


def test_a_deviation_beside_a_value_widens_it():
    by_place = {(e.label, e.row, e.column, e.number): e for e in EXPECTED}
    gain = by_place["tab:swap", "DINOv2-L", "oracle", 0]
    assert gain.place.tolerance is KINDS["oracle gain"]
    assert gain.allowed == pytest.approx(3 * 0.34 + 0.005)
    assert by_place["tab:swap", "DINOv2-L", "oracle", 1].place.part == "sd"
    assert by_place["tab:swap", "DINOv2-L", "oracle", 1].allowed == pytest.approx(
        math.log10(6 * 0.345 / 0.34)
    )
    single = by_place["tab:spaces16", "DINOv2-L", "gain A", 0]
    assert single.allowed == pytest.approx(1.005)
    assert by_place["tab:spaces16", "CLIP", "gain A", 0].allowed == pytest.approx(0.305)
    assert by_place["tab:spaces16", "Supervised", "gain A", 0].allowed == pytest.approx(0.6695)


def place(label, row, column="printed", number=0):
    [found] = [
        each
        for each in EXPECTED
        if (each.label, each.row, each.column, each.number) == (label, row, column, number)
    ]
    return found.place


def test_the_gain_of_the_large_space_is_that_of_its_accuracy():
    accuracy = place("fig:s_substitution", "accuracy, M = 1, DINOv2-L")
    row = "gain with one view and with 64, DINOv2-L"
    gain = place("fig:s_substitution", row)
    assert (gain.table, gain.column) == ("paired", "gain at K, w")
    assert (gain.row, gain.settings) == (accuracy.row, accuracy.settings)
    assert gain.settings["capacity"] == 8
    many = place("fig:s_substitution", row, number=1)
    assert many.row["views"] == "64"
    assert "K = 16" in many.note


def test_places_ask_for_what_the_paper_did():
    for number in (1, 2):
        for column in ("oracle", "capacity"):
            end = place("tab:s_correlations", "anti-hub, V2", column, number)
            assert end.settings["batches"] == 300
    assert "batches" not in place("tab:s_correlations", "anti-hub, V2", "oracle").settings
    for name in ("Aircraft", "Food101"):
        assert place("sec:s_benchmark", f"oracle gain, {name}").plan["grids.weights"] == WEIGHTS
    assert place("tab:s_joint_selection", "A", "gain").column == "gain, first order"
    for row in ("accuracy, A, RN50, M = 1, DINOv2-B", "gain of the memory, A, RN50, M = 1"):
        assert place("sec:s_substitution", row).tolerance is KINDS["order"]
        assert "single run" in place("sec:s_substitution", row).note


def test_kinds_that_differ_within_a_table():
    assert place("tab:swap", "DINOv2-S", "held-out").tolerance is KINDS["oracle gain"]
    assert place("tab:s_components_ood", "refinement", "A").tolerance is KINDS["change"]
    for number in range(3):
        kinds = [
            place("tab:s_correlations", "purity, A", column, number).tolerance
            for column in ("oracle", "capacity")
        ]
        assert kinds == [KINDS["ranks of five"], KINDS["ranks of capacities"]]
    stated = place("sec:capacity", "correlation of purity and capacity, A, 2,000 images")
    assert stated.tolerance is KINDS["ranks of capacities"]
    ends = [
        place("sec:s_ci", "advantage over COSMIC, three orders", number=number).never
        for number in range(3)
    ]
    assert ends[0] is None
    assert "three orders" in ends[1].reason
    assert ends[1] == ends[2]


def test_spaces_without_gain_are_all_but_those_with_one():
    found = place("sec:s_figures", "spaces without gain, V2")
    assert (found.table, found.tolerance) == ("correlations-checks", KINDS["count"])
    assert (found.row["set"], found.less["set"]) == ("all", "positive gain")


def test_a_cell_without_a_place_is_an_error():
    printed = parse_table("tab:x", "row | a | b\nfirst | 1.0 | -\nsecond | 2 to 3 | 4")
    with pytest.raises(MarcError, match="no place for second"):
        _declare(printed, Place(), {"a": Place()}, {"first": Place()})
    with pytest.raises(MarcError, match="2 numbers has 1"):
        _declare(
            printed,
            Place(),
            {"a": Place(), "b": Place()},
            {"first": Place(), "second": (Place(),)},
        )


TABLE = """
label = "tab:x"
printed = \"\"\"
row    | a      | b
first  | 1.0    | -
CLIP   | 2 to 3 | 4.0 ± 0.1
\"\"\"
"""
ADDRESSES = """
[address]
table = "spaces"
tolerance = "order"
[columns]
a = { column = "column a" }
b = { column = "column b", settings = { views = 1 } }
[each_row]
row = { space = "@space" }
[rows]
first = { plan = "weights" }
"""


def read(text):
    return _expected_of(_sheet_of(_parse(text)))


def test_a_file_gives_every_number_its_place():
    numbers = (
        "[cells.CLIP]\na = { numbers = [{ part = 'low' }, { like = 'high', note = 'keys' }] }\n"
    )
    found = read(TABLE + ADDRESSES + numbers + "[addresses]\nhigh = { dataset = 'dtd' }\n")
    assert [each.printed.text for each in found] == ["1.0", "2", "3", "4.0", "0.1"]
    first, low, high, value, deviation = (each.place for each in found)
    assert (first.column, first.row, first.plan) == ("column a", {}, {"grids.weights": WEIGHTS})
    assert first.tolerance is KINDS["order"]
    assert (low.part, low.row, low.dataset) == ("low", {"space": "clip-b16"}, "")
    assert (high.part, high.dataset) == ("value", "dtd")
    assert high.note.startswith("The paper states no capacity")
    assert (value.column, value.settings, deviation.part) == ("column b", {"views": 1}, "sd")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("4.0 ± 0.1", "4.0 | 0.1", "CLIP has 4 cells instead of 3"),
        ("first  |", "CLIP |", "more than one row has the same name"),
        ("[address]", "[addres]", "tab:x: unknown names"),
        ("a = {", "c = {", "tab:x: unknown names"),
        ("first = {", "second = {", "tab:x: unknown names"),
        ("@space", "@dataset", "no place for CLIP, a"),
        ("column a", '", colum = "', "an address of tab:x: unknown names"),
        ('"order"', '"of order"', "a tolerance of tab:x: unknown names"),
        ('"weights"', '"weight"', "plans of tab:x: unknown names"),
        ("{ views = 1 }", '"one view"', "an address of tab:x has a wrong settings"),
        ('{ column = "column a" }', '"column a"', "an address is not a table"),
        ('{ column = "column a" }', "{ numbers = [{}] }", "a cell of 2 numbers has 1 places"),
        ('{ column = "column a" }', "{ numbers = 2 }", "an address is not a table"),
        ('{ column = "column a" }', "{ note = 2 }", "notes of tab:x: unknown names"),
        ('{ column = "column a" }', "{ like = 'b' }", "addresses of tab:x: unknown names"),
        ('{ column = "column a" }', "{ never = 'b' }", "never of tab:x: unknown names"),
        ('{ column = "column a" }', "{ part = 'b' }", "a part of tab:x: unknown names"),
        ("[rows]", "[cells.second]\na = {}\n[rows]", "the cells of tab:x: unknown names"),
        ("[rows]", "[cells.CLIP]\nc = {}\n[rows]", "the cells of tab:x, CLIP: unknown names"),
        ('label = "tab:x"', "", "a printed table has no text 'label'"),
        ("[rows]", "[rows", "not TOML"),
    ],
)
def test_a_wrong_file_is_an_error(old, new, message):
    text = TABLE + ADDRESSES
    assert old in text
    if new.startswith("{ numbers"):
        text = text.replace("1.0 ", "1 to 2 ")
    with pytest.raises(MarcError, match=re.escape(message)):
        read(text.replace(old, new))


def test_a_wrong_statement_is_an_error():
    [good] = _statements_of(_parse("['sec:x']\ntests = { printed = '378', never = 'time' }"))
    [found] = _expected_of(good)
    assert (found.where, found.printed.text) == ("tests", "378")
    for text in ("['sec:x']\ntests = { never = 'time' }", "['sec:x']\ntests = '378'"):
        with pytest.raises(MarcError, match="sec:x, tests has no text 'printed'"):
            _statements_of(_parse(text))
    with pytest.raises(MarcError, match="sec:x is not a table"):
        _statements_of(_parse("'sec:x' = 378"))
    [wrong] = _statements_of(_parse("['sec:x']\ntests = { printed = '378', tabel = 'time' }"))
    with pytest.raises(MarcError, match="unknown names"):
        _expected_of(wrong)
