import numpy as np
import pytest
from helpers import reference

from marc.admission import POLICIES, Arrivals

DRAW = np.random.default_rng(0)
BASE = (3 * DRAW.standard_normal((20, 7))).astype(np.float32)
CLIP = DRAW.exponential(size=(20, 7))
FUSED = BASE + 10 * DRAW.exponential(size=(20, 7))


def arrivals(rows):
    return Arrivals(
        base=BASE[rows],
        clip_evidence=CLIP[rows],
        fused=FUSED[rows],
        position=np.arange(20)[rows],
        item=(np.arange(20) * 7 % 20)[rows],
        seed=3,
    )


@pytest.mark.parametrize("name", POLICIES)
def test_priorities_equal_the_reference_one_by_one_and_together(name):
    together = POLICIES[name].priority(arrivals(slice(None)))
    uniforms = np.random.default_rng(3).random(20)
    for t in range(20):
        item = t * 7 % 20
        expected = reference.priority(name, BASE[t], CLIP[t], FUSED[t], t, uniforms[item])
        assert together[t] == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert POLICIES[name].priority(arrivals(slice(t, t + 1)))[0] == together[t]


def test_only_the_retrieval_aware_policy_varies_with_anything():
    varying = {name: p.varies_with for name, p in POLICIES.items() if p.varies_with}
    assert varying == {"retrieval_aware": {"space", "capacity", "weight"}}


def test_a_reservoir_is_a_uniform_sample_for_every_capacity():
    """Over many seeds each item is among the K largest equally often."""
    counts = np.zeros(10)
    for seed in range(3000):
        one = Arrivals(BASE[:10], None, None, np.arange(10), np.arange(10), seed)
        kept = np.argsort(-POLICIES["reservoir"].priority(one))[:3]
        counts[kept] += 1
    assert np.abs(counts / 3000 - 0.3).max() < 0.04  # five standard deviations
