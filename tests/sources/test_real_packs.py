"""Features of real photographs by real encoders, where they lie beside the checkout.

The numbers come from an independent slow MARC: one view, K_C 16, K 8, three orders. A clone
without the packs skips this file.
"""

import pytest
from helpers.repository import PACKS

import marc

# set: (no memory %, {space: (gain at w = 10, oracle gain over the grid)})
EXPECTED = {
    "office_caltech": (
        83.50,
        {
            "lite0": (8.12, 8.29),
            "resnet50": (7.75, 7.84),
            "mobilenetv2": (6.22, 6.91),
            "sscd": (1.95, 1.95),
            "sscd_mnv4": (1.14, 1.50),
            "augnet": (-26.53, 0.18),
        },
    ),
    "caltech101_test": (
        47.99,
        {
            "lite0": (5.65, 5.65),
            "resnet50": (3.30, 4.52),
            "mobilenetv2": (0.08, 3.14),
            "sscd_mnv4": (2.52, 2.52),
            "sscd": (2.00, 2.01),
            "augnet": (-13.20, 0.88),
        },
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_sweep_agrees_with_an_independent_slow_run_to_a_few_images(name):
    path = PACKS / f"{name}.npz"
    if not path.exists():
        pytest.skip("no packs of real features beside this checkout")
    stream = marc.load_stream(f"arrays/{path}").with_views(1)
    few = 100 * 3 / len(stream)
    base, gains = EXPECTED[name]
    result = marc.sweep(stream, capacities=(8,))
    assert 100 * result.base_accuracy[0] == pytest.approx(base, abs=0.01)
    for space, (at_ten, best) in gains.items():
        assert 100 * result.fixed(space, 8, 10.0).gain == pytest.approx(at_ten, abs=few), space
        curve = result.accuracy[result.spaces.index(space), 0].mean(axis=-1)
        assert 100 * (curve.max() - curve[0]) == pytest.approx(best, abs=few), space


def test_step_by_step_equals_replay_on_real_features():
    path = PACKS / "office_caltech.npz"
    if not path.exists():
        pytest.skip("no packs of real features beside this checkout")
    stream = marc.load_stream(f"arrays/{path}").shuffled(0)
    method = marc.MARC("resnet50", capacity=8)
    online, offline = marc.run(method, stream), marc.replay(method, stream)
    assert (online.predictions != offline.predictions).sum() <= 1
    assert abs(online.gain - offline.gain) <= 1 / len(stream)
