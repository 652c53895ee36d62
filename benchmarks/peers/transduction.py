"""What the shortcuts of StatA, TransCLIP, OnZeta and BCA are worth, as in `speed.py`.

The plain steps do in NumPy what released loops have their library do: for every class the squared
distances of all images to its mean, and for every image all proxies and all priors anew.
"""

from __future__ import annotations

import math

import numpy as np

from benchmarks.peers.speed import agree, make_stream, ratio, timed
from marc.loop import run
from marc.peers.bca import BCA
from marc.peers.onzeta import OnZeta
from marc.peers.stata import StatA
from marc.peers.transclip import TransCLIP
from marc.scores import softmax

DIM = 512


def normalised(rows):
    """Unit rows."""
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def neighbors(features):
    """The cosines (N, N) of each image to its 3 nearest, halved both ways."""
    similar = features @ features.T
    np.fill_diagonal(similar, -2)
    near, rows = np.argsort(-similar, axis=1)[:, :3], np.arange(len(features))[:, np.newaxis]
    graph = np.zeros_like(similar)
    graph[rows, near] = np.maximum(similar[rows, near], 0)
    return (graph + graph.T) / 6


def spread(features, logits, graph, labels, centers, variances):
    """Labels after five rounds, with one Gaussian after the other."""
    density = np.empty_like(labels)
    for k in range(labels.shape[1]):
        gaps = (features - centers[k]) ** 2 / variances[k]
        density[:, k] = -(gaps.sum(axis=1) + np.log(variances[k]).sum()) / 2
    for _ in range(5):
        labels = softmax(logits + density / 50 + graph @ labels)
    return labels


def plain_stata(stream):
    """Class by class, and every batch on its own."""
    predictor, answers = stream.features.predictor, []
    texts = predictor.prototypes.astype(np.float64)
    for start in range(0, len(stream), 64):
        rows = stream.order[start : start + 64]
        keys = stream.features.clip_keys[rows]
        features, graph = keys.astype(np.float64), neighbors(keys)
        logits = predictor.logits(keys).astype(np.float64)
        labels, wide = softmax(logits), np.zeros(texts.shape[1])
        for k, text in enumerate(texts):
            wide += (labels[:, k, np.newaxis] * (features - text) ** 2).sum(axis=0) / len(rows)
        centers, variances = texts, np.tile(wide, (len(texts), 1))
        for _ in range(10):
            labels = spread(features, logits, graph, labels, centers, variances)
            counts = np.bincount(labels.argmax(axis=1), minlength=len(texts))
            centers, variances = texts.copy(), variances.copy()
            for k, text in enumerate(texts):
                weights, beta = labels[:, k, np.newaxis], counts[k] / (counts[k] + 1)
                mean = normalised((weights * features).sum(axis=0))
                centers[k] = normalised(beta * mean + (1 - beta) * text)
                data = (weights * (features - centers[k]) ** 2).sum(axis=0) / weights.sum()
                variances[k] = beta * data + (1 - beta) * (wide + (text - centers[k]) ** 2)
        answers.append(spread(features, logits, graph, labels, centers, variances).argmax(axis=1))
    return np.concatenate(answers)


def stata() -> list[tuple[str, str]]:
    """Squares of differences, or inner products of all classes at once."""
    stream, classes = make_stream(256, 100, DIM), 100
    plain, expected = timed(lambda: plain_stata(stream))
    ours, found = timed(lambda: run(StatA(), stream).predictions)
    agree(expected, found)
    case = f"batches of 64, C {classes}, d {DIM}"
    return [(f"StatA, class by class / all at once ({case})", ratio(plain, ours))]


def plain_transclip(stream):
    """Class by class over the whole stream."""
    keys, predictor = stream.features.clip_keys[stream.order], stream.features.predictor
    features, graph = keys.astype(np.float64), neighbors(keys)
    logits = predictor.logits(keys).astype(np.float64)
    labels, n_classes = softmax(logits), predictor.n_classes
    dim = features.shape[1]
    centers = np.empty((n_classes, dim))
    for k in range(n_classes):
        surest = np.argsort(-labels[:, k], kind="stable")[:8]
        centers[k] = normalised((labels[surest, k, np.newaxis] * features[surest]).sum(axis=0))
    variances = np.full(dim, 1 / dim)
    for _ in range(10):
        shared = np.broadcast_to(variances, centers.shape)
        labels = spread(features, logits, graph, labels, centers, shared)
        centers, variances = centers.copy(), np.zeros(dim)
        for k in range(n_classes):
            weights = labels[:, k, np.newaxis]
            centers[k] = normalised((weights * features).sum(axis=0))
            variances += (weights * (features - centers[k]) ** 2).sum(axis=0) / len(features)
    shared = np.broadcast_to(variances, centers.shape)
    return spread(features, logits, graph, labels, centers, shared).argmax(axis=1)


def transclip() -> list[tuple[str, str]]:
    """Squares of differences and a dense graph, or inner products and a sparse one."""
    rows = []
    for n_images, n_classes in ((2000, 20), (1000, 100)):
        stream = make_stream(n_images, n_classes, DIM)
        plain, expected = timed(lambda stream=stream: plain_transclip(stream))
        ours, found = timed(lambda stream=stream: run(TransCLIP(), stream).predictions)
        agree(expected, found)
        case = f"T {n_images:,}, C {n_classes}, d {DIM}"
        rows.append((f"TransCLIP, class by class / all at once ({case})", ratio(plain, ours)))
    return rows


def plain_onzeta(stream):
    """An outer product and new proxies for every image."""
    predictor = stream.features.predictor
    texts, tau = predictor.prototypes.astype(np.float64), predictor.logit_scale
    proxies, duals, answers = texts.copy(), np.zeros(len(texts)), []
    for i, row in enumerate(stream.order, 1):
        feature = stream.features.clip_keys[row].astype(np.float64)
        labels = softmax(tau * texts @ feature) * np.exp(duals)
        labels /= labels.sum()
        duals = np.maximum(duals - 20 / math.sqrt(i) * (labels - 1 / len(texts)), 0)
        seen = softmax(tau / 4 * proxies @ feature)
        answers.append((0.8 * seen + 0.2 * labels).argmax())
        gradient = tau / 4 * np.outer(seen - labels, feature)
        proxies = normalised(proxies - 0.5 / math.sqrt(i) * gradient)
    return np.array(answers)


def onzeta() -> list[tuple[str, str]]:
    """New proxies for every image, or proxies that change in place."""
    stream = make_stream(500, 1000, DIM)
    plain, expected = timed(lambda: plain_onzeta(stream))
    ours, found = timed(lambda: run(OnZeta(), stream).predictions)
    agree(expected, found)
    case = f"T 500, C 1,000, d {DIM}"
    return [(f"OnZeta, new proxies per image / in place ({case})", ratio(plain, ours))]


def plain_bca(stream):
    """All embeddings and all priors for every image."""
    predictor = stream.features.predictor
    means, tau = predictor.prototypes.copy(), np.float32(predictor.logit_scale)
    priors, answers = np.eye(len(means), dtype=np.float32), []
    counts, certain = np.full(len(means), 20_000.0), np.ones(len(means))
    for row in stream.order:
        feature = stream.features.clip_keys[row]
        posterior = softmax(tau * means @ feature).astype(np.float32) @ priors
        best = int(posterior.argmax())
        answers.append(best)
        if posterior[best] > 0.05:
            moved = (counts[best] * means[best] + feature) / (counts[best] + 1)
            means[best], counts[best] = normalised(moved), counts[best] + 1
        if posterior[best] > 0.65:
            mixed = (certain[best] * priors[best] + posterior) / (certain[best] + 1)
            priors[best], certain[best] = mixed, certain[best] + 1
    return np.array(answers)


def bca() -> list[tuple[str, str]]:
    """All embeddings and priors for every image, or those that have changed."""
    stream = make_stream(1000, 1000, DIM)
    plain, expected = timed(lambda: plain_bca(stream))
    ours, found = timed(lambda: run(BCA(), stream).predictions)
    agree(expected, found)
    case = f"T 1,000, C 1,000, d {DIM}"
    return [(f"BCA, all priors per image / the changed ones ({case})", ratio(plain, ours))]


PARTS = (stata, transclip, onzeta, bca)
