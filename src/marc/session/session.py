"""A live loop from picture to answer: crop, prompts, prototypes and memory behind one `step`."""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from marc.embed.plan import EmbeddingPlan
from marc.encoders import Encoder, TextEncoder
from marc.errors import MarcError, integer
from marc.files import differences, user_path
from marc.loop import Method
from marc.peers.registry import METHODS, create_method
from marc.pictures.decoding import Unreadable, decode, plain, read_bytes
from marc.pictures.image_set import FileBytes
from marc.results.snapshot import damaged, method_of, read_state, write_state
from marc.session.picture_encoders import PictureEncoders
from marc.session.record import Neighbor, Record
from marc.stream.predictor import Predictor, PromptEmbeddings
from marc.types import Query, Step

_FORMAT = "marc-session"
_OWN = "predictor"
_NEIGHBORS = 5  # of a picture in each space, where they are asked for without a number
Picture = str | os.PathLike[str] | bytes | Image.Image | NDArray[np.uint8]
"""A path, the bytes of a file, a PIL picture, or pixels (height, width, 3)."""


@dataclass(frozen=True)
class Answer:
    """What is on a picture, with memory and without."""

    name: str
    answer: str
    base_answer: str
    """The predictor's own, without memory."""
    confidence: float
    """The probability of `answer`; not a number where the method has no probabilities."""
    base_confidence: float
    step: Step = field(repr=False, compare=False)
    """The evidence behind it: base scores, what each space says, and at which weight."""
    neighbors: Mapping[str, tuple[Neighbor, ...]] = field(default_factory=dict, repr=False)
    """By space, nearest first, where `why` was asked: pictures remembered from before."""

    @property
    def changed(self) -> bool:
        """Whether the memory changed the answer."""
        return self.answer != self.base_answer


class Session:
    """A zero-shot classifier with a memory of the pictures that it has seen.

    One picture at a time: where several threads step it, they take turns with a lock.

    Args:
        classes: what may be on a picture, in words.
        predictor: the zero-shot classifier, a name of `marc list encoders` or an encoder.
        space: the encoders whose spaces the memory is read in: a name, an encoder, or several.
        method: what remembers; class means in every space unless another is given.
        prompts: prompt sets by name or file; by default those that the predictor knows.
        weights: weights on disk: a file, a folder with NAME.safetensors, or NAME=PATH.
        offline: never touch the network.
        device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.

    >>> session = Session(["star", "fish"], "mini:captions", "mini:pairs-small")
    >>> answer = session.step(np.zeros((80, 60, 3), dtype=np.uint8))
    >>> answer.changed, len(session)                    # nothing was remembered yet
    (False, 1)
    """

    def __init__(
        self,
        classes: Sequence[str],
        predictor: str | TextEncoder = EmbeddingPlan.PREDICTOR,
        space: str | Encoder | Sequence[str | Encoder] = "dinov2-b",
        *,
        method: str | Method = "class-means",
        prompts: Sequence[str] = (),
        weights: Sequence[str] = (),
        offline: bool = False,
        device: str = "auto",
    ) -> None:
        self.method = _one_at_a_time(method)
        one = isinstance(space, str) or not isinstance(space, Sequence)
        spaces = cast(Sequence[str | Encoder], [space] if one else space)
        self._encoders = PictureEncoders(
            predictor,
            spaces,
            classes=classes,
            prompts=prompts,
            weights=weights,
            offline=offline,
            device=device,
        )
        self.classes = PictureEncoders.class_names(classes)
        text = self._encoders.prototypes(self.classes)
        every = PromptEmbeddings(text.prompt_class, lambda: text.prompts)
        self.predictor = Predictor(text.prototypes, self._encoders.logit_scale, every)
        self._made = {"classes": list(self.classes), **self._encoders.made}
        self._record, self._n_seen = Record(self.classes), 0

    def __len__(self) -> int:
        """How many pictures were learned from."""
        return self._n_seen

    def __repr__(self) -> str:
        """What answers, and how much it has seen."""
        encoders = ", ".join(self._encoders.names)
        what = f"{self.method.name} of {len(self.classes)} classes by {encoders}"
        return f"Session({what}; {len(self)} pictures)"

    def step(
        self, picture: Picture, *, name: str = "", learn: bool = True, why: bool | int = False
    ) -> Answer:
        """Answer one picture with what is remembered, then remember it.

        Args:
            picture: a path, the bytes of a file, a PIL picture, or pixels (height, width, 3).
            name: what to call it among the neighbours of later ones; its path, or a number.
            learn: whether to remember it; without, the session stays as it was.
            why: also give the nearest pictures of each space: 5, or this many.
        """
        n_near = _NEIGHBORS if why is True else integer("why", 0 if why is False else why, 0)
        query = self._query(picture)
        keys = {_OWN: query.clip_key, **query.keys}
        path = str(picture) if isinstance(picture, str | os.PathLike) else ""
        name = name or path or f"picture {query.item}"
        step = (self.method if learn else copy.deepcopy(self.method)).step(query)
        near = self._record.nearest(keys, n_near) if n_near else {}
        if learn:
            rank = -float(query.base.entropy_as("posterior"))
            self._record.write(keys, int(query.base.label), rank, query.item, name)
            self._n_seen += 1
        sure = [math.nan, math.nan]
        if step.to_probabilities is not None:
            logits = np.stack([step.logits, step.base])
            sure = step.to_probabilities(logits).max(axis=1).tolist()
        words = self.classes[step.prediction], self.classes[step.base_prediction]
        return Answer(name, *words, sure[0], sure[1], step, near)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what is remembered; a killed write leaves the old file as it was."""
        method = self.method.state()
        told, arrays = self._record.state()
        arrays |= {f"method/{name}": array for name, array in method.pop("arrays").items()}
        state = {"made": self._made, "method": method, "record": told, "n_seen": self._n_seen}
        write_state(user_path(path), {**state, "arrays": arrays}, _FORMAT)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Go on from what `save` wrote, as if the session had never stopped.

        A file of other classes, prompts, encoders or settings is refused.
        """
        path = user_path(path)
        state = read_state(path, _FORMAT)
        with damaged(path):
            told, arrays = state["method"], state["arrays"]
            stored = {**state["made"], "method": told["config"]}
            if other := differences(stored, self._identity()):
                raise MarcError(
                    "this session was saved with other classes, prompts, encoders or settings",
                    got=f"{path}: {'; '.join(other)[:400]}",
                    hint="a session made as the one that was saved",
                )
            own = {n.removeprefix("method/"): a for n, a in arrays.items() if "method/" in n}
            method = method_of({**told, "arrays": own})
            record = Record.from_state(self.classes, state["record"], arrays)
            n_seen = integer("n_seen", state["n_seen"], 0)
        self.method, self._record, self._n_seen = method, record, n_seen

    def _identity(self) -> dict[str, Any]:
        """What decides the answers beside the pictures, as a file has it."""
        return dict(json.loads(json.dumps({**self._made, "method": self.method.config()})))

    def _query(self, picture: Picture) -> Query:
        """The picture as a method sees it."""
        seen = self._encoders.pixels.of_picture(_opened(picture))
        views, keys = self._encoders.features(seen)
        own = {space: key[0] for space, key in keys.items()}
        return Query.from_features(views[0], self.predictor, own, item=self._n_seen)


def _one_at_a_time(method: str | Method) -> Method:
    found = create_method(method) if isinstance(method, str) else method
    if not isinstance(found, Method):
        raise MarcError(
            "a session answers one picture at a time, and this method does not",
            got=getattr(found, "name", type(found).__name__),
            hint='method="class-means"',
        )
    card = METHODS.get(found.name)
    if card is not None and {"text-tower", "image-tower"} & {*card.needs}:
        raise MarcError(
            "a session has no networks to learn in, and this method needs the predictor's",
            got=found.name,
            hint='marc.run over a store; method="class-means" for a session',
        )
    return found


def _opened(picture: Picture) -> Image.Image:
    """A picture as RGB, turned as its camera says."""
    try:
        if isinstance(picture, Image.Image):
            return plain(picture, upright=True)
        if isinstance(picture, np.ndarray):
            return _from_pixels(picture)
        data = picture if isinstance(picture, bytes) else read_bytes(FileBytes(os.fspath(picture)))
        return decode(data, upright=True)
    except Unreadable as reason:
        what = f"{len(picture)} bytes" if isinstance(picture, bytes) else picture
        raise MarcError("this picture cannot be read", got=f"{what}: {reason.reason}") from None
    except TypeError:
        raise MarcError(
            "this is no picture",
            got=type(picture).__name__,
            allowed="a path, the bytes of a file, a PIL picture, or pixels (height, width, 3)",
        ) from None


def _from_pixels(pixels: NDArray[np.uint8]) -> Image.Image:
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or not pixels.size:
        raise MarcError(
            "these are no pixels of a picture",
            got=f"{pixels.dtype} {pixels.shape}",
            allowed="uint8 (height, width, 3)",
        )
    return Image.fromarray(pixels)
