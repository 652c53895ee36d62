"""Accuracy against time: what is timed, the rule of the front, and accuracies; never the times."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from helpers.odd_studies import declares_its_work, odd_work
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work

from marc import create_method, run
from marc.report.style import drawing
from marc.stats import ratio_interval
from marc_paper.study.tables import cost
from marc_paper.study.tables.timing import Configuration, Part, Times, _memory_seconds


@pytest.fixture(scope="module")
def work():
    return tiny_work(n_images=60)


@pytest.fixture(scope="module")
def artifacts(work):
    return cost._make(work)


def test_the_front_against_brute_force():
    draw = np.random.default_rng(0)
    for _ in range(50):
        seconds, accuracies = draw.integers(1, 6, (2, 7)).astype(float)
        wanted = []
        for s, a in zip(seconds, accuracies, strict=True):
            better = ((seconds < s) & (accuracies >= a)) | ((seconds <= s) & (accuracies > a))
            wanted.append(not better.any())
        assert cost._on_front(seconds.tolist(), accuracies.tolist()) == wanted


def test_every_system_stands_with_its_accuracy(work, artifacts):
    table = table_of(artifacts, "cost")
    stream = work.stream("first", 4).shuffled(0)
    method = create_method("marc", space="best", capacity=16, weight=10.0)
    where = {"configuration": "MARC, strong", "views": "4"}
    assert cell(table, "accuracy", **where) == pytest.approx(run(method, stream).accuracy)
    base = np.mean(work.stream("first", 8).features.base.label == work.labels("first"))
    where = {"configuration": "no memory", "views": "8"}
    assert cell(table, "accuracy", **where) == cell(table, "no memory", **where) == base
    assert column(table, "views", configuration="MARC, deployed") == ["1", "4", "8"]
    assert column(table, "views", configuration="COSMIC") == ["8"]
    assert column(table, "views", configuration="TDA") == ["1"]


def test_times_are_above_zero_and_add_up(work, artifacts):
    table, sessions = (table_of(artifacts, name) for name in ("cost", "cost-sessions"))
    assert column(table, "encoding") == [None] * len(table.rows)
    assert any("Encoding was not timed" in note for note in table.notes)
    for scoring, memory, total in zip(
        *(column(table, name) for name in ("scoring", "memory", "total")), strict=True
    ):
        assert memory > 0
        assert total == pytest.approx(scoring + memory)
    for row in sessions.rows:
        *_, first, second, spread = row
        assert spread == pytest.approx(abs(first - second))
        where = {"configuration": row[0], "views": row[2]}
        assert cell(table, "total", **where) == pytest.approx((first + second) / 2)
    unscored = [row[0] for row in table.rows if row[4] == 0]
    assert unscored == ["COSMIC"]
    assert (table.settings["timed images"], table.settings["warm-up images"]) == (20, 4)


def test_the_front_of_the_table_follows_from_its_rows(artifacts):
    table = table_of(artifacts, "cost")
    wanted = cost._on_front(column(table, "total"), column(table, "accuracy"))
    assert [each == "yes" for each in column(table, "on the front")] == wanted


def test_ratios_are_taken_inside_sessions(artifacts):
    sessions, ratios = (table_of(artifacts, name) for name in ("cost-sessions", "cost-ratios"))

    def times(**where):
        return [cell(sessions, f"session {number}", **where) for number in (1, 2)]

    slow = times(configuration="COSMIC")
    fast = times(configuration="MARC, deployed", views="8")
    found = cell(ratios, "ratio", comparison="COSMIC over MARC, same views")
    assert (found.value, found.low, found.high) == pytest.approx(ratio_interval(slow, fast))
    slow = times(configuration="no memory", views="8")
    fast = times(configuration="MARC, strong", views="1")
    name = "many views without memory over MARC, strong, one view"
    found = cell(ratios, "ratio", comparison=name)
    assert found.value == pytest.approx(np.mean(np.divide(slow, fast)))
    table = table_of(artifacts, "cost")
    gain = cell(ratios, "accuracy of MARC over it", comparison=name).value
    pair = [("MARC, strong", "1"), ("no memory", "8")]
    ours, theirs = (cell(table, "accuracy", configuration=c, views=v) for c, v in pair)
    assert gain == pytest.approx(ours - theirs)


class _Untouchable:
    """Base scores that nobody may look at."""

    def __getattr__(self, name):
        raise AssertionError(f"{name} was read")


@pytest.mark.parametrize(
    "system", Configuration.all_of(tiny_plan()), ids=lambda s: f"{s.label}{s.views}"
)
def test_scoring_counts_for_systems_that_read_the_base_scores(work, system):
    query = next(iter(work.stream("first", system.views)))
    blind = replace(query, base=_Untouchable())
    method = create_method(system.method, **system.settings)
    if system.reads_base:
        with pytest.raises(AssertionError, match="was read"):
            method.step(blind)
    else:
        assert method.step(blind).prediction >= 0


def test_tda_scores_several_views_itself(work):
    plan = tiny_plan(
        streams={"first": {"source": "a", "group": "main", "views": 16}},
        grids={"views": [1, 2, 4, 8, 16]},
    )
    [system] = [each for each in Configuration.all_of(plan) if each.method == "tda"]
    assert (system.views, system.reads_base) == (16, False)


def test_only_images_after_the_warm_up_are_timed(work, monkeypatch):
    ticks = itertools.count()
    part = Part.beginning(work.stream("first"), work.plan.timing)
    assert (part.n_warm, part.n_timed, len(part.stream)) == (4, 20, 24)
    short = replace(work.plan.timing, warm_up=1000)
    assert Part.beginning(work.stream("first"), short).n_warm == 30
    seen = []

    class Slow:
        name, varies_with = "slow", frozenset()

        def reset(self):
            seen.clear()

        def step(self, query):
            next(ticks)
            seen.append(query.item)
            return create_method("no-memory").step(query)

    monkeypatch.setattr("time.perf_counter", lambda: float(next(ticks)))
    # one tick an image and one for reading the clock: 20 images and the end
    assert _memory_seconds(Slow(), part) == pytest.approx(21 / 20)
    assert seen == part.stream.order.tolist()


def test_totals_count_encoding_where_it_is_known():
    parts = np.array([1.0, 2.0]), np.array([0.5, 0.5]), np.array([0.25, 0.25])
    assert Times(*parts).total.tolist() == [1.75, 2.75]
    assert Times(None, *parts[1:]).total.tolist() == [0.75, 0.75]


def test_the_figure_shows_the_table(artifacts):
    figure, table = artifacts[-1], table_of(artifacts, "cost")
    points = figure.data["points"]
    assert [each["accuracy"] for each in points] == column(table, "accuracy")
    assert [each["seconds"] for each in points] == column(table, "total")
    assert all(each["low"] <= each["seconds"] <= each["high"] for each in points)
    assert "encoding not counted" in figure.data["axis"]
    with drawing():
        axes = figure.draw().axes[0]
    assert axes.get_xscale() == "log"
    shown = {text.get_text() for text in axes.texts}
    assert shown == {str(each["views"]) for each in points}


def test_it_declares_its_work_and_takes_an_odd_plan():
    assert declares_its_work(cost._EXPERIMENT, tiny_work(n_images=30))
    odd = odd_work()
    assert declares_its_work(cost._EXPERIMENT, odd)
    *tables, figure = cost._make(odd)
    assert column(table_of(tables, "cost"), "views") == ["1"] * 5
    assert len(table_of(tables, "cost-ratios").rows) == 1
    with drawing():
        figure.draw()
    assert isinstance(Part.beginning(odd.stream("first"), odd.plan.timing), Part)
