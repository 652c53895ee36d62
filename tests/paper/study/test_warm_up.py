"""Accuracy along the stream, and the figure that shows it: against online runs cut into parts."""

import numpy as np
import pytest
from helpers.studies import PLAN, cell, column, table_of, tiny_plan, tiny_work

from marc import MARC, run
from marc.report.style import drawing
from marc_paper.analysis.interaction import WarmUp
from marc_paper.study.plan import Plan
from marc_paper.study.tables import warm_up

SPACES = {"deployed": "good", "strong": "best"}
SEEDS = (0, 1, 2)
ONE_STREAM = {"first": {"source": "arrays/first.npz", "group": "main"}}


@pytest.fixture(scope="module")
def work():
    return tiny_work(n_images=93)


@pytest.fixture(scope="module")
def tables(work):
    return warm_up._make(work)


@pytest.fixture(scope="module")
def figure(work):
    [figure] = warm_up._make_figure(work)
    return figure


def online(work, space, views, weight=10.0):
    """Accuracy in tenths with memory and without, (orders, parts) each."""
    stream = work.stream("first", views)
    runs = [run(MARC(space, 16, weight), stream.shuffled(seed)) for seed in SEEDS]
    parts = [WarmUp.of(each) for each in runs]
    return np.array([p.accuracy for p in parts]), np.array([p.base_accuracy for p in parts])


def same(found, values):
    assert found.value == pytest.approx(np.mean(values))
    assert found.sd == pytest.approx(np.std(values, ddof=1))


@pytest.mark.parametrize("name", SPACES)
def test_parts_are_those_of_online_runs(work, tables, name):
    table = table_of(tables, "warm-up")
    assert column(table, "part") == [str(part) for part in range(1, 11)]
    accuracy, base = online(work, SPACES[name], 1)
    for part in range(10):
        where = {"part": str(part + 1)}
        same(cell(table, "no memory", **where), base[:, part])
        same(cell(table, f"{name} memory", **where), accuracy[:, part])
        same(cell(table, f"{name} gain", **where), (accuracy - base)[:, part])


@pytest.mark.parametrize("views", [1, 2, 4, 8])
@pytest.mark.parametrize("name", SPACES)
def test_the_climb_is_the_last_part_minus_the_first(work, tables, name, views):
    table = table_of(tables, "warm-up-climb")
    accuracy, base = online(work, SPACES[name], views)
    where = {"views": str(views)}
    same(cell(table, "no memory", **where), base[:, -1] - base[:, 0])
    same(cell(table, f"{name} memory", **where), accuracy[:, -1] - accuracy[:, 0])
    gain = accuracy - base
    same(cell(table, f"{name} gain", **where), gain[:, -1] - gain[:, 0])


def test_a_short_stream_has_fewer_parts():
    fresh = tiny_work(Plan.of({**PLAN, "streams": ONE_STREAM}), n_images=12)
    curve = warm_up._along(np.array([True, False, False]), np.array([[2, 0, 1]]), 3)
    assert curve.tolist() == [[0.0, 1.0, 0.0]]
    assert [warm_up._parts_of(n) for n in (4, 10, 93)] == [4, 10, 10]
    tables = warm_up._EXPERIMENT.make(fresh)
    assert set(fresh.used) == set(warm_up._EXPERIMENT.pieces(fresh.plan))
    assert column(table_of(tables, "warm-up-climb"), "views") == ["1"]


@pytest.mark.parametrize("experiment", [warm_up._EXPERIMENT, warm_up._FIGURE])
def test_the_work_is_as_declared(experiment):
    fresh = tiny_work()
    experiment.make(fresh)
    assert set(fresh.used) == set(experiment.pieces(fresh.plan))
    assert experiment.missing(fresh.plan) == ""


def test_the_figure_shows_accuracy_and_gain_at_every_budget(work, figure):
    arms = {
        "own memory, w = 1": ("own", 1.0),
        "own memory": ("own", 10.0),
        "deployed memory": ("good", 10.0),
        "strong memory": ("best", 10.0),
    }
    assert figure.data["views"] == (1, 2, 4, 8)
    assert set(figure.data["accuracy"]) == {"no memory", *arms}
    for place, views in enumerate((1, 2, 4, 8)):
        for arm, (space, weight) in arms.items():
            stream = work.stream("first", views)
            runs = [run(MARC(space, 16, weight), stream.shuffled(seed)) for seed in SEEDS]
            shown = figure.data["accuracy"][arm][:, place]
            assert shown == pytest.approx([each.accuracy for each in runs])
            assert figure.data["accuracy"]["no memory"][:, place] == runs[0].base_accuracy
            shown = figure.data["gain"][arm][:, place]
            assert shown == pytest.approx([each.gain for each in runs])
    assert set(figure.data["gain"]) == set(arms)
    assert "(c) and (d) leave them out" in figure.caption


def test_the_figure_shows_the_tables(figure, tables):
    parts, climbs = tables
    for name in ("no memory", "deployed memory", "strong memory"):
        along, climb = (figure.data[panel][name] for panel in ("along the stream", "climb"))
        assert along.mean(axis=0) == pytest.approx([c.value for c in column(parts, name)])
        assert climb.mean(axis=0) == pytest.approx([c.value for c in column(climbs, name)])


def test_four_panels_with_means_and_bands_of_what_is_shown(figure):
    with drawing():
        drawn = figure.draw()
    panels = drawn.axes
    lines = [[line for line in axes.lines if len(line.get_xdata()) > 2] for axes in panels]
    assert [len(each) for each in lines] == [5, 4, 3, 3]
    for panel, name in enumerate(("accuracy", "gain", "along the stream", "climb")):
        for line, values in zip(lines[panel], figure.data[name].values(), strict=True):
            assert line.get_ydata() == pytest.approx(100 * values.mean(axis=0))
    assert list(lines[0][0].get_xdata()) == [1, 2, 4, 8]
    assert list(lines[2][0].get_xdata()) == list(range(1, 11))
    band = panels[1].collections[2].get_paths()[0].vertices[:, 1]
    gains = 100 * figure.data["gain"]["deployed memory"]
    assert (band.min(), band.max()) == pytest.approx((gains.min(), gains.max()))
    [legend] = drawn.legends
    names = [text.get_text() for text in legend.get_texts()]
    wanted = ["no memory", "own, w = 1", "own, w = 10", "good, w = 10", "best, w = 10"]
    assert names == wanted


@pytest.mark.parametrize("place", range(1, 17))
def test_lines_differ_by_more_than_colour(place):
    spaces = ["own", *(f"space-{number}" for number in range(16))]
    roles = {"own": "own", "deployed": spaces[place], "strong": "own"}
    plan = tiny_plan(spaces={"all": spaces, "controls": ["own"], **roles})
    looks, _ = warm_up._looks_and_legend(plan)
    del looks["strong memory"]
    assert len({(look.marker, look.dash) for look in looks.values()}) == len(looks)


def test_the_figure_of_one_order_and_of_one_view():
    one = tiny_work(tiny_plan(seeds={"orders": [3]}))
    [figure] = warm_up._FIGURE.make(one)
    with drawing():
        figure.draw().canvas.draw()
    flat = Plan.of({**PLAN, "streams": ONE_STREAM})
    assert "one view" in warm_up._FIGURE.missing(flat)
