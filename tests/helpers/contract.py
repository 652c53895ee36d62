"""What every method must do, whatever it computes."""

import copy

import numpy as np

from helpers.making import make_stream
from marc.loop import iter_steps, run
from marc.peers.registry import METHODS, create_method


def check_method(make, n_views=10):
    """Run all checks on methods made by `make()`."""
    stream = make_stream(11, n_images=70, n_views=n_views, n_prompts=5).shuffled(3)
    check_the_first_step(make, stream)
    check_run_is_repeatable(make, stream)
    check_steps_do_not_change_their_input(make, stream)
    check_item_names_do_not_matter(make, stream)
    check_the_baseline_knows_only_its_image(make, stream)
    check_labels_do_not_matter(make, stream)
    check_config_makes_the_same_method(make)
    check_a_state_goes_on(make, stream)
    check_looking_changes_nothing(make, stream)
    check_memory_is_bounded(make)


def check_the_first_step(make, stream):
    """Before anything is stored there is nothing to read, unless the method writes first."""
    step = next(iter_steps(make(), stream))
    assert set(step.evidence) == set(step.weights)
    assert all(evidence.shape == (stream.n_classes,) for evidence in step.evidence.values())
    card = METHODS[make().name]
    if card.name == "marc":  # the order of the others is tested with what they compute
        assert not any(evidence.any() for evidence in step.evidence.values())
    if card.reads_before_writes is None and card.sees == "image" and not card.needs:
        assert not step.evidence  # nothing is remembered, so nothing is read


def check_run_is_repeatable(make, stream):
    method = make()
    first, second, fresh = run(method, stream), run(method, stream), run(make(), stream)
    for other in (second, fresh):
        assert np.array_equal(first.predictions, other.predictions)
        assert np.array_equal(first.base_predictions, other.base_predictions)
        assert np.array_equal(first.trajectory.priority, other.trajectory.priority)


def check_steps_do_not_change_their_input(make, stream):
    method = make()
    features = stream.features
    before = {
        "views": features.views.copy(),
        "good": features.spaces["good"].copy(),
        "logits": features.base.logits.copy(),
        "prototypes": features.predictor.prototypes.copy(),
    }
    list(iter_steps(method, stream))
    assert np.array_equal(before["views"], features.views)
    assert np.array_equal(before["good"], features.spaces["good"])
    assert np.array_equal(before["logits"], features.base.logits)
    assert np.array_equal(before["prototypes"], features.predictor.prototypes)


def check_item_names_do_not_matter(make, stream):
    """Unless draws are keyed by items, the same images under other numbers get the same answers."""
    method = make()
    if method.config().get("policy") == "reservoir":
        return
    renamed = rearranged(stream, labels=None)
    assert np.array_equal(run(method, stream).predictions, run(make(), renamed).predictions)


def check_the_baseline_knows_only_its_image(make, stream):
    """The answer without memory is the same in every order."""
    here = run(make(), stream)
    there = run(make(), stream.shuffled(4))
    by_row = [each.base_predictions[np.argsort(each.order)] for each in (here, there)]
    assert np.array_equal(*by_row)


def check_labels_do_not_matter(make, stream):
    wrong = rearranged(stream, labels=np.zeros(len(stream), dtype=int))
    right = rearranged(stream, labels=stream.labels)
    assert np.array_equal(run(make(), wrong).predictions, run(make(), right).predictions)


def check_config_makes_the_same_method(make):
    config = make().config()
    again = create_method(config["method"], **{k: v for k, v in config.items() if k != "method"})
    assert again.config() == config


def check_a_state_goes_on(make, stream):
    """A method restored from its state answers as if it had never stopped."""
    method = make()
    size = 20 if getattr(method, "batch_size", 1) == 1 else len(stream) // 2
    first, second = parts(stream, size)
    list(iter_steps(method, first))
    state = method.state()
    assert all(isinstance(array, np.ndarray) for array in state["arrays"].values())
    restored = METHODS[method.name].factory.from_state(state)
    for array in state["arrays"].values():
        if array.dtype.kind in "fi":
            array[...] = 0  # the restored method holds its own
    assert restored.config() == method.config()
    for mine, theirs in zip(iter_steps(method, second), iter_steps(restored, second), strict=True):
        assert np.array_equal(mine.logits, theirs.logits)
        assert (mine.label, mine.priority) == (theirs.label, theirs.priority)
    same_arrays(method.state()["arrays"], restored.state()["arrays"])


def check_looking_changes_nothing(make, stream):
    """To read a state, or an answer twice, leaves the memory as it is."""
    first, second = parts(stream, len(stream) // 2)
    method, undisturbed = make(), make()
    for one in (method, undisturbed):
        list(iter_steps(one, first))
    before = copy.deepcopy(method.state()["arrays"])
    for array in method.state()["arrays"].values():
        if array.dtype.kind in "fi":
            array[...] = 0  # a copy: nobody writes into the memory through it
    same_arrays(before, method.state()["arrays"])
    for mine, theirs in zip(
        iter_steps(method, second), iter_steps(undisturbed, second), strict=True
    ):
        assert np.array_equal(mine.logits, theirs.logits)


def check_memory_is_bounded(make):
    """Once the classes are full nothing grows; few-shot images are given, not remembered."""
    if "shots" in METHODS[make().name].needs:
        return
    stream = make_stream(2, n_images=500, n_views=1, n_classes=2, n_prompts=5)
    method = make()
    sizes = []
    for part in parts(stream, 400):
        list(iter_steps(method, part))
        sizes.append(sum(array.size for array in method.state()["arrays"].values()))
    assert sizes[1] <= sizes[0]


def rearranged(stream, labels):
    """The same images stored in the order of the stream, under new numbers."""
    features, order = stream.features, stream.order
    return type(stream).from_arrays(
        features.views[order],
        features.predictor.prototypes,
        {name: keys[order] for name, keys in features.spaces.items()},
        logit_scale=features.predictor.logit_scale,
        prompts=features.predictor.prompts.rows,
        prompt_class=features.predictor.prompts.class_of,
        labels=labels,
    )


def parts(stream, size):
    """The first `size` images and the rest, as streams of their own."""
    from dataclasses import replace

    return (
        replace(stream, order=stream.order[:size]),
        replace(stream, order=stream.order[size:]),
    )


def same_arrays(first, second):
    assert set(first) == set(second)
    for name in first:
        assert np.array_equal(first[name], second[name], equal_nan=first[name].dtype.kind == "f")
