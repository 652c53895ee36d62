"""SCAP: images of a batch that support each other tune prompts of text and image together.

Images of a batch with the same pseudo-class form a clique, and so do those of them that lie close
to one of them. Each clique moves a prompt of its class's words and one of tokens in the image
encoder by a step down the entropy of its answers, while its features draw together. What the
cliques learn goes into moving averages by class. Then each image takes a step of its own, as in
prompt tuning, from those averages, is answered, and joins them.

Here is what the released code computes: there the prompts of the cliques that an image is in are
gathered for it, as the paper says, and then not used in its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, integer, number
from marc.memory import Resumable, check_stored
from marc.peers._arrays import check_arrays, coded, decoded
from marc.peers._pictures import (
    answers,
    check_pictures,
    crops,
    plain_crops,
    tower_of,
)
from marc.peers._prompt_tuning import PROMPT, check_prompt
from marc.peers._prompt_tuning import tower_of as text_tower_of
from marc.peers.view_selection import check_fraction
from marc.scores import Float, Int
from marc.stream.predictor import ImageTower, Predictor
from marc.types import Query, Step

if TYPE_CHECKING:
    from marc.peers._scap_network import Prompted

_MOST_CLIQUES = 2**40  # that joined a class, before a count is taken for damage


@dataclass(eq=False)
class SCAP(Resumable):
    """Supportive clique-based attribute prompting; the defaults are those for ImageNet-A.

    >>> SCAP(batch_size=64).config()["threshold"]
    0.65
    """

    name: ClassVar[str] = "scap"

    batch_size: int = 128
    """Images that form cliques and are answered together."""
    rate: float = 5e-3
    """The learning rate of both prompts."""
    threshold: float = 0.65
    """The cosine above which an image of the same pseudo-class supports another."""
    fraction: float = 0.1
    """The fraction of an image's views that makes its loss; one view at the least."""
    prompt: str = PROMPT
    """What the prompts are at first, with braces for the name; words before them are tuned."""
    ensemble: float = 0.6
    """The share of the frozen prototypes in what images are compared with."""
    closeness: float = 1.0
    """The weight of 100 times the mean squared distance of a clique's features from their mean."""
    text_weight: float = 0.1
    """The share of the running average in the words that each image starts from."""
    image_weight: float = 0.1
    """The share of the running average in the tokens that each image is answered with."""
    slowness: float = 5000.0
    """h: a running average keeps exp(-top logit / h) of itself at each image."""
    clique_weight: float = 0.1
    """How much of a clique's step goes into the running average of the words."""
    power: float = 1.1
    """Of the weights of cliques that speak against a class."""
    seed: int = 0
    """Draws the tokens that are prompted with at first."""

    _memory: dict[str, NDArray[Any]] | None = field(default=None, init=False, repr=False)
    _network: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.batch_size = integer("batch_size", self.batch_size, 1)
        for name in ("rate", "closeness", "clique_weight", "power"):
            setattr(self, name, number(name, getattr(self, name)))
        for name in ("threshold", "ensemble", "text_weight", "image_weight"):
            setattr(self, name, number(name, getattr(self, name), at_most=1.0))
        self.fraction = check_fraction(self.fraction)
        check_prompt(self.prompt)
        self.slowness = number("slowness", self.slowness)
        if self.slowness == 0:
            raise MarcError("slowness must be above 0", got=self.slowness, hint="slowness=5000")
        self.seed = integer("seed", self.seed, 0)

    def check(self, stream: Any) -> None:
        """Refuse a stream without pictures, or without encoders that take prompts."""
        _prompted_tower(stream.features.predictor)
        check_pictures(self.name, stream)

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Tune prompts to the cliques of a batch and to each of its images, and answer them."""
        if not len(queries):
            return []
        from marc.peers._scap_network import Learning

        network = self._prompted(queries[0].predictor)
        tower = network.tower
        digest = coded(network.digest)
        if self._memory is None:
            self._memory = {"digest": digest, **network.start(self.seed)}
        self._check_fits(network, digest)
        learning = Learning(network, self._memory, self)
        learning.learn_cliques(tower.prepare(plain_crops(queries, self.name)))
        logits = [learning.answer(tower.prepare(crops(query, self.name))) for query in queries]
        self._memory = {"digest": digest, **learning.arrays()}
        return answers(queries, np.stack(logits))

    def _prompted(self, predictor: Predictor) -> Prompted:
        from marc.peers._scap_network import Prompted

        if self._network is None or self._network.predictor is not predictor:
            _prompted_tower(predictor)
            self._network = Prompted(predictor, self.prompt, self.ensemble)
        network: Prompted = self._network
        return network

    def _check_fits(self, network: Prompted, digest: NDArray[np.int64]) -> None:
        """Refuse what was learned with other networks or other classes."""
        memory = self._memory or {}
        if not np.array_equal(memory["digest"], digest):
            raise MarcError(
                "this memory was learned in encoders with other weights or of other class names",
                got=network.digest,
                hint="the predictor that it was learned with, or reset()",
            )
        wanted = {name: array.shape for name, array in network.start(0).items()}
        found = {name: array.shape for name, array in memory.items() if name != "digest"}
        check_stored(found == wanted, "its arrays do not fit the networks")

    def _restored(self, state: dict[str, Any]) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {**state["arrays"]}
        ranks = [np.ndim(arrays.get(name, 0)) for name in ("digest", "words", "tokens", "retained")]
        check_stored(ranks == [1, 3, 2, 3], "its arrays do not fit each other")
        words, classes = arrays["words"].shape, len(arrays["retained"])
        tokens = arrays["tokens"].shape
        f4 = "f4"
        check_arrays(
            arrays,
            {
                "digest": ("i8", arrays["digest"].size),
                "words": (f4, *words),
                "tokens": (f4, *tokens),
                "words_mean": (f4, *words),
                "tokens_mean": (f4, classes, *tokens),
                "retained": (f4, classes, *tokens),
                "n_retained": ("i8", classes),
                "words_moments": (f4, 2, *words),
                "tokens_moments": (f4, 2, *tokens),
                "n_steps": ("i8", 1),
            },
        )
        decoded(arrays["digest"])
        kept, steps = arrays["n_retained"], arrays["n_steps"]
        counts = ((kept >= 0) & (kept < _MOST_CLIQUES)).all() and steps[0] in (0, 1)
        squares = (arrays[name][1] >= 0 for name in ("words_moments", "tokens_moments"))
        sound = bool(counts) and all(each.all() for each in squares)
        check_stored(sound, "it counts what cannot be")
        return {name: array.copy() for name, array in arrays.items()}


def supportive_cliques(features: Float, labels: Int, threshold: float) -> list[tuple[int, Int]]:
    """The pseudo-class of each clique and its images.

    Args:
        features: unit features of a batch, (B, D).
        labels: their pseudo-classes, (B,).
        threshold: the cosine above which two images of a class support each other.

    Of each class, in the order in which they appear, the whole of it, and then the supporters of
    each of its images where there are some but not all; the same clique may come twice.
    """
    cliques: list[tuple[int, Int]] = []
    for label in dict.fromkeys(labels.tolist()):
        members = np.flatnonzero(labels == label)
        cliques.append((label, members))
        near = features[members] @ features[members].T > threshold
        for row in near:
            if 1 < row.sum() < len(members):
                cliques.append((label, members[row]))
    return cliques


def repulsion(logits: Float, power: float) -> NDArray[np.float64]:
    """How much the step of a clique with mean logits (C,) counts for each class it is not of.

    (1 / w)^power where w = sum_k z_k ln z_k - ln z_c sum_k z_k is above 1, else 0: so 0 for all
    where a logit is negative.
    """
    z = np.asarray(logits, dtype=np.float64)
    if (z <= 0).any():
        return np.zeros(len(z))
    against = (z * np.log(z)).sum() - z.sum() * np.log(z)
    return np.where(against > 1, np.maximum(against, 1.0) ** -power, 0.0)


def _prompted_tower(predictor: Predictor) -> ImageTower:
    """The image encoder; refuses one that takes no tokens, or without a text encoder beside it."""
    tower = tower_of(predictor)
    text_tower_of(predictor)
    if tower.prefix_width is None:
        raise MarcError(
            "scap prompts the image encoder with tokens of its own, and this one takes none",
            got="an encoder without tokens",
            allowed="a transformer, as CLIP's ViT",
            hint="lab/NAME@captions-vit, or the predictor clip-b16-text",
        )
    return tower
