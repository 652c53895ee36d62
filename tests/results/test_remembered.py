import numpy as np
import pytest

import marc
from marc.errors import MarcError
from marc.replay.lifetimes import History
from marc.results.remembered import Remembered


def _slow_nearest(stream, space, position, count, n):
    """Straight from the definition, one earlier picture at a time."""
    base, keys = stream.features.base, stream.features.keys(space).astype(np.float64)
    best: dict[int, list[tuple[float, int, int]]] = {}
    for time, row in enumerate(stream.order[:position].tolist()):
        held = best.setdefault(int(base.label[row]), [])
        held.append((float(base.entropy_as("posterior")[row]), time, row))
        held.sort()
        del held[n:]
    query = keys[stream.order[position]]
    found = [(-float(keys[row] @ query), row) for held in best.values() for _, _, row in held]
    return [(row, -less) for less, row in sorted(found)[:count]]


@pytest.mark.parametrize("n", [1, 3, 16])
@pytest.mark.parametrize("seed", [None, 0])
def test_it_finds_what_the_definition_finds_at_every_position(n, seed):
    stream = marc.synthetic_stream(n_images=700, n_classes=7).in_order(seed)
    rows, cosines = Remembered.of(stream, n=n).nearest("classes", count=4)
    assert rows.shape == cosines.shape == (700, 4)
    for position in [*range(12), 100, 511, 512, 513, 699]:
        slow = _slow_nearest(stream, "classes", position, 4, n)
        there = rows[position] >= 0
        assert rows[position][there].tolist() == [row for row, _ in slow]
        np.testing.assert_allclose(cosines[position][there], [s for _, s in slow], atol=1e-5)
        assert np.isneginf(cosines[position][~there]).all()


def test_some_positions_in_any_order_find_what_all_of_them_find():
    stream = marc.synthetic_stream(n_images=600, n_classes=5).shuffled(1)
    remembered = Remembered.of(stream)
    asked = np.random.default_rng(0).permutation(600)[:550]
    every, some = remembered.nearest("styles")[0], remembered.nearest("styles", asked)[0]
    assert np.array_equal(some, every[asked])


def test_nothing_later_is_found_and_changes_nothing():
    stream = marc.synthetic_stream(n_images=300, n_classes=5).shuffled(2)
    rows, _ = Remembered.of(stream).nearest("predictor", count=5)
    time = np.argsort(stream.order)
    assert (np.where(rows >= 0, time[rows], -1) < np.arange(300)[:, np.newaxis]).all()
    other = stream.order.copy()
    other[200:] = other[200:][::-1]  # another future
    again, _ = Remembered.of(stream.reordered(other)).nearest("predictor", count=5)
    assert np.array_equal(again[:200], rows[:200])


def test_copies_of_one_picture_are_found_in_the_order_of_their_rows():
    stream = marc.Stream.from_arrays(np.ones((6, 3)), np.eye(3), {"own": np.ones((6, 4))})
    rows, _ = Remembered.of(stream, n=2).nearest("own", count=3)
    assert rows[-1].tolist() == [0, 1, -1]  # two are remembered; equals keep the earlier
    assert rows[0].tolist() == [-1, -1, -1]


def test_nearest_entries_of_equal_similarity_are_those_of_the_lower_rows():
    keys = np.tile(np.eye(2, dtype=np.float32), (20, 1))
    order = np.random.default_rng(0).permutation(40)
    trajectory = marc.Trajectory(order, np.zeros(40, dtype=np.int64), np.arange(40.0))
    stream = marc.Stream.from_arrays(keys, np.eye(2), {"same": keys}).reordered(order)
    memory = Remembered(stream, History.trace(trajectory, (25,), stream.n_classes))
    nearest, _ = memory.nearest("same", count=6)
    for time, item in enumerate(order):
        held = [row for rows in trajectory.retained(time, 25).values() for row in rows]
        expected = sorted(held, key=lambda row: (-float(keys[row] @ keys[item]), row))[:6]
        assert [row for row in nearest[time] if row >= 0] == expected


def test_an_unknown_space_and_a_count_below_one_are_refused():
    remembered = Remembered.of(marc.synthetic_stream(n_images=20, n_classes=2))
    with pytest.raises(MarcError, match="no space 'other'"):
        remembered.nearest("other")
    with pytest.raises(MarcError, match="count"):
        remembered.nearest("classes", count=0)
