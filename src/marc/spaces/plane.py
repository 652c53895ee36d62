"""A space in two dimensions, to look at: near means alike, and far means little.

t-SNE where scikit-learn is installed, and else the two main directions, which NumPy finds.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from marc.scores import Float

_DIMENSIONS = 50  # main directions from which t-SNE starts


def lay_out(keys: Float) -> tuple[NDArray[np.float64], str]:
    """Points (n, 2) from 0 to 1, one scale for both directions, and what made them.

    The same keys give the same points.
    """
    main = _main_directions(keys)
    plane, name = main[:, :2], "PCA"
    if len(keys) > 4:
        with suppress(ImportError):
            plane, name = _tsne(main), "t-SNE"
    plane = plane - plane.min(axis=0)
    whole = float(plane.max()) or 1.0
    margin = (1 - plane.max(axis=0) / whole) / 2  # the shorter side is in the middle
    return np.clip(plane / whole + margin, 0, 1), name


def _main_directions(keys: Float) -> NDArray[np.float64]:
    """Keys in their main directions, (n, at least 2 and at most 50)."""
    centred = np.asarray(keys, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
    found = (left * lengths)[:, :_DIMENSIONS]
    found *= np.where(found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])] < 0, -1, 1)
    return np.pad(found, ((0, 0), (0, max(0, 2 - found.shape[1]))))


def _tsne(main: NDArray[np.float64]) -> NDArray[np.float64]:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # scikit-learn brings it

    start = main[:, :2] / (main[:, 0].std() or 1.0) * 1e-4
    perplexity = min(30.0, (len(main) - 1) / 3)
    method = TSNE(perplexity=perplexity, init=start.astype(np.float32), random_state=0)
    with threadpool_limits(1):  # sums in one order
        return np.asarray(method.fit_transform(main.astype(np.float32)), dtype=np.float64)
