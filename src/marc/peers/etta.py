"""ETTA: the best prompts for each image, and one running mean of image features per class.

For each image and class, the fifth of the prompts that lie nearest to the image make the text
prototype. The image then joins the mean of its pseudo-class, and is read against all the means:
it votes for its own pseudo-label. The two sources are mixed by their entropies, and the surer
one counts more.

Scores are cosines, as released: the logit scale enters the entropies alone. A class that was
never written has memory 0, which is below the cosine of most pairs of images. The published
name of the write is a recursive update; its factor exp(cosine) hardly varies, so that it is
nearly a plain running mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, check_same_shape, number
from marc.memory import Resumable
from marc.peers._arrays import check_arrays, first_equal
from marc.peers.view_selection import check_fraction, fraction_of_one, select_views
from marc.scores import Float, Int, softmax, unit
from marc.stream.predictor import PromptEmbeddings
from marc.types import Query, Step

_RIDGE = 1e-6


@dataclass(eq=False)
class ETTA(Resumable):
    """Adaptive prompts and a running mean per class, mixed by entropy.

    >>> ETTA().config()
    {'method': 'etta', 'share': 0.2, 'fraction': 0.1}
    """

    name: ClassVar[str] = "etta"

    share: float = 0.2
    """alpha: the fraction of its prompts that speaks for a class."""
    fraction: float = 0.1
    """The fraction of the views that is kept, where there is more than one view."""

    _prompts: _Prompts | None = field(default=None, init=False, repr=False)
    _memory: _Means | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.share = number("share", self.share)
        if self.share > 1:
            raise MarcError("share is a fraction of the prompts", got=self.share, allowed="0 to 1")
        self.fraction = check_fraction(self.fraction)

    def step(self, query: Query) -> Step:
        """Write the image into the mean of its pseudo-class, then read all the means."""
        prototypes = self._prompts_of(query).nearest(query.clip_key)
        scale = query.predictor.logit_scale
        cosines, feature = self._text(query, prototypes, scale)  # l, g
        label = int(cosines.argmax())
        shape = query.predictor.prototypes.shape
        if self._memory is None:
            self._memory = _Means(np.zeros(shape[0]), np.zeros(shape, dtype=np.float32))
        check_same_shape(shape, self._memory.means.shape)
        affinity = float(np.exp(np.float64(prototypes[label] @ feature)))
        self._memory.write(feature, label, affinity)
        memory = self._memory.read(feature)
        text_entropy = _ridged_entropy(scale * cosines)
        memory_entropy = _ridged_entropy(scale * memory)
        both = text_entropy + memory_entropy  # above 0, because of the ridge
        return Step(
            query.item,
            cosines.astype(np.float32),
            {"memory": memory},
            {"memory": text_entropy / both},
            label,
            0.0,
            base_weight=memory_entropy / both,
            to_probabilities=lambda scores: softmax(scale * scores),  # as in its entropies
        )

    def _text(self, query: Query, prototypes: Float, scale: float) -> tuple[Float, Float]:
        """Cosines (C,) with the adaptive prototypes and the feature (D,), over the kept views."""
        cosines = (query.views @ prototypes.T)[:, self._prompts_of(query).first]
        if len(query.views) == 1:
            return cosines[0].astype(np.float64), query.clip_key
        kept = select_views(scale * cosines, self.fraction, method=self.name)
        return cosines[kept].mean(axis=0, dtype=np.float64), query.views[kept].mean(axis=0)

    def _prompts_of(self, query: Query) -> _Prompts:
        embeddings = query.predictor.prompts
        if self._prompts is None or self._prompts.source is not embeddings:
            self._prompts = _Prompts.of(embeddings, self.share)
        return self._prompts

    def _restored(self, state: dict[str, Any]) -> _Means:
        arrays = state["arrays"]
        n_classes, dim = arrays["means"].shape
        check_arrays(arrays, {"sums": ("f8", n_classes), "means": ("f4", n_classes, dim)})
        return _Means(**{name: array.copy() for name, array in arrays.items()})


@dataclass(eq=False)
class _Means:
    """A running mean of features per class."""

    sums: NDArray[np.float64]
    """What was written into each class so far, (C,)."""
    means: NDArray[np.float32]
    """(C, D)."""

    def write(self, feature: Float, label: int, affinity: float) -> None:
        """Let one image join a class."""
        total = self.sums[label] + affinity
        self.means[label] = (self.sums[label] * self.means[label] + affinity * feature) / total
        self.sums[label] = total

    def read(self, feature: Float) -> NDArray[np.float64]:
        """Cosine-like evidence g w / (|w| + 1e-6), (C,): exactly 0 for a class never seen."""
        norms = np.sqrt(np.einsum("cd,cd->c", self.means, self.means))
        return np.asarray((self.means @ feature) / (norms.astype(np.float64) + _RIDGE))

    def state(self) -> dict[str, NDArray[np.generic]]:
        return {"sums": self.sums.copy(), "means": self.means.copy()}


@dataclass(frozen=True)
class _Prompts:
    """The prompts of every class, and how many of them speak for it."""

    source: PromptEmbeddings
    rows: NDArray[np.float32]
    """(C, P, D)."""
    chosen: int
    first: Int
    """The first class with the same prompts, (C,)."""

    @classmethod
    def of(cls, embeddings: PromptEmbeddings | None, share: float) -> _Prompts:
        if embeddings is None:
            raise MarcError(
                "ETTA chooses among the prompts of a class, and this source has none of them",
                got="prototypes alone",
                allowed="a source with the embedding of every prompt",
                hint="marc embed, which stores them, or a pack with predictor/prompts",
            )
        rows = embeddings.by_class
        chosen = int(share * (count := rows.shape[1]))
        if not chosen:
            raise MarcError(
                f"etta keeps the fraction {share:g} of the prompts, which is none of {count}",
                got=f"{count} prompts for each class",
                allowed=f"at least {_fewest_prompts(share)}",
                hint=f"a longer prompt list, or --set share={fraction_of_one(count):g} to keep one",
            )
        return cls(embeddings, rows, chosen, first_equal(rows))

    def nearest(self, feature: Float) -> NDArray[np.float32]:
        """Unit prototypes (C, D) from the prompts of each class that lie nearest to the image."""
        C, P, D = self.rows.shape
        similarity = (self.rows.reshape(C * P, D) @ feature).reshape(C, P)
        chosen = np.arange(C)[:, np.newaxis], _largest(similarity, self.chosen)
        return unit(self.rows[chosen].mean(axis=1))


def _fewest_prompts(share: float) -> int | str:
    """The least P with int(share P) > 0.

    >>> _fewest_prompts(0.2)
    5
    """
    return next((P for P in range(1, 10_000) if int(share * P)), "a larger fraction")


def _largest(values: Float, n: int) -> Int:
    """Columns (C, n), ascending, of the n largest values of each row; equal ones keep the lower."""
    last = values.shape[1] - n
    enough = values >= np.partition(values, last, axis=1)[:, last, np.newaxis]
    if np.count_nonzero(enough) == n * len(values):
        return np.nonzero(enough)[1].reshape(-1, n)
    return np.sort(np.argsort(-values, axis=1, kind="stable")[:, :n], axis=1)


def _ridged_entropy(logits: Float) -> float:
    """-sum q ln q with q = softmax + 1e-6, not renormalised, as released."""
    ridged = softmax(logits) + _RIDGE
    return float(-(ridged * np.log(ridged)).sum())
