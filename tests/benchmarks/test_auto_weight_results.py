"""The study of weights without labels measures the product, and its rules never see a label."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.making import make_stream

from benchmarks.auto_weight.cells import CAPACITY, SEEDS, cells_of, hostile, with_bad_spaces
from benchmarks.auto_weight.results import GROUPS, Result, document
from benchmarks.auto_weight.rules import RULES
from marc.method import MARC
from marc.replay.replay import replay
from marc.replay.sweep_job import sweep

STREAM = replace(make_stream(3, n_images=150, logit_scale=4.0), name="small")


@pytest.fixture(scope="module")
def cells():
    return list(cells_of("lab", with_bad_spaces(STREAM)))


def test_auto_and_fixed_are_those_of_the_product(cells):
    found = sweep(STREAM, ["good", "bad"], capacities=[CAPACITY], weights=[0.0, 10.0], seeds=SEEDS)
    rules = {rule.name: rule for rule in RULES}
    for space in ("good", "bad"):
        orders = [cell for cell in cells if cell.space == space]
        fixed = np.mean([rules["fixed"].gain(cell) for cell in orders])
        assert fixed == pytest.approx(found.fixed(space, CAPACITY, 10.0).gain)
        for seed, cell in zip(SEEDS, orders, strict=True):
            run = replay(MARC(space, CAPACITY, "auto"), STREAM.shuffled(seed))
            assert np.array_equal(cell.learned, run.weights)
            assert rules["auto"].gain(cell) == pytest.approx(run.gain)


def test_rules_give_weights_and_see_no_label(cells):
    for rule in RULES:
        for cell in cells[::4]:
            weight = np.asarray(rule.weight(cell))
            assert np.isfinite(weight).all()
            assert (weight >= 0).all()
            hidden = replace(cell, labels=np.zeros_like(cell.labels))
            assert np.array_equal(weight, rule.weight(hidden))


def test_bad_spaces_are_a_group_of_their_own(cells):
    groups = {cell.space: cell.group for cell in cells}
    assert groups["good"] == "lab"
    assert groups["bad: random vectors"] == groups["bad: shuffled keys"] == "bad on purpose"


def test_hostile_streams_show_the_same_images():
    variants = list(hostile(STREAM))
    assert len({variant.name for variant in variants}) == len(variants) == 8
    assert all(np.array_equal(each.row_labels, STREAM.row_labels) for each in variants)
    scales = [each.features.predictor.logit_scale for each in variants[:3]]
    assert scales == [2.0, 8.0, 16.0]
    texts = [each.features.predictor.prototypes for each in variants]
    assert np.allclose(texts[0], texts[1])
    assert not np.allclose(texts[0], texts[-1])


def test_the_document_is_made_of_results():
    gains = {rule.name: 0.012 for rule in RULES}
    names = {"hostile": "small, names confused (1)"}
    results = [
        Result(group, names.get(group, "small"), "space", base, 0.9, 0.02, 0.03, gains, 1.5)
        for group in GROUPS
        for base in (0.5, 0.9)  # overconfident, and not
    ]
    text = "\n".join(document(results))
    assert "| photographs    | 2     | +1.2" in text
    assert "60 %" in text  # of the oracle gain
