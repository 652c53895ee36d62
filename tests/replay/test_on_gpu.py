"""What a GPU computes, on the CPU: in plain torch, and by Triton's interpreter."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.making import make_stream
from helpers.repository import ROOT

import marc
from marc.loop import run
from marc.method import MARC
from marc.replay import device, evidence, on_gpu, sweep_job
from marc.replay.sweep_job import SweepJob, sweep

torch = pytest.importorskip("torch")

STREAM = make_stream(3, n_images=500, n_classes=7)
GRID = {"capacities": (1, 2, 5, 40), "weights": (0.0, 0.5, 10.0), "seeds": (0, 3)}


def as_gpu(monkeypatch):
    """Let torch compute on the CPU whatever is asked of a GPU."""
    for module in (sweep_job, sys.modules["marc.replay.replay"]):
        monkeypatch.setattr(module, "choose_gpu", lambda device: None if device == "cpu" else "cpu")


def apart(monkeypatch):
    monkeypatch.setattr(evidence, "_WINDOW", 40)
    monkeypatch.setattr(evidence, "_cost_apart", lambda history: 1)
    monkeypatch.setattr(evidence, "_PIECE", 1)


def shared(monkeypatch):
    monkeypatch.setattr(evidence, "_cost_apart", lambda history: 10**9)
    monkeypatch.setattr(evidence, "_HELD", 0)
    monkeypatch.setattr(evidence, "_BLOCK", 2**17)
    monkeypatch.setattr(evidence, "_PIECE", 1)


def streamed(monkeypatch):
    """Neither the keys nor the sums of all queries fit on the card."""
    shared(monkeypatch)
    monkeypatch.setattr(device, "_ELSEWHERE", 1)
    monkeypatch.setattr(on_gpu, "_UPLOADED", 100)


def disagreeing(one, other, weights=(0.0, 0.3, 1.0, 10.0, 100.0)):
    """Cells of two sweeps in which an image is right in one and wrong in the other."""
    return sum(
        int((one.correct(s, k, w, seed) != other.correct(s, k, w, seed)).sum())
        for s in one.spaces
        for k in one.capacities
        for w in weights
        for seed in one.seeds
    )


def angle(ends):
    """That of the line to (w, 1): large weights, where lines are nearly parallel, count less."""
    return np.arctan(ends)


@pytest.mark.parametrize("way", [None, shared, apart, streamed])
@pytest.mark.parametrize("settings", [{}, {"refine_labels": True, "admission_capacity": 3}])
def test_a_sweep_is_that_of_the_cpu(monkeypatch, way, settings):
    as_gpu(monkeypatch)
    if way is not None:
        way(monkeypatch)
    on_cpu, on_card = (
        sweep(STREAM, ["good", "bad+center"], **GRID, device=device, **settings)
        for device in ("cpu", "cuda")
    )
    assert disagreeing(on_cpu, on_card) <= 1
    for space in on_cpu.spaces:
        for mine, other in zip(on_cpu.intervals[space], on_card.intervals[space], strict=True):
            np.testing.assert_allclose(angle(mine), angle(other), atol=1e-4)


@pytest.mark.parametrize("policy", ["entropy", "confidence", "fifo", "reservoir"])
def test_the_same_items_are_retained(monkeypatch, policy):
    as_gpu(monkeypatch)
    jobs = [
        SweepJob.plan(STREAM, (1, 4, 64), seeds=(0, 1), policy=policy, device=device)
        for device in ("cpu", "cuda")
    ]
    for mine, other in zip(*(job.histories for job in jobs), strict=True):
        assert np.array_equal(mine.items, other.items)
        assert np.array_equal(mine.last, other.last)


@pytest.mark.parametrize("way", [shared, apart])
def test_pieces_hold_every_cell_once(monkeypatch, way):
    as_gpu(monkeypatch)
    way(monkeypatch)
    job = SweepJob.plan(STREAM, **GRID, device="cuda")
    pieces = [job.piece("good", number) for number in range(job.n_pieces("good"))]
    assert len(pieces) > 1
    cells = np.concatenate([piece["cells"] for piece in pieces])
    assert np.array_equal(np.sort(cells), np.arange(2 * len(STREAM)))
    for whole, joined in zip(job.space("good"), job.joined(reversed(pieces)), strict=True):
        assert np.array_equal(whole, joined)


@pytest.mark.parametrize("settings", [{"weight": 10.0}, {"weight": "auto"}, {"clip_weight": 1.0}])
def test_a_replay_is_a_run(monkeypatch, settings):
    as_gpu(monkeypatch)
    method = MARC("good", capacity=4, **settings)
    ours, online = marc.replay(method, STREAM.shuffled(1), "cuda"), run(method, STREAM.shuffled(1))
    assert (ours.predictions != online.predictions).sum() <= 1
    assert np.array_equal(ours.trajectory.label, online.trajectory.label)


def test_the_chosen_device_is_asked_for_once(monkeypatch):
    asked = []
    monkeypatch.setattr(sweep_job, "choose_gpu", lambda device: asked.append(device))
    job = SweepJob.plan(STREAM, **GRID, device="cuda:1")
    job.space("good")
    assert asked == ["cuda:1"]
    assert job.gpu is None
    assert job.device == "cpu"


def test_a_sweep_says_that_it_was_computed_on_a_gpu(monkeypatch):
    monkeypatch.setattr(sweep_job, "choose_gpu", lambda device: device)
    assert SweepJob.plan(STREAM, **GRID, device="cuda:1").device == "cuda"


def test_a_card_without_triton_computes_in_plain_torch(monkeypatch):
    monkeypatch.setattr(on_gpu.importlib.util, "find_spec", lambda name: None)
    assert on_gpu._kernels("cuda").__name__ == "marc.replay._torch"
    assert on_gpu._kernels("cpu").__name__ == "marc.replay._torch"


def arguments(seed, shape, n_items, dim):
    """Random arguments of both kernels, as tensors; some classes are empty."""
    draw = np.random.default_rng(seed)
    n_orders, n_capacities, n_classes, n_queries = shape
    labels = np.sort(draw.integers(1, max(2, n_classes - 1), n_items)) % n_classes
    labels.sort()
    arrivals = draw.integers(0, 50, (n_orders, n_items))
    lives = np.sort(draw.integers(0, 60, (n_orders, n_capacities, n_items)), axis=1)
    unit = [draw.standard_normal((n, dim)) for n in (n_items, n_queries)]
    tensors = [each / np.linalg.norm(each, axis=1, keepdims=True) for each in unit]
    keys = [torch.tensor(each, dtype=torch.float32) for each in tensors]
    integers = [
        np.searchsorted(labels, np.arange(n_classes + 1)),
        draw.integers(0, 60, (n_orders, n_queries)),
        arrivals,
        arrivals[:, None] + lives,
    ]
    return keys, [torch.tensor(each, dtype=torch.int32) for each in integers]


SHAPES = [((2, 3, 5, 70), 90, 33), ((1, 1, 2, 1), 1, 8), ((3, 15, 4, 130), 40, 64)]


@pytest.mark.parametrize(("shape", "n_items", "dim"), SHAPES)
def test_sums_are_those_of_a_loop_over_pairs(shape, n_items, dim):
    from marc.replay import _torch

    (items, queries), (starts, times, arrivals, last) = arguments(1, shape, n_items, dim)
    sums = torch.full(shape, torch.nan)
    _torch.add_sums(items, queries, starts, times, arrivals, last, 2.0, 5.0, sums)
    slow = np.zeros(shape)
    labels = np.repeat(np.arange(shape[2]), np.diff(starts.numpy()))
    for o, k, _, q in np.ndindex(shape[0], shape[1], 1, shape[3]):
        for i in range(n_items):
            if arrivals[o, i] < times[o, q] <= last[o, k, i]:
                cosine = float(items[i].double() @ queries[q].double())
                slow[o, k, labels[i], q] += 2.0 * np.exp(-5.0 * (1 - cosine))
    np.testing.assert_allclose(sums.numpy(), slow, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_cells", [2**27, 300])
def test_right_weights_are_those_of_the_cpu(monkeypatch, n_cells):
    """Also where classes tie exactly."""
    from marc.replay import _torch
    from marc.replay._kernels import correct_weights

    monkeypatch.setattr(_torch, "_CELLS", n_cells)
    draw = np.random.default_rng(0)
    base = draw.integers(0, 4, (6, 200)).astype(np.float32)
    sums = draw.integers(0, 3, (2, 3, 6, 200)).astype(np.float32)
    labels = draw.integers(0, 6, 200)
    ours, theirs = np.empty((2, 2, 3, 200)), np.empty((2, 2, 3, 200))
    tensors = [torch.from_numpy(each) for each in (base, sums, labels.astype(np.int32), *ours)]
    _torch.right_weights(*tensors)
    for order in range(2):
        correct_weights(base, sums[order], labels, *theirs[:, order])
    np.testing.assert_array_equal(ours, theirs)


INTERPRETED = """
import numpy as np, torch
from marc.replay import _torch, _triton
from replay.test_on_gpu import SHAPES, arguments
for number, (shape, n_items, dim) in enumerate(SHAPES):
    (items, queries), times = arguments(number, shape, n_items, dim)
    given = items, queries, *times, 2.0, 5.0
    one, other = torch.full(shape, torch.nan), torch.full(shape, torch.nan)
    _torch.add_sums(*given, one)
    _triton.add_sums(*given, other)
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    draw = np.random.default_rng(number)
    base = torch.tensor(draw.integers(0, 4, (shape[2], shape[3])), dtype=torch.float32)
    whole = torch.tensor(draw.integers(0, 3, shape), dtype=torch.float32)
    labels = torch.tensor(draw.integers(0, shape[2], shape[3]), dtype=torch.int32)
    for sums in (one, whole):  # whole numbers tie
        ends = torch.full((4, shape[0], shape[1], shape[3]), torch.nan, dtype=torch.float64)
        _torch.right_weights(base, sums, labels, *ends[:2])
        _triton.right_weights(base, sums, labels, *ends[2:])
        np.testing.assert_array_equal(ends[:2], ends[2:])
print("equal")
"""


def test_tritons_kernels_are_those_of_plain_torch():
    pytest.importorskip("triton")
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    chosen = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED], env=chosen, capture_output=True, text=True
    )
    assert done.stdout.strip() == "equal", done.stderr
