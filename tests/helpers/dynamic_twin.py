"""Shared by tests of dmn and others."""

import math

import numpy as np

from marc.stream import Stream


class DynamicTwin:
    """The memory of DMN and its class vectors, literally and in float64."""

    def __init__(self, text, capacity, beta):
        self.text, self.capacity, self.beta = text.astype(np.float64), capacity, beta
        self.stored = [[] for _ in text]

    def look(self, view_logits, n_kept):
        """Kept views and their mean posterior."""
        posteriors = [twin_softmax(row) for row in view_logits.astype(np.float64)]
        entropies = [-sum(p * np.log(p + 1e-6)) for p in posteriors]
        kept = sorted(range(len(posteriors)), key=lambda view: entropies[view])[:n_kept]
        return kept, sum(posteriors[view] for view in kept) / n_kept

    def offer(self, feature, label, entropy):
        """Whether it was stored."""
        slots = self.stored[label]
        if len(slots) < self.capacity:
            slots.append((feature, entropy))
            return True
        if not any(other > entropy for _, other in slots):
            return False
        highest = max(other for _, other in slots)
        slot = [other for _, other in slots].index(highest)
        slots[slot] = (feature, entropy)
        return True

    def vectors(self, query):
        """One unit vector per class."""
        result = []
        for label, text in enumerate(self.text):
            total = np.zeros(len(text))
            for entry in [*(feature for feature, _ in self.stored[label]), text]:
                entry = np.array(entry, dtype=np.float64) / math.sqrt(sum(np.square(entry)))
                total = total + math.exp(-self.beta * (1 - sum(query * entry))) * entry
            result.append(total / math.sqrt(sum(total**2)))
        return np.array(result)


def twin_softmax(logits):
    powers = np.exp(logits - max(logits))
    return powers / sum(powers)


def twin_entropy(posterior):
    return -sum(posterior * np.log(posterior + 1e-8))


def tied_stream(seed, n_classes, n_views, n_images=40, dim=8):
    """Rounded features, images that come twice, and two classes with the same text."""
    draw = np.random.default_rng(seed)
    text = np.round(draw.standard_normal((n_classes, dim))) + 0.5
    text[1] = text[0]
    labels = draw.integers(n_classes, size=n_images)
    views = text[labels][:, np.newaxis] + np.round(draw.standard_normal((n_images, n_views, dim)))
    keys = np.round(2 * draw.standard_normal((n_classes, 6)))[labels] + 0.5
    keys = keys + np.round(draw.standard_normal(keys.shape))
    for first in range(0, n_images - 7, 7):
        views[first + 5], keys[first + 5] = views[first], keys[first]
    return Stream.from_arrays(views, text, {"good": keys}, labels=labels, logit_scale=15.0)
