"""A stream of the lab as features: drawn once, embedded once, kept in the user's cache folder.

What is kept is named after the version of the world and the digest of the encoder, so nothing
stale is ever read. The folder may be deleted at any time; `MARC_CACHE` puts it elsewhere.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.arrays import read_arrays, write_arrays
from marc.cache_folder import cache_folder
from marc.encoders import create_encoder, encoder_card, list_encoders
from marc.encoders.mini import PREDICTOR, PREFIX, mini_predictor
from marc.errors import MarcError
from marc.lab.raster import SIDE
from marc.lab.streams import StreamPlan, plan_stream
from marc.lab.world import VERSION
from marc.progress import OnProgress
from marc.stream import Stream

_PORTION = 250  # pictures between two reports of progress
_NAME = "array"


def lab_stream(name: str, on_progress: OnProgress | None = None) -> Stream:
    """The stream `lab/NAME`, with every encoder of the lab as a space.

    The predictor's own image space is among them, under the name `captions`.
    """
    plan = plan_stream(name)
    report = on_progress or (lambda what, done, total: None)
    pictures = functools.cache(lambda: lab_pictures(plan, report))  # drawn if any encoder asks
    names = [encoder.removeprefix(PREFIX) for encoder in list_encoders(PREFIX + "*")]
    spaces = {encoder: _embedded(plan, encoder, pictures, report) for encoder in names}
    predictor = mini_predictor(plan.classes)
    return Stream.from_arrays(
        spaces[PREDICTOR],
        predictor.prototypes,
        spaces,
        logit_scale=predictor.logit_scale,
        prompts=None if predictor.prompts is None else predictor.prompts.by_class,
        labels=plan.labels,
        class_names=plan.class_names,
        ids=plan.ids,
        name=f"lab/{name}",
    )


def lab_pictures(plan: StreamPlan, report: OnProgress) -> NDArray[np.uint8]:
    """All pictures of a stream, (T, 64, 64, 3)."""
    shape = (len(plan), SIDE, SIDE, 3)

    def draw() -> NDArray[np.uint8]:
        pictures = np.empty(shape, dtype=np.uint8)
        for row in range(len(plan)):
            if row % _PORTION == 0:
                report("drawing", row, len(plan))
            pictures[row] = plan.picture(row)
        report("drawing", len(plan), len(plan))
        return pictures

    return _kept(plan, "pictures", shape, draw)


def _embedded(
    plan: StreamPlan, encoder: str, pictures: Callable[[], NDArray[np.uint8]], report: OnProgress
) -> NDArray[np.float32]:
    card = encoder_card(PREFIX + encoder)

    def embed() -> NDArray[np.float32]:
        model = create_encoder(card.name)
        parts = []
        for start in range(0, len(plan), _PORTION):
            part = pictures()[start : start + _PORTION]
            report(f"embedding with {card.name}", start, len(plan))
            parts.append(model.encode(part))
        report(f"embedding with {card.name}", len(plan), len(plan))
        return np.concatenate(parts)

    name = f"{encoder}-{card.digest[:12] or 'plain'}"
    return _kept(plan, name, (len(plan), card.dim), embed)


def _kept(
    plan: StreamPlan, name: str, shape: tuple[int, ...], compute: Callable[[], NDArray[Any]]
) -> NDArray[Any]:
    """An array from the cache, or computed and put there."""
    folder = cache_folder() / f"lab-{VERSION}" / f"{plan.name}-{plan.seed}"
    path = folder / f"{name}.npz"
    try:
        kept = read_arrays(path, "a kept array").get(_NAME)
    except MarcError:
        kept = None  # not there, or not whole: it is computed again
    if kept is not None and kept.shape == shape:
        return kept
    array = compute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_arrays(path, {_NAME: array})
    except OSError as error:
        # this costs time at the next call, nothing else
        why = f"{cache_folder()}: {error.strerror}"
        warnings.warn(f"pictures and features are not kept in {why}", stacklevel=2)
    return array
