"""Gain over purity and weight: every number against online runs and direct statistics."""

import io
import json

import numpy as np
import pytest
from helpers.studies import tiny_plan, tiny_work, without

from marc import MARC, run, sweep
from marc.report.style import drawing
from marc.spaces.geometry import purity
from marc.stats import envelope_bootstrap
from marc_paper.study.artifacts import plain
from marc_paper.study.figures import landscape


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def figures(work):
    return landscape._make(work)


def rendered(figure):
    with drawing():
        drawn = figure.draw()
        drawn.savefig(io.BytesIO(), format="svg")
    return drawn


def test_a_figure_for_each_main_stream(figures):
    assert [each.name for each in figures] == ["landscape-first", "landscape-second"]
    assert [each.answers for each in figures] == [("fig:s_landscape",), ()]


@pytest.mark.parametrize("space", ["own", "good"])
def test_gains_are_those_of_online_runs(work, figures, space):
    stream, shown = work.stream("second"), figures[1].data["spaces"][space]
    runs = {
        (seed, weight): run(MARC(space, 8, weight), stream.shuffled(seed))
        for seed in work.plan.seeds.orders
        for weight in work.plan.grids.weights
    }
    wanted = [
        np.mean([runs[seed, weight].gain for seed in work.plan.seeds.orders])
        for weight in work.plan.grids.weights
    ]
    np.testing.assert_allclose(shown["gains"], wanted, atol=1e-12)
    best = [
        max(runs[seed, weight].gain for weight in work.plan.grids.weights)
        for seed in work.plan.seeds.orders
    ]
    assert shown["oracle"].estimate == pytest.approx(np.mean(best))
    changes = np.zeros(len(stream))
    for seed in work.plan.seeds.orders:
        found = runs[seed, 10.0]
        changes[found.order] += (found.correct.astype(float) - found.base_correct) / 3
    half = 1.959964 * changes.std() / np.sqrt(len(changes))
    mean = changes.mean()
    np.testing.assert_allclose(shown["fixed"], (mean, mean - half, mean + half), atol=1e-6)


def test_the_interval_of_the_best_weight_is_that_of_this_capacity(work, figures):
    found = sweep(work.stream("first"), ["good"], [8], work.plan.grids.weights, (0, 1, 2))
    lower, upper = (ends[:, 0] for ends in found.intervals["good"])
    wanted = envelope_bootstrap(
        lower, upper, found.base_correct, weights=found.weights, n_replicates=40, seed=0
    )
    assert figures[0].data["spaces"]["good"]["oracle"] == wanted
    assert wanted.low < wanted.estimate < wanted.high


def test_spaces_stand_by_their_purity(work, figures):
    features, labels = work.stream("first").features, work.labels("first")
    shown = figures[0].data["spaces"]
    wanted = {space: purity(features.keys(space), labels, 10) for space in work.plan.spaces.all}
    assert list(shown) == sorted(wanted, key=lambda space: -wanted[space])
    for space, each in shown.items():
        assert each["purity"].estimate == pytest.approx(wanted[space])


def test_what_is_drawn_are_the_numbers(work, figures):
    drawn = rendered(figures[0])
    cells, purities, gains, _ = drawn.axes
    spaces = figures[0].data["spaces"]
    assert [text.get_text() for text in cells.get_yticklabels()] == list(spaces)
    [mesh] = cells.collections
    wanted = 100 * np.stack([each["gains"] for each in spaces.values()])
    np.testing.assert_allclose(mesh.get_array().reshape(wanted.shape), wanted)
    low, high = mesh.get_clim()
    assert -low == high >= np.abs(wanted).max()
    marks = next(line for line in cells.lines if line.get_marker() == "o")
    weights = work.plan.grids.weights
    best = [weights[int(each["gains"].argmax())] for each in spaces.values()]
    np.testing.assert_array_equal(marks.get_xdata(), best)
    points = [line.get_xdata()[0] for line in purities.lines if line.get_marker() == "|"]
    np.testing.assert_allclose(points, [100 * each["purity"].estimate for each in spaces.values()])
    for marker, name in (("s", "fixed"), ("o", "oracle")):
        points = [line.get_xdata()[0] for line in gains.lines if line.get_marker() == marker]
        wanted = [100 * each[name].estimate for each in spaces.values()]
        np.testing.assert_allclose(points, wanted)


def test_panels_are_titled_alike_and_every_bar_is_wider_than_nothing(figures):
    drawn = rendered(figures[0])
    *panels, bar = drawn.axes
    assert [axes.get_title(loc="left")[:3] for axes in panels] == ["(a)", "(b)", "(c)"]
    assert bar.get_xlabel() == "gain, points (fixed)"
    purities = panels[1]
    bars = [line for line in purities.lines if len(line.get_xdata()) == 2]
    for line, each in zip(bars, figures[0].data["spaces"].values(), strict=True):
        np.testing.assert_allclose(line.get_xdata(), 100 * np.array(each["purity"][1:]))
        # the mark is a tick, so that it hides no bar
        assert line.get_linewidth() > 2.5


@pytest.mark.parametrize("weights", [(0.0, 0.1, 1.0, 10.0, 30.0), (10.0,), (1.0, 10.0)])
def test_each_weight_is_inside_its_cell(weights):
    from matplotlib.figure import Figure

    from marc_paper.study.drawing import Axis

    axes = Figure().subplots()
    Axis.weight(axes, weights)
    edges = landscape._cell_edges(axes, weights)
    assert (edges[:-1] < weights).all()
    assert (weights < edges[1:]).all()


def test_it_uses_what_it_declares():
    work = tiny_work()
    landscape._make(work)
    assert set(work.used) == set(landscape._EXPERIMENT.pieces(work.plan))


def test_an_odd_plan():
    plan = without(
        tiny_plan(seeds={"orders": [3]}, grids={"weights": [0, 10.0], "neighbors": [5, 10]}),
        *("second", "third", "fourth", "fifth", "sixth"),
    )
    work = tiny_work(plan, n_images=14)
    [figure] = landscape._make(work)
    rendered(figure)
    json.dumps(plain(figure.data), allow_nan=False)
    assert set(work.used) == set(landscape._EXPERIMENT.pieces(plan))
