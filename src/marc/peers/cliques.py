"""COSMIC's graphs: nodes that are alike, the maximal cliques among them, and those near a query.

A graph joins the pairs whose similarity is above a threshold, which is found by bisection so that a
node has a given number of neighbours on average. An edge stays only if its ends share more than one
neighbour. The maximal cliques of what remains speak for their members: a query chooses a fraction
of them, those whose anchors, the means of their members, are most similar to it.

Between two rebuilds few edges change, and a clique without an end of a changed edge is a maximal
clique before if and only if it is one after: the edges inside it and the edges at it are the same.
The others lie among the ends of changed edges and their neighbours. So only these are enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.memory import check_stored
from marc.scores import Float, Int

_Graph = NDArray[np.bool_]
"""(N, N), symmetric, no node joined to itself."""
_Clique = tuple[int, ...]
"""Nodes in ascending order."""

_TOLERANCE = 0.01
"""How far the average number of neighbours may be from the one asked for."""
_MOST_HALVINGS = 500


def _threshold_of_degree(similarity: NDArray[np.float32], degree: float) -> np.float32:
    """The threshold above which pairs are joined, for `degree` neighbours on average.

    The interval between the smallest and the largest similarity, a node's with itself included, is
    halved up to 500 times. Where no threshold gives the degree, because of ties or of too few
    nodes, the last middle holds. Pairs that a half no longer asks about are dropped, so that all
    halvings together look at each pair a few times only. Middles are float64; a pair is above one
    if it is above the largest float32 that does not exceed it, which is what is returned.
    """
    low, high = float(similarity.min()), float(similarity.max())
    n_nodes, n_above, middle = len(similarity), 0, np.nan
    open_pairs, each = _off_diagonal(similarity), 1
    for _ in range(_MOST_HALVINGS):
        last, middle = middle, (low + high) / 2
        if middle == last:
            break  # the interval cannot be halved any more, so the other halvings change nothing
        is_above = open_pairs > _float32_below(middle)
        n_joined = n_above + each * int(np.count_nonzero(is_above))
        average = float(np.float32(n_joined / n_nodes))
        if abs(average - degree) <= _TOLERANCE:
            break
        if average > degree:
            low, open_pairs = middle, open_pairs[is_above]
        else:
            high, open_pairs, n_above = middle, open_pairs[~is_above], n_joined
        if each == 1 and len(open_pairs) and open_pairs.min() == open_pairs.max():
            open_pairs, each = open_pairs[:1], len(open_pairs)  # as many zeros as classes are empty
    return _float32_below(middle)


def _off_diagonal(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """All but the diagonal, one after the other: in rows of N + 1 it is the first column."""
    size = len(matrix)
    return matrix.reshape(-1)[:-1].reshape(size - 1, size + 1)[:, 1:].reshape(-1)


def _float32_below(value: float) -> np.float32:
    nearest = np.float32(value)
    return nearest if float(nearest) <= value else np.nextafter(nearest, np.float32(-np.inf))


def _graph_of_degree(similarity: NDArray[np.float32], degree: float) -> _Graph:
    """Pairs above the threshold, less the edges whose ends share at most one neighbour."""
    graph = np.asarray(similarity > _threshold_of_degree(similarity, degree))
    np.fill_diagonal(graph, False)
    return _supported_edges(graph)


def _supported_edges(graph: _Graph) -> _Graph:
    """The edges whose ends share more than one neighbour."""
    first, second = np.nonzero(np.triu(graph, 1))
    neighbours = np.packbits(graph, axis=1)
    shared = np.bitwise_count(neighbours[first] & neighbours[second]).sum(axis=1, dtype=np.int64)
    first, second = first[shared > 1], second[shared > 1]
    supported = np.zeros_like(graph)
    supported[first, second] = supported[second, first] = True
    return supported


def _maximal_cliques(graph: _Graph) -> list[_Clique]:
    """All maximal cliques; a node without neighbours is one of its own.

    Nodes with the same neighbours, themselves included, are in the same cliques, so that only the
    first of them is handed to the enumeration.
    """
    closed = np.packbits(graph | np.eye(len(graph), dtype=bool), axis=1)
    alike: dict[bytes, list[int]] = {}
    for node, neighbours in enumerate(closed):
        alike.setdefault(neighbours.tobytes(), []).append(node)
    twins = {nodes[0]: nodes for nodes in alike.values()}
    first = np.array(list(twins))
    neighbours_of = {node: set(first[graph[node, first]].tolist()) for node in twins}
    return [
        tuple(sorted(chain.from_iterable(twins[node] for node in clique)))
        for clique in _enumerated(neighbours_of)
    ]


def _enumerated(neighbours_of: dict[int, set[int]]) -> Iterator[_Clique]:
    """Maximal cliques in some order, after Bron and Kerbosch with the pivots of Tomita et al.

    A clique grows by its candidates, which are joined to all of it. What is done with may not
    join any more; where one of those could, the clique is not maximal or was found already.
    """
    open_cliques: list[tuple[_Clique, set[int], set[int]]] = [((), set(neighbours_of), set())]
    while open_cliques:
        clique, candidates, done = open_cliques.pop()
        if not candidates:
            if not done:
                yield clique
            continue
        # a maximal clique holds the pivot or a candidate that is no neighbour of it
        pivot = max(candidates | done, key=lambda node: len(candidates & neighbours_of[node]))
        for node in candidates - neighbours_of[pivot]:
            near = neighbours_of[node]
            open_cliques.append(((*clique, node), candidates & near, done & near))
            candidates.remove(node)
            done.add(node)


def _updated_cliques(before: _Graph, cliques: list[_Clique], graph: _Graph) -> list[_Clique]:
    """The maximal cliques of `graph`, those of `before` being known: only what changed is new."""
    touched = (before != graph).any(axis=1)
    if not touched.any():
        return cliques
    near = np.flatnonzero(touched | graph[touched].any(axis=0))
    is_touched = set(np.flatnonzero(touched).tolist())
    names = near.tolist()
    new = [
        tuple(names[node] for node in clique)
        for clique in _maximal_cliques(graph[np.ix_(near, near)])
    ]
    unchanged = [clique for clique in cliques if is_touched.isdisjoint(clique)]
    return sorted(unchanged + [clique for clique in new if not is_touched.isdisjoint(clique)])


@dataclass(frozen=True)
class Cliques:
    """The maximal cliques of one graph, in lexicographic order."""

    graph: _Graph
    cliques: list[_Clique]

    members: Int
    """The nodes of all cliques, one clique after the other."""
    starts: Int
    """Where each clique begins in `members`."""

    @classmethod
    def of(cls, graph: _Graph, cliques: list[_Clique]) -> Cliques:
        """Cliques with their arrays."""
        sizes = np.array([len(clique) for clique in cliques])
        members = np.fromiter(chain.from_iterable(cliques), dtype=np.int64, count=sizes.sum())
        return cls(graph, cliques, members, np.cumsum(sizes) - sizes)

    @classmethod
    def rebuilt(
        cls, before: Cliques | None, similarity: NDArray[np.float32], degree: float
    ) -> Cliques:
        """The cliques of the graph of `similarity`; what did not change is taken from `before`."""
        graph = _graph_of_degree(similarity, degree)
        if before is None:
            return cls.of(graph, sorted(_maximal_cliques(graph)))
        cliques = _updated_cliques(before.graph, before.cliques, graph)
        return before if cliques is before.cliques else cls.of(graph, cliques)

    def near(self, cosines: Float, fraction: float) -> NDArray[np.bool_]:
        """Members (N,) of the cliques whose anchors are most similar to a query.

        At least one clique is chosen; of equal ones the first. An anchor is the mean of its
        members, so its product with the query is the mean of theirs.

        Args:
            cosines: products of the query with the nodes as they were when the graph was built.
            fraction: of the cliques.
        """
        sizes = np.diff(self.starts, append=len(self.members))
        scores = np.add.reduceat(cosines[self.members].astype(np.float64), self.starts) / sizes
        best = np.argsort(-scores, kind="stable")[: max(1, int(fraction * len(sizes)))]
        chosen = np.zeros(len(sizes), dtype=bool)
        chosen[best] = True
        is_member = np.zeros(len(self.graph), dtype=bool)
        is_member[self.members[np.repeat(chosen, sizes)]] = True
        return is_member

    def state(self) -> dict[str, NDArray[np.generic]]:
        """The cliques as arrays; every edge lies in one, so the graph need not be kept."""
        return {"members": self.members.copy(), "starts": self.starts.copy()}

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]], n_nodes: int) -> Cliques:
        """The cliques that `state` gave."""
        members, starts = state["members"], state["starts"]
        rises, first = np.diff(members) > 0, np.zeros(len(members), dtype=bool)
        first[starts] = True
        check_stored(
            np.array_equal(np.flatnonzero(first), starts)
            and (rises | first[1:]).all()
            and np.array_equal(np.unique(members), np.arange(n_nodes)),
            "its cliques are none",
        )
        cliques = [tuple(c.tolist()) for c in np.split(members, starts[1:])]
        graph = np.zeros((n_nodes, n_nodes), dtype=bool)
        for clique in cliques:
            graph[np.ix_(clique, clique)] = True
        np.fill_diagonal(graph, False)
        return cls.of(graph, cliques)
