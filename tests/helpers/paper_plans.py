"""Shared by tests of mapping and others."""

import numpy as np

from helpers.paper_names import ADDED, CROSS_DOMAIN, FAMILY, FIVE, RN50, SIXTEEN
from marc.stream import Stream
from marc_paper.study.plan import Plan
from marc_paper.verify.verify import _prompts_of

N_IMAGES, N_CLASSES, DIM = 70, 4, 8


SIZES = {250: 20, 500: 30, 1000: 40, 2000: 60}


def entry(dataset, group, predictor):
    return {
        "source": f"arrays/{dataset}-{predictor}.npz",
        "group": group,
        "views": 64,
        "dataset": dataset,
        "predictor": predictor,
        "prompts": _prompts_of(dataset),
    }


def paper_plan(domains=CROSS_DOMAIN):
    main, shift = FAMILY[1:3], (*FAMILY[3:], FAMILY[0])
    streams = {name: entry(name, "main", "clip-b16-text") for name in main}
    streams |= {name: entry(name, "shift", "clip-b16-text") for name in shift}
    for name in domains:
        group = "extra" if name in ADDED else "domain"
        streams[name] = entry(name, group, "clip-b16-text")
    streams |= {f"{name}-2": entry(name, "predictor", f"{RN50}-text") for name in FAMILY}
    return Plan.of(
        {
            "title": "The names of the paper",
            "predictor": "clip-b16-text",
            "streams": streams,
            "spaces": {
                "all": list(SIXTEEN),
                "controls": list(FIVE),
                "own": "clip-b16",
                "deployed": "dinov2-b",
                "strong": "dinov2-l",
            },
            "grids": {"dims": [2, 4], "neighbors": [5, 10]},
            "draws": {"batches": 2, "sizes": list(SIZES.values()), "bootstraps": 2},
            "benchmark": {"methods": ["zero-shot"]},
            "timing": {"images": 12, "warm_up": 2, "sessions": 2},
        }
    )


def named_stream(name, seed):
    """Spaces whose noise grows in small steps, so that their gains do."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(N_CLASSES, size=N_IMAGES)
    prototypes = draw.standard_normal((N_CLASSES, DIM))
    images = prototypes[labels] + 2.5 * draw.standard_normal((N_IMAGES, DIM))
    views = prototypes[labels][:, np.newaxis] + 2.5 * draw.standard_normal((N_IMAGES, 64, DIM))
    views[:, 0] = images
    centers = draw.standard_normal((N_CLASSES, 6))
    spaces = {
        space: centers[labels] + (0.2 + 0.12 * place) * draw.standard_normal((N_IMAGES, 6))
        for place, space in enumerate(SIXTEEN)
    }
    return Stream.from_arrays(
        views.astype(np.float32), prototypes, spaces, logit_scale=20.0, labels=labels, name=name
    )
