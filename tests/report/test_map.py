"""The map: which images are on it, where they are, and that the same keys give the same places."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marc.report.explorer import explore
from marc.report.inputs import Inputs
from marc.report.map import draw_map, lay_out, sample_rows
from marc.report.setting import Subject


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 2**32 - 1))
def test_a_sample_has_those_listed_and_others_spread_over_the_stream(size, limit, seed):
    draw = np.random.default_rng(seed)
    order = draw.permutation(size)
    listed = draw.permutation(size)[: draw.integers(size + 1)].tolist()
    rows = sample_rows(order, listed, limit).tolist()
    assert len(rows) == len(set(rows)) == min(size, limit)
    assert set(listed[:limit]) <= set(rows)
    place = {row: time for time, row in enumerate(order.tolist())}
    assert rows == sorted(rows, key=place.get)
    rest = [row for row in order.tolist() if row not in set(listed[:limit])]
    others = [rest.index(row) for row in rows if row not in set(listed[:limit])]
    gaps = np.diff([*others, len(rest)])
    assert len(gaps) == 0 or gaps.max() - gaps.min() <= 1


def grouped(n=60, dimensions=16):
    draw = np.random.default_rng(0)
    centres = draw.standard_normal((3, dimensions))
    group = np.arange(n) % 3
    return centres[group] + 0.05 * draw.standard_normal((n, dimensions)), group


def without_sklearn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)


@pytest.mark.parametrize("library", [True, False])
@pytest.mark.parametrize(("n", "dimensions"), [(60, 16), (4, 3), (2, 8), (5, 1)])
def test_points_are_inside_and_the_same_each_time(monkeypatch, library, n, dimensions):
    if library:
        pytest.importorskip("sklearn")
    else:
        without_sklearn(monkeypatch)
    keys, _ = grouped(n, dimensions)
    points, name = lay_out(keys.astype(np.float32))
    assert name == ("t-SNE" if library and n > 4 else "PCA")
    assert points.shape == (n, 2)
    assert points.min() >= 0
    assert points.max() <= 1000
    assert np.ptp(points, axis=0).max() == 1000
    np.testing.assert_array_equal(points, lay_out(keys.astype(np.float32))[0])


@pytest.mark.parametrize("library", [True, False])
def test_groups_of_a_space_are_groups_on_its_map(monkeypatch, library):
    if library:
        pytest.importorskip("sklearn")
    else:
        without_sklearn(monkeypatch)
    keys, group = grouped()
    points, _ = lay_out(keys)
    distance = np.linalg.norm(points[:, np.newaxis] - points, axis=-1) + np.diag([np.inf] * 60)
    assert (group[distance.argmin(axis=1)] == group).all()


def test_main_directions_are_those_of_most_variance(monkeypatch):
    without_sklearn(monkeypatch)
    keys, _ = grouped()
    values, vectors = np.linalg.eigh(np.cov(keys.T))
    expected = (keys - keys.mean(axis=0)) @ vectors[:, [-1, -2]]
    points, _ = lay_out(keys)
    for direction in range(2):
        correlation = np.corrcoef(points[:, direction], expected[:, direction])[0, 1]
        assert abs(correlation) > 0.9999
    assert values[-1] > values[-2]


def test_images_that_are_all_alike_lie_in_one_place(monkeypatch):
    without_sklearn(monkeypatch)
    points, _ = lay_out(np.ones((6, 3)))
    assert len(np.unique(points, axis=0)) == 1


def test_the_map_says_what_the_run_did_to_each_image(results):
    subject = Subject.of(Inputs.read([results["run"]]), None, lambda step: None)
    listed = [query["row"] for query in explore(subject, 20).queries]
    drawn = draw_map(subject, listed, lambda row: None, {row: "" for row in listed})
    assert sorted(drawn["rows"]) == list(range(160))
    assert set(drawn["ids"]) == set(range(160)) - set(listed)
    assert tuple(drawn["planes"]) == subject.shown_spaces
    for row, kind in zip(drawn["rows"], drawn["kinds"], strict=True):
        before, after = subject.base_prediction[row], subject.prediction[row]
        truth = subject.labels[row]
        expected = 0 if before == after else 2 if after == truth else 3 if before == truth else 1
        assert kind == expected
    assert "all 160 images" in drawn["text"]
