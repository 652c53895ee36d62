"""The compiled graph of ECALP. Imported on first use: numba loads slowly."""

from __future__ import annotations

import numpy as np

from marc.replay.compiling import compiled

_compile = compiled(nogil=True, error_model="numpy")


@_compile
def admit(neighbors, similarity, weights, before, after, newcomer, gamma):  # type: ignore[no-untyped-def]
    """Offer both nodes of an image to the lists of older images, to which it has `newcomer` (n,).

    Lists (n, width) are sorted by similarity; `before` entries of each are in use, then `after`.
    The second node of the image before is dropped: its number n is now that of this image. Of
    equals the older stays in front; of the two new nodes the second comes first, as the released
    sort leaves it, which counts where only one of them finds room.
    """
    n = len(newcomer)
    for row in range(n):
        held, place, s = 0, 0, newcomer[row]
        for j in range(before):
            if neighbors[row, j] == n:
                continue
            neighbors[row, held] = neighbors[row, j]
            similarity[row, held] = similarity[row, j]
            weights[row, held] = weights[row, j]
            place += similarity[row, held] >= s
            held += 1
        for j in range(min(held + 2, after) - 1, min(place + 2, after) - 1, -1):
            neighbors[row, j] = neighbors[row, j - 2]
            similarity[row, j] = similarity[row, j - 2]
            weights[row, j] = weights[row, j - 2]
        for j in range(place, min(place + 2, after)):
            neighbors[row, j] = n + 1 - (j - place)
            similarity[row, j] = s
            weights[row, j] = _weight(s, gamma)


@_compile
def weigh(similarity, gamma, weights):  # type: ignore[no-untyped-def]
    """Fill in the weights (n, width) of similarities: the same bits as those of a newcomer's."""
    for row in range(similarity.shape[0]):
        for j in range(similarity.shape[1]):
            weights[row, j] = _weight(similarity[row, j], gamma)


@_compile
def propagate(neighbors, weights, texts, pulls, labels, scores, n_classes, rounds, alpha):  # type: ignore[no-untyped-def]
    """Rounds of Y <- alpha W~ [I; Y] + (1 - alpha) Y0 over all images.

    Y0 has one entry in each row: `scores` in the columns `labels`. Gives the last row of Y, and the
    column of the largest entry of each row, the lowest of equals, with that entry. A row of Y holds
    the classes that the image can be reached from: these are few, and only they are stored.
    """
    n = len(texts)
    starts, columns, values = _both_ways(neighbors, weights)
    pulls = _normalised(starts, columns, values, texts, pulls, n_classes)
    begins, classes, entries = np.arange(n + 1), labels, scores
    total, seen = np.empty(n_classes), np.empty(n_classes, dtype=np.int64)
    reached = np.empty(n_classes, dtype=np.int64)
    best, top = np.empty(n, dtype=np.int64), np.empty(n)
    for round_ in range(rounds):
        next_begins = np.zeros(n + 1, dtype=np.int64)
        next_classes = np.empty(16 * n, dtype=np.int64)
        next_entries = np.empty(16 * n)
        seen[:] = -1
        for a in range(n):
            count = 0
            for j in range(texts.shape[1]):
                count = _add(texts[a, j], alpha * pulls[a, j], a, total, seen, reached, count)
            if alpha < 1:
                count = _add(labels[a], (1 - alpha) * scores[a], a, total, seen, reached, count)
            for e in range(starts[a], starts[a + 1]):
                b, w = columns[e], alpha * values[e]
                for p in range(begins[b], begins[b + 1]):
                    count = _add(classes[p], w * entries[p], a, total, seen, reached, count)
            if round_ == rounds - 1:
                best[a], top[a] = _largest(total, reached, count)
                continue
            first, last = next_begins[a], next_begins[a] + count
            next_begins[a + 1] = last
            if last > len(next_classes):
                next_classes = np.concatenate((next_classes, np.empty(n_classes + last, np.int64)))
                next_entries = np.concatenate((next_entries, np.empty(n_classes + last)))
            next_classes[first:last] = reached[:count]
            next_entries[first:last] = total[reached[:count]]
        begins, classes, entries = next_begins, next_classes, next_entries
    answer = np.zeros(n_classes)
    answer[reached[:count]] = total[reached[:count]]
    return answer, best, top


@_compile
def _weight(similarity, gamma):  # type: ignore[no-untyped-def]
    return abs(np.float64(similarity)) ** gamma


@_compile
def _add(c, value, a, total, seen, reached, count):  # type: ignore[no-untyped-def]
    """Add to the score of class c in row a; gives how many classes the row has now."""
    if seen[c] == a:
        total[c] += value
        return count
    seen[c], total[c], reached[count] = a, value, c
    return count + 1


@_compile
def _largest(total, reached, count):  # type: ignore[no-untyped-def]
    best = reached[0]
    for j in range(1, count):
        c = reached[j]
        if total[c] > total[best] or (total[c] == total[best] and c < best):
            best = c
    return best, total[best]


@_compile
def _both_ways(neighbors, weights):  # type: ignore[no-untyped-def]
    """W + W^T of lists (n, k) as sparse rows: where each begins, its columns and its values.

    A pair that lists each other has one entry in each of the two rows.
    """
    n, k = neighbors.shape
    starts = np.zeros(n + 1, dtype=np.int64)
    back = np.full((n, k), -1.0)  # the weight from there, -1 where the image is not listed
    for a in range(n):
        for j in range(k):
            b = neighbors[a, j]
            for i in range(k):
                if neighbors[b, i] == a:
                    back[a, j] = weights[b, i]
            starts[a + 1] += 1
            if back[a, j] < 0:
                starts[b + 1] += 1
    for a in range(n):
        starts[a + 1] += starts[a]
    ends = starts[:-1].copy()
    columns, values = np.empty(starts[n], dtype=np.int64), np.empty(starts[n])
    for a in range(n):
        for j in range(k):
            b, w = neighbors[a, j], weights[a, j]
            columns[ends[a]], values[ends[a]] = b, w + max(back[a, j], 0.0)
            ends[a] += 1
            if back[a, j] < 0:
                columns[ends[b]], values[ends[b]] = a, w
                ends[b] += 1
    return starts, columns, values


@_compile
def _normalised(starts, columns, values, texts, pulls, n_classes):  # type: ignore[no-untyped-def]
    """W~ = D^-1/2 W D^-1/2, its values in place and its pulls to the texts, (n, n_texts).

    As released 1e-6 is added to the roots of the sums.
    """
    n, n_texts = texts.shape
    of_classes, of_images = np.zeros(n_classes), np.zeros(n)
    for a in range(n):
        for j in range(n_texts):
            of_images[a] += pulls[a, j]
            of_classes[texts[a, j]] += pulls[a, j]
        for e in range(starts[a], starts[a + 1]):
            of_images[a] += values[e]
    of_classes, of_images = 1 / (np.sqrt(of_classes) + 1e-6), 1 / (np.sqrt(of_images) + 1e-6)
    normalised = np.empty((n, n_texts))
    for a in range(n):
        for j in range(n_texts):
            normalised[a, j] = pulls[a, j] * of_images[a] * of_classes[texts[a, j]]
        for e in range(starts[a], starts[a + 1]):
            values[e] *= of_images[a] * of_images[columns[e]]
    return normalised
