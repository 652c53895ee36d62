"""Every address of a printed value is an address that the experiments really fill.

A plan with the paper's names runs over tiny streams of random features. What is found there is no
number of the paper; only tables, rows, columns and settings count.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.paper_names import CROSS_DOMAIN, SIX
from helpers.paper_plans import SIZES, named_stream, paper_plan

from marc_paper.study.artifacts import Table
from marc_paper.study.experiments import EXPERIMENTS
from marc_paper.study.folder import StoredStudy
from marc_paper.study.formats import _as_json
from marc_paper.study.work import Work, _Held
from marc_paper.verify.expected import EXPECTED, MEAN
from marc_paper.verify.verify import _experiment_of, _find_row, _Streams, verify

"""Batches of the paper, and of streams that are as small as these."""


def work_of(plan):
    streams = {
        name: named_stream(name, seed).with_views(each.views)
        for seed, (name, each) in enumerate(plan.streams.items())
    }
    return Work(plan, _Held(), streams)


@pytest.fixture(scope="module")
def plan():
    return paper_plan()


@pytest.fixture(scope="module")
def made(plan):
    """Tables as they are stored, with the experiment of each."""
    work = work_of(plan)
    found = {}
    for experiment in EXPERIMENTS:
        about = {"experiment": experiment.name, "streams": plan.describe()}
        assert not experiment.missing(plan), experiment.name
        for artifact in experiment.make(work):
            if isinstance(artifact, Table):
                found[artifact.name] = json.loads(_as_json(artifact, about))
    return found


def small(place):
    """The place with batches of the size that these streams have images for."""
    row = dict(place.row)
    if "images of a batch" in row:
        row["images of a batch"] = SIZES[row["images of a batch"]]
    if "n" in row:
        row["n"] = str(SIZES[int(row["n"])])
    return replace(place, row=row)


MAPPED = [each for each in EXPECTED if each.place.never is None]


@pytest.mark.parametrize("table", sorted({each.place.table for each in MAPPED}))
def test_every_address_is_filled(made, plan, table):
    assert table in made
    stored = made[table]
    assert _experiment_of(table, EXPERIMENTS) == stored["experiment"]
    columns = {column["name"]: column for column in stored["columns"]}
    settings = {*stored["settings"], *(["orders"] if "seeds" in stored["settings"] else [])}
    for expected in MAPPED:
        place = small(expected.place)
        if place.table != table:
            continue
        said = f"{expected.label}: {expected.where}"
        assert place.column in columns, said
        assert columns[place.column]["unit"] != "text", said
        assert set(place.settings) <= settings, said
        row = _find_row(stored, place, _Streams.of(plan))
        cell = row[list(columns).index(place.column)]
        # streams as small as these may have no anti-hubs to rank, and no deviation to divide by
        assert cell is not None or columns[place.column]["unit"] in ("correlation", "ratio"), said


def test_averages_over_exactly_the_streams_of_the_paper(made, plan):
    """Two streams were added later, and only one table counts them."""
    found = {}
    for expected in MAPPED:
        place = expected.place
        if MEAN in place.row.values() and place.datasets in (SIX, CROSS_DOMAIN):
            [name] = _find_row(made[place.table], place, _Streams.of(plan))[:1]
            found.setdefault((place.table, place.datasets), set()).add(name)
    assert found == {
        ("benchmark-domains", SIX): {"mean, without extra"},
        ("benchmark-domains", CROSS_DOMAIN): {"mean"},
        ("large-views", SIX): {"mean"},
    }


def test_spaces_without_gain_are_counted_by_two_rows(made, plan):
    [expected] = [e for e in MAPPED if e.place.less]
    study = stored_study(made, plan)
    [found] = verify(study, EXPERIMENTS, [expected])
    table = made["correlations-checks"]
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    counts = {row["set"]: row["spaces"] for row in rows if row["stream"] == expected.place.dataset}
    assert found.got == counts["all"] - counts["positive gain"]


def stored_study(made, plan):
    return StoredStudy(
        Path(),
        {"plan": json.loads(json.dumps(plan.as_data()))},
        {each["experiment"]: {} for each in made.values()},
        made,
        {},
    )


def test_what_is_left_out_with_the_plan_of_the_paper(made, plan):
    """Only what this plan changes on purpose has no match."""
    found = verify(stored_study(made, plan), EXPERIMENTS)
    compared = [each for each in found if each.status != "no match"]
    assert {each.expected.label for each in compared} >= {"tab:spaces16", "tab:ood", "tab:grid"}
    reasons = {each.reason for each in found if each.expected.place.never is None} - {""}
    allowed = (
        "empty: ",
        "no deviation at all",
        "the table batches has no row with n ",
        "the protocol differs: grids.dims ",
        "the protocol differs: spaces.all has 16 spaces that are not the paper's 8",
        "the protocol differs: batches 2, not 300",
        "images of a batch 2000",
        "the protocol differs: parts",
    )
    assert {r for r in reasons if not any(each in r for each in allowed)} == set()
    assert len(compared) > 900


UNITS = {
    "geometry": {"percent", "points"},
    "one view, no memory": {"percent"},
    "order": {"percent", "points"},
    "oracle gain": {"points"},
    "views": {"percent", "points"},
    "change": {"points"},
    "change under views": {"points"},
    "advantage of one order": {"points"},
    "deviation": {"percent", "points", "count"},
    "ranks": {"correlation"},
    "ranks of five": {"correlation"},
    "ranks of capacities": {"correlation"},
    "regret": {"points"},
    "share of batches": {"ratio"},
    "share": {"percent"},
    "images": {"count"},
    "images under views": {"count"},
    "range": {"points"},
    "tenths": {"points"},
    "capacity": {"count"},
    "weight": {"number"},
    "count": {"count"},
    "exact": {"count"},
    "p": {"log10 p"},
    "ratio of deviations": {"ratio"},
}


def test_a_column_has_the_unit_of_what_is_printed(made):
    for expected in MAPPED:
        place, text = expected.place, expected.printed.text
        [column] = [c for c in made[place.table]["columns"] if c["name"] == place.column]
        said = f"{expected.label}: {expected.where} in {place.table}, {place.column}"
        assert column["unit"] in UNITS[place.tolerance.name], said
        if text.startswith(("+", "-")):
            assert column["unit"] in ("points", "correlation"), said
        if place.tolerance.name == "oracle gain":
            assert column["word"] in ("oracle", "held-out"), said
        if "no memory" in expected.row or expected.column.startswith(("none", "ensemble")):
            assert place.column.startswith("no memory") or "no memory" in place.row.values(), said
