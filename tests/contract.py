"""What every method must do, whatever it computes."""

import numpy as np
from making import make_stream

from marc.loop import iter_steps, run


def check_method(make):
    """Run all checks on methods made by `make()`."""
    stream = make_stream(11, n_images=70, n_views=2).shuffled(3)
    check_first_step_reads_nothing(make, stream)
    check_run_is_repeatable(make, stream)
    check_steps_do_not_change_their_input(make, stream)
    check_item_names_do_not_matter(make, stream)
    check_config_makes_the_same_method(make)


def check_first_step_reads_nothing(make, stream):
    step = next(iter_steps(make(), stream))
    assert all(not evidence.any() for evidence in step.evidence.values())
    assert set(step.evidence) == set(step.weights)


def check_run_is_repeatable(make, stream):
    method = make()
    first, second, fresh = run(method, stream), run(method, stream), run(make(), stream)
    for other in (second, fresh):
        assert np.array_equal(first.predictions, other.predictions)
        assert np.array_equal(first.trajectory.priority, other.trajectory.priority)
    base = stream.features.base.label[stream.order]
    assert np.array_equal(first.base_predictions, base)


def check_steps_do_not_change_their_input(make, stream):
    method = make()
    features = stream.features
    before = {
        "views": features.views.copy(),
        "good": features.spaces["good"].copy(),
        "logits": features.base.logits.copy(),
    }
    list(iter_steps(method, stream))
    assert np.array_equal(before["views"], features.views)
    assert np.array_equal(before["good"], features.spaces["good"])
    assert np.array_equal(before["logits"], features.base.logits)


def check_item_names_do_not_matter(make, stream):
    """Unless draws are keyed by items, the same images under other numbers get the same answers."""
    method = make()
    if method.config().get("policy") == "reservoir":
        return
    features, order = stream.features, stream.order
    renamed = type(stream).from_arrays(
        features.views[order],
        features.predictor.prototypes,
        {name: keys[order] for name, keys in features.spaces.items()},
        logit_scale=features.predictor.logit_scale,
    )
    assert np.array_equal(run(method, stream).predictions, run(make(), renamed).predictions)


def check_config_makes_the_same_method(make):
    from marc.methods import create_method

    config = make().config()
    again = create_method(config["method"], **{k: v for k, v in config.items() if k != "method"})
    assert again.config() == config
