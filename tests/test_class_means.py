"""Class means: against a twin that starts over at every image, and what they must never do."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.class_means_twin import answers
from helpers.making import make_stream

import marc
from marc.class_means import ClassMeans, _relative_trust, principal_directions
from marc.errors import MarcError, check_spaces
from marc.loop import iter_steps, run
from marc.replay.replay import replay
from marc.stream import Stream
from marc.types import Query


def with_spaces(stream, spaces):
    """The same images, seen in other spaces."""
    checked = check_spaces(spaces, len(stream))
    return replace(stream, features=replace(stream.features, spaces=checked))


def part(stream, *where):
    """Some positions of a stream."""
    return replace(stream, order=stream.order[slice(*where)])


def a_class_that_is_never_predicted():
    """The third class lies opposite to every image."""
    stream = make_stream(4, n_images=60, n_classes=4)
    prototypes = stream.features.predictor.prototypes.copy()
    prototypes[2] = -stream.features.views[:, 0].mean(axis=0)
    keys = stream.features.spaces
    return Stream.from_arrays(stream.features.views, prototypes, keys, logit_scale=100.0)


def ties():
    """Twin prototypes, and two classes whose images are the same: equal answers everywhere."""
    stream = make_stream(5, n_images=64, n_classes=3)
    prototypes = np.concatenate([stream.features.predictor.prototypes] * 2)
    return Stream.from_arrays(stream.features.views, prototypes, stream.features.spaces)


def identical_images():
    """The second half is the first half again."""
    stream = make_stream(6, n_images=36)
    twice = np.tile(np.arange(36), 2)
    spaces = {space: keys[twice] for space, keys in stream.features.spaces.items()}
    prototypes = stream.features.predictor.prototypes
    return Stream.from_arrays(stream.features.views[twice], prototypes, spaces)


def constant_features():
    """A space in which all images are one."""
    stream = make_stream(7, n_images=60)
    return with_spaces(stream, {**stream.features.spaces, "bad": np.ones((60, 6))})


def narrow(spread):
    """Spaces in which images differ by little, so that most digits of a product cancel."""
    stream = make_stream(12, n_images=60)
    keys = stream.features.spaces.items()
    return with_spaces(stream, {space: np.ones(6) + spread * key for space, key in keys})


def a_strong_direction():
    """Most of the variance of each space is one direction that has no part in the classes."""
    stream = make_stream(8, n_images=90, space_dim=20)
    style = np.random.default_rng(0).standard_normal((90, 1)) * np.linspace(-1, 1, 20)
    return with_spaces(stream, {s: k + 2 * style for s, k in stream.features.spaces.items()})


STREAMS = {
    "usual": lambda: make_stream(0, n_images=70).shuffled(1),
    "short": lambda: make_stream(1, n_images=47),
    "two classes": lambda: make_stream(2, n_images=70, n_classes=2),
    "many dimensions": lambda: make_stream(3, n_images=85, dim=24, space_dim=30),
    "one dimension of doubt": lambda: make_stream(9, n_images=70, dim=3, space_dim=2),
    "a poor predictor": lambda: make_stream(10, n_images=90, logit_scale=3.0),
    "a sure predictor": lambda: make_stream(11, n_images=70, logit_scale=60.0),
    "a class that is never predicted": a_class_that_is_never_predicted,
    "ties": ties,
    "identical images": identical_images,
    "constant features": constant_features,
    "narrow spaces": lambda: narrow(1e-3),
    "a strong direction": a_strong_direction,
}


def steps_and_weights(method, stream):
    """Every step, and the place in the grid of the weight that it was made with."""
    steps, places = [], [0]
    for step in iter_steps(method, stream):
        steps.append(step)
        places.append(int(method.state()["arrays"]["answers/scores"].argmax()))
    return steps, places[:-1]


@pytest.mark.parametrize("names", [["good"], ["good", "bad", "predictor"]])
@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_every_step_is_that_of_the_twin(stream, names):
    stream = stream()
    features, order = stream.features, stream.order
    keys = {space: features.keys(space)[order] for space in [*names, "predictor"]}
    steps, places = steps_and_weights(ClassMeans(names), stream)
    expected = answers(features.base.logits[order], keys, names, places)
    for t, (step, slow) in enumerate(zip(steps, expected, strict=True)):
        assert list(step.evidence) == list(slow.evidence)
        for name, evidence in slow.evidence.items():
            at = f"{name} at image {t}"
            np.testing.assert_allclose(step.evidence[name], evidence, 0, 2e-6, err_msg=at)
            assert step.weights[name] == pytest.approx(slow.weights[name], abs=1e-6), at
        assert step.priority == pytest.approx(slow.trust, abs=1e-9)
        assert step.prediction == slow.prediction


@pytest.mark.parametrize("names", ["good", ["good", "bad"], ["predictor"], "all"])
@pytest.mark.parametrize("n_images", [1, 16, 47, 160])
def test_a_replay_is_the_run(names, n_images):
    stream = part(make_stream(3, n_images=160, dim=24, space_dim=30).shuffled(2), n_images)
    online, offline = run(ClassMeans(names), stream), replay(ClassMeans(names), stream)
    assert np.array_equal(online.predictions, offline.predictions)
    assert np.array_equal(online.base_predictions, offline.base_predictions)
    assert online.method == offline.method
    assert list(online.space_weights) == list(offline.space_weights)
    for space, weights in online.space_weights.items():
        np.testing.assert_allclose(offline.space_weights[space], weights, rtol=0, atol=1e-9)
    np.testing.assert_allclose(offline.weights, online.weights, rtol=0, atol=1e-9)
    both = online.trajectory, offline.trajectory
    np.testing.assert_allclose(both[0].priority, both[1].priority, rtol=0, atol=1e-9)
    assert np.array_equal(both[0].label, both[1].label)
    for sure, other in zip(vars(online.certainty), vars(offline.certainty), strict=True):
        np.testing.assert_allclose(
            getattr(online.certainty, sure), getattr(offline.certainty, other), atol=1e-6
        )


@pytest.mark.parametrize("position", [1, 15, 16, 17, 47, 48])
def test_a_snapshot_goes_on_as_if_it_had_never_stopped(position, tmp_path):
    stream = make_stream(0, n_images=80)
    method = ClassMeans(["bad", "good"])
    list(iter_steps(method, part(stream, position)))
    marc.save_snapshot(method, tmp_path / "memory.safetensors")
    restored = marc.load_snapshot(tmp_path / "memory.safetensors")
    again = ClassMeans.from_state(method.state())
    assert restored.config() == again.config() == method.config()
    rest = part(stream, position, None)
    for steps in zip(*(iter_steps(each, rest) for each in (method, restored, again)), strict=True):
        for other in steps[1:]:
            assert np.array_equal(steps[0].logits, other.logits)
            assert (steps[0].weights, steps[0].priority) == (other.weights, other.priority)


@pytest.mark.parametrize("position", [5, 16, 50])
def test_a_later_image_changes_no_earlier_answer(position):
    stream = make_stream(1, n_images=80)
    whole, first = (replay(ClassMeans(), each) for each in (stream, part(stream, position)))
    assert np.array_equal(whole.predictions[:position], first.predictions)
    for space, weights in first.space_weights.items():
        assert np.array_equal(whole.space_weights[space][:position], weights)
    changed = np.arange(80) >= position
    draw = np.random.default_rng(0)
    spaces = {
        space: np.where(changed[:, np.newaxis], draw.standard_normal(keys.shape), keys)
        for space, keys in stream.features.spaces.items()
    }
    other = replay(ClassMeans(), with_spaces(stream, spaces))
    assert np.array_equal(whole.predictions[:position], other.predictions[:position])
    assert not np.array_equal(whole.weights, other.weights)


def test_the_answer_is_the_base_and_what_each_part_adds():
    for step in iter_steps(ClassMeans(), make_stream(2, logit_scale=5.0)):
        added = sum(step.weights[name] * step.evidence[name] for name in step.evidence)
        np.testing.assert_allclose(step.logits, step.base + added, rtol=1e-12)
        assert list(step.evidence) == ["good", "bad", "predictor", "class marginals"]
        assert step.spaces == ("good", "bad", "predictor")
        assert step.label == step.base_prediction


def test_the_first_image_is_answered_without_memory():
    [first, *_] = iter_steps(ClassMeans(), make_stream())
    assert np.array_equal(first.logits, first.base)
    assert first.priority == 0
    assert not any(first.evidence[space].any() for space in first.spaces)


def test_a_space_that_is_flat_but_for_rounding_says_nothing():
    for step in iter_steps(ClassMeans("good"), narrow(3e-6)):
        assert not step.evidence["good"].any()


def test_a_predictor_without_doubt_is_left_alone():
    stream = make_stream(0, n_images=100, logit_scale=1e6)
    assert (stream.features.base.logits.max(axis=1) > 1e4).all()
    found = run(ClassMeans(), stream)
    assert np.array_equal(found.predictions, found.base_predictions)
    assert not found.weights.any()


@pytest.fixture(scope="module")
def long_stream():
    """2,000 images, with a space of noise and one of other images' keys."""
    stream = make_stream(0, n_images=2000, logit_scale=8.0)
    draw, good = np.random.default_rng(1), stream.features.spaces["good"]
    spaces = {"good": good, "noise": draw.standard_normal((2000, 64)), "others": good[::-1]}
    return with_spaces(stream, spaces)


@pytest.mark.parametrize("space", ["noise", "others"])
def test_a_space_that_means_nothing_costs_nothing(long_stream, space):
    for seed in range(3):
        stream = long_stream.shuffled(seed)
        found = replay(ClassMeans(space), stream)
        assert abs(found.gain) <= 0.0005
        assert found.trajectory.priority[1000:].max() < 0.03


def test_a_space_that_means_nothing_hardly_changes_what_a_good_one_gains(long_stream):
    good = replay(ClassMeans("good"), long_stream).gain
    assert good > 0.06
    for more in (["noise"], ["others"], ["noise", "others"]):
        both = replay(ClassMeans(["good", *more]), long_stream)
        assert both.gain == pytest.approx(good, abs=0.005)
        for space in more:
            assert both.space_weights[space][1000:].max() < 0.05 * both.weights[1000:].min()


def test_spaces_are_named_one_by_one_or_all_at_once():
    stream = make_stream(n_images=40)
    assert ClassMeans().config() == {"method": "class-means", "spaces": "all"}
    assert ClassMeans("good").config() == ClassMeans(["good"]).config()
    assert ClassMeans(("good", "bad")).config()["spaces"] == ["good", "bad"]
    every = replay(ClassMeans(), stream)
    named = replay(ClassMeans(["good", "bad", "predictor"]), stream)
    assert np.array_equal(every.weights, named.weights)
    assert list(every.space_weights) == ["good", "bad", "predictor"]
    transformed = replay(ClassMeans("good+center"), stream)
    assert list(transformed.space_weights) == ["good+center"]


def test_a_space_that_is_not_there_is_refused():
    stream = make_stream()
    for attempt in (run, replay):
        with pytest.raises(MarcError, match=r"there is no space 'missing'[^$]*good"):
            attempt(ClassMeans(["good", "missing"]), stream)
    with pytest.raises(MarcError, match="there is no space 'missing'"):
        ClassMeans("missing").step(stream.query(0))


@pytest.mark.parametrize(("spaces", "got"), [([], "none"), (["a", "b", "a"], "a, b, a")])
def test_no_space_or_one_that_is_named_twice_is_refused(spaces, got):
    with pytest.raises(MarcError, match="each named once") as refused:
        ClassMeans(spaces)
    assert refused.value.got == got


def test_spaces_may_come_in_any_order_and_under_any_name():
    stream, features = make_stream(), make_stream().features
    named = {"retrieval": features.keys("good"), "mean": features.keys("bad")}
    method, other = ClassMeans(), ClassMeans()
    for item in range(30):
        keys = {name: each[item] for name, each in named.items()}
        turned = dict(reversed(keys.items())) if item % 2 else keys
        image = features.views[item], features.predictor
        first = method.step(Query.from_features(*image, keys, item=item))
        second = other.step(Query.from_features(*image, turned, item=item))
        np.testing.assert_allclose(first.logits, second.logits, rtol=1e-12)
    renamed = with_spaces(stream, named)
    online, offline = (each(ClassMeans(), renamed) for each in (run, replay))
    np.testing.assert_allclose(online.weights, offline.weights, atol=1e-9)


def test_what_is_no_name_is_refused():
    for wrong in (3, None, [3], [None], ["good", 3], np.array(["good", "bad"])):
        with pytest.raises(MarcError, match="must be a name"):
            ClassMeans(wrong)


def test_a_query_that_does_not_fit_is_refused_and_not_remembered():
    method, stream = ClassMeans(), make_stream()
    list(iter_steps(method, part(stream, 20)))
    before = method.state()["arrays"]
    fewer = with_spaces(stream, {"good": stream.features.spaces["good"]})
    for other, problem in [
        (make_stream(n_classes=6), r"does not fit[^$]*6 classes[^$]*5 classes"),
        (make_stream(space_dim=7), r"does not fit[^$]*7 dimensions[^$]*6 dimensions"),
        (make_stream(dim=9), r"does not fit[^$]*9 dimensions[^$]*8 dimensions"),
        (fewer, r"other spaces[^$]*good, predictor[^$]*good, bad, predictor"),
    ]:
        with pytest.raises(MarcError, match=problem):
            method.step(other.query(0))
    after = method.state()["arrays"]
    assert all(np.array_equal(before[name], after[name]) for name in before)


def damaged(change):
    """The state of a method that saw images, with its arrays or names changed."""
    method = ClassMeans(["good", "bad"])
    list(iter_steps(method, part(make_stream(), 20)))
    state = method.state()
    return {**state, **change(state)}


def arrays_but(state, **changed):
    arrays = {name.replace("/", "__"): array for name, array in state["arrays"].items()}
    kept = {name: array for name, array in {**arrays, **changed}.items() if array is not None}
    return {"arrays": {name.replace("__", "/"): array for name, array in kept.items()}}


EVERY_ARRAY = sorted(damaged(lambda state: {})["arrays"])


@pytest.mark.parametrize("name", EVERY_ARRAY)
@pytest.mark.parametrize("kind", ["missing", "longer", "one number", "wider"])
def test_a_damaged_array_is_refused(name, kind):
    def change(state):
        array = state["arrays"][name]
        other = {
            "missing": None,
            "longer": np.concatenate([array, array[:1]]),
            "one number": np.float64(1),
            "wider": np.stack([array, array], axis=-1),
        }[kind]
        return arrays_but(state, **{name.replace("/", "__"): other})

    with pytest.raises(MarcError, match="the stored class means are damaged"):
        ClassMeans.from_state(damaged(change))


@pytest.mark.parametrize(
    "change",
    [
        lambda state: {"names": ["good", "bad"]},  # without the predictor's own
        lambda state: {"names": ["good", "good", "predictor"]},
        lambda state: {"names": [*state["names"], "more"]},
        lambda state: {"names": []},
        lambda state: {"names": None},
        lambda state: arrays_but(state, more=np.ones(3)),
        lambda state: arrays_but(state, means__more=np.ones(3)),
        lambda state: {"arrays": {}},
    ],
)
def test_a_state_whose_parts_do_not_fit_is_refused(change):
    with pytest.raises(MarcError, match="the stored class means are damaged"):
        ClassMeans.from_state(damaged(change))


def test_a_state_needs_an_image():
    with pytest.raises(MarcError, match="nothing was seen yet"):
        ClassMeans().state()


def principal(images, n=8):
    """Singular values and directions of the centred images, all at once."""
    _, values, directions = np.linalg.svd(images - images.mean(axis=0), full_matrices=False)
    return values[:n], directions[:n]


def followed(images, k=8):
    """The same, sixteen images at a time."""
    dim = images.shape[1]
    found = np.zeros((k, dim)), np.zeros(k), np.zeros(dim)
    for start in range(0, len(images), 16):
        found = principal_directions(*found, start, images[start : start + 16])
    return found


@pytest.mark.parametrize("rank", [1, 3, 7])
def test_principal_directions_are_exact_while_they_are_few(rank):
    draw = np.random.default_rng(rank)
    images = draw.standard_normal((160, rank)) @ draw.standard_normal((rank, 30)) + 3.0
    values, directions = principal(images, rank)
    basis, strengths, center = followed(images)
    np.testing.assert_allclose(center, images.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(strengths[:rank], values, rtol=1e-9)
    np.testing.assert_allclose(strengths[rank:], 0, atol=1e-5)
    np.testing.assert_allclose(np.abs((basis[:rank] * directions).sum(axis=1)), 1, atol=1e-9)


def test_principal_directions_are_close_where_some_are_forgotten():
    draw = np.random.default_rng(0)
    spread = np.r_[8.0, 6, 5, 4, 3, np.full(35, 0.5)]
    images = (
        draw.standard_normal((800, 40)) * spread @ np.linalg.qr(draw.standard_normal((40, 40)))[0]
    )
    values, directions = principal(images, 5)
    basis, strengths, _ = followed(images)
    np.testing.assert_allclose(strengths[:5], values, rtol=0.01)
    assert (np.abs((basis[:5] * directions).sum(axis=1)) > 0.99).all()
    np.testing.assert_allclose(basis @ basis.T, np.eye(8), atol=1e-9)
    assert (np.diff(strengths) <= 0).all()


def test_trust_is_relative_to_the_predictors_own_memory():
    k, own = np.array([0.2, 0.2, 0.2, 0.0, 0.0]), np.array([0.5, 0.5, 0.0, 0.0, 0.5])
    others = [np.array([0.4, 0.9, 0.1, 0.0, 0.0]), np.array([0.3, 0.0, 0.0, 0.0, 0.0])]
    expected = [0.8**1.5, 1.0, 1.0, 0.0, 0.0]
    np.testing.assert_allclose(_relative_trust(k, others, own), expected)
    np.testing.assert_allclose(_relative_trust(k, [], own), k**1.5)
