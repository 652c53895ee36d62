import numpy as np
import pytest
from helpers.gold import PACKS, gold_stream
from helpers.reference import argmax, view_logits
from helpers.tied_streams import SIZES, assert_order_does_not_matter, tied_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.contract import check_method
from marc.peers.registry import create_method
from marc.peers.zero_shot import NoMemory, ZeroShot


def test_it_keeps_the_contract_of_methods():
    check_method(ZeroShot)


@pytest.mark.parametrize(("n_classes", "n_views"), SIZES)
def test_it_is_the_best_cosine_of_the_plain_image(n_classes, n_views):
    stream = tied_stream(0, n_classes, n_views)
    for step in iter_steps(ZeroShot(), stream):
        plain = stream.features.views[step.item, :1]
        expected = view_logits(plain, stream.features.predictor.prototypes, 10.0)[0]
        np.testing.assert_allclose(step.logits, expected, atol=1e-5)
        assert step.prediction == step.base_prediction == step.label == argmax(expected)
        assert not step.evidence


def test_other_views_change_no_bit_and_one_view_equals_no_memory():
    stream = tied_stream(1, 40, 8)
    one_view = list(iter_steps(NoMemory(), stream.with_views(1)))
    for step, expected in zip(iter_steps(ZeroShot(), stream), one_view, strict=True):
        assert np.array_equal(step.base, expected.base)


def test_the_lower_of_two_classes_with_one_text_is_answered():
    predictions = run(ZeroShot(), tied_stream(2, 5, 2, n_images=60)).predictions
    assert (predictions == 0).any()
    assert not (predictions == 4).any()


def test_the_order_of_the_stream_does_not_matter():
    assert_order_does_not_matter(ZeroShot, tied_stream(3, 5, 2))


def test_it_takes_no_settings_and_remembers_nothing():
    assert ZeroShot().state()["arrays"] == {}
    with pytest.raises(MarcError, match="unknown setting of zero-shot"):
        create_method("zero-shot", fraction=0.1)


@pytest.mark.parametrize(("pack", "accuracy"), [(PACKS[0], 83.50), (PACKS[1], 47.99)])
def test_real_features_give_the_accuracy_of_the_released_codes_without_memory(pack, accuracy):
    stream = gold_stream(pack)
    assert round(100 * run(ZeroShot(), stream).accuracy, 2) == accuracy
