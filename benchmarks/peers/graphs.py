"""What the shortcuts of ECALP and ZLaP are worth, as in `speed.py`.

The plain steps do with sparse matrices of SciPy what the released loops do with those of their
libraries: ECALP makes and normalises the whole graph for every image, ZLaP solves for every class,
or for every image, on its own. Dense matrices would make them slower.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, diags_array, eye_array, vstack
from scipy.sparse.linalg import cg

import marc
from benchmarks.peers.speed import agree, ratio, timed
from benchmarks.peers.speed import make_stream as weakly_clustered
from marc.loop import run
from marc.peers.ecalp import ECALP
from marc.peers.zlap import InductiveZLaP, ZLaP
from marc.scores import unit
from marc.sources.pack import write_pack

DIM = 512


def largest_of_rows(values, n: int):
    """Places of the n largest of each row, best first, and these values."""
    places = np.argsort(-values, axis=1, kind="stable")[:, :n]
    return places, np.take_along_axis(values, places, axis=1)


def normalised(graph):
    """D^-1/2 (W + W^T) D^-1/2."""
    graph = graph + graph.T
    roots = diags_array(1 / (np.sqrt(graph.sum(axis=1)) + 1e-6))
    return csr_array(roots @ graph @ roots)


def joined(lists, features, emphasis, k: int = 8):
    """Neighbours and similarities of all image nodes when the last two features arrive."""
    n = len(features) - 2
    cosines = unit(features * emphasis) @ features[-2:].T
    length = min(k, n + 2) if n <= k else min(n, k + 2)
    new, similar = largest_of_rows(cosines.T, length)
    if not n:
        return new, similar
    old, near = lists[0][:n], lists[1][:n].copy()
    near[old == n] = -1
    old = np.concatenate([old, np.full((n, 1), n + 1), np.full((n, 1), n)], axis=1)
    places, near = largest_of_rows(np.concatenate([near, cosines[:n]], axis=1), length)
    old = np.take_along_axis(old, places, axis=1)
    return np.concatenate([old, new]), np.concatenate([near, similar])


def plain_ecalp(stream, k: int = 8):
    """The whole graph and three products with it for every image."""
    texts = stream.features.predictor.prototypes
    n_classes, lists, closest, start, answers = len(texts), None, [], None, []
    for position in range(len(stream)):
        seen = stream.features.clip_keys[stream.order[: position + 1]]
        features = np.concatenate([seen, seen[-1:]])
        variance = texts.var(axis=0, ddof=1)
        lists = joined(lists, features, variance / np.linalg.norm(variance), k)
        closest.append(largest_of_rows(features[-1:] @ texts.T, 3))
        images = [array[:, :k] for array in lists]
        both = [np.concatenate([*each, each[-1]]) for each in zip(*closest, strict=True)]
        columns = np.concatenate([images[0] + n_classes, both[0]], axis=1)
        weights = np.concatenate([images[1], both[1]], axis=1).astype(np.float64) ** 10
        n_nodes = n_classes + len(features)
        rows = np.repeat(np.arange(n_classes, n_nodes), columns.shape[1])
        edges = weights.ravel(), (rows, columns.ravel())
        graph = normalised(csr_array(edges, shape=(n_nodes, n_nodes)))[n_classes:]
        empty = csr_array((1 if position else 2, n_classes))
        reached = empty if start is None else vstack([start, empty], format="csr")
        for _ in range(3):
            reached = graph @ vstack([eye_array(n_classes), reached], format="csr")
        scores = reached.toarray()
        answers.append(scores[-1].argmax())
        rows, best = np.arange(len(scores)), scores.argmax(axis=1)
        carried = scores[rows, best] / 5
        carried[-2:] = 0
        start = csr_array((carried, (rows, best)), shape=scores.shape)
    return np.array(answers)


def ecalp() -> list[tuple[str, str]]:
    """The graph anew for each image, or lists that are updated and one compiled pass."""
    rows = []
    for n_images, n_classes in ((500, 100), (1500, 10)):
        stream = weakly_clustered(n_images, n_classes, DIM)
        plain, expected = timed(lambda stream=stream: plain_ecalp(stream))
        ours, found = timed(lambda stream=stream: run(ECALP(), stream).predictions)
        agree(expected, found)
        case = f"T {n_images:,}, C {n_classes}, d {DIM}"
        rows.append((f"ECALP, the graph anew / lists and one pass ({case})", ratio(plain, ours)))
    return rows


def weights_to(rows, features, k: int, gamma: float):
    """The nearest k rows of each feature, and the edges to them."""
    near, similar = largest_of_rows(features @ rows.T, k)
    return near, np.maximum(similar, 0) ** gamma


def laplacian(features, texts, k: int = 5, gamma: float = 5.0, alpha: float = 0.3):
    """I - alpha W~ of images and texts, the texts first."""
    near, weights = weights_to(features, features, k, 1.0)
    closest, pulls = weights_to(texts, features, k, gamma)
    n_nodes = len(texts) + len(features)
    columns = np.concatenate([near + len(texts), closest], axis=1)
    rows = np.repeat(np.arange(len(texts), n_nodes), columns.shape[1])
    values = np.concatenate([weights, pulls], axis=1).astype(np.float64).ravel()
    graph = csr_array((values, (rows, columns.ravel())), shape=(n_nodes, n_nodes))
    graph = graph + graph.T
    graph = graph - diags_array(graph.diagonal())
    sums = graph.sum(axis=1)
    roots = diags_array(1 / np.sqrt(np.where(sums == 0, 1, sums)))
    return csr_array(eye_array(n_nodes) - alpha * (roots @ graph @ roots))


def solved_by_class(matrix, n_classes: int):
    """Columns of the inverse, one after the other: (C + N, C)."""
    scores = np.zeros((matrix.shape[0], n_classes))
    for c in range(n_classes):
        start = np.zeros(matrix.shape[0])
        start[c] = 1
        scores[:, c] = cg(matrix, start, rtol=1e-6, maxiter=50)[0]
    return scores


def plain_zlap(stream):
    """A solution for each class."""
    texts = stream.features.predictor.prototypes
    matrix = laplacian(stream.features.clip_keys[stream.order], texts)
    return solved_by_class(matrix, len(texts))[len(texts) :].argmax(axis=1)


def plain_inductive(given, stream, sparse: bool, k: int = 5):
    """A solution for each image, or the largest entries of one for each class."""
    features, texts = stream.features.clip_keys[stream.order], stream.features.predictor.prototypes
    matrix = laplacian(given, texts)
    near, weights = weights_to(given, features, k, 1.0)
    closest, pulls = weights_to(texts, features, k, 5.0)
    nodes = np.concatenate([near + len(texts), closest], axis=1)
    weights = np.concatenate([weights, pulls], axis=1)
    if sparse:
        inverse = solved_by_class(matrix, len(texts))
        kept = np.where(np.arange(len(texts)) == inverse.argmax(axis=1)[:, None], inverse, 0)
        kept = csr_array(kept)
        each = zip(nodes, weights, strict=True)
        return np.array([(kept[rows].T @ values).argmax() for rows, values in each])
    answers = []
    for rows, values in zip(nodes, weights, strict=True):
        start = np.zeros(matrix.shape[0])
        start[rows] = values
        answers.append(cg(matrix, start, rtol=1e-6, maxiter=50)[0][: len(texts)].argmax())
    return np.array(answers)


def zlap() -> list[tuple[str, str]]:
    """A solution for each class or image, or for many classes at once and then none."""
    rows = []
    for n_images, n_classes in ((2500, 10), (2500, 200)):
        stream = weakly_clustered(n_images, n_classes, DIM)
        plain, expected = timed(lambda stream=stream: plain_zlap(stream))
        ours, found = timed(lambda stream=stream: run(ZLaP(), stream).predictions)
        agree(expected, found)
        case = f"T {n_images:,}, C {n_classes}, d {DIM}"
        rows.append((f"ZLaP, class by class / 64 at once ({case})", ratio(plain, ours)))
    stream = weakly_clustered(2500, 100, DIM)
    given, rest = stream.subset(np.arange(1250)), stream.subset(np.arange(1250, 2500))
    case = f"N 1,250, T 1,250, C 100, d {DIM}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.npz"
        write_pack(given, path)
        for sparse, what in ((False, "image by image"), (True, "class by class")):
            ours, found = timed(lambda s=sparse: answers_of(path, rest, s))
            keys = given.features.clip_keys
            plain, expected = timed(lambda s=sparse, k=keys: plain_inductive(k, rest, s))
            agree(expected, found)
            name = "ZLaP, sparse" if sparse else "ZLaP"
            rows.append((f"{name} inductive, {what} / once ({case})", ratio(plain, ours)))
    return rows


def answers_of(path: Path, stream: marc.Stream, sparse: bool) -> np.ndarray:
    """Answers of a new method: it reads its file and solves again."""
    return run(InductiveZLaP(str(path), sparse=sparse), stream).predictions


PARTS = (ecalp, zlap)
