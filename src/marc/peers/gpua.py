"""GPUA: a second encoder's features, mapped into the predictor's space, answer with its texts.

The map is learned once, before the stream, from unlabelled images of the same task that a file
gives in both spaces; it is only read afterwards. So it knows more than methods that see the
stream alone: a comparison must say so. How it is learned is in `_alignment.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import check_space_name, integer, number
from marc.memory import Resumable
from marc.peers._alignment import mined_labels, orthogonal_map, refined
from marc.peers._learned import Learned
from marc.peers._unlabelled import Unlabelled, joined
from marc.scores import unit
from marc.stream import Stream, digest
from marc.stream.predictor import Predictor
from marc.types import Query, Step

_maps: Learned[NDArray[np.float32]] = Learned()


@dataclass(eq=False)
class GPUA(Resumable):
    """Geometry-preserving unsupervised alignment: texts read a second encoder through a map."""

    name: ClassVar[str] = "gpua"

    space: str
    """The second encoder's features, in the file as in the stream."""
    unlabelled: str
    """Path of a feature pack, or of a feature store, of images that are not in the stream."""
    visual_weight: float = 0.1
    """1 - lambda: the share of class means, beside texts, in what decides of a pseudo-label."""
    rounds: int = 3
    """Of pseudo-labels and class means."""
    identity: float = 0.9
    """The part of the identity in the first map's upper square, as released; 0 as in the paper."""
    steps: int = 200
    """Of refinement."""
    rate: float = 5e-4
    """The learning rate of the first of them."""
    decay: float = 5e-4
    """AdamW's weight decay."""
    seed: int = 0
    """Of the batches and the noise of the refinement."""
    digest: str = ""
    """Of what is read from `unlabelled`; filled in, and if given it must agree."""

    _images: Unlabelled = field(init=False, repr=False)
    _learned: tuple[Predictor, NDArray[np.float32]] | None = field(
        default=None, init=False, repr=False
    )

    def __post_init__(self) -> None:
        self.space = check_space_name(self.space)
        self.visual_weight = number("visual_weight", self.visual_weight, at_most=1)
        self.identity = number("identity", self.identity, at_most=1)
        self.rounds = integer("rounds", self.rounds, 1, 10_000)
        self.steps = integer("steps", self.steps, 0, 1_000_000)
        self.rate = number("rate", self.rate, at_most=1)
        self.decay = number("decay", self.decay, at_most=1)
        self.seed = integer("seed", self.seed, 0)
        self._images = Unlabelled.read(self.unlabelled, self.digest, self.space)
        self.unlabelled, self.digest = self._images.path, self._images.digest

    def step(self, query: Query) -> Step:
        """Answer one image through the map; nothing is learned from it."""
        predictor = query.predictor
        if self._learned is None or not _same(self._learned[0], predictor):
            self._images.check_fit(query)
            self._learned = predictor, self._map_to(predictor)
        base = predictor.logits(query.views[:1])[0]
        feature = joined(query.key(self.space)[np.newaxis], query.clip_key[np.newaxis])
        scores = predictor.logits(unit(feature @ self._learned[1]))[0].astype(np.float64)
        return Step(
            query.item,
            base,
            {"aligned": scores},
            {"aligned": 1.0},
            int(base.argmax()),
            0.0,
            base_weight=0.0,
        )

    def check(self, stream: Stream) -> None:
        """Refuse unlabelled images that are among the images of the stream."""
        self._images.check_apart(
            stream,
            "the map would be learned from what it answers",
            "unlabelled=FILE of a training split",
        )

    def _map_to(self, predictor: Predictor) -> NDArray[np.float32]:
        """What is learned of the file for these texts, (D', D): the settings decide it."""
        texts = {"scale": predictor.logit_scale, "prototypes": digest(predictor.prototypes)}
        known = {**self.config(), "unlabelled": ""}
        return _maps.get({**known, **texts}, lambda: self._learn(predictor))

    def _learn(self, predictor: Predictor) -> NDArray[np.float32]:
        texts, images = predictor.prototypes, self._images
        labels = mined_labels(
            images.both,
            images.plain,
            texts,
            scale=predictor.logit_scale,
            visual_weight=self.visual_weight,
            rounds=self.rounds,
        )
        return refined(
            orthogonal_map(images.both, texts[labels], self.identity),
            images.both,
            labels,
            texts,
            rate=self.rate,
            decay=self.decay,
            steps=self.steps,
            seed=self.seed,
        )


def _same(one: Predictor, other: Predictor) -> bool:
    """Whether two predictors make the same map."""
    return one is other or (
        one.logit_scale == other.logit_scale and np.array_equal(one.prototypes, other.prototypes)
    )
