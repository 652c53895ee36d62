from dataclasses import replace

import numpy as np
import pytest
from helpers.making import make_stream
from helpers.repository import PACKS
from scipy.stats import spearmanr

import marc
from marc.errors import MarcError, check_spaces
from marc.spaces import geometry
from marc.spaces.calibration import Calibration
from marc.spaces.selection import (
    Candidate,
    Selection,
    _capacity_hint,
    plan_selection,
    select,
)
from marc.stream import Stream


def as_data(selection):
    """Everything a selection says."""
    draws = {size: rows.tolist() for size, rows in selection.draws.items()}
    return selection.ranking, selection.tied, selection.leads, selection.agreement, draws


def make_selection(purities, radius=0.01, test="radii", noise=0.01, n_images=100):
    """A selection whose spaces a, b, ... have these pseudo-purities."""
    draws = np.array(purities) + noise * np.random.default_rng(0).standard_normal((200, 1))
    ranking = [Candidate(n, p, radius, 0.01, {}) for n, p in zip("abcdef", purities, strict=False)]
    size = Calibration(n_images, 10).error_size
    return Selection(tuple(ranking), n_images, 10, 200, test, 0.1, {size: draws})


def make_many(n_images=120):
    """A stream with five spaces, from good to bad."""
    stream = make_stream(n_images=n_images)
    good, bad = (stream.features.keys(space) for space in ("good", "bad"))
    mixed = {f"mix {share}": (1 - share) * good + share * bad for share in (0, 0.3, 0.5, 0.7, 1)}
    return replace(stream, features=replace(stream.features, spaces=check_spaces(mixed, n_images)))


def test_a_clear_leader_is_chosen():
    selection = select(make_stream(n_images=300), n_replicates=50)
    assert selection.space == str(selection) == "good"
    assert selection.tied == ("good",)
    assert [each.space for each in selection.ranking] == ["good", "bad"]
    assert selection.leads["bad"].low > 0


def test_the_numbers_are_those_of_the_geometry_module():
    stream = make_stream(n_images=120)
    for each in select(stream, n_neighbors=7, n_replicates=5).ranking:
        keys, labels = stream.features.keys(each.space), stream.features.base.label
        assert each.pseudo_purity == geometry.pseudo_purity(keys, labels, 7)
        assert each.antihub_fraction == geometry.antihub_fraction(keys, 7)


def test_batches_are_those_of_the_slow_way():
    stream = make_stream(n_images=130)
    selection = select(stream, n_neighbors=4, sizes=(20, 65, 100, 130, 4), n_replicates=8, seed=3)
    assert list(selection.draws) == [20, 65, 100, 104]
    labels = stream.features.base.label
    for column, each in enumerate(selection.ranking):
        keys = stream.features.keys(each.space)
        for size, rows in selection.draws.items():
            for number, row in enumerate(rows):
                order = np.random.default_rng([3, number]).permutation(130)
                chosen = np.sort(order[:size])
                assert row[column] == geometry.purity(keys[chosen], labels[chosen], 4)
            low, high = np.quantile(rows[:, column], [0.025, 0.975])
            np.testing.assert_allclose(each.batches[size], (rows[:, column].mean(), low, high))


def test_labels_change_nothing():
    stream = make_stream(n_images=150)
    permuted = np.random.default_rng(0).permutation(stream.row_labels)
    expected = as_data(select(stream, n_replicates=20))
    for labels in (None, permuted, np.zeros_like(permuted)):
        other = replace(stream, row_labels=labels)
        assert as_data(select(other, n_replicates=20)) == expected


def test_labels_are_not_even_looked_at():
    class Blind(Stream):
        def __getattribute__(self, name):
            assert name not in ("labels", "row_labels", "fingerprint"), name
            return super().__getattribute__(name)

    stream = make_stream(n_images=60)
    blind = object.__new__(Blind)
    blind.__dict__.update(stream.__dict__)
    assert select(blind, n_replicates=5).ranking[0].space == "good"


def test_the_order_of_the_stream_changes_nothing():
    stream = make_stream(n_images=80)
    first, second = (select(s, n_replicates=10) for s in (stream, stream.shuffled(1)))
    assert as_data(first) == as_data(second)


def test_equal_spaces_are_too_close_to_call_and_keep_their_order():
    stream = make_stream(n_images=200)
    keys = stream.features.keys("good")
    spaces = {"bad": stream.features.keys("bad"), "one": keys, "two": keys.copy()}
    twins = replace(stream, features=replace(stream.features, spaces=spaces))
    for test in ("radii", "paired"):
        selection = select(twins, n_replicates=30, test=test)
        assert selection.space is None
        assert selection.tied == ("one", "two")
        assert str(selection) == "too close to call: one, two"
    assert select(twins, ["two", "one"], n_replicates=5).tied == ("two", "one")


def test_a_lead_must_exceed_the_sum_of_both_radii():
    assert make_selection([0.5, 0.4799]).space == "a"
    assert make_selection([0.5, 0.4801]).tied == ("a", "b")
    assert make_selection([0.5, 0.49, 0.3, 0.485]).tied == ("a", "b", "d")


def test_a_paired_lead_cancels_what_spaces_share():
    assert make_selection([0.5, 0.49], radius=0.02).space is None
    assert make_selection([0.5, 0.49], radius=0.02, test="paired").space == "a"
    lead = make_selection([0.5, 0.49, 0.3], test="paired").leads["c"]
    np.testing.assert_allclose(lead, (0.2, 0.2, 0.2))


def test_one_space_is_its_own_choice():
    for test in ("radii", "paired"):
        selection = select(make_stream(), ["bad"], n_replicates=5, test=test)
        assert selection.space == "bad"
        assert selection.leads == {}


def test_agreement_and_zero_regret_are_counted_over_batches():
    selection = make_selection([0.5, 0.49, 0.3])
    rows = np.array([[3, 2, 1], [1, 2, 0], [3, 3, 0], [0, 1, 2]])
    selection = replace(selection, draws={50: rows})
    assert selection.agreement == {50: 0.5}  # a tie goes to the first, as in the ranking
    assert selection.zero_regret({"a": 0.1, "b": 0.1, "c": 0.0}) == {50: 0.75}
    assert selection.zero_regret({"a": 0.1, "b": 0.1, "c": 0.2}) == {50: 0.25}
    for judge in (selection.zero_regret, selection.rank_correlation):
        with pytest.raises(MarcError, match=r"no gain for a space[^$]*b, c"):
            judge({"a": 0.1})


def test_rank_correlations_are_those_of_the_slow_way():
    selection = select(make_many(), n_neighbors=4, sizes=(30, 60), n_replicates=25)
    gains = dict(zip(make_many().spaces, [0.3, 0.0, 0.0, 0.1, 0.2], strict=True))
    found = selection.rank_correlation(gains)
    assert list(found) == [30, 60, 96]
    order = [gains[each.space] for each in selection.ranking]
    for size, interval in found.items():
        values = [spearmanr(row, order).statistic for row in selection.draws[size]]
        expected = (np.mean(values), *np.quantile(values, [0.025, 0.975]))
        np.testing.assert_allclose(interval, expected)


def test_batches_without_a_rank_correlation_are_left_out():
    selection = make_selection([0.5, 0.49, 0.3])
    rows = np.array([[3.0, 2, 1], [1, 1, 1], [1, 2, 3]])
    selection = replace(selection, draws={50: rows, 60: rows[1:2]})
    found = selection.rank_correlation({"a": 3, "b": 2, "c": 1})
    np.testing.assert_allclose(found[50], (0, -0.95, 0.95))
    assert np.isnan(found[60]).all()


def test_chance_is_the_pseudo_purity_of_random_neighbours():
    stream = make_stream(n_images=100)
    labels = stream.features.base.label
    pairs = [labels[i] == labels[j] for i in range(100) for j in range(100) if i != j]
    assert select(stream, n_replicates=5).chance == pytest.approx(np.mean(pairs))


def test_larger_batches_agree_more_and_spread_less():
    stream = marc.synthetic_stream(n_images=700)
    selection = select(stream, sizes=(60, 250), n_replicates=60)
    assert list(selection.draws) == [60, 250, 560]
    widths = [batch.high - batch.low for batch in selection.ranking[0].batches.values()]
    assert widths == sorted(widths, reverse=True)
    assert selection.agreement[250] >= selection.agreement[60]


def test_copies_and_recall_are_part_of_a_ranking():
    stream = make_stream(n_images=60)
    keys = stream.features.keys("good").copy()
    keys[40:45] = keys[0]
    copies = replace(stream, features=replace(stream.features, spaces={"good": keys}))
    [candidate] = select(copies, n_replicates=5).ranking
    assert (candidate.n_duplicates, candidate.recall) == (5, 1)


def test_too_few_images_never_make_a_lead_certain():
    """Near the smallest stream that is accepted, spaces of equal worth are seldom told apart."""
    told = 0
    for seed in range(40):
        draw = np.random.default_rng(seed)
        stream = make_stream(seed=seed, n_images=40)
        spaces = {name: draw.standard_normal((40, 6)) for name in "ab"}
        noise = replace(stream.features, spaces=check_spaces(spaces, 40))
        selection = select(replace(stream, features=noise), n_replicates=40, test="paired")
        told += selection.space is not None
    assert told <= 6


def test_transforms_of_a_space_can_be_ranked():
    selection = select(make_stream(), ["good+center", "predictor"], n_replicates=5)
    assert {each.space for each in selection.ranking} == {"good+center", "predictor"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spaces": []}, "distinct spaces"),
        ({"spaces": ["good", "good"]}, "distinct spaces"),
        ({"spaces": ["missing"]}, "no space 'missing'"),
        ({"n_neighbors": 16}, "64 images or more"),
        ({"n_neighbors": 0}, "n_neighbors must be"),
        ({"n_replicates": 1}, "n_replicates must be"),
        ({"sizes": ["many"]}, "size must be"),
        ({"seed": -1}, "seed must be"),
        ({"test": "guess"}, "unknown test of a lead"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(MarcError, match=message):
        select(make_stream(), **settings)


def test_a_job_holds_no_labels():
    job = plan_selection(make_stream())
    assert not any("label" in name and "pseudo" not in name for name in vars(job))


def test_the_capacity_hint_follows_the_paper_table():
    table = {0.0344: 1, 0.063: 2, 0.007: 16, 0.012: 8, 0.017: 8}  # anti-hubs, best capacity
    for antihubs, best in table.items():
        low, high = _capacity_hint(antihubs)
        assert low <= best <= high
    hints = [_capacity_hint(value) for value in np.linspace(0, 0.2, 50)]
    assert hints == sorted(hints, reverse=True)
    assert Candidate("a", 0.5, 0.1, 0.03, {}).capacity_hint == (2, 8)


def test_settings_are_transferred_from_other_images_only():
    stream, other = make_stream(seed=0), make_stream(seed=1)
    source = marc.sweep(other, capacities=(2, 8), seeds=(0, 1))
    curve = source.accuracy[source.spaces.index("good")].mean(axis=-1)
    capacity, weight = source.transferred("good", stream)
    place = source.capacities.index(capacity), source.weights.index(weight)
    assert curve[place] == curve.max()
    with pytest.raises(MarcError, match="must be made on other images"):
        source.transferred("good", other)
    with pytest.raises(MarcError, match="a sweep of the same spaces"):
        source.transferred("predictor", stream)


@pytest.mark.parametrize("name", ["office_caltech", "caltech101_test"])
def test_real_features_have_a_leader_that_no_label_contradicts(name):
    path = PACKS / f"{name}.npz"
    if not path.exists():
        pytest.skip("no packs of real features beside this checkout")
    stream = marc.load_stream(f"arrays/{path}")
    selection = select(stream, n_replicates=100)
    assert selection.ranking[0].space == "lite0"  # also the space of the highest gain
    assert "lite0" in selection.tied
    assert "augnet" not in selection.tied
    assert selection.agreement[250] > 0.95
