"""Neighbourhoods: each number against `marc.geometry` on whole features, and what is drawn."""

import io
import json

import numpy as np
import pytest
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work, without
from matplotlib.path import Path

from marc import MARC, run
from marc.errors import MarcError
from marc.report.style import drawing
from marc.spaces.geometry import antihub_fraction, hub_skewness, pseudo_purity, purity
from marc_paper.study.artifacts import plain
from marc_paper.study.drawing import looks_of
from marc_paper.study.figures import geometry
from marc_paper.study.figures.geometry import _class_looks, _draw, _letter_mark


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def artifacts(work):
    return geometry._make(work)


def rendered(figure):
    with drawing():
        drawn = figure.draw()
        drawn.savefig(io.BytesIO(), format="svg")
    return drawn


@pytest.mark.parametrize("stream", ["first", "second"])
@pytest.mark.parametrize("space", ["own", "best", "noise"])
@pytest.mark.parametrize("kappa", [1, 5, 10])
def test_a_point_of_a_curve_is_a_purity(work, artifacts, stream, space, kappa):
    table = table_of(artifacts, "purity-curves")
    where = {"stream": stream, "space": space, "neighbors": str(kappa)}
    features, labels = work.stream(stream).features, work.labels(stream)
    keys, answers = features.keys(space), features.base.label
    found = cell(table, "purity", **where)
    assert found.value == pytest.approx(purity(keys, labels, kappa))
    assert found.low <= found.value <= found.high
    pseudo = cell(table, "pseudo-purity", **where)
    assert pseudo.value == pytest.approx(pseudo_purity(keys, answers, kappa))
    assert cell(table, "anti-hubs", **where) == antihub_fraction(keys, kappa)
    assert cell(table, "hub skewness", **where) == pytest.approx(hub_skewness(keys, kappa))


@pytest.mark.parametrize("space", ["own", "good"])
def test_hubs_stand_beside_the_best_capacity(work, artifacts, space):
    table, where = table_of(artifacts, "hubs"), {"stream": "first", "space": space}
    stream, grids = work.stream("first"), work.plan.grids
    keys = stream.features.keys(space)
    assert cell(table, "anti-hubs@10", **where) == antihub_fraction(keys, 10)
    assert cell(table, "hub skewness@10", **where) == pytest.approx(hub_skewness(keys, 10))
    best = {
        capacity: [
            max(
                run(MARC(space, capacity, weight), stream.shuffled(seed)).gain
                for weight in grids.weights
            )
            for seed in work.plan.seeds.orders
        ]
        for capacity in grids.capacities
    }
    wanted = max(best, key=lambda capacity: (round(np.mean(best[capacity]), 12), -capacity))
    assert cell(table, "K*", **where) == wanted
    assert cell(table, "G* at K*", **where).value == pytest.approx(np.mean(best[wanted]))
    base = (stream.features.base.label == stream.row_labels).mean()
    assert cell(table, "no memory", **where) == pytest.approx(base)


def test_every_main_stream_has_its_rows(artifacts):
    curves, hubs = artifacts[1:]
    assert len(curves.rows) == 2 * 6 * 3
    assert len(hubs.rows) == 2 * 6
    assert set(column(hubs, "stream")) == {"first", "second"}


def test_the_same_images_of_the_largest_classes_are_shown():
    labels = np.repeat([9, 3, 7, 5], [4, 6, 6, 1])
    rows = geometry._shown_rows(labels, n_classes=2, n_images=10)
    assert labels[rows].tolist() == [3] * 5 + [7] * 5
    assert rows.tolist() == [4, 5, 6, 7, 8, 10, 11, 12, 13, 14]
    one = geometry._shown_rows(labels, n_classes=1, n_images=3)  # of two equal ones the lower
    assert one.tolist() == [4, 5, 6]
    assert len(geometry._shown_rows(labels)) == 17
    assert len(geometry._shown_rows(np.repeat(np.arange(10), 150))) == 800


def test_planes_are_of_the_shown_images_in_both_spaces(work, artifacts):
    data = artifacts[0].data
    assert list(data["planes"]) == ["own", "good"]
    features, labels, rows = work.stream("first").features, work.labels("first"), data["rows"]
    assert data["perplexity"] == pytest.approx(89 / 3)
    np.testing.assert_array_equal(data["labels"], labels[rows])
    for space, shown in data["planes"].items():
        keys = features.keys(space)[rows]
        assert shown["purity"] == pytest.approx(purity(keys, labels[rows], 10))
        np.testing.assert_array_equal(shown["positions"], geometry._plane(keys))


def clusters(n_each=20, apart=8.0):
    points = np.random.default_rng(0).standard_normal((2 * n_each, 5))
    points[n_each:, 0] += apart
    return points


def test_neighbours_stay_together_on_a_plane():
    positions = geometry._plane(clusters())
    distances = np.linalg.norm(positions[:, np.newaxis] - positions, axis=2)
    inside, across = distances[:20, :20], distances[:20, 20:]
    assert across.min() > np.median(inside[~np.eye(20, dtype=bool)])
    np.fill_diagonal(distances, np.inf)
    assert ((distances.argmin(axis=1) < 20) == (np.arange(40) < 20)).all()


def test_the_same_points_give_the_same_plane():
    points = clusters()
    np.testing.assert_array_equal(geometry._plane(points), geometry._plane(points.copy()))
    assert geometry._plane(points[:2]).shape == (2, 2)


def test_without_scikit_learn_it_is_not_possible_and_says_what_to_install(work, monkeypatch):
    assert geometry._EXPERIMENT.missing(work.plan) == ""
    monkeypatch.setattr(geometry, "find_spec", lambda name: None)
    assert "pip install 'marc-clip[paper]'" in geometry._EXPERIMENT.missing(work.plan)
    with pytest.raises(MarcError, match=r"pip install 'marc-clip\[paper\]'"):
        geometry._plane(clusters())


def test_what_is_drawn_are_the_numbers(artifacts):
    figure = artifacts[0]
    first, second, curves, hubs = rendered(figure).axes
    for axes, (space, shown) in zip((first, second), figure.data["planes"].items(), strict=True):
        drawn = np.concatenate([np.c_[line.get_data()] for line in axes.lines])
        assert sorted(map(tuple, drawn)) == sorted(map(tuple, shown["positions"]))
        title = axes.get_title()
        assert space in title
        assert f"{100 * shown['purity']:.1f} %" in title
    for line, found in zip(curves.lines, figure.data["purity"].values(), strict=True):
        wanted = [100 * each["value"] for each in found.values()]
        np.testing.assert_allclose(line.get_ydata(), wanted)
    assert len(curves.collections) == 6
    names = [text.get_text() for text in hubs.get_yticklabels()]
    pairs = figure.data["anti-hubs, K*"]
    assert [text.get_text() for text in hubs.texts] == [str(pairs[name][1]) for name in names]
    ends = [line.get_xdata()[-1] for line in hubs.lines if line.get_marker() == "None"]
    np.testing.assert_allclose(ends, [100 * pairs[name][0] for name in names])
    assert ends == sorted(ends)


def test_spaces_stand_by_their_anti_hubs_with_the_best_capacity_beside():
    looks = looks_of(tiny_plan())
    shares = {"noise": (0.3, 1), "own": (0.1, 4), "good": (0.2, 16)}
    point = {"own": (np.zeros((2, 2)), 0.5)}
    names = {0: "_under", 1: "a name that is much too long for a legend"}
    with drawing():
        drawn = _draw(point, np.array([0, 1]), names, 10, {}, shares, looks)
    hubs, [classes, _] = drawn.axes[3], drawn.legends
    assert [text.get_text() for text in hubs.get_yticklabels()] == ["own", "good", "noise"]
    assert [text.get_text() for text in hubs.texts] == ["4", "16", "1"]
    ends = [line.get_xdata()[-1] for line in hubs.lines if line.get_marker() == "None"]
    np.testing.assert_allclose(ends, [10, 20, 30])
    shown = [text.get_text() for text in classes.get_texts()]
    assert shown == ["\u200b_under", "a name that is much t…"]


def test_no_two_classes_look_alike():
    looks = _class_looks(range(8))
    assert len(set(looks.values())) == 8
    assert len({color for color, _ in looks.values()}) == 8
    assert "".join(letter for _, letter in looks.values()) == "ABCDEFGH"


@pytest.mark.parametrize("letter", "ABH")
def test_the_mark_of_a_class_is_its_letter_about_its_middle(letter):
    mark = _letter_mark(letter)
    box = mark.get_extents()
    assert (box.x0 + box.x1, box.y0 + box.y1) == pytest.approx((0, 0))
    assert box.width > 0 < box.height
    outlines = {"A": 2, "B": 3, "H": 1}  # with those of the holes
    assert len(mark.to_polygons()) == outlines[letter]


def test_classes_and_spaces_share_no_mark(artifacts):
    first, second, curves, _ = rendered(artifacts[0]).axes
    for axes in (first, second):
        assert all(isinstance(line.get_marker(), Path) for line in axes.lines)
    assert all(isinstance(line.get_marker(), str) for line in curves.lines)
    assert "letters are classes, and marks in (c, d) are spaces" in artifacts[0].caption


def test_it_uses_what_it_declares():
    work = tiny_work()
    geometry._make(work)
    assert set(work.used) == set(geometry._EXPERIMENT.pieces(work.plan))


def test_an_odd_plan():
    plan = without(
        tiny_plan(
            seeds={"orders": [3]},
            grids={"neighbors": [5, 10, 50]},
            spaces={"all": ["own", "weak"], "controls": ["own"], "deployed": "own"}
            | {"strong": "own"},
        ),
        *("second", "third", "fourth", "fifth", "sixth"),
    )
    work = tiny_work(plan, n_images=13, n_classes=3)
    figure, curves, hubs = geometry._make(work)
    assert column(curves, "neighbors", space="own") == ["5", "10"]
    assert column(hubs, "G* at K*", space="own")[0].sd is None
    assert list(figure.data["planes"]) == ["own"]
    rendered(figure)
    json.dumps(plain(figure.data), allow_nan=False)
    assert set(work.used) == set(geometry._EXPERIMENT.pieces(plan))
