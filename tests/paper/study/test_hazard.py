"""Gain against weight: the curve against online runs, at and between weights of the grid."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.online_answers import weight_gains
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work, without

from marc import MARC, run
from marc.report.style import drawing
from marc_paper.study.figures import hazard

VIEWS = {"first": 1, "second": 1, "third": 1, "fourth": 4, "fifth": 4, "sixth": 4}


@pytest.fixture(scope="module")
def work():
    # a weak space as the deployed one, so that some streams lose
    return tiny_work(tiny_plan(spaces={"deployed": "weak"}))


@pytest.fixture(scope="module")
def artifacts(work):
    return hazard._make(work)


@pytest.mark.parametrize("stream", VIEWS)
def test_rows_are_what_online_runs_give(work, artifacts, stream):
    table, weights = table_of(artifacts, "hazard-weights"), work.plan.grids.weights
    found = weight_gains(work, stream, "weak", VIEWS[stream])
    mean, place = found.mean(axis=0), weights.index(10.0)
    fixed = cell(table, "gain at w", stream=stream)
    assert fixed.value == pytest.approx(mean[place])
    assert fixed.sd == pytest.approx(found[:, place].std(ddof=1))
    assert fixed.low < fixed.value < fixed.high
    assert cell(table, "loses at w", stream=stream) == ("yes" if mean[place] < -1e-12 else "no")
    best = cell(table, "best w", stream=stream)
    assert mean[weights.index(best)] == pytest.approx(mean.max())
    assert cell(table, "G*", stream=stream).value == pytest.approx(found.max(axis=1).mean())
    safe = weights.index(cell(table, "no loss up to w", stream=stream))
    assert (mean[: safe + 1] > -1e-12).all()
    assert safe == len(weights) - 1 or mean[safe + 1] < 0


@pytest.mark.parametrize(("stream", "place"), [("first", 40), ("fourth", 100), ("sixth", 150)])
def test_the_curve_is_exact_between_weights_of_the_grid(work, artifacts, stream, place):
    curve = table_of(artifacts, "hazard").data["streams"][stream]
    weight = curve["weights"][place]
    assert weight not in work.plan.grids.weights
    features = work.stream(stream, VIEWS[stream])
    for order, seed in enumerate(work.plan.seeds.orders):
        wanted = run(MARC("weak", 8, weight), features.shuffled(seed)).gain
        assert curve["gains"][order, place] == pytest.approx(wanted)
    assert set(work.plan.grids.weights) <= set(curve["weights"])
    assert list(curve["weights"]) == sorted(curve["weights"])


def test_a_weight_is_safe_only_if_no_smaller_one_loses(work):
    sweep = work.sweep("first", ["weak"])
    lower, upper = (np.full((3, 5, 90), end) for end in (0.0, np.inf))
    lower[..., ~sweep.base_correct] = np.inf
    upper[..., ~sweep.base_correct] = -np.inf
    right, wrong = np.flatnonzero(sweep.base_correct), np.flatnonzero(~sweep.base_correct)
    upper[..., right[:2]] = 0.5  # lost from there on
    lower[..., wrong[:6]], upper[..., wrong[:6]] = 2.0, np.inf  # repaired from there on
    crafted = replace(sweep, intervals={"weak": (lower, upper)})
    found = [round(90 * crafted.fixed("weak", 8, weight).gain) for weight in sweep.weights]
    assert found == [0, 0, -2, 4, 4, 4]
    assert hazard._safe_weight(crafted, "weak", 8) == 0.1


def test_losing_streams_are_named(artifacts):
    figure, table = table_of(artifacts, "hazard"), table_of(artifacts, "hazard-weights")
    losing = column(table, "stream", **{"loses at w": "yes"})
    assert 0 < len(losing) < 6
    assert figure.data["loses"] == losing
    assert f"loses on {', '.join(losing)}." in figure.caption
    assert "one view (up to 4 on streams of group domain or extra)" in figure.caption
    assert "its own scale of gains" in figure.caption


def test_every_stream_has_a_panel_that_shows_its_mark(artifacts):
    figure = table_of(artifacts, "hazard")
    with drawing():
        drawn = figure.draw()
        shown = [axes for axes in drawn.axes if axes.get_visible()]
    assert [axes.get_title().split(" ")[0] for axes in shown] == list(VIEWS)
    for axes, stream in zip(shown, VIEWS, strict=True):
        curve = figure.data["streams"][stream]
        place = curve["weights"].index(10.0)
        low, high = axes.get_ylim()
        assert low < 100 * np.mean(curve["gains"], axis=0)[place] < high
        assert ("loses" in axes.get_title()) == (stream in figure.data["loses"])


def test_its_pieces_are_those_it_uses():
    one = without(tiny_plan(seeds={"orders": [0]}), "second", "third", "fourth", "fifth", "sixth")
    for plan in (tiny_plan(), one):
        work = tiny_work(plan)
        artifacts = hazard._make(work)
        assert set(work.used) == set(hazard._EXPERIMENT.pieces(plan))
        with drawing():
            artifacts[0].draw()
    assert "No stream loses at w = 10." in artifacts[0].caption
    assert "K = 8, one view. " in artifacts[0].caption
