"""What methods that learn in the image encoder share, short of torch: pictures, answers, states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.torch_runtime import import_libraries
from marc.errors import MarcError
from marc.memory import check_stored
from marc.peers._arrays import coded, decoded, gather
from marc.scores import Float
from marc.stream.predictor import ImageTower, Predictor
from marc.types import Query, Step

_HINT = "a lab/ stream, or a store/ whose pictures are still there; pixels=... in from_arrays"
_PARTS = ("weights", "moments")
_COMPARED = 3
"""The first images of a stream whose pictures are held against their features."""
_LEAST_COSINE = 0.99
"""Between a stored feature, which may be rounded, and that of its picture."""


def check_pictures(method: str, stream: Any, n_views: int = 1) -> ImageTower:
    """The image encoder of a stream; refuses one without it, or without its pictures or views."""
    features = stream.features
    tower = tower_of(features.predictor)
    if features.pixels is None:
        raise _no_pictures(method)
    if features.views.shape[1] < n_views:
        raise few_views(method, features.views.shape[1], n_views)
    queries = [stream.query(int(item)) for item in stream.order[:_COMPARED]]
    pictures = _stacked([crops(query, method, n_views)[0] for query in queries])  # may be gone
    _check_features(queries, pictures, [features.ids[query.item] for query in queries])
    return tower


def tower_of(predictor: Predictor) -> ImageTower:
    """The predictor's image encoder, or what is missing for it."""
    if predictor.towers.image is not None:
        import_libraries()
    return predictor.image_tower


def few_views(method: str, found: int, needed: int) -> MarcError:
    """The error to raise where pictures have too few views."""
    return MarcError(
        f"{method} learns from the views behind the plain one, and there are none",
        got=f"{found} view{'s' * (found != 1)}",
        allowed=f"{needed} or more",
        hint="--views 8",
    )


def crops(query: Query, method: str, n_views: int | None = None) -> NDArray[np.uint8]:
    """The plain picture of a query and its views, (M, H, W, 3), or the first of them."""
    if query.pixels is None:
        raise _no_pictures(method)
    found = query.pixels(n_views)
    _check_crops(found, len(query.views) if n_views is None else n_views)
    return found


def plain_crops(queries: Sequence[Query], method: str) -> NDArray[np.uint8]:
    """The plain pictures of some queries, (n, H, W, 3)."""
    return _stacked([crops(query, method, 1)[0] for query in queries])


def answers(queries: Sequence[Query], adapted: Float) -> list[Step]:
    """Steps that answer with what the adapted network says, (n, C), beside the frozen one."""
    batch = gather(queries)
    labels = batch.logits.argmax(axis=1)
    return [
        Step(
            item,
            batch.logits[row],
            {"adapted": np.asarray(adapted[row], dtype=np.float64)},
            {"adapted": 1.0},
            int(label),
            0.0,
            base_weight=0.0,
        )
        for row, (item, label) in enumerate(zip(batch.items, labels, strict=True))
    ]


class Adapted:
    """What was learned in an image encoder: arrays, and the network that holds them once it runs.

    The arrays are parameters (`weights`) and what an optimiser remembers of them (`moments`).
    """

    def __init__(self, digest: str, arrays: Mapping[str, Any] | None = None) -> None:
        self.digest = digest
        self._arrays: Mapping[str, Any] = arrays or {}
        self._learner: Any = None
        self._predictor: Predictor | None = None

    @classmethod
    def of(cls, predictor: Predictor) -> Adapted:
        """Nothing yet, in the encoder of a predictor."""
        return cls(tower_of(predictor).digest)

    def learner(self, predictor: Predictor, build: Callable[[Predictor], Any]) -> Any:
        """The network of `build`, with what was learned; an encoder with other weights is refused.

        It is built again for other prototypes.
        """
        if self._predictor is not predictor:
            found = tower_of(predictor).digest
            if found != self.digest:
                raise MarcError(
                    "this memory was learned in an image encoder with other weights",
                    got=found,
                    allowed=self.digest,
                    hint="the predictor that it was learned with, or reset()",
                )
            learned, learner = self._held(), build(predictor)
            if learned:
                learner.load(learned)
            self._learner, self._predictor, self._arrays = learner, predictor, {}
        return self._learner

    def state(self) -> dict[str, Any]:
        """All arrays by part, copied; what they are called and the digest, as code points."""
        held = self._held()
        return {"digest": coded(self.digest), "contents": coded(_contents(held)), **held}

    @classmethod
    def from_state(cls, arrays: Mapping[str, Any]) -> Adapted:
        """What gave a state; the network is compared when it is there."""
        fixed = {"digest", "contents"}
        check_stored(fixed <= set(arrays), "it does not say which weights it is of")
        parts = {name: part for name, part in arrays.items() if name not in fixed}
        named = all(isinstance(part, Mapping) for part in parts.values())
        check_stored(named and set(parts) <= set(_PARTS), "it has other parts than it should")
        listed = decoded(arrays["contents"])
        check_stored(listed == _contents(parts), "its arrays are not those that it lists")
        for part in parts.values():
            for name, array in part.items():
                sound = array.dtype == np.float32 and np.isfinite(array).all()
                check_stored(sound, f"{name} is not finite, or no float32")
        return cls(decoded(arrays["digest"]), _copied(parts))

    def _held(self) -> dict[str, Any]:
        if self._learner is not None:
            return dict(self._learner.arrays())
        return _copied(self._arrays)


def _contents(parts: Mapping[str, Mapping[str, NDArray[Any]]]) -> str:
    """The name and shape of every array, a line for each."""
    lines = [
        f"{part}/{name} {array.shape}"
        for part, named in parts.items()
        for name, array in named.items()
    ]
    return "\n".join(sorted(lines))


def _copied(parts: Mapping[str, Mapping[str, NDArray[Any]]]) -> dict[str, Any]:
    return {
        part: {name: array.copy() for name, array in named.items()} for part, named in parts.items()
    }


def _stacked(pictures: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Pictures (H, W, 3) as one array (n, H, W, 3); refuses some of other sizes than the first."""
    for picture in pictures:
        if picture.shape != pictures[0].shape:
            raise MarcError(
                "the pictures of a stream must all have one size",
                got=f"{picture.shape} beside {pictures[0].shape}",
                hint="the crops that the image encoder takes",
            )
    return np.stack(pictures)


def _check_crops(found: Any, n_views: int) -> None:
    """Refuse what `pixels` gave unless it is as many pictures as were asked for, in bytes."""
    is_array = isinstance(found, np.ndarray)
    fits = is_array and found.dtype == np.uint8 and found.ndim == 4 and found.shape[3] == 3
    if not (fits and len(found) == n_views and found.size):
        raise MarcError(
            "pixels(row, n) must give the crops of the first n views as bytes",
            got=f"{found.dtype} {found.shape}" if is_array else type(found).__name__,
            allowed=f"uint8 ({n_views}, H, W, 3)",
            hint="crops[row, :n] of crops (T, M, H, W, 3) with values from 0 to 255",
        )


def _check_features(
    queries: Sequence[Query], pictures: NDArray[np.uint8], names: Sequence[str]
) -> None:
    """Refuse plain pictures whose features are not those that the queries hold.

    The baseline would come from the features, the answer from other pictures.
    """
    from marc.peers._image_learning import Classifier

    predictor = queries[0].predictor
    found = Classifier.of(predictor).embed(predictor.image_tower.prepare(pictures))
    stored = np.stack([query.views[0] for query in queries])
    if found.shape != stored.shape:
        raise MarcError(
            "the image encoder gives vectors of another length than the features have",
            got=f"shape {found.shape}",
            allowed=f"shape {stored.shape}",
            hint="towers=... of the encoder that gave the features",
        )
    for name, cosine in zip(names, np.einsum("nd,nd->n", found, stored), strict=True):
        if not cosine >= _LEAST_COSINE:  # NaN is refused too
            raise MarcError(
                "the pictures are not those of the features: the image encoder gives others",
                got=f"cosine {cosine:.3f} at image {name}",
                allowed=f"{_LEAST_COSINE} or more",
                hint="pixels=... in the order of the features, cropped as they were; towers=... of"
                " the encoder that gave the features",
            )


def _no_pictures(method: str) -> MarcError:
    return MarcError(
        f"{method} looks at pictures again, and this source has features alone", hint=_HINT
    )
