"""The explorer's data against a slow twin: a memory written and read one image at a time."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import marc
from marc.memory import Memory
from marc.replay.weights import winning_segments
from marc.report.explorer import (
    _HUB,
    _HUB_READS,
    _NEAREST,
    _contenders,
    _disagreement,
    _hub_ratio,
    _look,
    _queries,
    _read_queries,
    _weight_stops,
)
from marc.report.inputs import Inputs
from marc.report.queries import _sample_images, outcomes
from marc.report.setting import Subject
from marc.results.folder import Stored
from marc.scores import fuse

SEED = 3
METHODS = {
    "plain": marc.MARC("both", capacity=3, weight=7.0, seed=SEED),
    "reservoir": marc.MARC("classes", capacity=4, weight=30.0, policy="reservoir", seed=SEED),
    "looks at answers": marc.MARC("both", 3, 7.0, policy="retrieval_aware", seed=SEED),
    "adaptive": marc.MARC("both", 3, 20.0, gamma=1.0, seed=SEED),
    "all memories": marc.MARC(
        "both", 3, 7.0, clip_weight=2.0, negative_weight=0.117, refine_labels=True, seed=SEED
    ),
    "off but adaptive": marc.MARC("both", 3, 0.0, gamma=2.0, seed=SEED),
    "memory alone": marc.MARC("classes", 3, 7.0, use_base=False, seed=SEED),
}


def subject_of(method, stream, against=None):
    """What a page of a run would be about, without a folder."""
    run = marc.run(method, stream.shuffled(SEED))
    place = np.argsort(run.order)
    config = {"method": {k: v for k, v in method.config().items() if k != "seed"}, "seeds": [SEED]}
    arrays = {
        "order": run.order[np.newaxis],
        "prediction": run.predictions[place][np.newaxis],
        "pseudo_label": run.trajectory.label[place][np.newaxis],
        "priority": run.trajectory.priority[place][np.newaxis],
    }
    stored = Stored(None, config, {"selection": "fixed"}, arrays)
    return Subject.of(Inputs(stream, "arrays/none.npz", stored, None), against, lambda step: None)


@pytest.fixture(scope="module")
def stream():
    return marc.synthetic_stream(n_images=150, n_classes=5, n_views=2)


@pytest.fixture(scope="module", params=METHODS)
def told(request, stream):
    """The explorer's data of every query, and what the online method did, step by step."""
    method = METHODS[request.param]
    subject = subject_of(method, stream, "styles")
    rows = np.arange(len(stream))
    queries = {query["row"]: query for query in _queries(subject, _look(subject), rows)}
    online, order = [], stream.shuffled(SEED)
    method.reset()
    beside = Memory(stream.n_classes, method.capacity, stream.features.dim("styles"))
    for query in order:
        key = query.key("styles")
        seen = SimpleNamespace(
            neighbors=[
                [] if method.memory is None else near(method.memory, query.key(method.space)),
                near(beside, key),
            ],
            held=0 if method.memory is None else len(method.memory),
            beside=beside.read(key),
        )
        seen.step = method.step(query)
        beside.write(key, seen.step.label, seen.step.priority, query.item)
        online.append(seen)
    return SimpleNamespace(method=method, subject=subject, queries=queries, online=online)


def near(memory, key):
    return memory.neighbors(key, _NEAREST)


def test_the_entries_are_what_the_memory_held_at_that_moment(told):
    arrived = {int(item): time for time, item in enumerate(told.subject.stream.order)}
    for seen in told.online:
        query = told.queries[seen.step.item]
        assert query["held"] == seen.held
        assert query["time"] == arrived[seen.step.item]
        for entries, expected in zip(query["entries"], seen.neighbors, strict=True):
            assert [entry["row"] for entry in entries] == [each.item for each in expected]
            for entry, each in zip(entries, expected, strict=True):
                assert entry["label"] == each.label
                assert entry["similarity"] == pytest.approx(each.similarity, abs=1e-4)
                assert entry["vote"] == pytest.approx(each.weight, abs=1e-4)
                assert entry["time"] == arrived[each.item] < query["time"]
                assert entry["truth"] == told.subject.labels[each.item]


def test_the_evidence_is_that_of_the_step(told):
    for seen in told.online:
        query, step = told.queries[seen.step.item], seen.step
        base = told.subject.stream.features.base.at(step.item)
        scale = told.method.fusion_weights(base, 5, 1.0)["retrieval"]
        expected = [scale * step.evidence["retrieval"], scale * seen.beside]
        for slopes, evidence in zip(query["slopes"], expected, strict=True):
            np.testing.assert_allclose(slopes, evidence[query["classes"]], rtol=2e-5, atol=1e-6)
        rest = step.logits - step.weights["retrieval"] * step.evidence["retrieval"]
        np.testing.assert_allclose(query["constant"], rest[query["classes"]], rtol=1e-5, atol=1e-5)


def test_the_answer_at_the_weight_of_the_run_is_that_of_the_step(told):
    for seen in told.online:
        query = told.queries[seen.step.item]
        assert answer(query, 0, told.method.weight) == seen.step.prediction == query["adapted"]
        assert query["base"] == seen.step.base_prediction


def answer(query, space, weight):
    """As the script of the page does it: the first of the best among the listed classes."""
    scores = [
        c + weight * s for c, s in zip(query["constant"], query["slopes"][space], strict=True)
    ]
    return query["classes"][max(range(len(scores)), key=lambda place: scores[place])]


def test_the_listed_classes_answer_for_all_classes_at_any_weight(told):
    subject, rows = told.subject, np.arange(150)
    draw = np.random.default_rng(0)
    weights = [0.0, *draw.uniform(0, 100, 5), *10 ** draw.uniform(-3, 4, 10), 1e9]
    for place, space in enumerate(subject.shown_spaces):
        read = _read_queries(space, subject.method, subject.stream, subject.history, rows)
        slope = read.evidence * subject.fusion.scale[:, np.newaxis]
        for weight in weights:
            expected = fuse(subject.fusion.constant, slope, weight).argmax(axis=1)
            assert [answer(told.queries[row], place, weight) for row in rows] == expected.tolist()


def test_the_answers_are_those_of_replay_at_many_weights(stream):
    subject = subject_of(METHODS["plain"], stream)
    queries = _queries(subject, _look(subject), np.arange(150))
    for space, name in enumerate(subject.shown_spaces):
        for weight in (0.0, 0.5, 3.0, 7.0, 22.5, 100.0):
            method = marc.MARC(name, capacity=3, weight=weight)
            run = marc.replay(method, stream.shuffled(SEED))
            shown = [answer(queries[row], space, weight) for row in run.order]
            assert shown == run.predictions.tolist()


def test_segments_say_where_the_answer_changes(told):
    for query in told.queries.values():
        for space, segments in enumerate(query["segments"]):
            starts = [start for start, _ in segments]
            for (start, winner), end in zip(segments, [*starts[1:], starts[-1] + 1], strict=True):
                if end > start * (1 + 1e-9):
                    assert answer(query, space, (start + end) / 2) == winner


LINES = st.integers(2, 8).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-3, 3), min_size=n, max_size=n),
        st.lists(st.integers(0, 3), min_size=n, max_size=n),
    )
)


@given(LINES, st.lists(st.fractions(0, 8, max_denominator=6), max_size=8))
def test_contenders_hold_every_winner_even_where_lines_meet(lines, weights):
    base, evidence = (np.array(values, dtype=np.float64) for values in lines)
    listed = sorted(_contenders(base, evidence, winning_segments(base, evidence)))
    differences = [
        (base[a] - base[b]) / (evidence[b] - evidence[a])
        for a in range(len(base))
        for b in range(len(base))
        if evidence[b] > evidence[a] and base[a] >= base[b]
    ]
    for weight in [*map(float, weights), *differences, 0.0, 1e6]:
        everyone = fuse(base, evidence, weight)
        assert listed[int(everyone[listed].argmax())] == everyone.argmax()


def test_disagreement_compares_bags_of_labels():
    draw = np.random.default_rng(1)
    label = draw.integers(4, size=50)
    first, second = draw.integers(50, size=(2, 200, _NEAREST))
    first[:20, 5:] = second[:20, 5:] = -1
    first[0] = second[0] = -1
    given = _disagreement(first, second, label)
    for ours, theirs, value in zip(first, second, given, strict=True):
        bags = [Counter(label[rows[rows >= 0]].tolist()) for rows in (ours, theirs)]
        size = max(1, sum(bags[0].values()))
        expected = 1 - (bags[0] & bags[1]).total() / size if bags[0] else 0.0
        assert value == pytest.approx(expected)


def test_hubs_are_counted_against_equal_chances(stream):
    subject = subject_of(METHODS["plain"], stream)
    views, history = _look(subject), subject.history
    nearest = views.nearest["both"]
    expected = np.zeros(150)
    for time in range(150):
        rows = [r for rows in subject.trajectory.retained(time, 3).values() for r in rows]
        expected[rows] += min(_NEAREST, len(rows)) / max(1, len(rows))
    counts = Counter(nearest[nearest >= 0].tolist())
    ratio = _hub_ratio(nearest, history)
    for row in range(150):
        assert ratio[row] == pytest.approx(counts[row] / expected[row] if expected[row] else 0)
        assert views.hubs["both"][row] == (ratio[row] >= _HUB and counts[row] >= _HUB_READS)


def test_outcomes_are_repairs_and_regressions(stream):
    subject = subject_of(METHODS["plain"], stream)
    run = marc.replay(METHODS["plain"], stream.shuffled(SEED))
    kinds = outcomes(subject)
    assert sorted(np.flatnonzero(kinds["repaired"])) == sorted(run.repairs)
    assert sorted(np.flatnonzero(kinds["broken"])) == sorted(run.regressions)


def test_the_queries_are_chosen_by_the_stated_rule(stream):
    subject = subject_of(METHODS["plain"], stream)
    views, samples = _look(subject), _sample_images(subject)
    chosen = views.choose(samples, 60)
    assert len(chosen) == len(set(chosen.tolist())) == 60
    assert set(np.concatenate(list(samples.values())).tolist()) <= set(chosen.tolist())
    for wanted in views.kinds.values():
        most = views.ranked(wanted)[: 60 // (2 * len(views.kinds))]
        assert set(most.tolist()) <= set(chosen.tolist())
    assert (np.diff(views.disagreement[chosen]) <= 0).all()
    every = views.ranked(np.ones(150, dtype=bool))
    assert views.choose(samples, 1000).tolist() == every.tolist()
    assert len(views.choose(samples, 5)) == 5


def test_samples_are_of_their_kind_and_spread_over_the_stream(stream):
    subject = subject_of(METHODS["plain"], stream)
    samples, time = _sample_images(subject), subject.history.time
    right = subject.prediction == subject.labels
    assert right[samples["right both times"]].all()
    assert not right[samples["wrong both times"]].any()
    for rows in samples.values():
        assert (np.diff(time[rows]) > 0).all()
    spread = time[samples["right both times"]]
    assert spread[0] < 75 < spread[-1]


def test_without_labels_the_explorer_says_only_what_changed(stream):
    subject = subject_of(METHODS["plain"], replace(stream, row_labels=None))
    views = _look(subject)
    assert set(views.kinds) == {"changed", "low margin", "hubs"}
    assert set(_sample_images(subject)) == {"changed", "unchanged"}
    [query] = _queries(subject, views, np.array([7]))
    assert query["truth"] is None
    assert {entry["truth"] for entries in query["entries"] for entry in entries} == {None}


def test_a_stream_of_one_space_is_shown_alone():
    draw = np.random.default_rng(0)
    only = marc.Stream.from_arrays(
        draw.standard_normal((40, 8)),
        draw.standard_normal((3, 8)),
        labels=draw.integers(3, size=40),
    )
    subject = subject_of(marc.MARC("predictor", seed=SEED), only)
    assert subject.shown_spaces == ("predictor",)
    [query] = _queries(subject, _look(subject), np.array([7]))
    assert len(query["slopes"]) == len(query["entries"]) == 1


@pytest.mark.parametrize("weight", [0.0, 0.05, 7.3, 10.0, 2500.0])
def test_the_slider_stops_at_the_usual_weights_and_at_that_of_the_run(weight):
    stops = _weight_stops(weight)
    assert stops == sorted(set(stops))
    assert {weight, *marc.WEIGHTS} <= set(stops)
    assert stops[0] == 0
    assert stops[-1] >= max(100, weight)
