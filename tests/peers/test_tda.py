"""TDA against its numbered steps, the traps of its released code, and the released outputs."""

import math

import numpy as np
import pytest
from helpers.gold import gold as released
from helpers.gold import gold_stream
from helpers.making import make_stream
from helpers.tda_twin import assert_same_steps, tied_stream

import marc
from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.memory import NegativeRule
from marc.peers.contract import check_method
from marc.peers.registry import METHODS
from marc.peers.tda import TDA
from marc.pictures import NAMED_SETS
from marc.stream import Stream

CARD = METHODS["tda"]

FRACTIONS = {1: 0.1, 2: 0.5, 8: 0.25, 64: 0.1}


def contents(method):
    """(class, position) of what each memory holds, best first."""
    arrays = method.state()["arrays"]
    ranked = np.lexsort((arrays["positive/rank"], arrays["positive/labels"]))
    positive = [
        (int(arrays["positive/labels"][slot]), int(arrays["positive/items"][slot]))
        for slot in ranked
    ]
    if "negative/keys" not in arrays:
        return positive, []
    priority, arrival = arrays["negative/priority"], arrays["negative/arrival"]
    label = np.arange(len(priority)) // max(1, method.negative_capacity)
    held = np.flatnonzero(arrival)
    ranked = held[np.lexsort((arrival[held], -priority[held], label[held]))]
    return positive, [(int(label[slot]), int(arrival[slot]) - 1) for slot in ranked]


def contents_of(memory):
    return [(c, entry[3]) for c in sorted(memory) for entry in memory[c]]


@pytest.mark.parametrize("n_views", FRACTIONS)
@pytest.mark.parametrize("n_classes", [2, 5, 40, 200])
def test_it_follows_the_numbered_steps(n_classes, n_views):
    stored = []
    for seed, settings in enumerate([{}, {"capacity": 1, "alpha": 3.0, "negative_capacity": 3}]):
        n_images = 40 if n_views == 64 else 80
        stream = tied_stream(
            seed, n_images, n_views, n_classes, logit_scale=5.0 if n_classes == 2 else 15.0
        )
        method = TDA(fraction=FRACTIONS[n_views], **settings)
        twin = assert_same_steps(method, stream)
        positive, negative = contents(method)
        assert positive == contents_of(twin.positive)
        assert negative == contents_of(twin.negative)
        stored.append(len(negative))
    assert max(stored) > 2  # the comparison of the negative memories must not be empty


def test_wide_bounds_and_no_votes_against():
    wide = TDA(band_low=0.0, band_high=1.0, mask_low=0.0, mask_high=0.9, negative_beta=3.0)
    twin = assert_same_steps(wide, tied_stream(5, 80))
    assert contents(wide)[1] == contents_of(twin.negative)
    none = TDA(negative_weight=0.0)
    assert_same_steps(none, tied_stream(5, 80))
    assert contents(none)[1] == []
    assert set(none.step(tied_stream(5).query(0)).evidence) == {"positive"}


def test_a_first_image_votes_for_itself():
    """X1: written before it is read, at similarity 1, or at its squared length with views."""
    stream = make_stream(0)
    step = TDA(alpha=2.5).step(stream.query(0))
    assert step.evidence["positive"][step.label] == pytest.approx(2.5, rel=1e-5)
    stream = make_stream(0, n_views=8)
    query = stream.query(0)
    step = TDA(alpha=2.5, fraction=0.5).step(query)
    entropies = marc.scores.softmax_entropy(query.view_logits)
    mean = query.views[np.argsort(entropies)[:4]].mean(axis=0)
    damped = 2.5 * math.exp(-5 * (1 - float(mean @ mean)))
    assert damped < 2.4
    assert step.evidence["positive"][step.label] == pytest.approx(damped, rel=1e-5)


def test_equal_images_keep_the_earlier():
    """X2."""
    features = make_stream(1, n_images=1).features
    stream = Stream.from_arrays(np.repeat(features.views, 6, axis=0), features.predictor.prototypes)
    method = TDA(capacity=3, band_low=0.0, band_high=1.0)
    run(method, stream)
    positive, negative = contents(method)
    assert [position for _, position in positive] == [0, 1, 2]
    assert [position for _, position in negative] == [0, 1]


def test_of_two_identical_prototypes_the_lower_is_answered():
    """X3: also in float sums, where rounding must not tell the two apart."""
    for seed, n_views in [(0, 1), (1, 8), (2, 1), (3, 1)]:
        stream = tied_stream(seed, 150, n_views, n_classes=7)
        method = TDA(fraction=0.25, beta=40.0, negative_weight=2.0, capacity=1)
        for step in iter_steps(method, stream):
            assert step.evidence["negative"][1] == step.evidence["negative"][3]
            assert step.prediction != 3


@pytest.mark.parametrize("n_views", range(2, 10))
def test_a_share_that_keeps_no_view_is_refused(n_views):
    """X4."""
    query = make_stream(0, n_images=2, n_views=n_views).query(0)
    with pytest.raises(MarcError, match=f"none of {n_views}") as error:
        TDA().step(query)
    assert "fraction=" in error.value.hint
    TDA(fraction=1 / n_views).step(query)


def test_the_band_is_in_nats_over_log2():
    """X11: a uniform posterior is at ln 2, not at 1."""
    for n_classes in (2, 10, 1000):
        uniform = math.log(n_classes)
        narrow = NegativeRule(band=(math.log(2) - 1e-9, math.log(2) + 1e-9))
        assert narrow.admits(uniform, n_classes)
        assert not NegativeRule().admits(0.5 * math.log2(n_classes), n_classes)  # the ends are open
        assert NegativeRule().admits(0.4999 * math.log2(n_classes), n_classes)


def test_votes_against_lower_the_pseudo_class_too():
    """X12."""
    lowered = 0
    stream = tied_stream(3, 40)
    for query in stream:
        step = TDA().step(query)
        if step.evidence["negative"].any():
            lowered += 1
            assert step.evidence["negative"][step.label] > 0
            assert step.weights["negative"] == -0.117
    assert lowered > 3


def test_order_matters_but_not_to_the_baseline():
    """X19."""
    stream = make_stream(4, n_images=120)
    here, there = (run(TDA(alpha=20.0), stream.shuffled(seed)) for seed in (0, 1))
    by_row = [each.predictions[np.argsort(each.order)] for each in (here, there)]
    assert (by_row[0] != by_row[1]).any()
    base = [each.base_predictions[np.argsort(each.order)] for each in (here, there)]
    assert np.array_equal(*base)


def test_a_class_that_holds_nothing_gets_exactly_nothing():
    """X24."""
    method, seen = TDA(), set()
    for step in iter_steps(method, make_stream(5, n_images=12, n_classes=40)):
        seen.add(step.label)
        empty = [c for c in range(40) if c not in seen]
        assert not step.evidence["positive"][empty].any()
        assert (step.evidence["positive"][list(seen)] > 0).all()


OTHER = {"negative_capacity": 1, "negative_beta": 3.0, "band_high": 0.6, "mask_low": 0.2}


@pytest.mark.parametrize(
    "settings", [{}, {"negative_weight": 0.0}, {"capacity": 0}, OTHER], ids=str
)
def test_it_keeps_the_contract_of_methods(settings):
    check_method(lambda: TDA(**settings))


BAD = [
    {"capacity": -1},
    {"negative_capacity": 1.5},
    {"alpha": -1.0},
    {"beta": float("nan")},
    {"negative_weight": "much"},
    {"negative_beta": -1},
    {"band_low": 0.6},
    {"mask_high": 0.01},
    {"fraction": 1.5},
]


@pytest.mark.parametrize("settings", BAD, ids=str)
def test_bad_settings_are_refused(settings):
    with pytest.raises(MarcError, match=next(iter(settings)).split("_")[0]):
        TDA(**settings)


def test_a_query_of_other_classes_is_refused():
    method = TDA()
    method.step(make_stream(0).query(0))
    with pytest.raises(MarcError, match="does not fit"):
        method.step(make_stream(0, n_classes=6).query(0))
    with pytest.raises(MarcError, match="nothing was seen"):
        TDA().state()


def test_published_settings_are_settings_of_known_data_sets():
    known = set(NAMED_SETS)
    assert set(CARD.published) <= known
    assert len(CARD.published) == 15
    assert CARD.published["imagenet-sketch"] == {"alpha": 2.363, "beta": 7.45}
    for settings in CARD.published.values():
        assert TDA(**settings).config()["capacity"] == 3


@pytest.mark.parametrize("pack", ["office_caltech", "caltech101_test"])
@pytest.mark.parametrize("variant", ["pos_neg", "pos_only"])
def test_it_gives_the_released_outputs(pack, variant):
    gold, stream = released(f"tda_{variant}_{pack}"), gold_stream(pack, views=1)
    method = TDA(negative_weight=0.117 if variant == "pos_neg" else 0.0)
    steps = list(iter_steps(method, stream))
    logits = np.array([step.logits for step in steps])
    np.testing.assert_allclose(logits, gold["logits"], rtol=0, atol=5e-5)
    differ = np.array([step.prediction for step in steps]) != gold["pred"]
    top = np.sort(gold["logits"][differ], axis=1)
    assert differ.sum() <= 1  # near-ties in float32
    assert (top[:, -1] - top[:, -2] < 1e-4).all()
    positions = np.argsort(gold["order"])
    positive, negative = contents(method)
    expected = zip(gold["pos_cache_class"], gold["pos_cache_position"], strict=True)
    assert [(c, positions[item]) for c, item in positive] == list(expected)
    if variant == "pos_neg":
        expected = zip(gold["neg_cache_class"], gold["neg_cache_position"], strict=True)
        assert negative == list(expected)
    else:
        assert negative == []
    arrays = method.state()["arrays"]
    ranked = np.lexsort((arrays["positive/rank"], arrays["positive/labels"]))
    entropies = -arrays["positive/priorities"][ranked]
    np.testing.assert_allclose(entropies, gold["pos_cache_loss"], rtol=0, atol=2e-5)
