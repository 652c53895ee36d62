"""Kinds of orders: every image once, the same for a seed, and as hard as they say."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from helpers.making import make_stream
from helpers.repository import PACKS
from hypothesis import given, settings
from hypothesis import strategies as st

import marc
from marc.errors import MarcError
from marc.stream.orders import Ordering, bursts, dirichlet, grouped, long_tail, returning

KINDS = ("shuffled", "sorted", "dirichlet", "bursts", "long-tail", "domains", "returning")
LABELS = np.random.default_rng(5).integers(6, size=600)
DOMAINS = np.array(["photo", "sketch", "art"])[np.arange(600) // 200]


def stream_with_domains(n_images=60):
    domains = np.array(["photo", "sketch", "art"])[np.arange(n_images) % 3]
    return replace(make_stream(n_images=n_images), row_domains=domains)


def neighbours_alike(values):
    """How often two images in succession are of one group."""
    return (values[1:] == values[:-1]).mean()


def runs_of(values):
    """Groups in the order in which they come, each stretch once."""
    return [values[0], *(b for a, b in pairwise(values) if a != b)]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_kind_names_every_image_once_and_a_seed_draws_one_order(data):
    kind = data.draw(st.sampled_from(KINDS))
    groups = data.draw(st.lists(st.integers(0, 5), min_size=2, max_size=80))
    labels, domains = np.array(groups), np.r_[7, 8, np.array(groups[2:], dtype=int)]
    seed, size = data.draw(st.integers(0, 2**40)), len(groups)
    order = Ordering.parse(kind).draw(size, labels, domains, seed)
    assert order.dtype == np.int64
    assert sorted(order) == list(range(size))
    np.testing.assert_array_equal(Ordering.parse(kind).draw(size, labels, domains, seed), order)


@pytest.mark.parametrize("kind", KINDS)
def test_two_seeds_draw_two_orders(kind):
    first, second = (Ordering.parse(kind).draw(600, LABELS, DOMAINS, seed) for seed in (0, 1))
    assert not np.array_equal(first, second)


def test_shuffled_is_the_permutation_of_the_seed():
    expected = np.random.default_rng(3).permutation(60)
    stream = make_stream()
    for found in (stream.shuffled(3), stream.ordered("shuffled", 3), stream.in_order(3)):
        np.testing.assert_array_equal(found.order, expected)


def test_sorted_has_each_class_in_one_stretch_and_draws_their_order():
    stretches = [runs_of(LABELS[grouped(LABELS, seed)]) for seed in range(6)]
    assert all(sorted(found) == [0, 1, 2, 3, 4, 5] for found in stretches)
    assert len(set(map(tuple, stretches))) > 3


def slow_dirichlet(labels, seed, gamma):
    """The same stream, image by image."""
    draw = np.random.default_rng(seed)
    shuffled, classes = draw.permutation(len(labels)), sorted(set(labels))
    fractions = draw.dirichlet([gamma] * len(classes), size=len(classes))
    slots = {slot: [] for slot in range(len(classes))}
    for place, label in enumerate(classes):
        rows = [row for row in shuffled if labels[row] == label]
        for index, row in enumerate(rows):
            ends = (np.cumsum(fractions[place])[:-1] * len(rows)).astype(int)
            slots[int((index >= ends).sum())].append(row)
    return [row for slot in slots.values() for row in draw.permutation(np.array(slot, dtype=int))]


@pytest.mark.parametrize("gamma", [1.0, 0.1, 0.01])
def test_dirichlet_agrees_with_its_slow_twin(gamma):
    assert dirichlet(LABELS, 4, gamma).tolist() == slow_dirichlet(LABELS, 4, gamma)


def test_classes_come_together_the_more_the_smaller_gamma_is():
    def alike(gamma):
        return np.mean([neighbours_alike(LABELS[dirichlet(LABELS, s, gamma)]) for s in range(10)])

    shuffled = neighbours_alike(LABELS[np.random.default_rng(0).permutation(600)])
    assert shuffled < alike(1.0) - 0.05 < alike(0.1) - 0.15 < alike(0.01) - 0.2
    assert alike(0.001) > 0.6


def test_bursts_are_runs_of_the_length_asked_for():
    labels = np.repeat(np.arange(4), 24)
    found = labels[bursts(labels, 0, length=6)]
    assert all(len(set(found[start : start + 6])) == 1 for start in range(0, 96, 6))
    assert len(runs_of(found)) > 8
    assert neighbours_alike(labels[bursts(labels, 0, length=1)]) < 0.4


def test_domains_come_one_after_the_other_and_the_first_returns():
    after = DOMAINS[grouped(DOMAINS, 0)]
    assert sorted(runs_of(after)) == ["art", "photo", "sketch"]
    order = returning(DOMAINS, 0)
    first, *others, last = runs_of(DOMAINS[order])
    assert first == last
    assert [first, *others] == runs_of(after)
    assert (DOMAINS[order[:100]] == first).all()
    assert (DOMAINS[order[-100:]] == first).all()


@pytest.mark.parametrize("ratio", [1, 5, 20])
def test_the_sizes_of_a_long_tail_fall_by_the_ratio(ratio):
    labels = np.repeat(np.arange(5), 200)
    sizes = np.sort(np.bincount(labels[long_tail(labels, ratio)]))[::-1]
    np.testing.assert_allclose(sizes, 200 * ratio ** -np.linspace(0, 1, 5), atol=0.5)


def test_a_small_class_keeps_what_it_has_and_none_is_lost():
    labels = np.r_[np.repeat(np.arange(6), 30), np.full(3, 6), np.full(300, 7)]
    for draw in range(20):
        sizes = np.bincount(labels[long_tail(labels, 100, draw)])
        assert sizes.min() >= 1
        assert sizes.max() <= 30


def test_a_long_tail_is_the_same_images_for_every_seed_and_others_for_another_draw():
    stream = make_stream(n_images=200)
    tails = [stream.ordered("long-tail", seed) for seed in (0, 1)]
    assert tails[0].features.ids == tails[1].features.ids
    assert len(tails[0]) < 200
    assert not np.array_equal(*(tail.order for tail in tails))
    np.testing.assert_array_equal(tails[0].in_order(1).order, tails[1].order)
    assert stream.ordered("long-tail", draw=1).features.ids != tails[0].features.ids
    assert stream.features.images < tails[0].features.images  # so no choice on them is held out
    assert tails[0].ordered("sorted").source is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_draws_further_orders_of_its_kind(kind):
    stream = stream_with_domains()
    hard = stream.ordered(kind)
    assert hard.seed == 0
    again = hard.in_order(2)
    np.testing.assert_array_equal(again.order, stream.ordered(kind, 2).order)
    assert again.ordering == hard.ordering == Ordering.parse(hard.ordering.name)
    assert again.to_dict()["order"] == marc.types.order_name(2, hard.ordering.name)
    shuffled = np.random.default_rng(2).permutation(len(hard))
    np.testing.assert_array_equal(hard.shuffled(2).order, shuffled)
    assert hard.ordered("stored").order.tolist() == list(range(len(hard)))


def test_an_option_is_given_by_name_or_as_it_is_typed():
    stream = make_stream()
    first, second = stream.ordered("bursts", length=3), stream.ordered("bursts:length=3")
    assert first.ordering == second.ordering
    np.testing.assert_array_equal(first.order, second.order)
    assert stream.ordered("dirichlet:gamma=1.0").ordering.name == "dirichlet:gamma=1"


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("random", "unknown kind of order"),
        ("dirichlet:beta=1", "unknown option of the order dirichlet"),
        ("sorted:gamma=1", "unknown option of the order sorted"),
        ("dirichlet:gamma", "an order is KIND:option=value"),
        ("dirichlet:gamma=1,gamma=2", "an order is KIND:option=value"),
        ("dirichlet:gamma=0", "gamma of the order dirichlet must be a finite number >= 0.001"),
        ("dirichlet:gamma=nan", "gamma of the order dirichlet must be"),
        ("bursts:length=0", "length of the order bursts must be an integer >= 1"),
        ("bursts:length=2.5", "length of the order bursts must be an integer >= 1"),
        ("long-tail:ratio=0.5", "ratio of the order long-tail must be a finite number >= 1"),
        ("long-tail:draw=-1", "draw of the order long-tail must be an integer >= 0"),
        ("domains", "the order domains needs domains, and this stream has none"),
        ("returning", "the order returning needs domains"),
    ],
)
def test_a_wrong_order_is_refused_with_what_to_try(kind, problem):
    with pytest.raises(MarcError, match=problem) as refused:
        make_stream().ordered(kind)
    assert refused.value.hint


@pytest.mark.parametrize("kind", ["sorted", "dirichlet", "bursts", "long-tail"])
def test_an_order_by_class_needs_labels(kind):
    with pytest.raises(MarcError, match=f"the order {kind} needs labels") as refused:
        replace(make_stream(), row_labels=None).ordered(kind)
    assert "labels" in refused.value.hint


def test_one_domain_is_no_order_of_domains():
    with pytest.raises(MarcError, match="needs several domains"):
        replace(make_stream(), row_domains=np.zeros(60, int)).ordered("domains")


def test_domains_stay_with_their_images_and_away_from_queries(tmp_path):
    stream = stream_with_domains()
    assert stream.to_dict()["domains"] == 3
    part = stream.subset(np.array([4, 2]))
    assert part.row_domains.tolist() == stream.row_domains[[4, 2]].tolist()
    assert not any("domain" in name for name in vars(stream.query(0)))
    marc.write_pack(stream, tmp_path / "domains.npz")
    again = marc.load_stream(f"arrays/{tmp_path}/domains.npz")
    assert again.row_domains.tolist() == stream.row_domains.tolist()
    assert again.fingerprint == make_stream().fingerprint | {"ids": again.fingerprint["ids"]}
    assert "domains" in again.ordered("returning").fingerprint


@pytest.mark.parametrize("domains", [np.zeros(9), np.zeros(8, int), [None] * 9])
def test_domains_that_are_not_one_name_per_image_are_refused(domains):
    draw = np.random.default_rng(0)
    with pytest.raises(MarcError, match="domains must be one name or integer per image"):
        marc.Stream.from_arrays(draw.random((9, 4)), draw.random((3, 4)), domains=domains)


@pytest.mark.parametrize("name", ["office_caltech", "pacs"])
def test_a_pack_of_photographs_has_its_domains(name):
    if not (PACKS / f"{name}.npz").exists():
        pytest.skip("the packs do not lie beside the checkout")
    stream = marc.load_stream(f"arrays/{PACKS}/{name}.npz").ordered("domains")
    assert len(runs_of(stream.row_domains[stream.order])) == 4
