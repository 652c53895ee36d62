"""The arithmetic of large streams is that of trajectories, where these can be traced."""

import numpy as np
import pytest

from benchmarks.scale import (
    WINDOW,
    admitted,
    alive,
    core_time,
    in_sweep,
    n_bytes,
    number,
    trajectory,
)
from marc.replay.lifetimes import History


@pytest.mark.parametrize("n_classes", [50, 1000])
def test_items_are_counted_as_lifetimes_count_them(n_classes):
    n_images, largest = 60_000, 64
    history = History.trace(trajectory(n_images, n_classes), (largest,), n_classes)
    assert len(history.items) == pytest.approx(admitted(n_images, n_classes, largest), rel=0.02)
    starts = range(0, n_images - WINDOW, WINDOW)
    mean = np.mean([len(history.between(start, start + WINDOW).items) for start in starts])
    assert mean == pytest.approx(alive(n_images, n_classes, largest), rel=0.03)


def test_a_stream_without_end_is_read_apart_in_time_that_grows_with_it():
    assert in_sweep(50_000)[0] == "shared"
    (way, pairs), (_, more) = in_sweep(10**8), in_sweep(10**9)
    assert way == "apart"
    assert more / pairs == pytest.approx(10, rel=0.01)


def test_numbers_read_well():
    assert (number(0), number(31_457_280)) == ("0", "3.1 x 10^7")
    assert (n_bytes(51_200_000), n_bytes(4.9152e12)) == ("51.2 MB", "4.9 TB")
    assert (core_time(600), core_time(3.6e6)) == ("10 min", "1,000 h")
