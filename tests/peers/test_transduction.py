"""StatA and TransCLIP, which share a graph and the spreading of labels."""

import math

import numpy as np
import pytest
from helpers.gold import gold as released
from helpers.gold import gold_stream, near_ties
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers._transduction import _neighbor_graph
from marc.peers.contract import check_method
from marc.peers.registry import METHODS
from marc.peers.stata import StatA
from marc.peers.transclip import TransCLIP
from marc.scores import softmax
from marc.stream import Stream


def awkward_stream(n_classes, n_views=1, n_images=23, dim=6):
    """Copies of images, and classes with the same text."""
    draw = np.random.default_rng(n_classes + n_views)
    prototypes = draw.standard_normal((n_classes, dim))
    if n_classes > 2:
        prototypes[[n_classes // 2, -1]] = prototypes[0]
    views = draw.standard_normal((n_images, n_views, dim))
    views[:, 0] += prototypes[draw.integers(n_classes, size=n_images)]
    views[6:15:2, 0] = views[5, 0]
    views[20] = views[19]
    return Stream.from_arrays(views, prototypes, logit_scale=12.0)


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def unit_list(row):
    return [x / math.sqrt(dot(row, row)) for x in row]


def softmax_list(row):
    powers = [math.exp(x - max(row)) for x in row]
    return [p / sum(powers) for p in powers]


def slow_graph(F, k, self_rule):
    N = len(F)
    A = [[0.0] * N for _ in F]
    for i in range(N):
        hits = sorted(range(N), key=lambda j: (-round(dot(F[i], F[j]), 6), j))
        hits = [j for j in hits if j != i] if self_rule == "itself" else hits[1:]
        for j in hits[:k]:
            A[i][j] = max(dot(F[i], F[j]), 0.0)
    return [[(A[i][j] + A[j][i]) / (2 * k) for j in range(N)] for i in range(N)]


def slow_labels(F, logits, W, mu, var, z):
    """Five spreads of labels with the Gaussians as they are."""
    N, C, D = len(F), len(mu), range(len(F[0]))
    density = [
        [-(sum((F[i][d] - mu[k][d]) ** 2 / var[k][d] + math.log(var[k][d]) for d in D)) / 2
         for k in range(C)] for i in range(N)
    ]  # fmt: skip
    for _ in range(5):
        z = [
            softmax_list([
                logits[i][k] + density[i][k] / 50 + sum(W[i][j] * z[j][k] for j in range(N))
                for k in range(C)
            ]) for i in range(N)
        ]  # fmt: skip
    return z


def of_batch(queries):
    F = [[float(x) for x in query.views[0]] for query in queries]
    T = [[float(x) for x in row] for row in queries[0].predictor.prototypes]
    logits = [[float(x) for x in q.predictor.logits(q.views[:1])[0]] for q in queries]
    return F, T, logits


def slow_stata(queries, self_rule, soft, alpha=1.0):
    F, T, logits = of_batch(queries)
    N, C, D = range(len(F)), range(len(T)), range(len(T[0]))
    W, z = slow_graph(F, 3, self_rule), [softmax_list(row) for row in logits]
    text = [sum(z[i][k] * (F[i][d] - T[k][d]) ** 2 for i in N for k in C) / len(F) for d in D]
    mu, var = T, [text for _ in C]
    for _ in range(10):
        z = slow_labels(F, logits, W, mu, var, z)
        best = [T[row.index(max(row))] for row in z]
        mu, var = [], []
        for k in C:
            mass = sum(z[i][k] for i in N)
            n = mass if soft else best.count(T[k]) / T.count(T[k])
            beta = n / (n + alpha)
            v = unit_list([sum(z[i][k] * F[i][d] for i in N) / mass for d in D])
            m = unit_list([beta * v[d] + (1 - beta) * T[k][d] for d in D])
            data = [sum(z[i][k] * (F[i][d] - m[d]) ** 2 for i in N) / mass for d in D]
            mu.append(m)
            var.append([beta * data[d] + (1 - beta) * (text[d] + (T[k][d] - m[d]) ** 2)
                        for d in D])  # fmt: skip
    return slow_labels(F, logits, W, mu, var, z)


def slow_transclip(queries, self_rule):
    F, T, logits = of_batch(queries)
    N, C, D = range(len(F)), range(len(T)), range(len(T[0]))
    W, z = slow_graph(F, 3, self_rule), [softmax_list(row) for row in logits]
    mu = []
    for k in C:
        surest = sorted(N, key=lambda i: (-z[i][k], i))[:8]
        mu.append(unit_list([sum(z[i][k] * F[i][d] for i in surest) for d in D]))
    var = [1 / len(D) for _ in D]
    for _ in range(10):
        z = slow_labels(F, logits, W, mu, [var for _ in C], z)
        mu = [unit_list([sum(z[i][k] * F[i][d] for i in N) for d in D]) for k in C]
        var = [sum(z[i][k] * (F[i][d] - mu[k][d]) ** 2 for i in N for k in C) / len(F) for d in D]
    return slow_labels(F, logits, W, mu, [var for _ in C], z)


@pytest.mark.parametrize("n_views", [1, 8])
@pytest.mark.parametrize("n_classes", [2, 5, 17])
@pytest.mark.parametrize(
    ("method", "twin"),
    [
        (StatA(batch_size=12), lambda batch: slow_stata(batch, "itself", soft=False)),
        (
            StatA(batch_size=None, soft_counts=True, self_rule="first_hit"),
            lambda batch: slow_stata(batch, "first_hit", soft=True),
        ),
        (
            StatA(batch_size=None, anchor=2.5),
            lambda batch: slow_stata(batch, "itself", soft=False, alpha=2.5),
        ),
        (TransCLIP(), lambda batch: slow_transclip(batch, "itself")),
        (
            TransCLIP(batch_size=12, self_rule="first_hit"),
            lambda batch: slow_transclip(batch, "first_hit"),
        ),
    ],
    ids=["stata", "stata soft", "stata anchor", "transclip", "transclip batches"],
)
def test_the_slow_twin_agrees(method, twin, n_classes, n_views):
    stream = awkward_stream(n_classes, n_views).shuffled(0)
    queries, size = list(stream), method.batch_size or len(stream)
    expected = np.array(
        [row for start in range(0, len(queries), size) for row in twin(queries[start:][:size])]
    )
    logits = np.array([step.logits for step in iter_steps(method, stream)])
    np.testing.assert_allclose(softmax(logits), expected, atol=1e-5)
    apart = ~near_ties(expected, 1e-5)
    assert np.array_equal(logits.argmax(axis=1)[apart], expected.argmax(axis=1)[apart])


def test_the_answer_is_the_logits_and_two_kinds_of_evidence():
    steps = list(iter_steps(StatA(text_weight=0.5, neighbor_weight=0), make_stream(0)))
    for step, query in zip(steps, make_stream(0), strict=True):
        assert np.array_equal(step.base, query.view_logits[0])
        assert set(step.evidence) == {"gaussians", "neighbors"}
        assert not step.evidence["neighbors"].any()
        np.testing.assert_allclose(step.logits, 0.5 * step.base + step.evidence["gaussians"])


@pytest.mark.parametrize(
    "method",
    [StatA(batch_size=None), StatA(batch_size=16, soft_counts=True), TransCLIP()],
    ids=["stata", "stata soft", "transclip"],
)
@pytest.mark.parametrize("n_classes", [5, 43])
def test_classes_with_the_same_text_stay_tied(method, n_classes):
    stream = awkward_stream(n_classes, n_images=75, dim=16)
    for step in iter_steps(method, stream):
        assert step.logits[0] == step.logits[n_classes // 2] == step.logits[-1]


@pytest.mark.parametrize("make", [StatA, TransCLIP])
@pytest.mark.parametrize("n_images", [1, 2, 3])
def test_few_images_and_copies_alone_give_numbers(make, n_images):
    for rows in (np.ones((n_images, 3)), np.eye(3)[:n_images]):
        stream = Stream.from_arrays(rows, np.eye(3), logit_scale=1000.0)
        for step in iter_steps(make(batch_size=2), stream):
            assert np.isfinite(step.logits).all()


@pytest.mark.parametrize("make", [StatA, TransCLIP])
def test_a_batch_knows_nothing_of_other_batches_nor_of_its_own_order(make):
    stream = make_stream(3, n_images=60).shuffled(0)
    method = make(batch_size=20)
    first = np.array([step.logits for step in iter_steps(method, stream)])
    swapped = np.r_[stream.order[20:40][::-1], stream.order[:20], stream.order[40:]]
    second = np.array([step.logits for step in iter_steps(method, stream.reordered(swapped))])
    np.testing.assert_allclose(second, np.r_[first[20:40][::-1], first[:20], first[40:]], atol=1e-6)
    assert method.step_batch([]) == []


def test_the_graph_joins_an_image_with_copies_by_its_index_or_as_the_search_found_it():
    rows = np.array([[1, 0], [1, 0], [0.8, 0.6], [0, 1]], dtype=np.float32)
    by_index = _neighbor_graph(rows, 1, "itself").toarray()
    np.testing.assert_allclose(by_index[:2], [[0, 1, 0.4, 0], [1, 0, 0, 0]], atol=1e-6)
    by_hit = _neighbor_graph(rows, 1, "first_hit").toarray()
    np.testing.assert_allclose(by_hit[:2], [[0, 0.5, 0.4, 0], [0.5, 1, 0, 0]][:2], atol=1e-6)


def test_many_copies_keep_the_first_of_them():
    graph = _neighbor_graph(np.ones((9, 4), dtype=np.float32) / 2, 3, "itself").toarray()
    assert (graph[8] > 0).tolist() == [True] * 3 + [False] * 6
    assert not graph.diagonal().any()


def test_statistical_anchors_save_what_transclip_loses_where_a_batch_has_few_classes():
    stream = make_stream(2, n_images=400, n_classes=20, dim=32)
    stream = stream.reordered(np.argsort(stream.row_labels, kind="stable"))
    anchored, free = run(StatA(), stream), run(TransCLIP(batch_size=64), stream)
    assert anchored.accuracy > free.accuracy


@pytest.mark.parametrize(
    "make",
    [
        lambda: StatA(batch_size=7),
        lambda: StatA(batch_size=None, soft_counts=True, self_rule="first_hit"),
        TransCLIP,
        lambda: TransCLIP(batch_size=16, n_confident=2, n_neighbors=1),
    ],
)
def test_both_keep_the_contract_of_methods(make):
    check_method(make)


@pytest.mark.parametrize("name", ["stata", "transclip"])
@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"batch_size": 0}, "batch_size"),
        ({"rounds": -1}, "rounds"),
        ({"inner_rounds": 0}, "inner_rounds"),
        ({"text_weight": -1}, "text_weight"),
        ({"self_rule": "none"}, "unknown self rule"),
    ],
)
def test_bad_settings_are_refused(name, settings, problem):
    with pytest.raises(MarcError, match=problem):
        METHODS[name].factory(**settings)


def test_bad_settings_of_one_are_refused():
    for settings in ({"anchor": 0}, {"soft_counts": 2}, {"neighbor_weight": "much"}):
        with pytest.raises(MarcError, match=next(iter(settings))):
            StatA(**settings)
    with pytest.raises(MarcError, match="n_confident"):
        TransCLIP(n_confident=0)


@pytest.mark.parametrize(
    ("name", "method", "atol", "n_off"),
    [  # one pack's outputs are in half precision; the other has copies, whose ties fall otherwise
        ("stata_batch64_office_caltech", StatA(), 2e-5, 0),
        ("stata_batch64_sorted_office_caltech", StatA(), 2e-5, 0),
        ("stata_batch2500_office_caltech", StatA(batch_size=2500), 0.02, 10),
        ("transclip_full_office_caltech", TransCLIP(), 0.02, 12),
        ("stata_batch64_caltech101_test", StatA(), 3e-4, 0),
        ("stata_batch64_sorted_caltech101_test", StatA(), 1e-3, 3),
        ("stata_full_caltech101_test", StatA(batch_size=None), 5e-3, 15),
        ("transclip_full_caltech101_test", TransCLIP(), 5e-4, 0),
    ],
)
def test_the_released_functions_gave_the_same(name, method, atol, n_off):
    gold = released(name)
    stream = gold_stream(name.partition("_")[2].partition("_")[2].removeprefix("sorted_"), views=1)
    steps = iter_steps(method, stream.reordered(gold["order"]))
    logits = np.array([step.logits for step in steps])
    assert np.array_equal(logits.argmax(axis=1), gold["pred"])
    off = np.abs(softmax(logits) - gold["logits"]).max(axis=1)
    assert off.max() < atol
    assert (off > 5e-4).sum() <= n_off
