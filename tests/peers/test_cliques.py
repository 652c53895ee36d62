"""The graphs of COSMIC: thresholds, edges and cliques against slow and literal ones."""

from itertools import combinations

import numpy as np
import pytest
from helpers.literal_cliques import literal_edges, literal_support

from marc.peers import cliques as module
from marc.peers.cliques import (
    Cliques,
    _graph_of_degree,
    _maximal_cliques,
    _supported_edges,
    _threshold_of_degree,
    _updated_cliques,
)


def literal_cliques(graph):
    """Every set of nodes is tried."""
    size = len(graph)
    sets = [set(nodes) for n in range(1, size + 1) for nodes in combinations(range(size), n)]
    joined = [s for s in sets if all(graph[a, b] for a, b in combinations(sorted(s), 2))]
    return sorted(tuple(sorted(s)) for s in joined if not any(s < other for other in joined))


def similarities(draw, size, kind):
    nodes = draw.standard_normal((size, 6)).astype(np.float32)
    if kind == "empty":
        nodes[draw.random(size) < 0.5] = 0
    elif kind == "positive":
        nodes = np.abs(nodes) * (draw.random((size, 1)) < 0.5).astype(np.float32)
    elif kind == "rounded":
        nodes = np.round(nodes)
    elif kind == "twice":
        nodes = nodes[draw.integers(size, size=size)]
    elif kind == "equal":
        nodes[:] = nodes[0]
    similarity = nodes @ nodes.T
    return np.triu(similarity) + np.triu(similarity, 1).T


@pytest.mark.parametrize("kind", ["plain", "empty", "positive", "rounded", "twice", "equal"])
@pytest.mark.parametrize("size", [2, 3, 10, 40])
def test_the_threshold_is_that_of_500_halvings(kind, size):
    draw = np.random.default_rng(size)
    unreached = 0
    for degree in (0.0, 1.0, 4.0, 5.0, 5.0, 50.0):
        similarity = similarities(draw, size, kind)
        graph = similarity > _threshold_of_degree(similarity, degree)
        np.fill_diagonal(graph, False)
        assert np.array_equal(graph, literal_edges(similarity, degree))
        unreached += abs(graph.sum() / size - degree) > 0.01
    assert unreached >= 1  # 50 neighbours are too many: the last middle held


def test_the_degree_that_is_reached_is_the_one_asked_for():
    similarity = similarities(np.random.default_rng(1), 200, "plain")
    graph = similarity > _threshold_of_degree(similarity, 4.0)
    np.fill_diagonal(graph, False)
    assert graph.sum() / 200 == pytest.approx(4.0, abs=0.0101)


@pytest.mark.parametrize("seed", range(8))
def test_edges_without_support_go(seed):
    draw = np.random.default_rng(seed)
    graph = np.triu(draw.random((13, 13)) < draw.uniform(0.2, 0.7), 1)
    graph = graph | graph.T
    assert np.array_equal(_supported_edges(graph), literal_support(graph))
    assert _supported_edges(graph).sum() < graph.sum() or seed in (1, 3, 4, 7)  # those are dense


@pytest.mark.parametrize("seed", range(12))
def test_cliques_are_all_maximal_ones(seed):
    draw = np.random.default_rng(seed)
    graph = np.triu(draw.random((9, 9)) < (0.0, 0.3, 0.6, 0.9)[seed % 4], 1)
    graph = graph | graph.T
    if seed > 7:  # nodes with the same neighbours
        copy = np.concatenate([np.arange(6), draw.integers(6, size=3)])
        graph = (graph | np.eye(9, dtype=bool))[np.ix_(copy, copy)]
        np.fill_diagonal(graph, False)
    assert sorted(_maximal_cliques(graph)) == literal_cliques(graph)


def test_many_equal_nodes_make_one_clique_at_once():
    """As the classes of an empty memory are, where the last middle is just below zero."""
    graph = np.ones((400, 400), dtype=bool)
    np.fill_diagonal(graph, False)
    graph[0, 1] = graph[1, 0] = False
    assert sorted(_maximal_cliques(graph)) == [(0, *range(2, 400)), tuple(range(1, 400))]


@pytest.mark.parametrize("kind", ["plain", "empty", "rounded"])
def test_what_did_not_change_is_not_enumerated_and_the_result_is_the_full_one(kind, monkeypatch):
    """Nodes move one at a time, or a little all together, as the two graphs of a stream do."""
    draw = np.random.default_rng(5)
    handed = []

    def counted(graph):
        handed.append(len(graph))
        return _maximal_cliques(graph)

    monkeypatch.setattr(module, "_maximal_cliques", counted)
    nodes = draw.standard_normal((60, 8)).astype(np.float32)
    known, n_kept, n_same = None, 0, 0
    for step in range(150):
        if step % 3:
            nodes[draw.integers(60)] = np.round(
                draw.standard_normal(8), 0 if kind == "rounded" else 6
            )
        else:
            nodes = nodes + np.float32(0.01 * (kind == "plain")) * draw.standard_normal((60, 8))
        if kind == "empty":
            nodes[draw.integers(60)] = 0
        nodes = nodes.astype(np.float32)
        before, known = known, Cliques.rebuilt(known, nodes @ nodes.T, 5.0)
        graph = _graph_of_degree(nodes @ nodes.T, 5.0)
        assert np.array_equal(known.graph, graph)
        assert known.cliques == sorted(_maximal_cliques(graph))
        n_same += known is before
        n_kept += 0 if before is None else len(set(before.cliques) & set(known.cliques))
    assert n_same > 0  # the same graph: nothing was enumerated
    assert len(handed) == 150 - n_same
    assert n_kept > 1000
    assert sum(handed) < 0.75 * 60 * 150  # of the nodes that a full enumeration is handed


def test_the_enumeration_is_confined_to_what_changed(monkeypatch):
    graph = np.kron(np.eye(5, dtype=bool), np.ones((4, 4), dtype=bool))
    np.fill_diagonal(graph, False)
    known = sorted(_maximal_cliques(graph))
    after = graph.copy()
    after[0, 1] = after[1, 0] = False
    seen = []
    monkeypatch.setattr(
        module, "_maximal_cliques", lambda part: seen.append(len(part)) or _maximal_cliques(part)
    )
    expected = sorted([(0, 2, 3), (1, 2, 3), *known[1:]])
    assert _updated_cliques(graph, known, after) == expected
    assert seen == [4]  # one of five groups
    assert _updated_cliques(after, expected, after) is expected
    assert seen == [4]


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_the_cliques_near_a_query_are_those_of_the_best_anchors(share):
    draw = np.random.default_rng(2)
    nodes = np.round(draw.standard_normal((30, 4))).astype(np.float32)
    known = Cliques.rebuilt(None, nodes @ nodes.T, 5.0)
    for _ in range(20):
        query = np.round(draw.standard_normal(4)).astype(np.float32)
        anchors = [nodes[list(clique)].astype(np.float64).mean(axis=0) for clique in known.cliques]
        scores = [round(float(anchor @ query), 9) for anchor in anchors]
        order = sorted(range(len(scores)), key=lambda clique: (-scores[clique], clique))
        chosen = order[: max(1, int(share * len(order)))]
        members = {node for clique in chosen for node in known.cliques[clique]}
        near = known.near(nodes @ query, share)
        last = scores[chosen[-1]]
        if len(chosen) == len(order) or scores[order[len(chosen)]] < last:
            assert set(np.flatnonzero(near).tolist()) == members
        else:  # equal anchors of different cliques may round apart
            strictly = {n for c in chosen if scores[c] > last for n in known.cliques[c]}
            assert strictly <= set(np.flatnonzero(near).tolist())


def test_equal_cliques_are_chosen_in_order():
    graph = np.zeros((10, 10), dtype=bool)
    known = Cliques.of(graph, sorted(_maximal_cliques(graph)))
    assert np.flatnonzero(known.near(np.zeros(10), 0.35)).tolist() == [0, 1, 2]
    assert np.flatnonzero(known.near(np.arange(10) // 9, 0.2)).tolist() == [0, 9]


def test_a_state_gives_the_cliques_and_the_graph_back():
    similarity = similarities(np.random.default_rng(3), 50, "plain")
    known = Cliques.rebuilt(None, similarity, 5.0)
    again = Cliques.from_state(known.state(), 50)
    assert again.cliques == known.cliques
    assert np.array_equal(again.graph, known.graph)
    assert Cliques.rebuilt(again, similarity, 5.0) is again
    for name, array in again.state().items():
        assert np.array_equal(array, known.state()[name])
