"""Who is remembered when, against a memory that is written picture by picture."""

import numpy as np
import pytest

import marc
from marc.memory import Memory
from marc.results.remembered import CAPACITY, Remembered, certainty_rank


@pytest.fixture(scope="module")
def stream():
    return marc.synthetic_stream(n_images=700, n_classes=5, seed=3).shuffled(1)


def slowly(stream, space, count):
    """The nearest of each query, one after the other."""
    keys, base = stream.features.keys(space), stream.features.base
    memory = Memory(stream.n_classes, CAPACITY, keys.shape[1])
    found = []
    for row in stream.order:
        found.append([(n.item, n.similarity) for n in memory.neighbors(keys[row], count)])
        rank = float(certainty_rank(base.at(row)))
        memory.write(keys[row], int(base.label[row]), rank, int(row))
    return found


@pytest.mark.parametrize("space", ["classes", "predictor"])
def test_the_nearest_are_those_of_a_memory_written_one_by_one(stream, space):
    expected = slowly(stream, space, 4)
    rows, similarity = Remembered.of(stream).nearest(space, np.arange(len(stream)), 4)
    assert (rows[0] == -1).all()
    assert np.isnan(similarity[0]).all()
    for position, near in enumerate(expected):
        there = rows[position] >= 0
        assert rows[position][there].tolist() == [item for item, _ in near]
        values = [value for _, value in near]
        np.testing.assert_allclose(similarity[position][there], values, atol=1e-6)


def test_any_positions_in_any_order_give_the_same(stream):
    remembered = Remembered.of(stream)
    whole, _ = remembered.nearest("classes", np.arange(len(stream)), 3)
    some = np.array([650, 3, 0, 401, 3])
    rows, _ = remembered.nearest("classes", some, 3)
    np.testing.assert_array_equal(rows, whole[some])


def test_only_earlier_pictures_are_remembered_and_few_of_each_class(stream):
    rows, _ = Remembered.of(stream).nearest("classes", np.array([699]), 700)
    held = rows[rows >= 0]
    assert len(held) == len(set(held.tolist()))
    assert stream.order[699] not in held
    assert np.bincount(stream.features.base.label[held]).max() == CAPACITY
