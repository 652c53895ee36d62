"""TDA and BoostAdapter again, slowly: the numbered steps with plain lists, in float64.

They start from the float32 view logits of the package, so that what ties there ties here.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from marc.stream import Stream


def tied_stream(seed, n_images=60, n_views=1, n_classes=5, dim=8, logit_scale=None):
    """Rounded features, images and views that repeat, and two identical prototypes."""
    draw = np.random.default_rng(seed)
    prototypes = draw.standard_normal((n_classes, dim))
    if n_classes > 2:
        prototypes[3] = prototypes[1]
    labels = draw.integers(n_classes, size=n_images)
    images = prototypes[labels] + draw.standard_normal((n_images, dim))
    views = images[:, np.newaxis] + 0.4 * draw.standard_normal((n_images, n_views, dim))
    views = np.round(views, 1)
    views[:, -1] = views[:, 0]
    views = views[draw.integers(n_images, size=n_images)]
    scale = logit_scale or (5.0 if n_classes == 2 else 15.0)  # some entropies are in the band
    return Stream.from_arrays(
        views.astype(np.float32), prototypes, logit_scale=scale, labels=labels
    )


def posterior_of(logits):
    top = max(logits)
    powers = [math.exp(float(z) - float(top)) for z in logits]
    return [power / sum(powers) for power in powers]


def entropy_of(posterior):
    return -sum(p * math.log(p) for p in posterior if p > 0)


def mean_of(rows):
    return [sum(float(row[i]) for row in rows) / len(rows) for i in range(len(rows[0]))]


def lowest_argmax(scores):
    best = 0
    for index, score in enumerate(scores):
        if score > scores[best]:
            best = index
    return best


def phi(beta, first, second):
    return math.exp(-beta * (1 - sum(float(a) * float(b) for a, b in zip(first, second))))  # noqa: B905


def update(entries, entry, capacity):
    """P5: entries are (entropy, key, posterior, position), ascending in entropy."""
    if len(entries) < capacity:
        entries.append(entry)
    elif entries and entry[0] < entries[-1][0]:
        entries[-1] = entry
    entries.sort(key=lambda held: held[0])  # stable


@dataclass
class Twin:
    """TDA; BoostAdapter where `boosts`."""

    settings: dict
    boosts: bool = False
    positive: dict = field(default_factory=dict)
    negative: dict = field(default_factory=dict)
    position: int = -1

    def step(self, query):
        s, z = self.settings, query.view_logits
        self.position += 1
        n_classes, n_views = z.shape[1], len(z)
        ranked = sorted(range(n_views), key=lambda j: entropy_of(posterior_of(z[j])))
        chosen = ranked[: int(s["fraction"] * n_views)] if n_views > 1 else [0]
        used = [0] if s.get("query") == "view0" else chosen
        key, base = mean_of(query.views[used]), mean_of(z[used])
        base = [float(np.float32(b)) for b in base]
        posterior = mean_of([posterior_of(z[j]) for j in used])
        uncertainty, label = entropy_of(posterior), lowest_argmax(base)
        entry = (uncertainty, key, posterior, self.position)
        update(self.positive.setdefault(label, []), entry, s["capacity"])
        ratio = uncertainty / math.log2(n_classes)
        if s["band_low"] < ratio < s["band_high"]:
            self._against(label, entry)
        voting = {c: list(entries) for c, entries in self.positive.items()}
        for j in chosen if self.boosts and n_views > 1 else []:
            guest = (entropy_of(posterior_of(z[j])), query.views[j], None, None)
            own = lowest_argmax(z[j])
            update(voting.setdefault(own, []), guest, s["capacity"] + s["delta"])
        return base, self._fused(base, key, voting), label, uncertainty

    def _against(self, label, entry):
        entries, capacity = self.negative.setdefault(label, []), self.settings["negative_capacity"]
        if self.settings.get("negative_eviction") == "age":
            entries.append(entry)
            del entries[: len(entries) - capacity]
        else:
            update(entries, entry, capacity)

    def _fused(self, base, key, voting):
        s, out = self.settings, list(base)
        for label, entries in voting.items():
            for _, held, _, _ in entries:
                out[label] += s["alpha"] * phi(s["beta"], key, held)
        for entries in self.negative.values():
            for _, held, posterior, _ in entries:
                vote = s["negative_weight"] * phi(s["negative_beta"], key, held)
                for c, p in enumerate(posterior):
                    if s["mask_low"] < p < s["mask_high"]:
                        out[c] -= vote
        return out


def assert_same_steps(method, stream, boosts=False, tolerance=3e-5):
    """Compare a method with its twin along a stream; returns the twin."""
    twin = Twin(method.config(), boosts)
    for query in stream:
        step = method.step(query)
        base, logits, label, uncertainty = twin.step(query)
        np.testing.assert_allclose(step.base, base, rtol=0, atol=1e-5)
        np.testing.assert_allclose(step.logits, logits, rtol=0, atol=tolerance)
        best = sorted(logits)[-2:]
        if best[1] - best[0] > 2 * tolerance or best[0] == best[1]:
            assert step.prediction == lowest_argmax(logits)
        assert step.label == label
        assert abs(step.priority + uncertainty) < 1e-9
    return twin
