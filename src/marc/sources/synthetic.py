"""A synthetic stream for trying things: drawn from a seed, with nothing real in it.

Every image has a class and a style. The predictor sees classes through a shift that favours some
of them. One space groups images by class, one by style, one by both, one by nothing: the same
memory helps in the first and harms in the second.
"""

from __future__ import annotations

import numpy as np

from marc.errors import integer
from marc.stream import Stream


def synthetic_stream(
    n_images: int = 2000, n_classes: int = 20, n_views: int = 4, seed: int = 0
) -> Stream:
    """A labelled stream of Gaussian features with spaces `classes`, `both`, `styles`, `noise`."""
    integer("n_images", n_images, 1)
    integer("n_classes", n_classes, 2)
    integer("n_views", n_views, 1)
    integer("seed", seed, 0)
    draw = np.random.default_rng(seed)
    predictor_dim, space_dim, n_styles = 64, 48, 12
    labels = draw.integers(n_classes, size=n_images)
    styles = draw.integers(n_styles, size=n_images)

    prototypes = draw.standard_normal((n_classes, predictor_dim))
    shift = draw.standard_normal(predictor_dim)
    image = 0.4 * prototypes[labels] + 0.9 * shift + draw.standard_normal((n_images, predictor_dim))
    jitter = 0.5 * draw.standard_normal((n_images, n_views, predictor_dim))
    jitter[:, 0] = 0.0  # view 0 is the plain image

    class_centers = draw.standard_normal((n_classes, space_dim))
    style_centers = draw.standard_normal((n_styles, space_dim))
    noise = draw.standard_normal((n_images, space_dim))
    spaces = {
        "classes": 0.8 * class_centers[labels] + noise,
        "both": 0.55 * class_centers[labels] + 0.8 * style_centers[styles] + noise,
        "styles": 2.0 * style_centers[styles] + noise,
        "noise": noise,
    }
    return Stream.from_arrays(
        (image[:, np.newaxis] + jitter).astype(np.float32),
        prototypes,
        spaces,
        logit_scale=30.0,
        labels=labels,
        class_names=[f"class {number:02d}" for number in range(n_classes)],
        ids=[f"synthetic-{number:05d}" for number in range(n_images)],
        name="synthetic",
    )
