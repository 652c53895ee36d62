"""Shared by tests of mcp and mcp++: the released steps, one after the other, in float64."""

import numpy as np

from marc.stream import Stream


class MCPTwin:
    """The three memories as lists of (feature, entropy, item), and what is read from them."""

    def __init__(self, config, text, scale):
        self.set, self.scale = config, scale
        self.text = text.astype(np.float64)
        self.low, self.align, self.negative = ({c: [] for c in range(len(text))} for _ in range(3))
        self.memory = [[] for _ in text]  # features of both, as they were when last put together
        self.prototypes = [None for _ in text]

    def look(self, query):
        """Feature, logits and entropy of the image; the first posterior."""
        z = query.view_logits.astype(np.float64)
        views = query.views.astype(np.float64)
        kept = [0]
        if self.set["query"] == "aggregated" and len(views) > 1:
            kept = self.surest(z, 0.0)
        self.feature = sum(views[j] for j in kept) / len(kept)
        self.logits = sum(z[j] for j in kept) / len(kept)
        self.loss = entropy_of(sum(softmax_of(z[j]) for j in kept) / len(kept))
        self.plain, self.plain_logits = views[0], z[0]
        self.posterior = self.text_posterior(z)

    def surest(self, z, ridge):
        h = [-sum(p * np.log(p + ridge + (p == 0)) for p in softmax_of(row)) for row in z]
        count = 1 if len(z) == 1 else int(self.set["fraction"] * len(z))
        return sorted(range(len(z)), key=lambda j: h[j])[:count]

    def text_posterior(self, z):
        kept = self.surest(z, 1e-6)
        return sum(softmax_of(z[j]) for j in kept) / len(kept)

    def store(self, item):
        """Steps 1 to 4."""
        label = first_largest(self.logits)
        insert(self.low[label], (self.feature, self.loss, item), self.set["entropy_capacity"])
        near = first_largest(self.posterior)
        loss = -sum(p * np.log(max(p, 1e-8)) for p in self.posterior)
        center = self.text[near]
        if self.prototypes[near] is not None:
            part = self.set["center"]
            center = part * self.prototypes[near] + (1 - part) * self.text[near]
        held = self.align[near]
        if len(held) < self.set["align_capacity"]:
            held.append((self.plain, loss, item))
        else:
            nearer = distance(self.plain, center) < distance(held[-1][0], center)
            if loss < held[-1][1] and nearer:
                held[-1] = (self.plain, loss, item)
        held.sort(key=lambda entry: entry[1])
        for c in sorted({label, near}):
            self.memory[c] = [entry[0] for entry in self.align[c] + self.low[c]]
            self.prototypes[c] = sum(self.memory[c]) / len(self.memory[c])
        self.reconsider(item)

    def reconsider(self, item):
        low, high = self.set["band_low"], self.set["band_high"]
        bits = np.log2(len(self.text))
        if not low < self.loss / bits < high:
            return
        z = self.logits.copy()
        for c, held in self.low.items():
            for key, _, _ in held:
                z[c] += self.set["alpha"] * phi(self.feature @ key, self.set["beta"])
        label, loss = first_largest(z), entropy_of(softmax_of(z))
        if low < loss / bits < high:
            entry = self.feature, loss, softmax_of(z)
            insert(self.negative[label], entry, self.set["negative_capacity"])
        elif loss / bits <= low:
            insert(self.low[label], (self.feature, loss, item), self.set["entropy_capacity"])

    def votes(self, prototypes):
        z = np.zeros(len(self.text))
        for c, prototype in enumerate(prototypes):
            if prototype is not None:
                z[c] = self.set["alpha"] * phi(self.feature @ prototype, self.set["beta"])
        return z

    def against(self):
        z = np.zeros(len(self.text))
        for held in self.negative.values():
            for key, _, posterior in held:
                vote = phi(self.feature @ key, self.set["negative_beta"])
                for c, p in enumerate(posterior):
                    if self.set["mask_low"] < p < self.set["mask_high"]:
                        z[c] += self.set["negative_weight"] * vote
        return z

    def cached(self):
        cosines = []
        for c, text in enumerate(self.text):
            entries = [unit_of(entry) for entry in [*self.memory[c], text]]
            total = sum(
                phi(self.plain @ entry, self.set["attention_beta"]) * entry for entry in entries
            )
            cosines.append(self.plain @ unit_of(total))
        return softmax_of(self.scale * np.array(cosines))

    def step(self, query):
        """The three posteriors of MCP."""
        self.look(query)
        self.store(query.item)
        proto = softmax_of(self.logits + self.votes(self.prototypes) - self.against())
        return self.posterior, self.cached(), proto


def insert(held, entry, capacity):
    if len(held) < capacity:
        held.append(entry)
    elif held and entry[1] < held[-1][1]:
        held[-1] = entry
    held.sort(key=lambda other: other[1])


def phi(cosine, beta):
    return np.exp(-beta * (1 - cosine))


def unit_of(vector):
    return vector / np.sqrt(sum(vector**2))


def distance(one, other):
    return np.sqrt(sum((one - other) ** 2))


def softmax_of(z):
    powers = np.exp(z - max(z))
    return powers / sum(powers)


def entropy_of(p):
    return -sum(x * np.log(x) for x in p if x > 0)


def first_largest(values):
    return min(range(len(values)), key=lambda c: (-values[c], c))


def mcp_stream(seed, n_classes, n_views, n_images=60, dim=8, scale=6.0):
    """Rounded features of odd numbers, images that come twice, two classes with the same text."""
    draw = np.random.default_rng(seed)
    prototypes = draw.standard_normal((n_classes, dim))
    if n_classes > 2:
        prototypes[-1] = prototypes[0]
    views = prototypes[draw.integers(n_classes, size=n_images)][:, np.newaxis]
    views = np.round(views + 0.8 * draw.standard_normal((n_images, n_views, dim)), 1) + 0.013
    views[7:12] = views[2]
    views[20:23] = views[19]
    return Stream.from_arrays(views, prototypes, logit_scale=scale)
