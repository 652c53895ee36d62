"""Rows that are read when they are asked for are those of the whole array."""

import numpy as np
import pytest

from marc.errors import MarcError
from marc.stream import rows as lazy
from marc.stream.rows import LazyRows, each_row, lazy_rows, some_rows

ARRAY = np.random.default_rng(0).standard_normal((50, 3, 4)).astype(np.float16)
INDICES = {
    "one": 7,
    "last": -1,
    "numpy": np.int32(3),
    "slice": slice(5, 20),
    "stepped": slice(40, 2, -3),
    "all": slice(None),
    "none": slice(0, 0),
    "list": [4, 4, -50, 9],
    "table": np.array([[1, 2], [3, 49]]),
    "mask": np.arange(50) % 7 == 0,
    "part": (np.array([5, 2]), 0),
    "parts": (slice(None), slice(1, 3)),
    "number": (6, 2, 1),
}


def make(calls=None):
    def read(index):
        if calls is not None:
            calls.append(len(index))
        return ARRAY[index]

    return LazyRows(read, ARRAY.shape, ARRAY.dtype)


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("block", [1, 2**22])
def test_any_index_gives_what_the_array_gives(monkeypatch, name, block):
    monkeypatch.setattr(lazy, "_BLOCK", block)
    found, expected = make()[INDICES[name]], ARRAY[INDICES[name]]
    assert np.shape(found) == expected.shape
    np.testing.assert_array_equal(found, expected, strict=True)


def test_it_has_the_facts_of_the_array():
    rows = make()
    assert (rows.shape, rows.dtype, rows.ndim, len(rows)) == ((50, 3, 4), np.float16, 3, 50)


def test_rows_that_are_not_there_are_refused():
    for index in (50, -51, [0, 50]):
        with pytest.raises(IndexError):
            make()[index]


def test_the_whole_array_is_refused_with_its_size():
    rows = LazyRows(lambda index: ARRAY[index], (1_280_000, 768), np.float32)
    for use in (np.asarray, lambda r: r @ np.ones(768), np.linalg.norm, np.ascontiguousarray):
        with pytest.raises(MarcError, match="1,280,000 x 768 numbers"):
            use(rows)


def test_only_the_parts_of_rows_that_are_asked_for_are_held(monkeypatch):
    monkeypatch.setattr(lazy, "_BLOCK", 10 * 12)
    calls = []
    assert make(calls)[:, 0].shape == (50, 4)
    assert calls == [10] * 5
    assert np.array_equal(make(calls).first(2)[3:5], ARRAY[3:5, :2])


def test_a_subset_is_read_unless_it_is_large_again(monkeypatch):
    index = np.array([9, 3, 3, 30])
    assert isinstance(some_rows(make(), index), np.ndarray)
    monkeypatch.setattr(lazy, "_LARGE", 4 * 12 - 1)
    part = some_rows(make(), index)
    assert isinstance(part, LazyRows)
    assert np.array_equal(part[[3, 0]], ARRAY[[30, 9]])


def test_a_function_of_rows_is_taken_now_or_when_they_are_read():
    double = lambda rows: rows.astype(np.float32) * 2  # noqa: E731
    held, unheld = each_row(double, ARRAY), each_row(double, make())
    assert isinstance(unheld, LazyRows)
    np.testing.assert_array_equal(unheld[4:9], held[4:9], strict=True)


def test_reading_through_reads_every_row_once_and_tells(monkeypatch):
    monkeypatch.setattr(lazy, "_BLOCK", 20 * 12)
    calls, told = [], []
    make(calls).read_through("reading", lambda *words: told.append(words))
    assert calls == [20, 20, 10]
    assert told == [("reading", n, 50) for n in (0, 20, 40, 50)]


def test_rows_may_be_computed():
    rows = lazy_rows(lambda index: index[:, np.newaxis] ** 2, (10, 1), np.int64)
    assert rows[[3, 2]].tolist() == [[9], [4]]
