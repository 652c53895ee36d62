"""Small streams for the tests."""

import numpy as np

from marc.stream import Stream


def make_stream(
    seed=0, n_images=60, n_views=1, n_classes=5, dim=8, space_dim=6, logit_scale=20.0, n_prompts=0
) -> Stream:
    """A labelled stream whose space `good` is clustered by label and whose space `bad` is noise."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(n_classes, size=n_images)
    prototypes = draw.standard_normal((n_classes, dim))
    images = prototypes[labels] + 1.5 * draw.standard_normal((n_images, dim))
    views = images[:, np.newaxis] + 0.5 * draw.standard_normal((n_images, n_views, dim))
    centers = draw.standard_normal((n_classes, space_dim))
    spaces = {
        "good": centers[labels] + 0.5 * draw.standard_normal((n_images, space_dim)),
        "bad": draw.standard_normal((n_images, space_dim)),
    }
    around = 0.3 * np.random.default_rng(seed).standard_normal((n_classes, n_prompts, dim))
    return Stream.from_arrays(
        views.astype(np.float32),
        prototypes,
        spaces,
        logit_scale=logit_scale,
        prompts=prototypes[:, np.newaxis] + around if n_prompts else None,
        labels=labels,
    )
