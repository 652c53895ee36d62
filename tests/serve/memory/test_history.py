"""The past in bounded numbers, beside all of it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marc.serve.memory.history import _MOST, History


def _stream(count, seed=0):
    draw = np.random.default_rng(seed)
    rows = zip(draw.random(count) < 0.3, draw.random(count) < 0.5, draw.random(count), strict=True)
    return [(seq, bool(d), bool(a), float(w)) for seq, (d, a, w) in enumerate(rows, 1)]


def _history(stream):
    history = History()
    for seq, disagrees, admitted, weight in stream:
        history.add(seq, disagrees=disagrees, admitted=admitted, weight=weight)
    return history


@given(st.integers(0, 3000), st.integers(1, 600))
def test_points_are_sums_of_neighbouring_steps(count, points):
    stream = _stream(count)
    rows = _history(stream).points(points)
    assert len(rows) <= min(points, _MOST)
    assert sum(row["steps"] for row in rows) == count
    start = 0
    for row in rows:
        part = stream[start : start + row["steps"]]
        assert row["seq"] == part[-1][0]
        assert row["disagreements"] == sum(each[1] for each in part)
        assert row["admitted"] == sum(each[2] for each in part)
        assert row["weight"] == pytest.approx(np.mean([each[3] for each in part]))
        start += row["steps"]


def test_a_million_steps_take_no_more_room():
    history = History()
    for seq in range(1, 1_000_001):
        history.add(seq, disagrees=True, admitted=False, weight=2.0)
    rows = history.points()
    assert len(rows) <= _MOST
    assert history.width == 2048
    assert {row["steps"] for row in rows[:-1]} == {2048}
    assert rows[-1]["seq"] == 1_000_000


@given(st.integers(0, 2000), st.integers(0, 800))
def test_it_goes_on_from_its_state_bit_for_bit(before, after):
    stream = _stream(before + after)
    first = _history(stream[:before])
    again = History(**json.loads(json.dumps(first.state())))
    for history in (first, again):
        for seq, disagrees, admitted, weight in stream[before:]:
            history.add(seq, disagrees=disagrees, admitted=admitted, weight=weight)
    assert first.state() == again.state()


def test_a_state_is_a_copy():
    history = _history(_stream(10))
    state = history.state()
    history.add(11, disagrees=True, admitted=True, weight=1.0)
    assert len(state["rows"]) == 10
