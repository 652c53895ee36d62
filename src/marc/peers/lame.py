"""LAME: the posteriors of a batch are pulled together where images are alike.

Nothing is learnt and nothing is kept: each batch is answered on its own. The answer of an image
is its zero-shot log-posterior plus the posteriors of the images it is close to, repeated until it
settles. The affinity may be built in any retrieval space, which makes this a test of geometry.

It was designed for streams whose neighbours in time share a class. On a shuffled stream it often
hurts, and the `rbf` affinity collapses: it adds nearly the same class counts to every image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from marc.errors import MarcError, check_space_name, integer, one_of, switch
from marc.memory import config_of
from marc.peers._arrays import gather
from marc.peers.affinities import AFFINITIES, SELF_RULES, affinity_of, spread
from marc.peers.cards import MethodCard, empty_state, forget_nothing, from_settings
from marc.scores import softmax
from marc.types import Query, Step


@dataclass(eq=False)
class LAME:
    """Laplacian adjusted maximum-likelihood estimation of one batch at a time.

    >>> LAME(space="dinov2-b").config()["affinity"]
    'knn'
    """

    name: ClassVar[str] = "lame"
    varies_with: ClassVar[frozenset[str]] = frozenset()
    """Nothing is stored."""

    space: str = "predictor"
    """Where images are compared; `predictor` is the predictor's own space, as published."""
    affinity: str = "knn"
    """`knn`, `rbf` (the released default) or `linear`."""
    n_neighbors: int = 5
    """k: neighbours of `knn`, or the neighbour whose distance sets the width of `rbf`."""
    batch_size: int = 64
    """Images that are answered together; the released default is 16."""
    symmetric: bool = False
    """Whether W is replaced by (W + W^T) / 2."""
    self_rule: str = "itself"
    """Who `knn` leaves out: the image `itself`, or as released the `first_hit` of the search,
    which among copies may be another image."""
    max_steps: int = 100

    def __post_init__(self) -> None:
        self.space = check_space_name(self.space)
        one_of("affinity", self.affinity, AFFINITIES)
        one_of("self rule", self.self_rule, SELF_RULES)
        self.n_neighbors = integer("n_neighbors", self.n_neighbors, 1)
        self.batch_size = integer("batch_size", self.batch_size, 1)
        self.max_steps = integer("max_steps", self.max_steps, 1)
        self.symmetric = switch("symmetric", self.symmetric)
        if self.affinity == "rbf" and self.n_neighbors == 1:
            raise MarcError(
                "the rbf affinity counts the image itself as its first neighbour, so its width is "
                "0 with one neighbour",
                got="n_neighbors 1",
                allowed="n_neighbors >= 2",
                hint="n_neighbors=5",
            )

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Answer the queries of a batch together.

        `base` is -U = ln(p + 1e-10), rounded to float32 before it is used, so that the softmax of
        the step's logits is the final Y of the iteration.
        """
        if not len(queries):
            return []
        batch = gather(queries, self.space)
        base = np.log(softmax(batch.logits) + 1e-10).astype(np.float32)
        affinity = affinity_of(
            batch.keys,
            self.affinity,
            self.n_neighbors,
            symmetric=self.symmetric,
            self_rule=self.self_rule,
        )
        evidence = spread(base, affinity, self.max_steps)
        labels = base.argmax(axis=1)
        return [
            Step(item, base[row], {"affinity": evidence[row]}, {"affinity": 1.0}, int(label), 0.0)
            for row, (item, label) in enumerate(zip(batch.items, labels, strict=True))
        ]

    reset, config, state = forget_nothing, config_of, empty_state
    from_state = classmethod(from_settings)


CARD = MethodCard(
    "lame",
    "posteriors of a batch pulled together where its images are alike",
    LAME,
    reads_before_writes=None,
    paper="Parameter-free Online Test-time Adaptation, CVPR 2022, arXiv 2201.05718",
    sees="batch",
    paper_says="Y <- softmax(ln p + W Y) until it settles, W from the features of the batch; "
    "meant for streams that are not shuffled",
    released_code="affinity rbf, 5 neighbours, batches of 16; the stopping energy mixes the new Y "
    "with the old W Y; kNN drops its first hit as the image itself; rbf divides by zero for one "
    "neighbour or one image",
    ours="affinity knn and batches of 64 by default, because rbf collapses on shuffled streams "
    "(affinity='rbf', batch_size=16 is the released default); each image is left out by its index "
    "(self_rule='first_hit' is the released rule); one image alone keeps its zero-shot answer; "
    "float64, so the iteration may stop later; W may be built in any space",
    tuned="affinity over knn, rbf, linear and neighbours over 1, 3, 5; on what is not known here",
)
