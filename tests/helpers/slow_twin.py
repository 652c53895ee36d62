"""Shared by tests of replay and others."""

import numpy as np

from helpers import reference

RENAMED = {"admission_capacity": "clip_capacity", "gamma": "adaptive_gamma"}


def slow_twin(method, stream):
    config = method.config()
    names = reference.Settings.__dataclass_fields__
    kept = {RENAMED.get(k, k): v for k, v in config.items() if RENAMED.get(k, k) in names}
    features = stream.features
    return reference.run(
        features.views,
        features.predictor.prototypes,
        features.keys(method.space),
        stream.order,
        features.predictor.logit_scale,
        reference.Settings(**kept),
        np.random.default_rng(method.seed).random(len(features.ids)),
    )
