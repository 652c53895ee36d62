"""The usual way to write a cache method, to compare with: a dictionary of lists, image by image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def dictionary_loop(
    base: NDArray[np.float32],
    labels: NDArray[np.int64],
    priorities: NDArray[np.float64],
    keys: NDArray[np.float32],
    capacity: int,
    weights: tuple[float, ...],
) -> NDArray[np.int64]:
    """Predictions (weights, T) of one capacity and one order; arrays are in stream order."""
    n_images, n_classes = base.shape
    cache: dict[int, list[tuple[NDArray[np.float32], float]]] = {}
    predictions = np.empty((len(weights), n_images), dtype=np.int64)
    one_hot = np.eye(n_classes, dtype=np.float32)
    grid = np.array(weights, dtype=np.float32)[:, np.newaxis]
    for t in range(n_images):
        evidence = np.zeros(n_classes, dtype=np.float32)
        if cache:
            stored = np.stack([key for c in sorted(cache) for key, _ in cache[c]])
            values = np.stack([one_hot[c] for c in sorted(cache) for _ in cache[c]])
            evidence = 2.0 * np.exp(-5.0 * (1.0 - stored @ keys[t])) @ values
        predictions[:, t] = (base[t] + grid * evidence).argmax(axis=1)
        entries = cache.setdefault(int(labels[t]), [])
        if len(entries) < capacity:
            entries.append((keys[t], priorities[t]))
        elif priorities[t] > entries[-1][1]:
            entries[-1] = (keys[t], priorities[t])
        entries.sort(key=lambda entry: -entry[1])
    return predictions
