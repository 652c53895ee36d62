"""What some methods need beside a feature pack: prompts, and labelled images of each class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from marc.stream import Stream
from marc.stream.predictor import PromptEmbeddings

_COPIES = 5


def with_prompts(stream: Stream) -> Stream:
    """Copies of the prototypes stand for prompts, so that there is nothing to choose among."""
    predictor = stream.features.predictor
    copies = np.repeat(predictor.prototypes[:, np.newaxis], _COPIES, axis=1)
    prompts = PromptEmbeddings.of(copies, None, predictor.prototypes.shape)
    features = replace(stream.features, predictor=replace(predictor, prompts=prompts))
    return replace(stream, features=features)


def few_of_each(labels: np.ndarray, n: int) -> np.ndarray:
    """Rows of n images of each class, or of all there are: the first in a seeded order."""
    draw = np.random.default_rng(0)
    classes = range(int(labels.max()) + 1)
    return np.concatenate([draw.permutation(np.flatnonzero(labels == c))[:n] for c in classes])
