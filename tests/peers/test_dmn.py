"""DMN-ZS against a literal twin, its traps, and the outputs of the released functions."""

import numpy as np
import pytest
from helpers.dynamic_twin import DynamicTwin, tied_stream, twin_entropy, twin_softmax
from helpers.gold import gold as released
from helpers.gold import gold_stream
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.contract import check_method
from marc.peers.dmn import DMN
from marc.peers.registry import METHODS

CARD = METHODS["dmn-zs"]


@pytest.mark.parametrize("n_classes", [2, 5, 40, 200])
@pytest.mark.parametrize(
    ("n_views", "fraction", "n_kept"), [(1, 0.1, 1), (2, 0.5, 1), (8, 0.3, 2), (64, 0.1, 6)]
)
def test_every_step_equals_the_literal_twin(n_classes, n_views, fraction, n_kept):
    stream = tied_stream(n_classes + n_views, n_classes, n_views)
    method = DMN(capacity=3, weight=0.7, fraction=fraction)
    twin = DynamicTwin(stream.features.predictor.prototypes, 3, 5.5)
    for query in stream:
        step = method.step(query)
        _, posterior = twin.look(query.view_logits, n_kept)
        assert posterior[step.label] >= max(posterior) - 1e-12  # rounding may choose among equals
        assert step.priority == pytest.approx(-twin_entropy(posterior), abs=1e-12)
        twin.offer(query.views[0], step.label, -step.priority)
        dynamic = twin_softmax(15.0 * (twin.vectors(query.views[0]) @ query.views[0]))
        logits = twin_softmax(query.view_logits[0].astype(np.float64)) + 0.7 * dynamic
        assert np.abs(step.logits - logits).max() < 1e-5
        assert logits[step.prediction] > max(logits) - 1e-5
        assert np.abs(step.base - twin_softmax(query.view_logits[0].astype(float))).max() < 1e-6


def test_the_contract_of_methods():
    check_method(lambda: DMN(capacity=3))


def test_the_card_lists_the_defaults_and_the_grid_of_the_oracle():
    assert CARD.settings == {
        "capacity": 50,
        "beta": 5.5,
        "weight": 1.0,
        "fraction": 0.1,
    }
    assert CARD.searched["weight"] == tuple(
        [*(float(f"{m}e{e}") for e in range(-3, 3) for m in (1, 3)), 1000.0]
    )
    assert CARD.reads_before_writes is False
    assert CARD.name == DMN().name
    assert "oracle" in CARD.tuned


def test_an_image_is_stored_before_it_is_answered():  # X1
    stream = make_stream(1, n_images=30)
    query = next(iter(stream))
    method = DMN()
    first, second = method.step(query), method.step(query)
    assert method.memory.slots.of_class("items", first.label).tolist() == [query.item] * 2
    assert first.evidence["dynamic"][first.label] > first.base[first.label]  # its own vote
    assert second.evidence["dynamic"][first.label] > first.evidence["dynamic"][first.label]


def test_identical_texts_tie_for_the_lower_class():  # X3
    stream = tied_stream(3, 5, 1, n_images=60)
    steps = list(iter_steps(DMN(capacity=3), stream))
    assert all(step.label != 1 and step.base_prediction != 1 for step in steps)
    assert any(step.base[0] == step.base[1] == max(step.base) for step in steps)
    # neither class holds an image, so both are their text and tie in the memory's answer as well
    fresh = DMN()
    step = fresh.step(next(q for q, s in zip(stream, steps, strict=True) if s.label > 1))
    assert step.evidence["dynamic"][0] == step.evidence["dynamic"][1]


def test_too_few_views_for_the_share_are_refused():  # X4
    for n_views in range(2, 10):
        query = next(iter(make_stream(0, n_views=n_views)))
        with pytest.raises(MarcError, match=f"none of {n_views}"):
            DMN().step(query)
        method = DMN(fraction=1 / n_views)
        assert method.step(query).base.shape == (5,)
    for n_views in (1, 10):
        DMN().step(next(iter(make_stream(0, n_views=n_views))))


def test_the_plain_image_is_stored_whatever_views_are_selected():
    stream = make_stream(4, n_views=10)
    method = DMN()
    list(iter_steps(method, stream))
    slots = method.memory.slots
    for key, item in zip(slots.filled("keys"), slots.filled("items"), strict=True):
        assert np.array_equal(key, stream.query(int(item)).views[0])


def test_the_order_of_the_stream_matters():  # X19
    stream = make_stream(5, n_images=80)
    first, second = run(DMN(capacity=2), stream), run(DMN(capacity=2), stream.shuffled(1))
    back = np.argsort(second.order)
    assert not np.array_equal(first.predictions, second.predictions[back])
    assert np.array_equal(first.base_predictions, second.base_predictions[back])


def test_bad_settings_and_other_queries_are_refused():
    for bad in ({"capacity": 0}, {"beta": -1}, {"weight": "much"}, {"fraction": 1.5}):
        with pytest.raises(MarcError):
            DMN(**bad)
    method = DMN()
    with pytest.raises(MarcError, match="nothing was seen"):
        method.state()
    method.step(next(iter(make_stream(0))))
    with pytest.raises(MarcError, match="does not fit what is remembered"):
        method.step(next(iter(make_stream(0, n_classes=6))))


@pytest.mark.parametrize(
    ("pack", "fraction"),
    [("office_caltech", 0.125), ("office_caltech", 0.3), ("caltech101_test", 0.125)],
)
def test_the_released_functions_give_the_same(pack, fraction):
    """Same predictions; scores to 5e-6; one image is another, of the same entropy in float32."""
    gold, stream = released(f"dmn_selp{fraction}_{pack}"), gold_stream(pack)
    assert np.array_equal(stream.order, gold["order"])
    method = DMN(fraction=fraction)
    steps = list(iter_steps(method, stream))
    assert np.array_equal([step.label for step in steps], gold["init_pred"].argmax(axis=1))
    assert np.array_equal([step.prediction for step in steps], gold["pred"])
    assert np.abs(np.array([step.base for step in steps]) - gold["p_0"]).max() < 5e-6
    dynamic = np.array([step.evidence["dynamic"] for step in steps])
    assert np.abs(dynamic - gold["p_dyn"]).max() < 5e-6
    assert np.abs(np.array([step.logits for step in steps]) - gold["logits"]).max() < 5e-6

    position = np.argsort(stream.order)
    moved, slots = 0, method.memory.slots
    for label, n_held in enumerate(gold["mem_count"]):
        ours = position[slots.of_class("items", label)]
        assert len(ours) == n_held
        moved += (ours != gold["mem_position"][label, :n_held]).sum()
        entropies = slots.of_class("entropies", label)
        assert np.abs(entropies - gold["mem_entropy"][label, :n_held]).max(initial=0) < 1e-5
    assert moved <= 2
