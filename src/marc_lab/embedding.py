"""A stream of the lab as features: drawn once, embedded once, kept in the user's cache folder.

What is kept is named after the version of the world and the digest of the encoder, views also after
their recipe and seed, so nothing stale is ever read. The folder may be deleted at any time;
`MARC_CACHE` puts it elsewhere.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from marc.encoders import create_encoder, encoder_card, list_encoders
from marc.errors import MarcError, integer, one_of
from marc.files import cache_folder, read_arrays, write_arrays
from marc.pictures.views import MOST_VIEWS, make_views
from marc.sources import SourceKind
from marc.stream import Stream
from marc.types import OnProgress
from marc_lab.encoders import PREDICTOR, PREDICTORS, PREFIX, mini_predictor
from marc_lab.raster import SIDE
from marc_lab.streams import StreamPlan, list_lab_streams, plan_stream
from marc_lab.world import VERSION

RECIPE = "VC"
"""Of the views after the plain one: crops of 50 to 100 % of the area, mirrored or not."""
VIEW_SEED = 0
"""Draws the views, together with the id of the picture and the number of the view."""
_PORTION = 250  # pictures, or views of pictures, between two reports of progress
_NAME = "array"


def _lab_stream(name: str, on_progress: OnProgress | None = None, n_views: int = 1) -> Stream:
    """The stream `lab/NAME`, with every encoder of the lab as a space.

    The predictor's own image space is among them, under the name of the predictor.

    Args:
        name: one of `list_lab_streams()`; `NAME@captions-vit` is seen by the second predictor.
        on_progress: called with how far the drawing and the embedding have come.
        n_views: M, with the plain picture, which is view 0 and what all spaces see. The others are
            drawn when they are first asked for, for the predictor alone; budgets are nested.
    """
    plan, sees = _plan_of(name), _predictor_of(name)
    integer("views", n_views, 1, MOST_VIEWS)
    report = on_progress or (lambda what, done, total: None)
    pictures = functools.cache(lambda: _lab_pictures(plan, report))  # drawn if any encoder asks
    names = [encoder.removeprefix(PREFIX) for encoder in list_encoders(PREFIX + "*")]
    names = [each for each in names if each == sees or each not in PREDICTORS]
    spaces = {encoder: _embedded(plan, encoder, pictures, report) for encoder in names}
    predictor = mini_predictor(plan.classes, sees)
    return Stream.from_arrays(
        _views(plan, sees, spaces[sees], n_views, pictures, report),
        predictor.prototypes,
        spaces,
        logit_scale=predictor.logit_scale,
        prompts=None if predictor.prompts is None else predictor.prompts.by_class,
        labels=plan.labels,
        domains=plan.shifts if len(set(plan.shifts)) > 1 else None,
        class_names=plan.class_names,
        ids=plan.ids,
        name=f"lab/{name}",
        towers=predictor.towers,
        pixels=functools.partial(_crops, plan, pictures),
    )


def _plan_of(name: str) -> StreamPlan:
    return plan_stream(name.partition("@")[0])


def _predictor_of(name: str) -> str:
    """The predictor that a stream's name asks for."""
    _, asks, predictor = name.partition("@")
    return one_of("predictor of the lab", predictor, PREDICTORS) if asks else PREDICTOR


def _crops(
    plan: StreamPlan, pictures: Callable[[], NDArray[np.uint8]], row: int, n_views: int
) -> NDArray[np.uint8]:
    """The plain picture of a row and its views, (n_views, 64, 64, 3)."""
    # one crop for both predictors: whole pictures of 64 pixels
    crop, picture = encoder_card(PREFIX + PREDICTOR).crop, Image.fromarray(pictures()[row])
    return make_views(picture, crop, RECIPE, n_views, key=plan.ids[row], seed=VIEW_SEED)


def _lab_pictures(plan: StreamPlan, report: OnProgress) -> NDArray[np.uint8]:
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

    return _cached(plan, "pictures", shape, draw)


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
    return _cached(plan, name, (len(plan), card.dim), embed)


def _views(
    plan: StreamPlan,
    predictor: str,
    plain: NDArray[np.float32],
    n_views: int,
    pictures: Callable[[], NDArray[np.uint8]],
    report: OnProgress,
) -> NDArray[np.float32]:
    """Predictor features (T, M, D): `plain`, bit by bit, and then the augmented views.

    All are float32. A store rounds views to float16 to save room; here there is little to save, and
    views that are rounded beside one that is not would not be compared on equal terms.
    """
    parts = [plain[:, np.newaxis]]
    for some in _view_ranges(n_views):
        augmented = _augmented(plan, predictor, some, pictures, report)
        parts.append(augmented[:, : n_views - some.start])
    return np.concatenate(parts, axis=1)


def _view_ranges(n_views: int) -> list[range]:
    """The augmented views by the files that keep them; the last file may hold more than is asked.

    Files stay as they are when more views are asked for later.

    >>> _view_ranges(9)
    [range(1, 4), range(4, 8), range(8, 16)]
    """
    ranges: list[range] = []
    first, end = 1, 4
    while first < n_views:
        ranges.append(range(first, end))
        first, end = end, 2 * end
    return ranges


def _augmented(
    plan: StreamPlan,
    predictor: str,
    views: range,
    pictures: Callable[[], NDArray[np.uint8]],
    report: OnProgress,
) -> NDArray[np.float32]:
    """Predictor features (T, len(views), D) of some views of every picture."""
    card = encoder_card(PREFIX + predictor)
    shape = (len(plan), len(views), card.dim)
    doing = f"embedding views {views[0]} to {views[-1]} with {card.name}"

    def crops(row: int) -> NDArray[np.uint8]:
        return _crops(plan, pictures, row, views.stop)[views.start :]

    def embed() -> NDArray[np.float32]:
        model = create_encoder(card.name)
        features = np.empty(shape, dtype=np.float32)
        step = max(1, _PORTION // len(views))
        for start in range(0, len(plan), step):
            report(doing, start, len(plan))
            rows = range(start, min(start + step, len(plan)))
            vectors = model.encode(np.concatenate([crops(row) for row in rows]))
            features[start : rows.stop] = vectors.reshape(len(rows), *shape[1:])
        report(doing, len(plan), len(plan))
        return features

    which = f"{RECIPE}-{VIEW_SEED}-{views[0]}-{views[-1]}"
    return _cached(plan, f"{predictor}-{card.digest[:12]}-views-{which}", shape, embed)


def _cached(
    plan: StreamPlan, name: str, shape: tuple[int, ...], compute: Callable[[], NDArray[Any]]
) -> NDArray[Any]:
    """An array from the cache, or computed and put there."""
    folder = cache_folder() / f"lab-{VERSION}" / f"{plan.name}-{plan.seed}"
    path = folder / f"{name}.npz"
    try:
        cached = read_arrays(path, "a kept array").get(_NAME)
    except MarcError:
        cached = None  # not there, or not whole: it is computed again
    if cached is not None and cached.shape == shape:
        return cached
    array = compute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_arrays(path, {_NAME: array})
    except OSError as error:
        # this costs time at the next call, nothing else
        why = f"{cache_folder()}: {error.strerror}"
        warnings.warn(f"pictures and features are not kept in {why}", stacklevel=2)
    return array


def _open(name: str, on_progress: OnProgress | None, n_views: int | None) -> Stream:
    return _lab_stream(name, on_progress, 1 if n_views is None else n_views)


def _sizes() -> dict[str, tuple[int, int]]:
    plans = {name: plan_stream(name) for name in list_lab_streams()}
    return {name: (len(plan), len(plan.classes)) for name, plan in plans.items()}


SOURCE = SourceKind(
    "lab/NAME",
    _open,
    names=_sizes,
    pictures=lambda name: _plan_of(name).picture,
    draws_views=True,
)
"""`lab/NAME`, the type of source that this package brings, and `lab/NAME@PREDICTOR`."""
