"""A study against the paper: values that meet it, that differ, and the reason for every other."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.paper_names import SPACES, V2, A
from helpers.paper_plans import entry, paper_plan
from helpers.printed_studies import SETTINGS, printed_spaces

from marc_paper.printed import TABLES
from marc_paper.study.artifacts import Column, Estimate, Table
from marc_paper.study.experiments import EXPERIMENTS
from marc_paper.study.folder import StoredStudy
from marc_paper.study.formats import _as_json
from marc_paper.study.plan import StreamEntry
from marc_paper.study.tables import paired
from marc_paper.study.work import Experiment
from marc_paper.verify.expected import EXPECTED
from marc_paper.verify.verify import verify


def printed_paired():
    names = [column.name for column in paired._COLUMNS]
    rows = []
    for name, space in SPACES.items():
        row = dict.fromkeys(names)
        value, low, high = (float(n) / 100 for n in TABLES["paired16"].numbers(name, "gain at 10"))
        row |= {"stream": A, "space": space, "gain at K, w": Estimate(value, low, high)}
        row["McNemar p"] = -900.0 if space == "mae-b16" else -20.0
        rows.append(tuple(row.values()))
    return Table("paired", "", "", paired._COLUMNS, tuple(rows), (), SETTINGS)


def stored(tables, plan=None, records=None):
    plan = plan or paper_plan()
    made = {
        each.name: json.loads(_as_json(each, {"experiment": each.name, "streams": plan.describe()}))
        for each in tables
    }
    config = {"plan": json.loads(json.dumps(plan.as_data()))}
    return StoredStudy(Path("study"), config, records or {name: {} for name in made}, made, {})


def findings(study, **wanted):
    """By row and column: what is said of the values of the table of sixteen spaces."""
    found = verify(study, **wanted)
    return {
        (each.expected.row, each.expected.column): each
        for each in found
        if each.expected.label == "tab:spaces16"
    }


def test_printed_values_meet_themselves():
    found = verify(stored([printed_spaces(), printed_paired()]))
    assert len(found) == len(EXPECTED)
    own = [each for each in found if each.expected.place.table == "spaces" and each.got is not None]
    of_table = [each for each in own if each.expected.label == "tab:spaces16"]
    assert len(of_table) == 80
    assert {each.status for each in of_table} == {"meets"}
    assert max(abs(each.difference) for each in of_table) < 1e-9
    gains = [
        each
        for each in found
        if each.expected.column == "gain at 10" and each.expected.label == "tab:s_ci_spaces16"
    ]
    assert [each.status for each in gains] == ["meets"] * 48
    by_row = {each.expected.row: each for each in found if each.expected.column == "p"}
    assert by_row["MAE"].status == "meets"  # below 1e-300
    assert by_row["DINOv2-L"].status == "differs"  # 1e-20, and 2e-285 is printed


@pytest.mark.parametrize(
    ("column", "heading", "allowed"),
    [("purity@10", "purity A", 0.35), ("G*, first order", "gain A", 1.005)],
)
def test_the_tolerance_decides(column, heading, allowed):
    value = float(TABLES["spaces16"].at("DINOv2-B", heading))
    for off, status in ((0.999, "meets"), (1.001, "differs"), (-0.999, "meets")):
        got = (value + off * allowed) / 100
        table = printed_spaces({(A, "dinov2-b", column): got})
        found = findings(stored([table]))["DINOv2-B", heading]
        assert found.status == status
        assert found.difference == pytest.approx(off * allowed)
        assert found.got == pytest.approx(100 * got)


def reason(study, row="DINOv2-B", column="gain A", **wanted):
    found = findings(study, **wanted)[row, column]
    assert found.status == "no match"
    assert found.got is None
    return found.reason


def changed(plan, name, **fields):
    streams = {**plan.streams, name: replace(plan.streams[name], **fields)}
    return replace(plan, streams=streams)


def test_no_stream_of_the_data_set():
    plan = changed(paper_plan(), A, dataset="sun397")
    plan = replace(plan, streams={k: v for k, v in plan.streams.items() if k != f"{A}-2"})
    assert reason(stored([printed_spaces()], plan)) == f"the study has no stream of {A}"


def test_another_predictor():
    plan = changed(paper_plan(), A, predictor="clip-l14")
    assert "is predicted by clip-l14, not clip-b16" in reason(stored([printed_spaces()], plan))


def test_other_prompts_or_none():
    plan = changed(paper_plan(), A, prompts="t80")
    assert "are t80, not tip-7+cupl" in reason(stored([printed_spaces()], plan))
    plan = changed(paper_plan(), A, prompts="")
    assert "are not stated, not tip-7+cupl" in reason(stored([printed_spaces()], plan))
    plan = changed(paper_plan(), A, prompts="texts/CuPL.json+tip-7")
    assert findings(stored([printed_spaces()], plan))["DINOv2-B", "gain A"].status == "meets"


def test_an_experiment_that_was_not_made_or_cannot_be():
    assert reason(stored([])) == "the experiment spaces was not made"
    never = Experiment("spaces", "", (), list, list, lambda plan: "no spaces")
    said = reason(stored([]), experiments=[never])
    assert said == "the experiment spaces is not possible with this plan: no spaces"
    said = reason(stored([], records={"spaces": {}}))
    assert said == "the experiment spaces made no table spaces of this plan"


def test_no_row_for_a_space():
    table = printed_spaces()
    rows = tuple(row for row in table.rows if row[1] != "dinov2-b")
    study = stored([replace(table, rows=rows)])
    assert reason(study) == "the table spaces has no row for space dinov2-b"
    assert findings(study)["DINOv2-L", "gain A"].status == "meets"


def test_two_rows_that_fit_are_not_chosen_from():
    table = printed_spaces()
    study = stored([replace(table, rows=table.rows + table.rows)])
    assert reason(study) == "the table spaces has 2 such rows"


def test_another_capacity_of_the_table():
    study = stored([printed_spaces(settings={**SETTINGS, "capacity": 4})])
    assert reason(study) == "the protocol differs: capacity 4, not 8"
    assert findings(study)["DINOv2-B", "purity A"].status == "meets"  # no memory has a part in it


def test_orders_of_another_kind():
    plan = paper_plan()
    hard = replace(plan, seeds=replace(plan.seeds, kind="sorted"))
    assert "the orders are sorted, not shuffled" in reason(stored([printed_spaces()], hard))


def test_another_grid_of_weights():
    plan = paper_plan()
    plan = replace(plan, grids=replace(plan.grids, weights=(0.0, 10.0)))
    assert "grids.weights" in reason(stored([printed_spaces()], plan))


def test_an_empty_cell():
    study = stored([printed_spaces({(A, "dinov2-b", "G*, first order"): None})])
    assert reason(study) == "empty: the table spaces has no value here"
    [row] = [row for row in study.tables["spaces"]["rows"] if row[:2] == [A, "dinov2-b"]]
    row[-2] = float("nan")
    assert reason(study) == "empty: the table spaces has no value here"


def test_a_table_of_another_plan_in_the_same_folder():
    study = stored([printed_spaces()])
    study.tables["spaces"]["streams"][A]["source"] = "arrays/other.npz"
    assert "other streams than the plan" in reason(study)


def test_what_is_copied_or_timed_is_said_first():
    plan = paper_plan()
    streams = {name: each for name, each in plan.streams.items() if each.group == "main"}
    study = stored([], replace(plan, streams=streams))
    found = {(e.expected.label, e.expected.row): e for e in verify(study)}
    assert "no stream of" in found["tab:ood", "ViT MARC, M = 64"].reason
    assert "copied" in found["tab:ood", "ViT TDA"].reason
    assert "hardware" in found["tab:s_timing", "CLIP"].reason
    assert (
        "nothing of this study"
        in found["sec:s_scope", "place of DINOv2-L on EuroSAT, eight spaces"].reason
    )


def test_averages_need_exactly_the_streams_of_the_paper():
    plan = paper_plan()
    columns = (Column("stream"), Column("method"), Column("space"), Column("views"))
    columns += (Column("accuracy", "percent", "fixed"),)
    rows = tuple(
        (name, "marc", "dinov2-b", "64", Estimate(value, sd=0.0006))
        for name, value in (("mean", 0.6930), ("mean, shifts", 0.6791))
    )
    settings = {"capacity": 16, "weight": 10.0, "seeds": (0, 1, 2)}
    table = Table("benchmark", "", "", columns, rows, (), settings)

    def row(plan):
        found = verify(stored([table], plan))
        return {
            e.expected.column: e
            for e in found
            if e.expected.row == "ViT MARC, M = 64" and e.expected.number == 0
        }

    assert row(plan)["average"].got == pytest.approx(69.30)
    assert row(plan)["OOD average"].got == pytest.approx(67.91)
    more = {**plan.streams, "more": StreamEntry(**entry("sun397", "shift", "x"))}
    assert "no average over exactly 5" in row(replace(plan, streams=more))["average"].reason


def test_no_deviation_at_all_is_no_match_but_a_small_one_is():
    plan = paper_plan()
    columns = (Column("policy"), Column("deployed", "percent"), Column("strong", "percent"))
    settings = {"stream": A, "capacity": 16, "weight": 10.0, "views": 1, "seeds": (0, 1, 2)}
    rows = (("entropy", Estimate(0.6014, sd=0.0), Estimate(0.6993, sd=0.0001)),)
    table = Table("policies", "", "", columns, rows, (), settings)
    found = {
        e.expected.column: e
        for e in verify(stored([table], plan))
        if e.expected.label == "tab:s_admission_policies"
        and e.expected.row == "entropy"
        and e.expected.is_deviation
    }
    assert "one draw of views" in found["DINOv2-B"].reason
    assert found["DINOv2-L"].status == "meets"  # 0.01 counts as 0.05, and 0.23 is printed


def test_a_role_that_another_space_plays():
    plan = paper_plan()
    plan = replace(plan, spaces=replace(plan.spaces, deployed="dinov2-s"))
    columns = (Column("views"), Column("deployed memory", "percent", "fixed"))
    settings = {"stream": A, "capacity": 16, "weight": 10.0, "seeds": (0, 1, 2)}
    table = Table("view-budget", "", "", columns, (("1", 0.5973),), (), settings)
    found = {
        e.expected.row: e
        for e in verify(stored([table], plan))
        if (e.expected.label, e.expected.column) == ("tab:grid", "DINOv2")
    }
    assert found["1"].reason == "the study's deployed space is dinov2-s, not dinov2-b"
    met = {
        e.expected.row: e
        for e in verify(stored([table]))
        if (e.expected.label, e.expected.column) == ("tab:grid", "DINOv2")
    }
    assert met["1"].status == "meets"
    assert met["2"].reason == "the table view-budget has no row with views 2"


def test_a_table_about_another_stream():
    settings = {"stream": V2, "capacity": 16, "weight": 10.0, "seeds": (0, 1, 2)}
    columns = (Column("views"), Column("deployed memory", "percent", "fixed"))
    table = Table("view-budget", "", "", columns, (("1", 0.5973),), (), settings)
    [found] = [
        e
        for e in verify(stored([table]))
        if (e.expected.label, e.expected.row, e.expected.column) == ("tab:grid", "1", "DINOv2")
    ]
    assert found.reason == f"the table view-budget is about {V2}, not {A}"


def test_every_experiment_behind_a_place_exists():
    names = {each.name for each in EXPERIMENTS}
    missing = {
        each.reason for each in verify(stored([])) if each.reason.startswith("the experiment ")
    }
    assert missing
    assert {text.split()[2] for text in missing} <= names
