import dataclasses
import math

import numpy as np
import pytest
from helpers import reference
from helpers.making import make_stream
from hypothesis import given
from hypothesis import strategies as st

from marc.errors import MarcError
from marc.scores import unit
from marc.stream import Stream
from marc.stream.predictor import Predictor
from marc.types import Query, Run, Step, Trajectory

PREDICTOR = Predictor(unit(np.random.default_rng(0).standard_normal((5, 8))), 20.0)


def arrays_of(query):
    keys = {name: query.keys[name] for name in query.keys}
    prototypes = query.predictor.prototypes
    return {"views": query.views, "prototypes": prototypes, **vars(query.base), **keys}


def live_query(views=None, keys=None):
    views = np.ones(8) if views is None else views
    return Query.from_features(views, PREDICTOR, keys or {}, item=7)


def make_run(predictions, base_predictions, labels):
    order = np.random.default_rng(0).permutation(len(predictions))
    trajectory = Trajectory(order, np.array(base_predictions), np.zeros(len(predictions)))
    labels = None if labels is None else np.array(labels)
    answers = np.array(predictions), np.array(base_predictions)
    return Run({}, *answers, trajectory, labels, np.zeros(len(predictions)))


def test_logits_equal_the_reference():
    views = np.random.default_rng(1).standard_normal((3, 8))
    expected = reference.view_logits(views, PREDICTOR.prototypes, 20.0)
    logits = PREDICTOR.logits(unit(views))
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    assert PREDICTOR.n_classes == 5


@pytest.mark.parametrize("n_images", [1, 2, 7, 60])
@pytest.mark.parametrize("n_views", [1, 2, 20])
def test_equal_prototypes_tie_and_the_lower_class_wins_in_any_batch(n_images, n_views):
    draw = np.random.default_rng(n_images)
    text = draw.permutation(np.arange(51) % 25)  # sizes at which a plain product breaks ties
    prototypes = draw.standard_normal((25, 64))[text]
    views = draw.standard_normal((n_images, n_views, 64))
    stream = Stream.from_arrays(views, prototypes)
    live = [Query.from_features(v, stream.features.predictor, {}, item=0).base for v in views]
    for base in [stream.features.base.at(item) for item in range(n_images)] + live:
        for same in (np.flatnonzero(text == number) for number in range(25)):
            assert len(set(base.logits[same])) == 1
            assert base.label not in same[1:]


def test_a_query_has_no_field_for_the_true_label():
    fields = [field.name for field in dataclasses.fields(Query)]
    assert fields == ["item", "views", "base", "keys", "predictor", "pixels", "generated"]


def test_no_array_of_a_query_equals_the_labels():
    stream = make_stream()
    for query in stream:
        assert not any(np.array_equal(array, stream.labels) for array in arrays_of(query).values())


def test_queries_are_the_same_whatever_the_labels():
    stream = make_stream(n_views=2)
    features = stream.features
    streams = [
        Stream.from_arrays(
            features.views, features.predictor.prototypes, features.spaces, labels=labels
        )
        for labels in (stream.row_labels, (stream.row_labels + 1) % 5, None)
    ]
    for queries in zip(*streams, strict=True):
        plain, *others = (arrays_of(query) for query in queries)
        for other in others:
            for name, array in plain.items():
                np.testing.assert_array_equal(array, other[name])


@pytest.mark.parametrize("n_views", [1, 20])
def test_a_live_query_equals_the_stored_one(n_views):
    stream = make_stream(n_views=n_views)
    features = stream.features
    for item in range(len(stream)):
        stored = stream.query(item)
        raw = {name: 3.0 * features.spaces[name][item] for name in stream.spaces}
        live = Query.from_features(features.views[item], features.predictor, raw, item=item)
        assert live.item == item
        for name, array in arrays_of(stored).items():
            if name != "label":
                np.testing.assert_allclose(arrays_of(live)[name], array, atol=1e-5)
        runner_up, best = np.sort(stored.base.logits)[-2:]
        assert live.base.label == stored.base.label or best - runner_up < 1e-4


def test_a_live_query_may_have_one_view_without_an_axis():
    feature = np.arange(1.0, 9.0)
    np.testing.assert_array_equal(live_query(feature).views, live_query(feature[np.newaxis]).views)
    np.testing.assert_array_equal(live_query(feature).clip_key, unit(feature))


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_live_features_that_are_zero_or_not_finite_are_refused(value):
    with pytest.raises(MarcError, match="views of item 7 must be finite"):
        live_query(views=np.full(8, value))
    with pytest.raises(MarcError, match="key 'good' of item 7 must be finite"):
        live_query(keys={"good": np.full(6, value)})


@pytest.mark.parametrize("shape", [(7,), (2, 9), (0, 8), (2, 2, 8), ()])
def test_live_views_of_a_wrong_shape_are_refused(shape):
    with pytest.raises(MarcError):
        live_query(views=np.ones(shape))


@pytest.mark.parametrize("shape", [(2, 6), (0,), ()])
def test_a_live_key_of_a_wrong_shape_is_refused(shape):
    with pytest.raises(MarcError):
        live_query(keys={"good": np.ones(shape)})


def test_a_space_that_a_live_query_does_not_have_is_refused():
    query = live_query(keys={"good": np.ones(6)})
    with pytest.raises(MarcError) as refused:
        query.key("bad")
    assert str(refused.value) == (
        "there is no space 'bad'.\n  got:  bad\n  allowed:  good, predictor"
    )
    np.testing.assert_array_equal(query.key("predictor"), query.clip_key)


def test_a_step_adds_weighted_evidence_to_the_base():
    base = np.array([1.0, 2.0, 0.0], dtype=np.float32)
    evidence = {"retrieval": np.array([0.5, 0.0, 1.0]), "negative": np.array([0.0, 4.0, 0.0])}
    step = Step(3, base, evidence, {"retrieval": 2.0, "negative": -0.5}, 1, 0.0)
    assert step.logits.dtype == np.float64
    assert step.logits.tolist() == [2.0, 0.0, 2.0]
    assert step.prediction == 0
    assert step.base_prediction == 1
    assert dataclasses.replace(step, base_weight=0.0).logits.tolist() == [1.0, -2.0, 2.0]
    assert base.tolist() == [1.0, 2.0, 0.0]


arrivals = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([0.0, -0.5, 0.25, 0.5, math.inf])), max_size=25
)


@given(arrivals, st.integers(0, 30), st.integers(0, 6), st.randoms(use_true_random=False))
def test_retained_equals_a_memory_of_plain_lists(pairs, position, capacity, random):
    order = random.sample(range(100), len(pairs))
    memory = {}
    for arrival, (label, priority) in list(enumerate(pairs))[:position]:
        entry = {"item": order[arrival], "priority": priority, "arrival": arrival}
        reference.write(memory, label, entry, capacity)
    trajectory = Trajectory(
        np.array(order, dtype=np.int64),
        np.array([label for label, _ in pairs], dtype=np.int64),
        np.array([priority for _, priority in pairs], dtype=np.float64),
    )
    assert trajectory.retained(position, capacity) == reference.held_items(memory)
    assert list(trajectory.retained(position, capacity)) == sorted(memory)


def test_a_memory_without_capacity_retains_no_class():
    trajectory = Trajectory(np.arange(3), np.zeros(3, dtype=np.int64), np.zeros(3))
    assert trajectory.retained(3, 0) == {}


@pytest.mark.parametrize(("position", "capacity"), [(-1, 1), (1.0, 1), (1, -1), (1, 1.5)])
def test_retained_refuses_what_is_no_whole_number(position, capacity):
    trajectory = Trajectory(np.arange(3), np.zeros(3, dtype=np.int64), np.zeros(3))
    with pytest.raises(MarcError, match="must be an integer >= 0"):
        trajectory.retained(position, capacity)


CLASSES = st.integers(0, 2)


@given(st.lists(st.tuples(CLASSES, CLASSES, CLASSES), min_size=1, max_size=40))
def test_gain_is_repairs_minus_regressions_over_images(answers):
    predictions, base_predictions, labels = zip(*answers, strict=True)
    run = make_run(predictions, base_predictions, labels)
    with_memory = [p == y for p, _, y in answers]
    without = [b == y for _, b, y in answers]
    assert run.correct.tolist() == with_memory
    assert run.base_correct.tolist() == without
    assert run.accuracy == pytest.approx(sum(with_memory) / len(answers))
    assert run.base_accuracy == pytest.approx(sum(without) / len(answers))
    assert run.gain == pytest.approx((len(run.repairs) - len(run.regressions)) / len(answers))
    pairs = list(zip(run.order.tolist(), with_memory, without, strict=True))
    assert run.repairs.tolist() == [item for item, now, before in pairs if now and not before]
    assert run.regressions.tolist() == [item for item, now, before in pairs if before and not now]


@pytest.mark.parametrize(
    "name",
    [
        "correct",
        "base_correct",
        "accuracy",
        "base_accuracy",
        "gain",
        "repairs",
        "regressions",
    ],
)
def test_a_run_without_labels_says_why_it_cannot_be_scored(name):
    run = make_run([0, 1], [1, 1], None)
    assert run.predictions.tolist() == [0, 1]
    with pytest.raises(MarcError) as refused:
        getattr(run, name)
    assert str(refused.value) == (
        "this stream has no labels, so accuracy cannot be measured.\n"
        "  try:  labels=... in Stream.from_arrays, or run.predictions"
    )
