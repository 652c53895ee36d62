"""Spread over orders: each gain against online runs."""

from itertools import combinations

import pytest
from helpers.online_answers import weight_gains
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work, without
from scipy.stats import t

from marc.report.style import drawing
from marc_paper.study.drawing import looks_of
from marc_paper.study.figures import seed_spread

SPACES = ["noise", "own", "weak", "good", "best"]
DOMAIN = ["fourth", "fifth", "sixth"]


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def artifacts(work):
    return seed_spread._make(work)


def by_order(work, stream, space):
    found = weight_gains(work, stream, space, 4)
    return found.max(axis=1), found[:, work.plan.grids.weights.index(10.0)]


@pytest.mark.parametrize("stream", DOMAIN)
def test_gains_are_those_of_online_runs(work, artifacts, stream):
    table = table_of(artifacts, "seed-spread-ranges")
    for space in SPACES:
        oracle, fixed = by_order(work, stream, space)
        shown = table_of(artifacts, "seed-spread").data["gains"][stream][space]
        assert shown == pytest.approx(oracle, abs=1e-12)
        shown = table_of(artifacts, "seed-spread-fixed").data["gains"][stream][space]
        assert shown == pytest.approx(fixed, abs=1e-12)
        where = {"stream": stream, "space": space}
        for name, wanted in (
            ("lowest gain", fixed.min()),
            ("highest gain", fixed.max()),
            ("lowest G*", oracle.min()),
            ("highest G*", oracle.max()),
        ):
            assert cell(table, name, **where) == pytest.approx(wanted, abs=1e-12)
        accuracy, base = cell(table, "accuracy", **where), cell(table, "no memory", **where)
        assert accuracy.value == pytest.approx(base + fixed.mean())
        half = t.ppf(0.975, 2) * fixed.std(ddof=1) / 3**0.5
        assert accuracy.high - accuracy.value == pytest.approx(half)


@pytest.mark.parametrize("stream", DOMAIN)
def test_pairs_say_who_leads_in_which_order(work, artifacts, stream):
    table = table_of(artifacts, "seed-spread-pairs")
    assert len(column(table, "space", stream=stream)) == 10
    for pair in combinations(SPACES, 2):
        where = {"stream": stream, "space": pair[0], "other": pair[1]}
        for place, name in ((0, "G*"), (1, "gain")):
            first, second = (by_order(work, stream, space)[place].round(9) for space in pair)
            apart = first.min() > second.max() or second.min() > first.max()
            wanted = "no" if apart else "yes"
            wanted = "equal" if len({*first, *second}) == 1 else wanted
            assert cell(table, f"ranges of {name} overlap", **where) == wanted
            led = [str(seed) for seed in range(3) if first[seed] > second[seed]]
            same = [str(seed) for seed in range(3) if first[seed] == second[seed]]
            wanted = ", ".join(led) or "none"
            wanted += f"; same: {', '.join(same)}" if same else ""
            assert cell(table, f"orders led in {name}", **where) == wanted


def test_streams_that_do_not_rank_the_deployed_and_the_strong_space_are_named(work, artifacts):
    for name, place in (("seed-spread", 0), ("seed-spread-fixed", 1)):
        close = []
        for stream in DOMAIN:
            first, second = (by_order(work, stream, each)[place] for each in ("good", "best"))
            if first.max() >= second.min() and second.max() >= first.min():
                close.append(stream)
        figure = table_of(artifacts, name)
        assert figure.data["overlap"] == close
        assert figure.data["equal"] == []
        assert f"good and best overlap on {', '.join(close) or 'no stream'}." in figure.caption


def test_every_stream_is_drawn_with_every_order(artifacts):
    with drawing():
        shown = [axes for axes in table_of(artifacts, "seed-spread").draw().axes]
    assert [axes.get_title() for axes in shown if axes.get_visible()] == DOMAIN
    for axes in shown:
        marks = [line for line in axes.lines if line.get_linestyle() == "None"]
        assert [len(line.get_xdata()) for line in marks] == [3] * 5


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ([0.0, 0.0], [0.0, 0.0], "equal"),
        ([0.2, 0.2], [0.2, 0.2], "equal"),
        ([0.0, 0.0], [0.0, 0.1], "yes"),
        ([0.1, 0.1], [0.0, 0.0], "no"),
    ],
)
def test_ranges_of_one_value_are_equal_and_do_not_overlap(first, second, wanted):
    assert seed_spread._compared(first, second) == wanted
    gains = {"own": first, "best": second}
    [[*_, overlaps, _, _, _]] = seed_spread._pair_rows("a", 1, gains, gains, [0, 1])
    assert overlaps == wanted


def test_streams_without_any_gain_are_named_as_equal():
    plan = tiny_plan(grids={"weights": [0, 10], "weight": 0})
    artifacts = seed_spread._make(tiny_work(plan, n_images=30))
    figure, table = (table_of(artifacts, f"seed-spread-{each}") for each in ("fixed", "pairs"))
    assert (figure.data["overlap"], figure.data["equal"]) == ([], DOMAIN)
    wanted = "good and best overlap on no stream; they are equal on fourth, fifth, sixth."
    assert wanted in figure.caption
    assert set(column(table, "ranges of gain overlap")) == {"equal"}


def test_no_panel_is_narrower_than_a_point():
    looks = looks_of(tiny_plan())
    gains = {
        "none": {"own": [0.0, 0.0], "best": [0.0, 0.0]},
        "small": {"own": [0.0, 0.001], "best": [0.002, 0.001]},
        "large": {"own": [0.0, 0.01], "best": [0.02, 0.05]},
    }
    with drawing():
        none, small, large = seed_spread._draw(gains, looks, "gain, points").axes
    assert none.get_xlim() == pytest.approx((-0.5, 0.5))
    low, high = small.get_xlim()
    assert low < 0 < 0.2 < high
    assert high - low == pytest.approx(1)
    low, high = large.get_xlim()
    assert -0.5 < low < 0 < 5 < high < 5.5


def test_its_pieces_are_those_it_uses_and_what_it_needs():
    # the strong space is compared although it is no control
    plan = without(tiny_plan(spaces={"controls": ["own", "good"]}), "fifth", "sixth")
    work = tiny_work(plan)
    artifacts = seed_spread._make(work)
    assert set(work.used) == set(seed_spread._EXPERIMENT.pieces(plan))
    assert column(artifacts[2], "space") == ["own", "good", "best"]
    with drawing():
        artifacts[0].draw()
    missing = seed_spread._EXPERIMENT.missing
    assert missing(plan) == ""
    assert missing(without(plan, "fourth")) == "there is no stream of group domain"
    assert missing(tiny_plan(seeds={"orders": [0]})) == "one order has no spread"
