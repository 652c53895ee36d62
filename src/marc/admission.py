"""Admission policies: one number per arrival; the memory keeps the K largest per pseudo-class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, Registry
from marc.scores import Float, Int, fuse, softmax, softmax_entropy


@dataclass(frozen=True)
class Arrivals:
    """What a policy may look at, for n arrivals at once (n = 1 in a live stream)."""

    base: Float
    """b_t, (n, C)."""
    clip_evidence: Float | None
    """r_t^C, (n, C); None unless the policy says it reads the CLIP memory."""
    fused: Float | None
    """b_t + w L_t, (n, C); None in replay, where no fused answer may decide what is stored."""
    position: Int
    """How many arrivals came before, (n,)."""
    item: Int
    seed: int


@dataclass(frozen=True)
class Policy:
    """A policy: its priority function and what that function depends on."""

    name: str
    summary: str
    priority: Callable[[Arrivals], NDArray[np.float64]]
    reads_clip_memory: bool = False
    varies_with: frozenset[str] = frozenset()
    """What else would change the trajectory; anything here makes exact replay impossible."""


def _entropy(arrivals: Arrivals) -> NDArray[np.float64]:
    """pi_t = -h(softmax(b_t + r_t^C)), equation 2."""
    if arrivals.clip_evidence is None:
        return -softmax_entropy(arrivals.base)
    return -softmax_entropy(fuse(arrivals.base, arrivals.clip_evidence, 1.0))


def _confidence(arrivals: Arrivals) -> NDArray[np.float64]:
    return softmax(arrivals.base).max(axis=-1)


def _fifo(arrivals: Arrivals) -> NDArray[np.float64]:
    return arrivals.position.astype(np.float64)


def _reservoir(arrivals: Arrivals) -> NDArray[np.float64]:
    """One uniform number per item and seed: the item-th draw of the seed's generator.

    Keeping the K largest is an exact uniform reservoir for every K at once.
    """
    if len(arrivals.item) == 1:
        generator = np.random.PCG64(arrivals.seed).advance(int(arrivals.item[0]))
        return np.random.Generator(generator).random(1)
    draws = np.random.default_rng(arrivals.seed).random(int(arrivals.item.max()) + 1)
    return draws[arrivals.item]


def _retrieval_aware(arrivals: Arrivals) -> NDArray[np.float64]:
    assert arrivals.fused is not None, "replay refuses this policy before it gets here"
    return -softmax_entropy(arrivals.fused)


def _policy(name: str, thing: Any) -> Policy:
    if not isinstance(thing, Policy):
        raise MarcError(f"{name} is no admission policy", got=type(thing).__name__, hint="a Policy")
    return thing


_OWN: dict[str, Policy | str] = {
    policy.name: policy
    for policy in (
        Policy("entropy", "low entropy of CLIP with its memory (the paper's)", _entropy, True),
        Policy("confidence", "high top probability of CLIP alone", _confidence),
        Policy("fifo", "the newest", _fifo),
        Policy("reservoir", "a uniform random sample", _reservoir),
        Policy(
            "retrieval_aware",
            "low entropy of the fused answer; online only",
            _retrieval_aware,
            varies_with=frozenset({"space", "capacity", "weight"}),
        ),
    )
}
POLICIES = Registry("admission policy", "marc.policies", _OWN, _policy, "marc list policies")
"""Policies by name: ours, registered ones, and those that installed packages bring."""
