from dataclasses import replace

import numpy as np
import pytest
from helpers.making import make_stream
from helpers.repository import PACKS
from scipy.stats import skew

import marc
from marc.errors import MarcError
from marc.spaces import geometry
from marc.spaces.calibration import Calibration

# purity and pseudo-purity at 10 neighbours in percent, from an independent slow program
EXPECTED = {
    "office_caltech": {
        "lite0": (94.5, 84.8),
        "resnet50": (94.1, 83.0),
        "mobilenetv2": (93.4, 82.9),
        "sscd": (81.6, 71.8),
        "sscd_mnv4": (81.4, 72.0),
        "augnet": (56.5, 50.6),
    },
    "caltech101_test": {
        "lite0": (81.1, 57.2),
        "resnet50": (77.7, 53.3),
        "mobilenetv2": (75.0, 52.2),
        "sscd_mnv4": (50.6, 36.0),
        "sscd": (50.5, 35.6),
        "augnet": (33.4, 24.5),
    },
}


@pytest.fixture(scope="module")
def points():
    """Features, labels and a table that is wider than needed."""
    draw = np.random.default_rng(0)
    labels = draw.integers(6, size=150)
    features = draw.standard_normal((6, 12))[labels] + draw.standard_normal((150, 12))
    return features, labels, geometry.neighbors(features, 30)


def edges(table, n_neighbors):
    return [(i, int(j)) for i, row in enumerate(table) for j in row[:n_neighbors]]


@pytest.mark.parametrize("n_neighbors", [1, 5, 10, 30])
def test_measures_are_those_of_the_slow_way(points, n_neighbors):
    features, labels, table = points
    pairs = edges(table, n_neighbors)
    share = sum(labels[i] == labels[j] for i, j in pairs) / len(pairs)
    degrees = [sum(j == point for _, j in pairs) for point in range(150)]
    given = {"n_neighbors": n_neighbors}
    assert geometry.purity(features, labels, **given) == pytest.approx(share)
    assert geometry.pseudo_purity(features, labels, **given) == pytest.approx(share)
    assert geometry.in_degrees(features, **given).tolist() == degrees
    assert geometry.antihub_fraction(features, **given) == pytest.approx(degrees.count(0) / 150)
    assert geometry.hub_skewness(features, **given) == pytest.approx(skew(degrees))
    for label, value in enumerate(geometry.per_class_purity(features, labels, **given)):
        own = [labels[j] == label for i, j in pairs if labels[i] == label]
        assert value == pytest.approx(np.mean(own))
    hubs = geometry.top_hubs(features, **given, n_hubs=7)
    best = sorted(range(150), key=lambda point: (-degrees[point], point))[:7]
    assert hubs == tuple((point, degrees[point]) for point in best)


@pytest.mark.parametrize("n_neighbors", [1, 5, 10, 30])
def test_a_table_gives_what_features_give_at_every_kappa(points, n_neighbors):
    features, labels, table = points
    for measure in (geometry.purity, geometry.pseudo_purity, geometry.per_class_purity):
        expected = measure(features, labels, n_neighbors)
        np.testing.assert_array_equal(measure(None, labels, n_neighbors, table=table), expected)
    for measure in (geometry.in_degrees, geometry.antihub_fraction, geometry.hub_skewness):
        expected = measure(features, n_neighbors)
        np.testing.assert_array_equal(measure(None, n_neighbors, table=table), expected)


@pytest.mark.parametrize("n_neighbors", [1, 5, 10, 30])
def test_the_accounting_of_edges_is_exact(points, n_neighbors):
    _, labels, table = points
    pairs = edges(table, n_neighbors)
    purity = geometry.purity(None, labels, n_neighbors, table=table)
    antihubs = geometry.antihub_fraction(None, n_neighbors, table=table)
    degrees = geometry.in_degrees(None, n_neighbors, table=table)
    assert len(set(pairs)) == degrees.sum() == 150 * n_neighbors
    across = sum(labels[i] != labels[j] for i, j in pairs)
    assert round(150 * n_neighbors * (1 - purity), 6) == across
    assert round(150 * (1 - antihubs), 6) == len({j for _, j in pairs})


def test_one_class_is_pure_and_no_class_is_chance():
    features = np.random.default_rng(0).standard_normal((40, 5))
    assert geometry.purity(features, np.zeros(40, dtype=int)) == 1
    assert geometry.purity(features, np.arange(40)) == 0
    by_class = geometry.per_class_purity(features, np.full(40, 2))
    np.testing.assert_array_equal(by_class, [np.nan, np.nan, 1])


def test_equal_vectors_have_a_defined_geometry():
    features = np.ones((50, 3))
    assert geometry.antihub_fraction(features, 10) == 39 / 50
    assert [hub.item for hub in geometry.top_hubs(features, 10)] == list(range(10))
    ring = np.stack([np.roll(np.arange(6), -1), np.roll(np.arange(6), 1)], axis=1)
    assert geometry.hub_skewness(None, 2, table=ring) == 0


@pytest.mark.parametrize("labels", [[0.0] * 12, [0] * 11, [[0]] * 12])
def test_bad_labels_are_refused(labels):
    features = np.random.default_rng(0).standard_normal((12, 5))
    with pytest.raises(MarcError, match="labels must be one integer per image"):
        geometry.purity(features, labels, 3)


def test_a_negative_class_has_no_purity():
    with pytest.raises(MarcError, match="classes from 0"):
        geometry.per_class_purity(None, [-1, 0], 1, table=[[1], [0]])


def test_a_stream_is_measured_at_several_kappa_from_one_table():
    stream = make_stream(n_images=90)
    result = geometry.measure(stream, "good", (10, 3, 10))
    keys, labels = stream.features.keys("good"), stream.row_labels
    assert list(result.measures) == [3, 10]
    assert (result.space, result.n_images, result.recall) == ("good", 90, 1)
    for kappa, measures in result.measures.items():
        assert measures.n_neighbors == kappa
        assert measures.purity.estimate == geometry.purity(keys, labels, kappa)
        predictions = stream.features.base.label
        assert measures.pseudo_purity.estimate == geometry.purity(keys, predictions, kappa)
        assert measures.antihub_fraction == geometry.antihub_fraction(keys, kappa)
        assert measures.hub_skewness == geometry.hub_skewness(keys, kappa)
        assert measures.purity.low < measures.purity.estimate < measures.purity.high
    by_class = geometry.per_class_purity(keys, labels, 10)
    np.testing.assert_array_equal(result.per_class_purity, by_class)
    assert result.hubs == geometry.top_hubs(keys, 10)


def test_the_order_of_a_stream_does_not_matter():
    stream = make_stream()
    first, second = (geometry.measure(s, "good").measures for s in (stream, stream.shuffled(3)))
    assert first == second


def test_pseudo_labels_are_the_answers_to_the_plain_images(monkeypatch):
    stream = make_stream(n_views=5)
    logits = stream.features.predictor.logits(stream.features.clip_keys)
    np.testing.assert_array_equal(geometry.pseudo_labels(stream), logits.argmax(axis=-1))
    monkeypatch.setattr(geometry, "_HELD", 10)
    monkeypatch.setattr(geometry, "_ROWS", 7)
    expected = stream.with_views(1).features.base.label
    np.testing.assert_array_equal(geometry.pseudo_labels(stream), expected)


def test_without_labels_there_is_no_purity():
    result = geometry.measure(replace(make_stream(), row_labels=None), "good")
    assert result.per_class_purity is None
    assert all(each.purity is None for each in result.measures.values())
    assert result.measures[10].pseudo_purity.estimate > 0.3


def test_copies_of_an_image_are_counted_and_kept():
    stream = make_stream()
    keys = stream.features.keys("good").copy()
    keys[40:45] = keys[0]
    features = replace(stream.features, spaces={"good": keys})
    assert geometry.measure(replace(stream, features=features), "good").n_duplicates == 5


@pytest.mark.parametrize("settings", [{"n_replicates": 0}, {"n_neighbors": (50,)}])
def test_an_interval_that_cannot_be_had_is_not_a_number(settings):
    result = geometry.measure(make_stream(), "good", **settings)
    for measures in result.measures.values():
        assert np.isnan(measures.purity[1:]).all()


def test_intervals_are_those_of_the_slow_way():
    stream = make_stream(n_images=70)
    keys, size = stream.features.keys("good"), Calibration(70, 10).error_size
    kinds = {"purity": stream.row_labels, "pseudo_purity": stream.features.base.label}
    found = geometry.measure(stream, "good", (3, 6), n_replicates=9, seed=2).measures
    for kappa, measures in found.items():
        for name, labels in kinds.items():
            values = []
            for number in range(9):
                order = np.random.default_rng([2, number]).permutation(70)
                chosen = np.sort(order[:size])
                values.append(geometry.purity(keys[chosen], labels[chosen], kappa))
            error = 1.959964 * np.std(values, ddof=1) * np.sqrt(size / (70 - size))
            interval = getattr(measures, name)
            assert interval.estimate - interval.low == pytest.approx(error)


def test_a_table_that_is_known_is_used_and_its_recall_told():
    stream = make_stream(n_images=90)
    table = geometry.neighbors(stream.features.keys("good"), 20)
    given = geometry.measure(stream, "good", (3, 10), table=table)
    found = geometry.measure(stream, "good", (3, 10))
    assert given.measures == found.measures
    assert (given.recall, given.hubs) == (1, found.hubs)
    other = geometry.neighbors(stream.features.keys("bad"), 20)
    assert geometry.measure(stream, "good", (3, 10), table=other).recall < 0.5
    with pytest.raises(MarcError, match="too narrow"):
        geometry.measure(stream, "good", (30,), table=table)


def test_equal_vectors_and_one_class_have_a_geometry():
    stream = make_stream()
    features = replace(stream.features, spaces={"same": np.ones((60, 1), dtype=np.float32)})
    one_class = replace(stream, features=features, row_labels=np.zeros(60, dtype=int))
    result = geometry.measure(one_class, "same")
    assert result.n_duplicates == 59
    assert result.measures[10].antihub_fraction == 49 / 60
    assert result.measures[10].purity == (1, 1, 1)
    np.testing.assert_array_equal(result.per_class_purity, [1] + [np.nan] * 4)


@pytest.mark.parametrize("seed", range(4))
def test_chance_is_the_purity_of_neighbours_drawn_at_random(seed):
    labels = np.random.default_rng(seed).integers(-3, 3, size=50)
    pairs = [labels[i] == labels[j] for i in range(50) for j in range(50) if i != j]
    assert geometry.chance(labels) == pytest.approx(np.mean(pairs))


def test_a_wrong_number_of_batches_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(geometry, "wide_table", None)
    with pytest.raises(MarcError, match="has no spread"):
        geometry.measure(make_stream(), "good", n_replicates=1)


def test_kappas_are_checked():
    stream = make_stream(n_images=20)
    with pytest.raises(MarcError, match="20 neighbours of 20 image"):
        geometry.measure(stream, "good", (5, 20))
    with pytest.raises(MarcError, match="needs a number of neighbours"):
        geometry.measure(stream, "good", ())


@pytest.mark.parametrize("name", EXPECTED)
def test_real_features_have_the_purity_of_an_independent_program(name):
    path = PACKS / f"{name}.npz"
    if not path.exists():
        pytest.skip("no packs of real features beside this checkout")
    stream = marc.load_stream(f"arrays/{path}")
    for space, expected in EXPECTED[name].items():
        measures = geometry.measure(stream, space, n_replicates=0).measures[10]
        got = measures.purity.estimate, measures.pseudo_purity.estimate
        np.testing.assert_allclose(np.multiply(100, got), expected, atol=0.06)
