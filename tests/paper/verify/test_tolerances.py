"""How far off meets: on grids, as factors, as p-values, under views, and on which side of zero."""

import math

import pytest
from scipy.stats import norm

from marc_paper.printed import table
from marc_paper.printed.numbers import Printed
from marc_paper.verify import tolerances
from marc_paper.verify.expected import EXPECTED
from marc_paper.verify.tolerances import (
    KINDS,
    Tolerance,
    _shift_of_log10_p,
)

BY_PLACE = {(e.label, e.row, e.column, e.number): e for e in EXPECTED}


def meets(tolerance, printed, got, deviation=None):
    off = abs(tolerance.distance(float(Printed(printed)), got))
    return off <= tolerance.allowed(Printed(printed), deviation and Printed(deviation))


def test_tolerances_are_in_the_printed_unit():
    assert KINDS["order"].allowed(Printed("+9.8"), Printed("0.1")) == pytest.approx(0.5 + 0.05)
    assert KINDS["views"].allowed(Printed("65.25"), Printed("0.02")) == pytest.approx(1.505)
    assert KINDS["views"].allowed(Printed("58.67"), Printed("1.52")) == pytest.approx(
        3 * 1.52 + 0.005
    )
    assert Tolerance("x", "y", fraction=0.5).allowed(Printed("-8")) == pytest.approx(4.5)


def test_grids_are_counted_in_steps():
    assert KINDS["capacity"].distance(8, 8) == 0
    assert KINDS["capacity"].distance(8, 16) == 1
    assert KINDS["capacity"].distance(16, 4) == -2
    assert abs(KINDS["capacity"].distance(8, 12)) == 0.5
    assert KINDS["capacity"].allowed(Printed("8")) == 1


@pytest.mark.parametrize(
    ("printed", "got", "wanted"),
    [
        ("0.40", 2.3, True),
        ("0.40", 2.5, False),
        ("0.40", 0.07, True),
        ("0.40", 0.06, False),  # too small a deviation differs as well
        ("1.52", 0.0, False),
        ("0.02", 0.0, True),
        ("0.02", 0.29, True),
        ("0.02", 0.4, False),
    ],
)
def test_a_deviation_is_up_to_six_times_as_much_or_as_little(printed, got, wanted):
    assert meets(KINDS["deviation"], printed, got) == wanted


@pytest.mark.parametrize(
    ("printed", "got", "wanted"),
    [
        ("10.3", 30.0, True),
        ("10.3", 32.0, False),
        ("10.3", 3.5, True),
        ("10.3", 3.0, False),
        ("0.0", 2.0, True),
        ("0.0", 2.5, False),
        ("2.6", 0.0, False),
    ],
)
def test_a_ratio_of_deviations_has_a_factor_of_three_and_two_near_zero(printed, got, wanted):
    assert meets(KINDS["ratio of deviations"], printed, got) == wanted


@pytest.mark.parametrize(
    ("printed", "deviation", "allowed"),
    [
        ("80", "2", 25),
        ("878", "4", 112.5),
        ("426", "14", 63.9),
        ("289", "40", 120),
        ("452", "", 68),
    ],
)
def test_images_under_views_depend_on_how_many_are_printed(printed, deviation, allowed):
    given = Printed(deviation) if deviation else None
    assert KINDS["images under views"].allowed(Printed(printed), given) == pytest.approx(
        allowed + 0.5, abs=0.5
    )


def test_sets_of_one_view_depend_on_the_order_alone():
    for row, column, kind in (
        ("repairs", "retrieval", KINDS["images"]),
        ("repairs", "CLIP", KINDS["images"]),
        ("repairs", "augmentation", KINDS["images under views"]),
        ("repairs", "shared", KINDS["images under views"]),
    ):
        assert BY_PLACE["tab:s_repair_regression", row, column, 0].place.tolerance is kind
    assert KINDS["images"].allowed(Printed("1,074"), Printed("21")) == pytest.approx(63.5)
    assert KINDS["images"].allowed(Printed("377"), Printed("12")) == pytest.approx(38.0)


def test_a_p_value_moves_with_the_effect_behind_it():
    for z in (5.0, 12.0, 20.0):
        tail = [(norm.logsf(each) + math.log(2)) / math.log(10) for each in (z, z + 3)]
        assert _shift_of_log10_p(tail[0], 3.0) == pytest.approx(tail[0] - tail[1], rel=0.1)


def test_what_a_gain_is_allowed_its_p_value_is_allowed_too():
    """Gains of one table, moved as far as they may be: the p-value still meets, or nearly."""
    rows = [e for e in EXPECTED if (e.label, e.column, e.number) == ("tab:s_ci_spaces16", "p", 0)]
    for p in (each for each in rows if not each.is_bound):
        at = (p.label, p.row, "gain at 10")
        gain, low, high = (BY_PLACE[*at, number] for number in range(3))
        error = (high.value - low.value) / 2 / norm.ppf(0.975)
        z = abs(gain.value) / error
        moved = [
            (norm.logsf(each) + math.log(2)) / math.log(10)
            for each in (z, abs(abs(gain.value) + gain.allowed) / error)
        ]
        assert p.allowed > moved[0] - moved[1] - 0.5, p.row
        assert p.allowed < 2.1 * (moved[0] - moved[1]) + 1, p.row


def test_p_values_are_compared_by_their_logarithm():
    p = BY_PLACE["tab:s_ci_spaces16", "MAE", "p", 0]
    assert p.is_bound
    assert p.value == -300
    assert p.distance(-800.0) == 0
    assert p.distance(-200.0) == 100
    assert not p.meets(-200.0)
    p = BY_PLACE["sec:s_ci", "p, A, DINOv2-S", "printed", 0]
    assert p.place.tolerance is KINDS["p"]
    assert p.value == pytest.approx(-0.721, abs=1e-3)
    assert p.allowed == pytest.approx(4.33, abs=0.01)


def test_a_claimed_sign_is_kept():
    shrink = BY_PLACE["tab:s_ood_sub", "V2", "shrink", 0]
    assert shrink.place.tolerance is KINDS["change under views"]
    assert shrink.allowed == pytest.approx(0.705)
    assert shrink.meets(-1.1)
    assert not shrink.meets(-1.2)
    assert shrink.meets(0.2)
    assert not shrink.meets(0.4)
    order = BY_PLACE["tab:s_ci_cosmic", "1", "advantage", 0]
    assert order.place.tolerance is KINDS["advantage of one order"]
    assert order.meets(-0.65)
    assert abs(order.distance(-0.8)) < order.allowed
    assert not order.meets(-0.8)  # near enough, but of the other sign
    low = BY_PLACE["tab:s_ci_cosmic", "1", "advantage", 1]
    assert low.meets(0.9)  # an end of an interval claims no sign
    none = BY_PLACE["tab:s_cd_capacity", "EuroSAT", "change", 0]
    assert none.meets(0.6)
    assert none.meets(-0.6)


@pytest.mark.parametrize(
    "at",
    [
        *(("tab:s_ood_sub", row, "shrink", 0) for row in table("splits").rows),
        *(("tab:s_cd_capacity", row, "change", 0) for row in table("capacities_at_64").rows),
        ("tab:s_substitution_seeds", "Sub(1, 64)", "mean", 0),
        ("tab:s_ci_cosmic", "pooled", "advantage", 0),
        ("sec:s_timing", "advantage", "mean", 0),
        ("sec:s_ci", "advantage over COSMIC, three orders", "printed", 0),
    ],
)
def test_differences_within_one_draw_of_views_are_not_views(at):
    assert BY_PLACE[at].place.tolerance is KINDS["change under views"]


def test_every_kind_has_a_reason_and_is_used():
    used = {each.place.tolerance for each in EXPECTED}
    assert set(KINDS.values()) == used - {None}
    assert all(kind.reason for kind in KINDS.values())
    assert len(KINDS) == len(tolerances._ALL)
