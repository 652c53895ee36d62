"""Blocks of queries against the twin that takes one step after the other."""

import time
from dataclasses import replace

import numpy as np
import pytest
from helpers.making import make_stream
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from marc.admission import POLICIES, Policy
from marc.errors import MarcError
from marc.method import MARC
from marc.replay import ahead
from marc.replay.ahead import apply, peek, step_block
from marc.stream import Stream
from marc.types import Query

OPTIONS = [
    {},
    {"weight": "auto"},
    {"admission_capacity": 0},
    {"refine_labels": True, "view_entropy": "tda"},
    {"negative_weight": 0.117, "gamma": 1.0},
    {"negative_weight": 0.5, "weight": "auto", "refine_labels": True, "clip_weight": 0.5},
    {"alpha": 1.0, "beta": 8.0, "use_base": False},
]
NEAR = 2e-4  # what is closer than this may fall either way in float32


def queries_of(stream):
    return [stream.query(t) for t in range(len(stream))]


def in_blocks(method, queries, cuts):
    """Blocks of the lengths in `cuts`, again and again."""
    answered, turn = [], 0
    while len(answered) < len(queries):
        length = cuts[turn % len(cuts)]
        block = queries[len(answered) : len(answered) + length]
        found = step_block(method, block)
        assert len(found) == len(block)
        answered += found
        turn += 1
    return answered


def assert_same_state(one, other):
    """Bit by bit."""
    one, other = one.state(), other.state()
    assert one["n_seen"] == other["n_seen"]
    assert one["arrays"].keys() == other["arrays"].keys()
    for name, array in one["arrays"].items():
        assert np.array_equal(array, other["arrays"][name]), name


def sizes(queries, space="good"):
    n_classes, clip_dim = queries[0].predictor.prototypes.shape
    return {"n_classes": n_classes, "dim": len(queries[0].key(space)), "clip_dim": clip_dim}


def apply_all(method, answered, queries):
    for each in answered:
        apply(method, each.writes, each.followed, **sizes(queries, method.space))
    return method


def decided(twin, steps, memory_reads):
    """Whether rounding cannot change what is kept: equal to the bit, or not nearly equal."""
    ours, theirs = ([step.priority for step in each] for each in (steps, twin))
    if ours == theirs and not memory_reads:
        return True
    labels, priorities = np.array([step.label for step in twin]), np.array(theirs)
    return all(
        (np.diff(np.sort(priorities[labels == label])) > NEAR).all() for label in set(labels)
    )


def assert_same_answers(twin, answered):
    for mine, other in zip(answered, twin, strict=True):
        step = mine.step
        assert (step.item, step.label) == (other.item, other.label)
        assert np.array_equal(step.base, other.base)
        assert step.evidence.keys() == other.evidence.keys()
        for name, evidence in other.evidence.items():
            np.testing.assert_allclose(step.evidence[name], evidence, atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(step.priority, other.priority, atol=NEAR / 2)
        apart = np.sort(other.logits)
        assert step.prediction == other.prediction or apart[-1] - apart[-2] < 0.1 * NEAR * 10


@pytest.fixture(scope="module", autouse=True, params=["one thread", "two threads"])
def threads(request):
    """Every test again with memories that are taken for large ones, and read at once."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "two threads":
            patch.setattr(ahead, "_LARGE", 0)
            patch.setattr(ahead, "_is_free", lambda: True)
        yield


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    policy=st.sampled_from(list(POLICIES)),
    options=st.sampled_from(OPTIONS),
    capacity=st.sampled_from([0, 1, 1, 2, 5]),
    cuts=st.lists(st.integers(1, 12), min_size=1, max_size=5),
    n_classes=st.sampled_from([2, 3, 7, 40]),
    n_views=st.sampled_from([1, 2, 20]),
    n_distinct=st.sampled_from([4, 60, 60]),
    space=st.sampled_from(["good", "good", "predictor"]),
)
def test_blocks_are_single_steps(
    seed, policy, options, capacity, cuts, n_classes, n_views, n_distinct, space
):
    few = make_stream(seed, n_distinct, n_views, n_classes).features
    copies = np.random.default_rng(seed).integers(n_distinct, size=60)
    stream = Stream.from_arrays(
        few.views[copies], few.predictor.prototypes, {"good": few.spaces["good"][copies]}
    )
    queries = queries_of(stream)
    config = {"capacity": capacity, "policy": policy, "seed": seed, "admission_capacity": 2}
    config |= options
    one, block = MARC(space, **config), MARC(space, **config)
    twin, answered = [one.step(query) for query in queries], in_blocks(block, queries, cuts)
    assert block.memory.n_classes == n_classes  # the plain memory is back

    # what its log says gives the same state, whether or not rounding decided something
    assert_same_state(apply_all(MARC(space, **config), answered, queries), block)
    assert_same_state(MARC.from_state(block.state()), block)

    memory_reads = block.admission.reads_clip_memory or block.varies_with or block.refine_labels
    assume(decided(twin, [each.step for each in answered], memory_reads))
    assert_same_answers(twin, answered)
    ours, theirs = block.state()["arrays"], one.state()["arrays"]
    for name, array in theirs.items():
        if name.endswith("priorities") or name.startswith("auto"):
            np.testing.assert_allclose(ours[name], array, atol=NEAR, rtol=1e-4)
        else:
            assert np.array_equal(ours[name], array), name
    if max(cuts) < ahead._PAYS:
        assert_same_state(one, block)


def test_a_block_learns_from_its_own_images():
    """Not only from what was stored before: without that, the answers would differ a lot."""
    queries = queries_of(make_stream(0, 24))
    twin, answered = MARC("good"), step_block(MARC("good"), queries)
    last = [twin.step(query) for query in queries][-1]
    evidence = answered[-1].step.evidence["retrieval"]
    assert evidence.max() > 1
    np.testing.assert_allclose(evidence, last.evidence["retrieval"], atol=1e-5)


def test_several_writes_to_one_slot_in_a_block():
    stream = make_stream(3, 40, n_classes=2)
    queries = queries_of(stream)
    method, twin = (MARC("good", capacity=1, policy="fifo") for _ in range(2))
    answered = step_block(method, queries)
    for query, each in zip(queries, answered, strict=True):
        step = twin.step(query)
        np.testing.assert_allclose(
            each.step.evidence["retrieval"], step.evidence["retrieval"], atol=1e-5
        )
    writes = [each.writes[0] for each in answered]  # the newest is always stored
    assert [write.item for write in writes] == [query.item for query in queries]
    held = {}
    for write in writes:
        assert write.evicted == held.get(write.label)
        held[write.label] = write.item


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_few_queries_are_answered_to_the_bit(options):
    queries = queries_of(make_stream(1, 30, n_views=2))
    one, other = (MARC("good", capacity=2, **options) for _ in range(2))
    twin, answered = [one.step(query) for query in queries], in_blocks(other, queries, [1, 3])
    for each, step in zip(answered, twin, strict=True):
        assert np.array_equal(each.step.logits, step.logits)
    assert_same_state(one, other)
    assert one.memory.items == other.memory.items


@pytest.mark.parametrize("length", [1, 6])
def test_neighbours_are_those_at_the_moment_of_the_step(length):
    queries = queries_of(make_stream(2, 30))
    method, twin = MARC("good", capacity=2), MARC("good", capacity=2)
    for start in range(0, len(queries), length):
        block = queries[start : start + length]
        for query, each in zip(block, step_block(method, block, [3] * len(block)), strict=True):
            memory = twin.memory
            near = [] if memory is None else memory.neighbors(query.key("good"), 3)
            assert [n.item for n in each.neighbors] == [n.item for n in near]
            np.testing.assert_allclose(
                [n.similarity for n in each.neighbors], [n.similarity for n in near], atol=1e-6
            )
            twin.step(query)
    assert step_block(method, queries[:2], [0, 2])[0].neighbors == ()


def _failing(at):
    """The paper's policy, which fails at one position."""

    def priority(arrivals):
        if arrivals.position[0] == at:
            raise RuntimeError("no priority today")
        return POLICIES["entropy"].priority(arrivals)

    return Policy("failing", "fails once", priority, reads_clip_memory=True)


@pytest.mark.parametrize("options", [{}, {"weight": "auto"}, {"negative_weight": 0.1}], ids=str)
def test_a_failing_step_stores_nothing_and_ends_its_block(options):
    queries = queries_of(make_stream(4, 20))
    method = MARC("good", policy=_failing(7), **options)
    answered = step_block(method, queries[:10])
    assert len(answered) == 7
    before = method.state()
    with pytest.raises(RuntimeError, match="no priority today"):
        step_block(method, queries[7:10])
    for name, array in method.state()["arrays"].items():
        assert np.array_equal(array, before["arrays"][name]), name
    method.policy = "entropy"
    answered += step_block(method, queries[8:])  # goes on without the one that failed
    twin = MARC("good", **options)
    for query in [*queries[:7], *queries[8:]]:
        twin.step(query)
    assert twin.memory.items == method.memory.items
    assert_same_state(apply_all(MARC("good", **options), answered, queries), method)


def test_a_priority_that_is_no_number_stores_nothing():
    queries = queries_of(make_stream(4, 6))
    lost = Policy("lost", "never a number", lambda arrivals: np.full(1, np.nan))
    method = MARC("good", weight="auto")
    step_block(method, queries[:5])
    before, method.policy = method.state(), lost
    with pytest.raises(MarcError, match="is not a number"):
        step_block(method, queries[5:])
    for name, array in method.state()["arrays"].items():
        assert np.array_equal(array, before["arrays"][name]), name


def test_a_query_that_does_not_fit_fails_alone():
    stream = make_stream(5, 12)
    queries, features = queries_of(stream), stream.features
    wrong = [
        replace(queries[6], keys={}),
        replace(queries[6], keys={"good": np.ones(3, dtype=np.float32) / np.sqrt(np.float32(3))}),
        Query.from_features(
            np.ones((1, 9)),
            replace(features.predictor, prototypes=np.ones((5, 9), dtype=np.float32)),
            {"good": np.ones(6)},
            item=6,
        ),
    ]
    for bad in wrong:
        method = MARC("good")
        assert len(step_block(method, [*queries[:6], bad, *queries[7:]])) == 6
        with pytest.raises(MarcError):
            step_block(method, [bad, *queries[7:]])
        assert len(step_block(method, queries[7:])) == 5


def test_nothing_to_answer_is_refused():
    with pytest.raises(MarcError, match="no query"):
        step_block(MARC("good"), [])


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_peeking_changes_nothing(options):
    queries = queries_of(make_stream(6, 25))
    method, twin = (MARC("good", capacity=1, **options) for _ in range(2))
    assert peek(method, queries[0]).writes == ()
    assert method.memory is None
    for query in queries:
        before = None if method.memory is None else method.state()
        looked = peek(method, query, neighbors=2)
        if before is not None:
            assert_same_state(method, MARC.from_state(before))
        step = twin.step(query)
        assert np.array_equal(looked.step.logits, step.logits)
        assert (looked.step.label, looked.step.priority) == (step.label, step.priority)
        assert len(looked.neighbors) == min(2, 0 if before is None else len(method.memory))
        step_block(method, [query])
    assert_same_state(method, twin)


def test_peeking_that_fails_changes_nothing():
    queries = queries_of(make_stream(6, 8))
    method = MARC("good", policy=_failing(4), weight="auto")
    step_block(method, queries[:4])
    before = method.state()
    with pytest.raises(RuntimeError):
        peek(method, queries[4])
    assert_same_state(
        method, MARC.from_state({**before, "config": MARC("good", weight="auto").config()})
    )


def test_a_log_of_another_memory_is_refused():
    queries = queries_of(make_stream(7, 30))
    answered = step_block(MARC("good", capacity=2), queries)
    method = apply_all(MARC("good", capacity=2), answered, queries)
    twice = next(each for each in answered if each.writes)
    sure = [each._replace(writes=tuple(w._replace(priority=-99.0) for w in each.writes))
            for each in answered if each.writes and each.writes[0].evicted is not None]  # fmt: skip
    with pytest.raises(MarcError, match="does not take what it took before"):
        apply(method, sure[0].writes, **sizes(queries))
    other = MARC("good", capacity=2, policy="fifo")
    negative = twice.writes[0]._replace(part="negative", against=np.array([0]))
    with pytest.raises(MarcError, match="the negative memory"):
        apply(other, [negative], **sizes(queries))


def test_applying_is_cheap():
    """The bound is generous: a step of these sizes takes about 40 times as long."""
    queries = queries_of(make_stream(8, 400, n_classes=50, dim=512, space_dim=768))
    answered = step_block(MARC("good", capacity=4), queries)
    fewest = []
    for _ in range(3):
        method, start = MARC("good", capacity=4), time.perf_counter()
        apply_all(method, answered, queries)
        fewest.append((time.perf_counter() - start) / len(queries))
    assert min(fewest) < 100e-6
