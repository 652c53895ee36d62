"""Outputs of the released codes on real features, where they lie beside the checkout.

`shared/gold/NAME.npz` holds what the released functions gave, `shared/real/PACK.npz` the features
they were given. A clone without them skips the tests that ask for them.
"""

from functools import lru_cache

import numpy as np
import pytest

from helpers.repository import SHARED
from marc.sources.pack import read_pack

PACKS = ("office_caltech", "caltech101_test")


def gold(name):
    """The arrays of one file of released outputs, by name; `description` is text in JSON."""
    with np.load(_found("gold", name)) as arrays:
        return {key: arrays[key] for key in arrays.files}


def gold_stream(pack, views=None):
    """All images of a pack in the order of the released outputs; `views` keeps the first ones.

    Features are brought to unit length in float32, as they were for the released codes.
    """
    stream = _pack(_found("real", pack)).shuffled(0)
    return stream if views is None else stream.with_views(views)


def near_ties(logits, margin):
    """Where the best two scores of (T, C) differ by at most `margin`: there rounding decides."""
    best = np.sort(np.asarray(logits, dtype=np.float64), axis=-1)[..., -2:]
    return best[..., 1] - best[..., 0] <= margin


@lru_cache(maxsize=1)
def _pack(path):
    return read_pack(path)


def _found(folder, name):
    path = SHARED / folder / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"no shared/{folder}/{name}.npz beside this checkout")
    return path
