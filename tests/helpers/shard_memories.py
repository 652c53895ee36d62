"""Small memories for tests of shards, and the steps that they get."""

import numpy as np

from marc.serve.memory.config import StepRequest

DIM, SPACE_DIM, N_CLASSES = 12, 16, 4


def body(**more):
    """What PUT is given."""
    prototypes = np.random.default_rng(0).normal(size=(N_CLASSES, DIM)).tolist()
    return {
        "method": {"name": "marc", "space": "s", "capacity": 3, "weight": 10.0},
        "predictor": {"prototypes": prototypes, "logit_scale": 5.0},
        "spaces": {"s": SPACE_DIM},
        "limits": {"snapshot_every": 40},
        **more,
    }


def request(name, **more):
    """A step whose features follow from its id."""
    rng = np.random.default_rng([ord(letter) for letter in name])
    views = rng.normal(size=(2, DIM)).astype(np.float32)
    return StepRequest(name, views, {"s": rng.normal(size=SPACE_DIM).astype(np.float32)}, **more)
