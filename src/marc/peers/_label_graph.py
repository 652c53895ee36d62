"""The graph of ZLaP: images joined to near images and near class texts, and labels spread in it.

Nodes are the C texts, then the N images. Every image lists its nearest images, itself among them,
and its nearest texts; W holds the similarities of both directions added, without the diagonal.
With W~ = D^-1/2 W D^-1/2 labels spread by (I - alpha W~)^-1, solved by conjugate gradients for many
classes at once: their directions share each pass over the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from marc.peers._arrays import largest
from marc.scores import Float, Int

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_CLASSES = 64  # classes that spread together
_TOLERANCE = 1e-10  # of a residual, relative to where it started
_MOST_ROUNDS = 2000  # rounding lets no residual fall for longer


def edge_weights(cosines: Float, gamma: float = 1.0) -> NDArray[np.float64]:
    """What is negative counts nothing; gamma sharpens the edges to texts alone."""
    return np.maximum(cosines, 0).astype(np.float64) ** gamma


def nearest_texts(cosines: Float, k: int) -> tuple[Int, Float]:
    """The k texts nearest to each image, (N, k), and their cosines, from all cosines (N, C)."""
    near = np.stack([largest(row, k) for row in cosines])
    return near, np.take_along_axis(cosines, near, axis=1)


def normalised_graph(
    images: tuple[Int, Float], texts: tuple[Int, Float], n_texts: int, gamma: float
) -> csr_array:
    """W~ (C + N, C + N) from the nearest images of each image (N, k), and its nearest texts."""
    from scipy.sparse import csr_array, diags_array

    (near, cosines), (classes, text_cosines) = images, texts
    n_nodes = n_texts + len(near)
    columns = np.concatenate([near + n_texts, classes], axis=1)
    edges = edge_weights(cosines), edge_weights(text_cosines, gamma)
    values = np.concatenate(edges, axis=1)
    rows = np.broadcast_to(np.arange(n_texts, n_nodes)[:, np.newaxis], columns.shape)
    kept = (rows != columns) & (values > 0)
    graph = csr_array((values[kept], (rows[kept], columns[kept])), shape=(n_nodes, n_nodes))
    graph = graph + graph.T
    sums = graph.sum(axis=1)
    roots = diags_array(1 / np.sqrt(np.where(sums > 0, sums, 1)))
    return csr_array(roots @ graph @ roots)


def spread_texts(graph: csr_array, n_texts: int, alpha: float) -> Iterator[tuple[slice, Float]]:
    """Columns of (I - alpha W~)^-1 (C + N, C), those of some texts at a time."""
    for start in range(0, n_texts, _CLASSES):
        texts = slice(start, min(start + _CLASSES, n_texts))
        width = texts.stop - start
        starts = np.zeros((graph.shape[0], width))
        starts[np.arange(start, texts.stop), np.arange(width)] = 1
        yield texts, _solved(graph, starts, alpha)


def _solved(graph: csr_array, starts: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """X (n, m) with X - alpha W~ X = starts, by conjugate gradients column by column.

    The matrix is symmetric and positive definite, as alpha is below 1 and no eigenvalue of W~
    is above.
    """
    solution = np.zeros_like(starts)
    residual, direction = starts.copy(), starts.copy()
    squared = np.einsum("nm,nm->m", residual, residual)
    enough = _TOLERANCE**2 * squared
    for _ in range(_MOST_ROUNDS):
        if (squared <= enough).all():
            break
        turned = direction - alpha * (graph @ direction)
        length = squared / np.maximum(np.einsum("nm,nm->m", direction, turned), 1e-300)
        solution += length * direction
        residual -= length * turned
        before, squared = squared, np.einsum("nm,nm->m", residual, residual)
        direction *= squared / np.maximum(before, 1e-300)
        direction += residual
    return solution
