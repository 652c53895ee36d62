import math
import re

import numpy as np
import pytest
from helpers.reference import entropy, softmax

from marc.errors import MarcError
from marc.peers.view_selection import check_fraction, select_views


def draw_logits(seed, n_views, n_classes=6):
    return 3 * np.random.default_rng(seed).standard_normal((n_views, n_classes))


def literal_selection(logits, n_kept, ridge=0.0):
    entropies = []
    for row in logits:
        total = 0.0
        for p in softmax(row):
            total -= p * math.log(p + ridge)
        entropies.append(total)
    return sorted(range(len(logits)), key=lambda view: entropies[view])[:n_kept]


@pytest.mark.parametrize(
    ("n_views", "fraction", "n_kept"),
    [(64, 0.1, 6), (64, 0.3, 19), (32, 0.1, 3), (8, 0.25, 2), (10, 0.1, 1), (7, 1.0, 7)],
)
def test_the_views_of_lowest_entropy_are_kept_best_first(n_views, fraction, n_kept):
    for seed in range(5):
        logits = draw_logits(seed, n_views)
        kept = select_views(logits, fraction, method="x")
        assert kept.tolist() == literal_selection(logits, n_kept)


def test_equal_views_keep_the_lower_index():
    logits = np.repeat(draw_logits(0, 4), 5, axis=0)
    best = int(np.argmin([entropy(softmax(row)) for row in logits]))
    assert select_views(logits, 0.15, method="x").tolist() == [best, best + 1, best + 2]


def test_a_ridge_inside_the_logarithm_can_change_the_order():
    changed = 0
    for seed in range(20):
        logits = draw_logits(seed, 20)
        kept = select_views(logits, 0.3, method="x", ridge=0.05).tolist()
        assert kept == literal_selection(logits, 6, ridge=0.05)
        changed += kept != literal_selection(logits, 6)
    assert changed


@pytest.mark.parametrize("fraction", [0.0, 0.1, 1.0])
def test_one_view_is_always_kept(fraction):
    assert select_views(draw_logits(0, 1), fraction, method="x").tolist() == [0]


def test_a_method_may_ask_for_some_views_however_small_the_share_is():
    logits = draw_logits(0, 8)
    assert len(select_views(logits, 0.1, method="x", at_least=1)) == 1
    assert len(select_views(logits, 0.5, method="x", at_least=1)) == 4
    assert len(select_views(logits, 0.1, method="x", at_least=20)) == 8


@pytest.mark.parametrize("n_views", range(2, 10))
def test_two_to_nine_views_are_refused_at_a_tenth(n_views):
    with pytest.raises(MarcError) as refused:
        select_views(draw_logits(0, n_views), 0.1, method="tda")
    assert str(refused.value).startswith(
        f"tda keeps the fraction 0.1 of the views, which is none of {n_views}.\n"
        f"  got:  {n_views} views\n  allowed:  1 view, or at least 10\n"
        "  try:  --views 1, or --set fraction="
    )


@pytest.mark.parametrize("n_views", [*range(2, 130), 333, 700, 999])
def test_the_share_in_the_hint_keeps_one_view(n_views):
    logits = draw_logits(0, n_views, 2)
    with pytest.raises(MarcError) as refused:
        select_views(logits, 0.0005, method="x", setting="gamma")
    share = float(re.search(r"--set gamma=(\S+)", refused.value.hint).group(1))
    assert len(select_views(logits, share, method="x")) == 1


@pytest.mark.parametrize("n_views", range(3, 130))
def test_the_number_of_views_in_the_error_is_the_smallest_that_will_do(n_views):
    fraction = 1 / n_views  # 49 times 1 / 49 rounds to just below 1: 50 views are needed
    with pytest.raises(MarcError) as refused:
        select_views(draw_logits(0, n_views - 1, 2), fraction, method="x")
    enough = int(re.search(r"at least (\d+)", refused.value.allowed).group(1))
    assert len(select_views(draw_logits(0, enough, 2), fraction, method="x")) == 1
    with pytest.raises(MarcError):
        select_views(draw_logits(0, enough - 1, 2), fraction, method="x")


def test_no_share_at_all_is_told_so():
    with pytest.raises(MarcError, match="a fraction above 0"):
        select_views(draw_logits(0, 3), 0.0, method="x")


def test_a_fraction_is_a_number_from_0_to_1():
    assert check_fraction(0) == 0.0
    assert check_fraction(1) == 1.0
    for bad in (-0.1, 1.1, math.nan, math.inf, "0.1", True, None):
        with pytest.raises(MarcError, match="gamma"):
            check_fraction(bad, "gamma")
    with pytest.raises(MarcError, match="fraction"):
        check_fraction(2)


def test_a_share_too_small_for_any_number_of_views_is_told_so():
    with pytest.raises(MarcError, match=r"a fraction above 9\.99989e-321"):
        select_views(draw_logits(0, 3), 1e-320, method="x")
