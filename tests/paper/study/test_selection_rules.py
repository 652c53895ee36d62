"""Rules and where they can choose: each number against online runs and plain formulas."""

import numpy as np
import pytest
from helpers.online_answers import best_gains
from helpers.studies import SPACES, cell, column, table_of, tiny_plan, tiny_work, without

from marc.spaces import geometry
from marc.stats import spearman
from marc_paper.study.tables import selection

STREAMS = {"first": 1, "second": 1, "fourth": 4, "fifth": 4, "sixth": 4}
SETS = {"all": SPACES, "controls": ["noise", "own", "weak", "good", "best"]}


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def rules(work):
    return selection._make(work)[0]


@pytest.fixture(scope="module")
def streams(work):
    return selection._make_streams(work)


def value(work, stream, space, rule):
    """A measure, higher is better."""
    features = work.stream(stream)
    keys, name = features.features.keys(space), rule.partition("@")[0]
    kappa = int(rule.partition("@")[2])
    return {
        "purity": lambda: geometry.purity(keys, features.row_labels, kappa),
        "pseudo_purity": lambda: geometry.purity(keys, geometry.pseudo_labels(features), kappa),
        "hub_skewness": lambda: -geometry.hub_skewness(keys, kappa),
        "antihub_fraction": lambda: -geometry.antihub_fraction(keys, kappa),
    }[name]()


def judged(work, stream, spaces, rule):
    values = [value(work, stream, space, rule) for space in spaces]
    gains = [best_gains(work, stream, space, STREAMS[stream]).mean() for space in spaces]
    return values, gains, max(gains) - gains[int(np.argmax(values))]


@pytest.mark.parametrize("candidates", ["all", "controls"])
@pytest.mark.parametrize("rule", selection._RULES)
def test_a_rule_is_judged_by_online_runs(work, rules, candidates, rule):
    regrets, correlations, alike = {}, [], []
    for stream in STREAMS:
        values, gains, regrets[stream] = judged(work, stream, SETS[candidates], rule)
        pure = [value(work, stream, space, "purity@10") for space in SETS[candidates]]
        correlations.append(spearman(values, gains))
        alike.append(spearman(values, pure))
    where = {"candidates": candidates, "rule": rule}
    assert cell(rules, "labels", **where) == ("yes" if rule.startswith("purity") else "no")
    assert cell(rules, "hits", **where) == sum(each < 1e-12 for each in regrets.values())
    assert cell(rules, "streams", **where) == 5
    assert cell(rules, "mean regret", **where) == pytest.approx(np.mean(list(regrets.values())))
    worst = max(regrets.values())
    assert cell(rules, "worst regret", **where) == pytest.approx(worst)
    on = cell(rules, "worst on", **where)
    assert (on is None) == (worst < 1e-12)
    assert on is None or regrets[on] == pytest.approx(worst)
    assert cell(rules, "mean correlation", **where) == pytest.approx(np.nanmean(correlations))
    name = "mean correlation with purity@10"
    assert cell(rules, name, **where) == pytest.approx(np.nanmean(alike))


def test_rules_are_likened_to_purity_at_ten():
    work = tiny_work(without(tiny_plan(seeds={"orders": [0]}), "third"), n_images=40)
    [table] = selection._make(work)
    alike = [
        spearman(
            *([value(work, stream, space, f"purity@{k}") for space in SPACES] for k in (5, 10))
        )
        for stream in STREAMS
    ]
    assert np.mean(alike) < 1
    name, where = "mean correlation with purity@10", {"candidates": "all", "rule": "purity@5"}
    assert cell(table, name, **where) == pytest.approx(np.mean(alike))


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("candidates", ["all", "controls"])
def test_a_stream_is_told_as_online_runs_tell_it(work, streams, stream, candidates):
    table = table_of(streams, "selection-streams")
    spaces, where = SETS[candidates], {"stream": stream, "candidates": candidates}
    pure, gains, lost = judged(work, stream, spaces, "purity@10")
    pseudo, _, lost_without = judged(work, stream, spaces, "pseudo_purity@10")
    first = [best_gains(work, stream, space, STREAMS[stream])[0] for space in spaces]
    assert cell(table, "views", **where) == str(STREAMS[stream])
    assert cell(table, "purity range", **where) == pytest.approx(max(pure) - min(pure))
    assert cell(table, "ties", **where) == sum(abs(gain) < 1e-12 for gain in gains)
    assert cell(table, "correlation", **where) == pytest.approx(spearman(pure, gains))
    assert cell(table, "correlation, first order", **where) == pytest.approx(spearman(pure, first))
    kept = [(p, g) for p, g in zip(pure, gains, strict=True) if g > 1e-12]
    wanted = pytest.approx(spearman(*zip(*kept, strict=True)))
    assert cell(table, "correlation without ties", **where) == wanted
    assert cell(table, "best", **where) == spaces[int(np.argmax(gains))]
    assert cell(table, "purity selects", **where) == spaces[int(np.argmax(pure))]
    assert cell(table, "regret", **where) == pytest.approx(lost)
    assert cell(table, "pseudo-purity selects", **where) == spaces[int(np.argmax(pseudo))]
    assert cell(table, "regret of pseudo-purity", **where) == pytest.approx(lost_without)


@pytest.mark.parametrize("stream", STREAMS)
def test_ceilings_are_those_of_online_runs(work, streams, stream):
    table = table_of(streams, "selection-streams-ceilings")
    for space in SPACES:
        where = {"stream": stream, "space": space}
        by_order = best_gains(work, stream, space, STREAMS[stream])
        assert cell(table, "G*, first order", **where) == pytest.approx(by_order[0])
        assert cell(table, "G*, all orders", **where).value == pytest.approx(by_order.mean())
        assert cell(table, "G*, all orders", **where).sd == pytest.approx(by_order.std(ddof=1))
        wanted = pytest.approx(value(work, stream, space, "purity@10"))
        assert cell(table, "purity@10", **where).value == wanted


def test_a_lead_in_purity_is_resolved_by_its_intervals(work, streams):
    table = table_of(streams, "selection-streams")
    for stream in STREAMS:
        found = {
            space: each.measures[10].purity for space, each in work.geometry(stream, SPACES).items()
        }
        first = max(found.values(), key=lambda each: each.estimate)
        close = [
            space
            for space, each in found.items()
            if each is not first
            and first.estimate - each.estimate
            <= max(first.high - first.estimate, first.estimate - first.low)
            + max(each.high - each.estimate, each.estimate - each.low)
        ]
        said = cell(table, "purity resolved", stream=stream, candidates="all")
        assert said == (f"no: {', '.join(close)}" if close else "yes")


def test_notes_part_resolved_streams_from_others(streams):
    table = table_of(streams, "selection-streams")
    said = dict(zip(("all", "controls"), table.notes, strict=True))
    for candidates, note in said.items():
        resolved = column(table, "purity resolved", candidates=candidates)
        values = column(table, "correlation", candidates=candidates)
        for word, wanted in (("resolved", True), ("not resolved", False)):
            part = [v for v, r in zip(values, resolved, strict=True) if (r == "yes") == wanted]
            if part:
                assert f"{np.mean(part):+.3f} over {len(part)} {word}" in note


@pytest.mark.parametrize("experiment", [selection._EXPERIMENT, selection.STREAMS])
def test_its_pieces_are_those_it_uses(experiment):
    one = without(tiny_plan(seeds={"orders": [0]}), "second", "third", "fourth", "fifth", "sixth")
    few = tiny_plan(spaces={"all": ["own", "best", "good"], "controls": ["best", "own", "good"]})
    for plan in (tiny_plan(), one, few):
        work = tiny_work(plan)
        tables = experiment.make(work)
        assert set(work.used) == set(experiment.pieces(plan))
        # the few are all of them: told once
        expected = {"all"} if plan is few else {"all", "controls"}
        assert set(column(tables[0], "candidates")) == expected
