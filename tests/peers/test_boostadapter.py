"""BoostAdapter against its numbered steps, its traps, and the released outputs."""

import copy

import numpy as np
import pytest
from helpers.gold import gold as released
from helpers.gold import gold_stream
from helpers.making import make_stream
from helpers.tda_twin import assert_same_steps, tied_stream

import marc
from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers.boostadapter import BoostAdapter, _RankedMemory
from marc.peers.contract import _same_arrays as same_arrays
from marc.peers.contract import check_method
from marc.peers.registry import METHODS
from marc.peers.tda import TDA
from marc.pictures import NAMED_SETS

CARD = METHODS["boostadapter"]

FRACTIONS = {1: 0.1, 2: 1.0, 8: 0.5, 64: 0.1}
SETTINGS = [
    {"query": "aggregated", "delta": 3},
    {"query": "view0", "delta": 0, "capacity": 2, "alpha": 3.0},
    {"query": "view0", "delta": 1, "capacity": 1, "negative_eviction": "entropy"},
]


def held(method):
    """(class, entropy) in the positive memory, best first, and in the negative one, by age."""
    arrays = method.state()["arrays"]
    priorities = arrays["positive/priorities"]
    positive = [(c, -priorities[c, rank]) for c, rank in np.argwhere(priorities > -np.inf).tolist()]
    arrival = arrays["negative/arrival"]
    label = np.arange(len(arrival)) // method.negative_capacity
    slots = np.flatnonzero(arrival)
    slots = slots[np.lexsort((arrival[slots], label[slots]))]
    negative = [(int(label[s]), -arrays["negative/priority"][s]) for s in slots]
    return positive, negative


def held_by(twin):
    positive = [(c, e[0]) for c in sorted(twin.positive) for e in twin.positive[c]]
    by_age = {c: sorted(entries, key=lambda e: e[3]) for c, entries in twin.negative.items()}
    return positive, [(c, e[0]) for c in sorted(by_age) for e in by_age[c]]


def assert_same_contents(actual, expected, tolerance=1e-9):
    assert [c for c, _ in actual] == [c for c, _ in expected]
    np.testing.assert_allclose(
        [e for _, e in actual], [e for _, e in expected], rtol=0, atol=tolerance
    )


@pytest.mark.parametrize("n_views", FRACTIONS)
@pytest.mark.parametrize("n_classes", [2, 5, 40, 200])
def test_it_follows_the_numbered_steps(n_classes, n_views):
    stored = 0
    for seed, settings in enumerate(SETTINGS):
        n_images = 30 if n_views == 64 else 60
        stream = tied_stream(seed, n_images, n_views, n_classes)
        method = BoostAdapter(fraction=FRACTIONS[n_views], **settings)
        twin = assert_same_steps(method, stream, boosts=True)
        for actual, expected in zip(held(method), held_by(twin), strict=True):
            assert_same_contents(actual, expected)
        stored += len(held(method)[1])
    assert stored > 4


def test_boosting_views_vote_but_are_not_stored():
    """X13: the memory that stays is that of no boosting at all, up to what is answered."""
    stream = make_stream(1, n_images=80, n_views=10)
    plain = make_stream(1, n_images=80, n_views=10).with_views(1)
    boosted, alone = (BoostAdapter(query="view0", fraction=0.5) for _ in range(2))
    different = 0
    for query, single in zip(stream, plain, strict=True):
        with_views, without = boosted.step(query), alone.step(single)
        different += not np.allclose(
            with_views.evidence["positive"], without.evidence["positive"], atol=1e-4
        )
        np.testing.assert_allclose(
            with_views.evidence["negative"], without.evidence["negative"], atol=1e-4
        )
    assert different > 60
    assert_same_contents(held(boosted)[0], held(alone)[0], tolerance=1e-4)


def test_places_are_shared_even_without_extra_ones():
    """With delta 0 a confident view takes the place of a stored image, for one answer."""
    stream = tied_stream(0, 60, n_views=8)
    steps = [
        list(iter_steps(BoostAdapter(delta=delta, capacity=1, fraction=0.5), stream))
        for delta in (0, 20)
    ]
    few, many = (np.array([step.evidence["positive"] for step in each]) for each in steps)
    assert (few <= many + 1e-9).all()
    assert few.max() <= 2.0 + 1e-5  # one place, alpha 2
    assert many.max() > 4


@pytest.mark.parametrize("query", ["aggregated", "view0"])
def test_with_one_view_it_is_tda_but_for_the_age_rule(query):
    stream = tied_stream(2, 120)
    ours = list(iter_steps(BoostAdapter(query=query, negative_eviction="entropy"), stream))
    tda = list(iter_steps(TDA(), stream))
    for mine, theirs in zip(ours, tda, strict=True):
        np.testing.assert_allclose(mine.logits, theirs.logits, rtol=0, atol=1e-5)
        assert (mine.label, mine.priority) == (theirs.label, theirs.priority)
    by_age = list(iter_steps(BoostAdapter(query=query), stream))
    against = [np.array([step.evidence["negative"] for step in each]) for each in (by_age, tda)]
    assert not np.allclose(*against)


def test_of_equal_priorities_the_earlier_stays():
    """X2: also among the places of a class that is not full."""
    memory = _RankedMemory.empty(2, 2, 3)
    first, second, third = np.eye(3, dtype=np.float32)
    assert memory.write(first, 1, -0.5)
    assert memory.write(second, 1, -0.5)
    assert not memory.write(third, 1, -0.5)
    assert np.array_equal(memory.keys[1], [first, second])
    assert memory.write(third, 1, -0.4)
    assert np.array_equal(memory.keys[1], [third, first])
    assert not memory.keys[0].any()


def test_equal_images_keep_the_earlier_but_the_negative_memory_forgets_by_age():
    """X2, and the released rule."""
    features = make_stream(1, n_images=1).features
    stream = marc.Stream.from_arrays(
        np.repeat(features.views, 6, axis=0), features.predictor.prototypes
    )
    method = BoostAdapter(band_low=0.0, band_high=1.0)
    run(method, stream)
    arrays = method.state()["arrays"]
    assert sorted(arrays["negative/arrival"][arrays["negative/arrival"] > 0]) == [5, 6]
    method = BoostAdapter(band_low=0.0, band_high=1.0, negative_eviction="entropy")
    run(method, stream)
    arrays = method.state()["arrays"]
    assert sorted(arrays["negative/arrival"][arrays["negative/arrival"] > 0]) == [1, 2]


def test_a_first_image_votes_for_itself():
    """X1."""
    step = BoostAdapter(alpha=2.5).step(make_stream(0).query(0))
    assert step.evidence["positive"][step.label] == pytest.approx(2.5, rel=1e-5)
    assert np.count_nonzero(step.evidence["positive"]) == 1  # X24


def test_of_two_identical_prototypes_the_lower_is_answered():
    """X3."""
    for seed, n_views in [(0, 1), (1, 8), (2, 8)]:
        stream = tied_stream(seed, 100, n_views, n_classes=7)
        method = BoostAdapter(fraction=0.25, beta=40.0, negative_weight=2.0, capacity=1)
        assert all(step.prediction != 3 for step in iter_steps(method, stream))


@pytest.mark.parametrize("query", ["aggregated", "view0"])
@pytest.mark.parametrize("n_views", range(2, 10))
def test_a_share_that_keeps_no_view_is_refused(n_views, query):
    """X4."""
    image = make_stream(0, n_images=2, n_views=n_views).query(0)
    with pytest.raises(MarcError, match=f"boostadapter keeps .* none of {n_views}"):
        BoostAdapter(query=query).step(image)
    BoostAdapter(query=query, fraction=1 / n_views).step(image)


def test_a_step_that_is_refused_stores_nothing():
    method = BoostAdapter()
    run(method, make_stream(0))
    before = copy.deepcopy(method.state()["arrays"])
    with pytest.raises(MarcError, match="none of 2"):
        method.step(make_stream(0, n_views=2).query(0))
    with pytest.raises(MarcError, match="does not fit"):
        method.step(make_stream(0, n_classes=6).query(0))
    same_arrays(before, method.state()["arrays"])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"query": "view0", "delta": 0, "negative_capacity": 1, "negative_beta": 3.0},
        {"negative_weight": 0.0},
        {"capacity": 0, "delta": 0},
    ],
    ids=str,
)
def test_it_keeps_the_contract_of_methods(settings):
    check_method(lambda: BoostAdapter(**settings))


def test_a_damaged_state_is_refused():
    method = BoostAdapter()
    run(method, make_stream(0))
    state = method.state()
    state["arrays"]["positive/priorities"] = state["arrays"]["positive/priorities"][:, :2]
    with pytest.raises(MarcError, match="damaged"):
        BoostAdapter.from_state(state)
    with pytest.raises(MarcError, match="nothing was seen"):
        BoostAdapter().state()


@pytest.mark.parametrize(
    "settings",
    [
        {"delta": -1},
        {"query": "view1"},
        {"negative_eviction": "random"},
        {"capacity": -1},
        {"alpha": -1.0},
        {"fraction": 2},
        {"band_low": 0.9},
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(MarcError, match=next(iter(settings))):
        BoostAdapter(**settings)


def test_published_settings_are_settings_of_known_data_sets():
    assert set(CARD.published) == set(NAMED_SETS) - {"imagenet-val"}  # one view there: TDA
    assert CARD.published["imagenet-a"] == {
        "query": "aggregated",
        "delta": 3,
        "alpha": 2.0,
        "beta": 5.0,
    }
    for settings in CARD.published.values():
        assert BoostAdapter(**settings).config()["negative_eviction"] == "age"
    config = BoostAdapter(**CARD.published["imagenet-a"]).config()
    assert config == BoostAdapter().config()


@pytest.mark.parametrize("pack", ["office_caltech", "caltech101_test"])
@pytest.mark.parametrize(("query", "delta"), [("view0", 2), ("aggregated", 3)])
def test_it_gives_the_released_outputs(pack, query, delta):
    gold, stream = released(f"boostadapter_query_{query}_{pack}"), gold_stream(pack)
    method = BoostAdapter(query=query, delta=delta, fraction=0.25)
    steps = list(iter_steps(method, stream))
    base, logits = np.array([s.base for s in steps]), np.array([s.logits for s in steps])
    np.testing.assert_allclose(base, gold["query_logits"], rtol=0, atol=5e-5)
    np.testing.assert_allclose(logits, gold["logits"], rtol=0, atol=5e-5)
    assert [step.prediction for step in steps] == gold["pred"].tolist()
    for kind, actual in zip(("pos", "neg"), held(method), strict=True):
        expected = zip(gold[f"{kind}_cache_class"], gold[f"{kind}_cache_loss"], strict=True)
        assert_same_contents(actual, list(expected), tolerance=2e-5)
