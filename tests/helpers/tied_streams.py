"""Streams full of ties: rounded features, images and views that return, classes with one text."""

import math

import numpy as np

from marc.scores import score_views
from marc.stream import Stream
from marc.stream.predictor import Predictor
from marc.types import Query

SIZES = [(n_classes, n_views) for n_classes in (2, 5, 40, 200) for n_views in (1, 2, 8, 64)]


def tied_stream(seed, n_classes, n_views, n_images=16, dim=12, logit_scale=10.0):
    """A labelled stream; from three classes on, the last class has the prototype of the first."""
    draw = np.random.default_rng([seed, n_classes, n_views])
    prototypes = draw.standard_normal((n_classes, dim))
    if n_classes > 2:
        prototypes[-1] = prototypes[0]
    labels = draw.integers(n_classes, size=n_images)
    images = prototypes[labels] + draw.standard_normal((n_images, dim))
    views = images[:, np.newaxis] + draw.standard_normal((n_images, n_views, dim))
    views = np.round(2 * views) / 2 + 0.25  # never a zero vector
    views[n_images // 2 :: 3] = views[0]
    views[:, n_views // 2 :: 3] = views[:, :1]
    return Stream.from_arrays(views, prototypes, logit_scale=logit_scale, labels=labels)


def awkward_stream(seed, n_classes, n_views, n_images=30, dim=8, twins=None):
    """Rounded features, one image six times, two classes with the same prototype.

    `twins` says whether two classes share a text; by default from three classes on.
    """
    draw = np.random.default_rng(seed)
    prototypes = draw.standard_normal((n_classes, dim))
    if n_classes > 2 if twins is None else twins:
        prototypes[-1] = prototypes[0]
    views = prototypes[draw.integers(n_classes, size=n_images)][:, np.newaxis]
    views = np.round(views + draw.standard_normal((n_images, n_views, dim)), 1) + 0.01
    views[5:10] = views[0]
    return Stream.from_arrays(views, prototypes, logit_scale=20.0)


def softmax_list(values):
    """A softmax in plain Python."""
    powers = [math.exp(value - max(values)) for value in values]
    return [power / sum(powers) for power in powers]


def query_of(logits, item=0):
    """An image whose view logits are 10 times its view features: one axis for each class."""
    views = np.asarray(logits, dtype=np.float32)
    views = views / np.linalg.norm(views, axis=1, keepdims=True)
    predictor = Predictor(np.eye(views.shape[1], dtype=np.float32), 10.0)
    return Query(item, views, score_views(predictor.logits(views)), {}, predictor)


def assert_order_does_not_matter(make, stream):
    """An image gets the same bits wherever it stands in the stream."""
    answers = []
    for seed in (1, 2):
        method, shuffled = make(), stream.shuffled(seed)
        answers.append({query.item: method.step(query).logits for query in shuffled})
    assert all(np.array_equal(answers[0][item], answers[1][item]) for item in answers[0])
