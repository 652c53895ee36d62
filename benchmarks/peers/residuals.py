"""What the shortcuts of TPS, DPE and MTA are worth, as in `speed.py`.

The plain steps do in NumPy what the released loops have their library do: forward and back through
every view, with moments of AdamW that start at zero, and mean shift on the features themselves.
"""

from __future__ import annotations

import math

import numpy as np

import marc
from benchmarks.peers.speed import agree, ratio, timed
from marc.loop import run
from marc.peers.dpe import DPE
from marc.peers.mta import MTA
from marc.peers.tps import TPS
from marc.scores import softmax, softmax_entropy, unit

N_VIEWS, DIM = 64, 512


def make_views(n_images: int, n_classes: int, n_views: int = N_VIEWS):
    """Weakly clustered images, and views scattered around them."""
    draw = np.random.default_rng(7)
    prototypes = unit(draw.standard_normal((n_classes, DIM)))
    labels = draw.integers(0, n_classes, n_images)
    images = 0.2 * prototypes[labels] + unit(draw.standard_normal((n_images, DIM)))
    views = images[:, np.newaxis] + 0.7 * unit(draw.standard_normal((n_images, n_views, DIM)))
    return marc.Stream.from_arrays(unit(views), prototypes, logit_scale=60.0, labels=labels)


def adamw(parameter, gradient, rate: float, epsilon: float, decay: float):
    """The first step, with both moments written out."""
    first, second = np.zeros_like(parameter), np.zeros_like(parameter)
    parameter = parameter * np.float32(1 - rate * decay)
    first = np.float32(0.9) * first + np.float32(0.1) * gradient
    second = np.float32(0.999) * second + np.float32(0.001) * gradient * gradient
    deviation = np.sqrt(second) / np.float32(math.sqrt(1 - 0.999)) + np.float32(epsilon)
    return parameter - np.float32(rate / (1 - 0.9)) * first / deviation


def normalised(rows):
    """Unit rows, and their norms as a column."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / norms, norms


def through_norm(gradient, rows, norms):
    """A gradient by unit rows as one by the rows."""
    return (gradient - rows * (gradient * rows).sum(axis=1, keepdims=True)) / norms


def entropy_pull(logits):
    """The gradient of the entropy of the mean posterior by logits (r, C)."""
    posteriors = softmax(logits)
    logs = np.log(posteriors.mean(axis=0))
    inner = (posteriors * logs).sum(axis=1, keepdims=True)
    return (posteriors * (inner - logs) / len(logits)).astype(np.float32)


def surest(logits):
    """The tenth of the views with the lowest entropy; one view alone is kept."""
    order = np.argsort(softmax_entropy(logits), kind="stable")
    return order[: max(int(0.1 * len(order)), len(order) == 1)]


def plain_tps(stream):
    """Forward and back through all views, AdamW, forward again."""
    scale, texts = stream.features.predictor.logit_scale, stream.features.predictor.prototypes
    answers = []
    for query in stream:
        shift = np.zeros_like(texts)
        moved, norms = normalised(normalised(texts)[0] + shift)
        logits = scale * query.views @ moved.T
        pull = np.zeros_like(logits)
        kept = surest(logits)
        pull[kept] = entropy_pull(logits[kept])
        gradient = through_norm(np.float32(scale) * pull.T @ query.views, moved, norms)
        shift = adamw(shift, gradient, 5e-3, 1e-8, 0.01)
        moved, _ = normalised(normalised(texts)[0] + shift)
        answers.append((query.views[0] @ moved.T).argmax())
    return np.array(answers)


def tps() -> list[tuple[str, str]]:
    """Through all views and twice through every norm, or through what is kept alone."""
    rows = []
    for n_images, n_classes in ((400, 200), (100, 1000)):
        stream = make_views(n_images, n_classes)
        plain, expected = timed(lambda stream=stream: plain_tps(stream))
        ours, found = timed(lambda stream=stream: run(TPS(), stream).predictions)
        agree(expected, found)
        case = f"C {n_classes:,}, d {DIM}, {N_VIEWS} views"
        rows.append((f"TPS, back through all views / the kept ({case})", ratio(plain, ours)))
    return rows


def plain_dpe(stream):
    """Cached items in lists, and every prototype and every gradient anew for each image."""
    predictor = stream.features.predictor
    scale, average, n = predictor.logit_scale, predictor.prototypes.copy(), 0
    n_classes, cache, answers = len(average), {}, []
    for query in stream:
        texts, text_norms = normalised(average)
        logits = scale * query.views @ texts.T
        kept = surest(logits)
        mean, feature = logits[kept].mean(axis=0), query.views[kept].mean(axis=0)
        posterior = softmax(logits[kept]).mean(axis=0)
        entropy = -(posterior * np.log(posterior)).sum() / math.log2(n_classes)
        held = cache.setdefault(int(mean.argmax()), [])
        if len(held) < 3:
            held.append((feature, entropy))
        elif entropy < held[-1][1]:
            held[-1] = (feature, entropy)
        held.sort(key=lambda pair: pair[1])
        classes = sorted(cache)
        means = np.stack([sum(f / len(cache[c]) for f, _ in cache[c]) for c in classes])
        images, image_norms = normalised(means)
        near = np.exp(-5.0 * (1 - images @ feature)) @ np.eye(n_classes, dtype="f4")[classes]
        pull = entropy_pull((mean + 6.0 * near)[np.newaxis])[0]
        table = softmax(images @ texts[classes].T / 0.01)
        table = ((table - np.eye(len(classes))) / (0.01 * len(classes))).astype(np.float32)
        by_text = np.float32(scale) * np.outer(pull, feature)
        by_text[classes] += np.float32(0.5) * table.T @ images
        by_image = np.outer(30.0 * pull[classes] * near[classes], feature)
        by_image += np.float32(0.5) * table @ texts[classes]
        text_step = through_norm(by_text, texts, text_norms)
        image_step = through_norm(by_image, images, image_norms)
        texts, _ = normalised(average + adamw(0 * average, text_step, 6e-4, 1e-3, 0.1))
        images, _ = normalised(means + adamw(0 * means, image_step, 6e-4, 1e-3, 0.1))
        near = np.exp(-5.0 * (1 - images @ query.views[0])) @ np.eye(n_classes, dtype="f4")[classes]
        fused = scale * query.views[0] @ texts.T + 6.0 * near
        answers.append(fused.argmax())
        if softmax_entropy(fused) / math.log2(n_classes) < 0.1:
            n += 1
            average = average * np.float32(n / (n + 1)) + texts * np.float32(1 / (n + 1))
    return np.array(answers)


def dpe() -> list[tuple[str, str]]:
    """Everything anew for each image, or what has changed."""
    rows = []
    for n_images, n_classes, n_views in ((2000, 100, 1), (400, 200, N_VIEWS)):
        stream = make_views(n_images, n_classes, n_views)
        plain, expected = timed(lambda stream=stream: plain_dpe(stream))
        ours, found = timed(lambda stream=stream: run(DPE(), stream).predictions)
        agree(expected, found)
        case = f"C {n_classes}, d {DIM}, {n_views} view{'s' * (n_views > 1)}"
        rows.append((f"DPE, all prototypes anew / those that changed ({case})", ratio(plain, ours)))
    return rows


def plain_mta(stream):
    """Mean shift on the features (M, D)."""
    predictor, answers = stream.features.predictor, []
    for query in stream:
        views = query.views
        posteriors = softmax(query.view_logits)
        affinity = posteriors @ posteriors.T
        distances = np.sqrt(((views[:, np.newaxis] - views) ** 2).sum(axis=-1))
        near = np.sort(distances, axis=1)[:, 1 : int(0.3 * (len(views) - 1)) + 1] ** 2
        bandwidth = np.sqrt(0.5 * near.mean(axis=1))
        y, mode = np.full(len(views), 1 / len(views)), views[0]

        def densities(mode, views=views, bandwidth=bandwidth):
            return np.exp(-(np.linalg.norm(views - mode, axis=1) ** 2) / (2 * bandwidth**2))

        for _ in range(5):
            density = densities(mode)
            for _ in range(5):
                old, y = y, softmax((density + 4.0 * (affinity * y).sum(axis=1)) / 0.2)
                if np.linalg.norm(old - y) < 1e-6:
                    break
            for _ in range(5):
                weights = densities(mode) * y
                old, mode = mode, (weights[:, np.newaxis] * views).sum(axis=0) / weights.sum()
                mode = mode / np.linalg.norm(mode)
                if np.linalg.norm(old - mode) < 1e-6:
                    break
        answers.append((predictor.prototypes @ mode).argmax())
    return np.array(answers)


def mta() -> list[tuple[str, str]]:
    """Mean shift on features, or on the cosines between them."""
    stream = make_views(300, 200)
    plain, expected = timed(lambda: plain_mta(stream))
    ours, found = timed(lambda: run(MTA(), stream).predictions)
    agree(expected, found)
    case = f"C 200, d {DIM}, {N_VIEWS} views"
    return [(f"MTA, mean shift on features / on their cosines ({case})", ratio(plain, ours))]


PARTS = (tps, dpe, mta)
