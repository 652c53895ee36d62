"""What holds of every experiment: it asks for what it declares, on any plan that can answer it."""

import itertools
from dataclasses import replace

import pytest
from helpers.studies import tiny_plan, tiny_streams, without

from marc_paper.printed import TABLES
from marc_paper.study.artifacts import Estimate, Figure, Table
from marc_paper.study.experiments import EXPERIMENTS
from marc_paper.study.formats import files_of, place_of
from marc_paper.study.work import Work, _Held

NAMES = [each.name for each in EXPERIMENTS]
FIGURES = {
    "fig:mismatch",
    "fig:pipeline",
    "fig:s_landscape",
    "fig:s_substitution",
    "fig:s_warmup",
    "fig:s_geometry",
    "fig:s_capacity",
    "fig:s_margin",
    "fig:s_kernel",
    "fig:s_flow",
    "fig:hazard",
    "fig:s_seedspread",
    "fig:s_qualitative",
    *(f"fig:s_sens_{which}" for which in ("ab", "al", "vb", "vl", "rb", "kb")),
}
OTHERS = {"sec:s_timing"}  # a table in running text


def one_of_each(plan):
    """One order, and each group with one stream."""
    return replace(
        without(plan, "second", "fifth", "sixth"), seeds=replace(plan.seeds, orders=(3,))
    )


ODD = {
    "as it is": lambda plan: plan,
    "one of each": one_of_each,
    "one stream": lambda plan: without(plan, *list(plan.streams)[1:]),
    "one view": lambda plan: replace(
        plan, streams={name: replace(e, views=1) for name, e in plan.streams.items()}
    ),
    "two predictors": lambda plan: replace(
        plan, streams={**plan.streams, "third": replace(plan.streams["third"], group="predictor")}
    ),
}


@pytest.fixture(scope="module")
def shelves():
    """For each odd plan a shelf, whose pieces all experiments share, and its streams."""
    plans = {name: change(tiny_plan()) for name, change in ODD.items()}
    return {name: (plan, _Held(), tiny_streams(plan)) for name, plan in plans.items()}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=NAMES)
def test_an_experiment_uses_the_work_it_declares(shelves, experiment, odd):
    plan, shelf, streams = shelves[odd]
    if experiment.missing(plan):
        assert odd != "as it is" or experiment.name == "second-predictor"
        return
    work = Work(plan, shelf, streams)
    artifacts = experiment.make(work)
    assert set(work.used) == set(experiment.pieces(plan))
    assert artifacts
    for artifact in artifacts:
        check_artifact(artifact, experiment)


def check_artifact(artifact, experiment):
    assert set(artifact.answers) <= set(experiment.answers)
    assert artifact.title
    assert artifact.caption.endswith((".", ")"))
    if isinstance(artifact, Table):
        check_table(artifact)
    else:
        assert isinstance(artifact, Figure)
    files = files_of(artifact, {})
    assert all(files.values())


def check_table(table):
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names), "columns are found by their names"
    text = [place for place, column in enumerate(table.columns) if column.unit == "text"]
    keys = [tuple(row[place] for place in text) for row in table.rows]
    assert len(set(keys)) == len(keys), "rows are found by their texts"
    for row in table.rows:
        for cell, column in zip(row, table.columns, strict=True):
            if isinstance(cell, Estimate) and cell.low is not None:
                assert cell.low <= cell.value <= cell.high, (table.name, column.name, cell)


def test_names_are_distinct_and_fit_file_names():
    assert len(set(NAMES)) == len(NAMES)
    assert all(name.replace("-", "").isalnum() and name.islower() for name in NAMES)


def test_artifacts_of_two_experiments_never_share_a_file(shelves):
    work = Work(*shelves["as it is"])
    made = [
        {place_of(artifact) for artifact in experiment.make(work)}
        for experiment in EXPERIMENTS
        if not experiment.missing(work.plan)
    ]
    for first, second in itertools.combinations(made, 2):
        assert not first & second


def test_every_table_and_figure_of_the_paper_is_answered():
    answered = {label for experiment in EXPERIMENTS for label in experiment.answers}
    wanted = {table.label for table in TABLES.values()} | FIGURES
    assert wanted - OTHERS <= answered
