"""Kernel weights of one query: the choice by online runs, the numbers by the plain formula."""

import io

import numpy as np
import pytest
from helpers.studies import cell, table_of, tiny_plan, tiny_work, without

from marc import MARC, run
from marc.report.style import drawing
from marc_paper.study.figures import kernel_weights
from marc_paper.study.figures.kernel_weights import _EXPERIMENT, _is_active, _leading_classes
from marc_paper.study.queries import ChosenQuery, Reading


@pytest.fixture(scope="module")
def work():
    return tiny_work(tiny_plan(seeds={"orders": [1, 0]}))


@pytest.fixture(scope="module")
def made(work):
    return kernel_weights._make(work)


@pytest.fixture(scope="module")
def wanted(work):
    """The position that the rule names, and the run in the strong space."""
    stream = work.stream("first").shuffled(1)
    own, strong = (run(MARC(space, 8), stream) for space in ("own", "best"))
    named = ~own.base_correct & ~own.correct & strong.correct
    assert named.sum() > 1
    return stream, int(np.flatnonzero(named)[-1]), strong.trajectory, int(named.sum())


def test_the_query_is_the_last_that_the_rule_names(made, wanted):
    stream, position, _, n_named = wanted
    figure, table = made
    row = int(stream.order[position])
    query = {"id": stream.features.ids[row], "row": row, "position": position}
    assert figure.data["query"] == query
    names = stream.features.class_names
    assert figure.data["true class"] == names[stream.row_labels[row]]
    assert figure.data["base prediction"] == names[stream.features.base.label[row]]
    for each in made:
        assert f"the last of {n_named} images of first" in each.caption
        assert "order 1" in each.caption
    assert "always of the true and the predicted class" in figure.caption
    assert table.settings == {"capacity": 8, "weight": 10.0, "views": 1, "seeds": (1,)}


@pytest.mark.parametrize("space", ["own", "best"])
def test_counts_and_evidence_are_sums_over_the_retained_keys(made, wanted, space):
    stream, position, trajectory, _ = wanted
    table = table_of(made, "kernel-weights-counts")
    keys, row = stream.features.keys(space), stream.order[position]
    true, predicted = stream.row_labels[row], stream.features.base.label[row]
    held = [
        (2 * np.exp(-5 * (1 - float(keys[item] @ keys[row]))), label, item)
        for label, items in trajectory.retained(position, 8).items()
        for item in items
    ]
    largest = max(held)[0]
    active = [label for weight, label, _ in held if weight >= 0.1 * largest]
    evidence = np.zeros(stream.n_classes)
    for weight, label, _ in held:
        evidence[label] += weight
    others = np.delete(evidence, true)
    where = {"stream": "first", "space": space, "query": stream.features.ids[row]}
    assert cell(table, "keys", **where) == len(held)
    assert cell(table, "active keys", **where) == len(active) < len(held)
    assert cell(table, "active, true class", **where) == active.count(true)
    assert cell(table, "active, base prediction", **where) == active.count(predicted)
    assert cell(table, "largest weight", **where) == pytest.approx(largest, rel=1e-5)
    assert cell(table, "evidence, true class", **where) == pytest.approx(evidence[true], rel=1e-5)
    assert cell(table, "evidence, best other", **where) == pytest.approx(others.max(), rel=1e-5)
    best = cell(table, "best other class", **where)
    assert evidence[stream.features.class_names.index(best)] == others.max()
    data = table_of(made, "kernel-weights").data["spaces"][space]
    assert data["items"].tolist() == [item for *_, item in sorted(held, reverse=True)]
    weights = sorted((weight for weight, *_ in held), reverse=True)
    np.testing.assert_allclose(data["weights"], weights, rtol=1e-5)


def test_a_key_on_the_line_is_active():
    assert _is_active(np.array([2.0, 0.2, 0.19])).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("true", "predicted", "wanted"),
    [(2, 1, [1, 3, 2]), (0, 1, [1, 3, 2, 0]), (1, 0, [1, 3, 2, 0]), (4, 0, [1, 3, 2, 0, 4])],
)
def test_the_true_and_the_predicted_class_are_always_among_the_bars(true, predicted, wanted):
    evidence = np.array([0.1, 5.0, 3.0, 4.0, 0.05])
    assert _leading_classes(evidence, true, predicted) == wanted


def test_both_panels_have_a_bar_of_both_classes():
    stored = np.repeat(np.arange(5), [1, 6, 5, 4, 2])
    reading = Reading(np.arange(18), stored, np.ones(18), np.ones(18))
    query = ChosenQuery(0, 0, "x", 0, 4, {"own": reading, "best": reading})
    with drawing():
        drawn = kernel_weights._draw(query, ["cat", "dog", "fox", "owl", "bee"])
    for axes in drawn.axes[2:]:
        names = [label.get_text() for label in axes.get_yticklabels()]
        assert names == ["dog", "fox", "owl", "bee", "cat"]
        assert [bar.get_width() for bar in axes.patches] == [6, 5, 4, 2, 1]


def test_the_figure_marks_every_key_once(made, wanted):
    _, position, trajectory, _ = wanted
    with drawing():
        figure = table_of(made, "kernel-weights").draw()
        figure.savefig(io.BytesIO())
    n_held = sum(map(len, trajectory.retained(position, 8).values()))
    for axes in figure.axes[:2]:
        marks = [line for line in axes.lines if line.get_linestyle() == "None"]
        ranks = np.sort(np.concatenate([line.get_xdata() for line in marks]))
        assert ranks.tolist() == list(range(1, n_held + 1))
        assert f"of {n_held} keys active" in axes.get_title()
        assert not any("$" in label.get_text() for label in axes.get_xticklabels())


def test_pieces_are_those_that_are_used():
    plan = tiny_plan(seeds={"orders": [3]})
    plan = without(plan, *(name for name in plan.streams if name != "first"))
    work = tiny_work(plan, n_images=40)
    made = kernel_weights._make(work)
    assert set(work.used) == set(_EXPERIMENT.pieces(plan))
    assert made


def test_where_the_rule_names_nothing_one_row_says_so():
    plan = tiny_plan(spaces={"strong": "own"})
    [table] = kernel_weights._make(tiny_work(plan, n_images=30))
    assert table.name == "kernel-weights-counts"
    [[stream, rule, n_images]] = table.rows
    assert (stream, n_images) == ("first", 0)
    assert "base prediction wrong" in rule
    assert _EXPERIMENT.missing(plan) != ""
    assert _EXPERIMENT.missing(tiny_plan()) == ""
