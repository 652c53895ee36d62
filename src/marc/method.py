"""MARC, all of it, in this file: start here.

A frozen predictor (CLIP) scores an image against text. A bounded memory of earlier images, read
in the space of a different frozen encoder (DINOv2), adds evidence. A second memory, in the
predictor's own space, never votes: it only helps to decide what is worth remembering.

`MARC.step` is the method, equations 1 to 4 of the paper in order. The arithmetic of single lines
is in `scores.py`, the keeping of the K best per class in `memory.py`, the choice of a priority in
`admission.py`, `weight="auto"` in `auto_weight.py`. `replay/replay.py` computes the same
answers for whole streams at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from marc.admission import POLICIES, Arrivals, Policy
from marc.auto_weight import AutoWeight
from marc.errors import (
    MarcError,
    check_same_shape,
    check_space_name,
    integer,
    number,
    one_of,
    switch,
)
from marc.memory import Memory, NegativeMemory, Resumable
from marc.scores import SHARPEST, VIEW_ENTROPIES, BaseScores, Float, fuse, kept_posterior
from marc.types import Query, Step


@dataclass(eq=False)
class MARC(Resumable):
    """Memory-Augmented Retrieval for CLIP. The defaults are the paper's system.

    >>> MARC(space="dinov2-b", capacity=8).config()["weight"]
    10.0
    """

    name: ClassVar[str] = "marc"

    space: str
    """The retrieval space s; `predictor` retrieves in the predictor's own."""
    capacity: int = 16
    """K: items per pseudo-class in the retrieval memory."""
    weight: float | Literal["auto"] = 10.0
    """w: what the evidence counts beside the base logits; 0 switches the memory off, and `auto`
    learns it from the unlabelled stream, see `marc.auto_weight`."""
    admission_capacity: int = 16
    """K_C: items per pseudo-class in the CLIP memory; 0 is the strict one-memory system."""
    alpha: float = 2.0
    beta: float = 5.0
    policy: str | Policy = "entropy"
    """Admission policy: a name in `marc.admission.POLICIES`, or one of your own."""
    view_entropy: str = "double_softmax"
    """How e_t is read: a name in `marc.scores.VIEW_ENTROPIES`."""
    seed: int = 0
    """Draws of the reservoir policy; nothing else here is random."""
    refine_labels: bool = False
    """Store argmax(b + r^C) instead of argmax b in the retrieval memory."""
    negative_weight: float = 0.0
    """`lambda_-`: weight of the negative memory that is subtracted; TDA uses 0.117."""
    gamma: float = 0.0
    """Adaptive fusion w_t = w h^gamma with h the normalised view entropy; 0 switches it off."""
    clip_weight: float = 0.0
    """Weight of the CLIP memory's own evidence, for parallel memories."""
    use_base: bool = True
    """False answers from the memory alone."""

    _memory: _Memories | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.space = check_space_name(self.space)
        self.capacity = integer("capacity", self.capacity, 0)
        self.admission_capacity = integer("admission_capacity", self.admission_capacity, 0)
        self.seed = integer("seed", self.seed, 0)
        for name in ("alpha", "negative_weight", "gamma", "clip_weight"):
            setattr(self, name, number(name, getattr(self, name)))
        self.beta = number("beta", self.beta, at_most=SHARPEST)
        if self.weight != "auto":
            self.weight = number("weight", self.weight, hint="a number, or 'auto'")
        self.refine_labels = switch("refine_labels", self.refine_labels)
        self.use_base = switch("use_base", self.use_base)
        if POLICIES.get(self.admission.name, self.admission) != self.admission:
            raise MarcError("there is another policy of this name", got=self.admission.name)
        one_of("view entropy", self.view_entropy, VIEW_ENTROPIES)

    def step(self, query: Query) -> Step:
        """Answer one image with what is remembered, then offer the image to the memories."""
        key = query.key(self.space)  # q_t
        memories = self._memories(query.predictor.prototypes.shape, len(key))
        base = query.base.logits  # b_t                                               equation 1
        label = int(query.base.label)  # the pseudo-label

        evidence = {"retrieval": memories.retrieval.read(key)}  # L(q_t)              equation 3
        weight, beyond = self.weight, evidence["retrieval"]  # w
        if memories.auto is not None:
            [weight], [beyond] = memories.auto.follow(
                base[np.newaxis], evidence["retrieval"][np.newaxis]
            )
            evidence["mean"] = evidence["retrieval"] - beyond
        if memories.clip is not None:
            evidence["clip"] = memories.clip.read(query.clip_key)  # r_t^C
        if memories.negative is not None:
            evidence["negative"] = memories.negative.read(query.clip_key)  # R_t

        fused = fuse(base, beyond, float(weight))  # of the retrieval memory alone
        priority = self._priority(query, evidence, fused, memories.n_seen)  # pi_t    equation 2
        stored = label
        if self.refine_labels and memories.clip is not None:
            stored = int(fuse(base, evidence["clip"], 1.0).argmax())

        memories.retrieval.write(key, stored, priority, query.item)  #                equation 4
        if memories.clip is not None:
            view_entropy = float(query.base.entropy_as(self.view_entropy))  # e_t
            memories.clip.write(query.clip_key, label, -view_entropy, query.item)
        if memories.negative is not None:
            loss = float(query.base.entropy_as("tda"))
            posterior = kept_posterior(query.view_logits)
            memories.negative.write(query.clip_key, label, loss, posterior)
        memories.n_seen += 1

        weights = self.fusion_weights(query.base, len(base), weight)
        return Step(
            query.item,
            base,
            evidence,
            {name: float(weights[name]) for name in evidence},
            stored,
            priority,
            base_weight=float(self.use_base),
        )

    def fusion_weights(self, base: BaseScores, n_classes: int, weight: Any) -> dict[str, Any]:
        """The weight of each evidence where that of the memory is w, for one image or a block."""
        if self.gamma:
            weight = weight * (base.entropy_as("posterior") / math.log(n_classes)) ** self.gamma
        return {
            "retrieval": weight,
            "mean": -weight,
            "clip": self.clip_weight,
            "negative": -self.negative_weight,
        }

    def _priority(self, query: Query, evidence: dict[str, Any], fused: Float, n_seen: int) -> float:
        arrivals = Arrivals(
            base=query.base.logits[np.newaxis],
            clip_evidence=evidence["clip"][np.newaxis] if "clip" in evidence else None,
            fused=fused[np.newaxis],
            position=np.array([n_seen]),
            item=np.array([query.item]),
            seed=self.seed,
        )
        return float(self.admission.priority(arrivals)[0])

    @property
    def admission(self) -> Policy:
        """The policy with its priority function."""
        return self.policy if isinstance(self.policy, Policy) else POLICIES.known(self.policy)

    @property
    def varies_with(self) -> frozenset[str]:
        """Settings that change what is stored: none, unless the policy looks at fused answers."""
        return self.admission.varies_with

    def check_replayable(self) -> None:
        """Refuse a policy whose trajectory depends on what it is used for, by name."""
        if self.varies_with:
            raise MarcError(
                f"the policy {self.admission.name!r} cannot be replayed",
                got=f"what it stores varies with {', '.join(sorted(self.varies_with))}",
                hint="marc run, or marc.run(method, stream): one setting at a time",
            )

    @property
    def reads_clip_memory(self) -> bool:
        """Whether the CLIP memory changes anything; if not, it is not kept at all."""
        needed = self.admission.reads_clip_memory or self.refine_labels or self.clip_weight > 0
        return needed and self.admission_capacity > 0

    @property
    def learns_weight(self) -> bool:
        """Whether the weight is learned from the stream."""
        return self.weight == "auto"

    @property
    def memory(self) -> Memory | None:
        """The retrieval memory, to look into; None before the first step."""
        return None if self._memory is None else self._memory.retrieval

    def config(self) -> dict[str, Any]:
        """Every setting by name, plus the method's own name; a policy by its name."""
        return {**super().config(), "policy": self.admission.name}

    def state(self) -> dict[str, Any]:
        """Settings and memories as plain data and arrays; `from_state` goes on from it."""
        state, memory = super().state(), self._memory
        assert memory is not None  # or there is no state
        return {**state, "n_classes": memory.retrieval.n_classes, "n_seen": memory.n_seen}

    def _restored(self, state: dict[str, Any]) -> _Memories:
        n_classes, arrays = state["n_classes"], state["arrays"]

        def memory(name: str, capacity: int) -> Memory:
            kernel = {"alpha": self.alpha, "beta": self.beta}
            return Memory.from_state(arrays[name], n_classes, capacity, **kernel)

        return _Memories(
            memory("retrieval", self.capacity),
            memory("clip", self.admission_capacity) if self.reads_clip_memory else None,
            NegativeMemory.from_state(arrays["negative"]) if self.negative_weight else None,
            AutoWeight.from_state(arrays["auto"], n_classes) if self.learns_weight else None,
            integer("n_seen", state["n_seen"], 0),
        )

    def _memories(self, prototypes: tuple[int, ...], dim: int) -> _Memories:
        """The memories, made empty at the first query, when C and the dimensions are known."""
        n_classes, clip_dim = prototypes
        if self._memory is None:
            kernel, capacity = {"alpha": self.alpha, "beta": self.beta}, self.admission_capacity
            self._memory = _Memories(
                Memory(n_classes, self.capacity, dim, **kernel),
                Memory(n_classes, capacity, clip_dim, **kernel) if self.reads_clip_memory else None,
                NegativeMemory(n_classes, clip_dim) if self.negative_weight else None,
                AutoWeight.fresh(n_classes) if self.learns_weight else None,
            )
        dims = {"retrieval": dim, "clip": clip_dim, "negative": clip_dim}
        for name, size in dims.items():
            if (memory := getattr(self._memory, name)) is not None:
                check_same_shape((n_classes, size), (memory.n_classes, memory.dim))
        return self._memory


@dataclass
class _Memories:
    """Everything MARC remembers."""

    retrieval: Memory
    clip: Memory | None
    negative: NegativeMemory | None
    auto: AutoWeight | None
    n_seen: int = 0

    def state(self) -> dict[str, Any]:
        """The arrays of those that there are, by name."""
        parts = {name: getattr(self, name) for name in ("retrieval", "clip", "negative", "auto")}
        return {name: part.state() for name, part in parts.items() if part is not None}
