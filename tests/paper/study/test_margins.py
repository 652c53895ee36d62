"""Margins: against the steps of an online run, and against what the memory really changes."""

import io
import json

import numpy as np
import pytest
from helpers.studies import cell, column, tiny_plan, tiny_work, without

from marc import MARC, run
from marc.report.style import drawing
from marc_paper.analysis.interaction import Margins
from marc_paper.study.artifacts import plain
from marc_paper.study.figures import margins


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def artifacts(work):
    return margins._make(work)


def rendered(figure):
    with drawing():
        drawn = figure.draw()
        drawn.savefig(io.BytesIO(), format="svg")
    return drawn


def direct(work, space, capacity=8, weight=10.0):
    """Margins and answers of one online run, by stored row."""
    labels = work.labels("first")
    found = {"mu": {}, "delta": {}, "right": {}, "base right": {}}

    def margin(scores, label):
        return scores[label] - max(np.delete(scores, label))

    def look(step):
        label, base = labels[step.item], step.base
        evidence = step.evidence["retrieval"]
        found["mu"][step.item] = margin(base.astype(float), label)
        found["delta"][step.item] = margin(evidence.astype(float), label)
        found["base right"][step.item] = step.base_prediction == label
        found["right"][step.item] = step.prediction == label

    run(MARC(space, capacity, weight), work.stream("first").shuffled(0), look)
    return {name: np.array([each[i] for i in range(len(labels))]) for name, each in found.items()}


@pytest.mark.parametrize("space", ["own", "best"])
def test_margins_are_those_of_the_steps(work, artifacts, space):
    wanted, shown = direct(work, space), artifacts[0].data[space]
    np.testing.assert_allclose(shown["mu"], wanted["mu"], atol=1e-4)
    np.testing.assert_allclose(shown["delta"], wanted["delta"], atol=1e-4)
    np.testing.assert_array_equal(shown["right without memory"], wanted["base right"])
    np.testing.assert_array_equal(shown["right"], wanted["right"])


@pytest.mark.parametrize("space", ["noise", "own", "weak", "good", "best"])
def test_a_row_counts_the_images(work, artifacts, space):
    table, each = artifacts[1], direct(work, space)
    base, right = each["base right"], each["right"]
    above = each["mu"] + 10 * each["delta"] > 0

    def found(name):
        return cell(table, name, stream="first", space=space)

    assert found("no memory") == pytest.approx(base.mean())
    assert found("errors") == (~base).sum()
    assert found("right") == base.sum()
    assert found("correctable") == (~base & above & (each["delta"] > 0)).sum()
    assert found("repairs") == (~base & right).sum()
    assert found("at risk") == (base & ~above).sum()
    assert found("regressions") == (base & ~right).sum()
    assert found("correctable of errors") == pytest.approx(found("correctable") / (~base).sum())
    assert found("regressions of right") == pytest.approx(found("regressions") / base.sum())
    assert found("gain") == pytest.approx(right.mean() - base.mean())


def test_the_line_is_enough_for_a_repair_and_needed_for_a_regression(work):
    for found in margins._space_margins(work).values():
        assert not (found.correctable & ~found.correct).any()
        assert not (found.above & ~found.correct).any()
        lost = found.base_correct & ~found.correct
        assert not (lost & found.above).any()
        counts = found.counts
        assert counts["correctable"] <= counts["repairs"] <= counts["errors"]
        assert counts["regressions"] <= counts["at risk"] <= counts["right"]
        assert counts["errors"] + counts["right"] == counts["images"]


def test_a_rival_of_another_class_may_be_repaired_below_the_line():
    base, evidence = np.array([[0.0, 1.0, -9.0]]), np.array([[0.2, 0.0, 0.3]])
    assert (base + 10 * evidence).argmax() == 0
    true = np.array([0])
    mu, delta = Margins.true(base, true), Margins.true(evidence, true)
    found = margins._SpaceMargins(mu, delta, np.array([False]), np.array([True]), weight=10.0)
    assert found.counts["repairs"] == 1
    assert found.counts["correctable"] == 0


def test_panels_share_axes_and_show_every_image(artifacts):
    figure = artifacts[0]
    first, second = rendered(figure).axes
    assert first.get_xlim() == second.get_xlim()
    assert first.get_ylim() == second.get_ylim()
    for axes, (space, shown) in zip((first, second), figure.data.items(), strict=True):
        marks = {line.get_marker(): line for line in axes.lines if line.get_marker() in "ox"}
        base = shown["right without memory"]
        np.testing.assert_array_equal(marks["o"].get_xdata(), shown["mu"][base])
        np.testing.assert_array_equal(marks["x"].get_ydata(), shown["delta"][~base])
        low, high = axes.get_ylim()
        assert low < shown["delta"].min()
        assert shown["delta"].max() < high
        line = axes.lines[-1]
        np.testing.assert_allclose(line.get_xdata() + 10 * line.get_ydata(), 0, atol=1e-9)
        counts = shown["counts"]
        assert axes.get_title().startswith(space)
        assert f"{100 * counts['correctable'] / counts['errors']:.1f} %" in axes.get_title()
        assert f"{100 * counts['regressions'] / counts['right']:.1f} %" in axes.get_title()


def test_the_control_spaces_have_a_row_each(artifacts):
    assert column(artifacts[1], "space") == ["noise", "own", "weak", "good", "best"]


def test_it_uses_what_it_declares():
    work = tiny_work()
    margins._make(work)
    assert set(work.used) == set(margins._EXPERIMENT.pieces(work.plan))


@pytest.mark.parametrize("weight", [0.0, 10.0])
def test_an_odd_plan(weight):
    plan = without(
        tiny_plan(
            seeds={"orders": [3]},
            spaces={"own": "own", "strong": "own", "controls": ["good"]},
            grids={"weights": [0.0, 10.0], "weight": weight},
        ),
        *("second", "third", "fourth", "fifth", "sixth"),
    )
    work = tiny_work(plan, n_images=14, n_classes=2)
    figure, table = margins._make(work)
    assert column(table, "space") == ["good", "own"]
    assert set(work.used) == set(margins._EXPERIMENT.pieces(plan))
    rendered(figure)
    json.dumps(plain(figure.data), allow_nan=False)


def test_a_share_of_nothing_is_nothing():
    found = margins._SpaceMargins(
        *(np.array([1.0, 2.0]), np.array([0.5, 0.1]), np.ones(2, bool), np.ones(2, bool)), 10.0
    )
    row = margins._row_of("first", "own", found)
    assert row[6] is None
    assert row[11] == 0.0
    with drawing():
        margins._draw({"own": found}).savefig(io.BytesIO(), format="svg")
