"""OGA: Gaussians fitted online to the most confident images of each class.

A memory keeps the eight images of lowest zero-shot entropy per class. Their means and one shrunk
precision for all classes give each image a log-likelihood per class, which is added with a small
weight to its zero-shot logits. Each batch is written before it is read, so an image may be
answered by a memory that holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from marc import checks
from marc.core import Predictor, Query, Step
from marc.errors import number, one_of, switch, whole_number
from marc.method_cards import MethodCard, as_state, config_of, settings_in
from marc.peers.batches import Batch, gather
from marc.peers.oga_memory import (
    MEANS_OVER,
    SHRINKAGES,
    ConfidentMemory,
    Gaussians,
    class_means,
    shared_precision,
)
from marc.peers.view_selection import ridged_entropy
from marc.scores import Float, softmax

_RIDGE = 1e-9  # inside the logarithm of the released entropies


@dataclass(eq=False)
class OGA:
    """Online Gaussian adaptation. The defaults are the released ones.

    >>> OGA(mean_over="filled").config()["weight"]
    0.05
    """

    name: ClassVar[str] = "oga"
    varies_with: ClassVar[frozenset[str]] = frozenset()
    """What is stored depends on the zero-shot answers alone."""

    batch_size: int = 32
    capacity: int = 8
    """Images per class in the memory."""
    weight: float = 0.05
    """What the log-likelihoods count beside the zero-shot logits (tau in the paper)."""
    shrinkage: str = "auto"
    """`auto` shrinks the covariance while at most 4 D images are stored and takes its
    pseudo-inverse beyond; `always` and `never` keep to one of the two."""
    mean_over: str = "capacity"
    """`capacity` divides sums by the number of slots, as released; `filled` gives true means."""
    means_from: int = 2
    """Images from which a class has a mean of its own; below, its text prototype stands for it."""
    normalise_means: bool = False
    writes_first: bool = True
    """Whether each batch is stored before it is answered, as released."""
    half_precision: bool = False
    """Keep keys, entropies, means and residuals in float16, as released on a GPU."""

    _memory: ConfidentMemory | None = field(default=None, init=False, repr=False)
    _gaussians: Gaussians | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.batch_size = whole_number("batch_size", self.batch_size, 1)
        self.capacity = whole_number("capacity", self.capacity, 1)
        self.means_from = whole_number("means_from", self.means_from, 1)
        self.weight = number("weight", self.weight)
        one_of("shrinkage", self.shrinkage, SHRINKAGES)
        one_of("mean_over", self.mean_over, MEANS_OVER)
        self.normalise_means = switch("normalise_means", self.normalise_means)
        self.writes_first = switch("writes_first", self.writes_first)
        self.half_precision = switch("half_precision", self.half_precision)

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Offer the whole batch to the memory, then answer it."""
        if not len(queries):
            return []
        batch = gather(queries)
        memory = self._memory_for(batch.predictor)
        labels, entropies = (
            batch.logits.argmax(axis=1),
            ridged_entropy(softmax(batch.logits), _RIDGE),
        )
        if not self.writes_first:
            evidence = self._read(batch, memory)
        stored = [
            memory.write(key, label, entropy, item)
            for key, label, entropy, item in zip(
                batch.keys, labels.tolist(), entropies.tolist(), batch.items, strict=True
            )
        ]
        if any(stored):
            self._gaussians = None
        if self.writes_first:
            evidence = self._read(batch, memory)
        return [
            Step(
                item,
                batch.logits[row],
                {"gaussian": evidence[row]},
                {"gaussian": self.weight},
                int(labels[row]),
                -float(entropies[row]),
            )
            for row, item in enumerate(batch.items)
        ]

    def _read(self, batch: Batch, memory: ConfidentMemory) -> Float:
        """Log-likelihoods (N, C); the Gaussians are fitted only if the memory has changed."""
        if self._gaussians is None:
            means = class_means(
                memory,
                batch.predictor.prototypes,
                over=self.mean_over,
                least=self.means_from,
                normalise=self.normalise_means,
            )
            self._gaussians = Gaussians.fitted(
                means, shared_precision(memory, means, self.shrinkage)
            )
        return self._gaussians.log_likelihoods(batch.keys)

    def _memory_for(self, predictor: Predictor) -> ConfidentMemory:
        """The memory, made empty at the first batch, when C and D are known."""
        n_classes, dim = predictor.prototypes.shape
        if self._memory is None:
            self._memory = ConfidentMemory(n_classes, self.capacity, dim, half=self.half_precision)
        classes, _, stored_dim = self._memory.keys.shape
        checks.same_shape((n_classes, dim), (classes, stored_dim))
        return self._memory

    @property
    def memory(self) -> ConfidentMemory | None:
        """The memory, to look into; None before the first batch."""
        return self._memory

    def reset(self) -> None:
        """Forget everything that was seen."""
        self._memory = self._gaussians = None

    config = config_of

    def state(self) -> dict[str, Any]:
        """Settings and memory; the Gaussians follow from the memory."""
        return as_state(self, None if self._memory is None else self._memory.state())

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> OGA:
        """A method that goes on as if it had never stopped."""
        method = cls(**settings_in(state))
        method._memory = ConfidentMemory.from_state(state["arrays"], half=method.half_precision)
        return method


CARD = MethodCard(
    "oga",
    "Gaussians fitted online to the most confident images of each class",
    OGA,
    reads_before_writes=False,
    paper="Online Gaussian Test-Time Adaptation of Vision-Language Models, CVPR 2025 workshops, "
    "arXiv 2501.04352",
    sees="batch",
    paper_says="a memory of 8 images of low entropy per class; Gaussians with one covariance; "
    "posterior x likelihood^0.05, one setting for all data sets; the mean of 100 orders and of "
    "the worst tenth of them",
    released_code="sums are divided by the capacity even if slots are empty; a class with one "
    "image is centred on its text; each batch is written before it is read; the memory is float16; "
    "the printed accuracy is a mean of batch accuracies",
    ours="the released behaviour; mean_over='filled', means_from and writes_first change it; "
    "float64 arithmetic on float32 features, half_precision is the released memory; n x n systems "
    "while fewer than D images are stored; residuals of zero give no evidence; accuracy counts "
    "every image once. Classes with one text tie only until one of them has images",
    tuned="nothing per data set",
)
