"""Class means, all of it, in this file: memory without a weight, a capacity or a chosen space.

In each retrieval space, a class is the mean of the images that the predictor gave to it. An image
is read against the means, and what they say counts as far as the stream itself shows, without
labels, that they can be trusted: down to nothing, in a space that means nothing.

For the image x_t with base logits b and p = softmax b, everything read before it is written:

    mu_c = S_c / n_c                                       the mean of class c                  (1)
    z_c  = cos_A(x - m, mu_c - m)                          m the mean of all images             (2)
    z    = sum_s k_s^2 z_s / sum_s k_s^2                   over spaces, by the agreement        (3)
    r    = max(k, min(1, max_s k_s / k_0))^(3/2)           trust; s is not the predictor's own  (4)
    f    = b + r (w z + k ln(pi_m / pi_b))                 the answer                           (5)
    S_c += p_c^2 x,  n_c += p_c^2                          for every class with p_c > 0.001     (6)

k is how far a memory agrees with the predictor where it doubts, and w the weight that predicts its
sure answers best (`marc.auto_weight`). Agreement with a poor predictor is low even for a good
memory, so trust is relative: k_0 is what a memory of the same images in the predictor's own space
reaches, which knows nothing that the predictor does not know. A memory that agrees as much, in a
space of its own, is trusted fully. A in (2) enters where a few directions hold most of a space's
variance, as style or background do: the four leading principal directions are scaled down to the
variance of the fifth. pi_b and pi_m are the mean posteriors so far of the predictor and of
softmax(w z): a memory that prefers some classes has that preference taken away.

`step` is a block of one image and `replay` blocks of 16, the same arithmetic.
docs/results/class-means.md has what each part gains and loses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marc.auto_weight import GRID, Agreement, best_weights, running
from marc.errors import MarcError, check_same_shape, check_space_name
from marc.memory import Resumable
from marc.scores import Certainty, Float, softmax
from marc.types import Query, Run, Step, Trajectory

_BLOCK = 16  # images between two updates of the principal directions
_KEPT = 8  # principal directions that are followed; more than are used, so that those are right
_LEADING = 5  # the direction whose variance the ones before it are scaled down to
_LEAST = 0.01  # no direction is scaled down further, or a space of few dimensions would be lost
_FEWEST = 3 * _BLOCK  # images before the directions are used
_WRITTEN = 0.001  # a class less probable than this is not written
_FLAT = 1e-9  # a squared length below which a direction means nothing
_CAUTION = 1.5  # the exponent of (4): half of the agreement is a third of the trust

_MARGINALS = "class marginals"
_OWN = "predictor"


@dataclass(eq=False)
class ClassMeans(Resumable):
    """Class means in one space or several, trusted as far as they agree where it is hard.

    >>> ClassMeans(spaces=["dinov2-b", "predictor"]).config()
    {'method': 'class-means', 'spaces': ['dinov2-b', 'predictor']}
    """

    name: ClassVar[str] = "class-means"

    spaces: Sequence[str] | str = "all"
    """Retrieval spaces by name; `all` are those that the stream has, and the predictor's own."""

    _memory: _Memory | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.spaces, str) and self.spaces == "all":
            return
        given = self.spaces if isinstance(self.spaces, list | tuple) else [self.spaces]
        self.spaces = names = [check_space_name(name) for name in given]
        if not names or len(set(names)) < len(names):
            raise MarcError(
                "class means are read in one space or several, each named once",
                got=", ".join(names) or "none",
                hint='--space a b, or spaces=["a", "b"], or neither for all of them',
            )

    def step(self, query: Query) -> Step:
        """Answer one image with what is remembered, then write it into the means."""
        names = self._spaces(query.keys)
        keys = {name: query.key(name)[np.newaxis] for name in dict.fromkeys([*names, _OWN])}
        memory = self._memory_for(query.base.logits, keys)
        said = memory.answer(query.base.logits[np.newaxis], keys, names)
        return Step(
            query.item,
            query.base.logits,
            {name: evidence[0].astype(np.float64) for name, evidence in said.evidence.items()},
            {name: float(weight[0]) for name, weight in said.weights.items()},
            int(query.base.label),
            float(said.trust[0]),
            spaces=tuple(names),
        )

    def replay(self, stream: Any) -> Run:
        """What `marc.run(self, stream)` gives, a block of images at a time."""
        self.reset()
        features, order, base = stream.features, stream.order, stream.features.base
        names = self._spaces(features.spaces)
        keys = {name: features.keys(name) for name in dict.fromkeys([*names, _OWN])}
        memory = self._memory_for(base.logits[0], keys)
        predictions, priority = np.empty(len(order), dtype=np.int64), np.empty(len(order))
        weights = {name: np.empty(len(order)) for name in names}
        certainty, base_certainty = (Certainty.room(len(order), stream.labels) for _ in range(2))
        for at in np.split(np.arange(len(order)), range(_BLOCK, len(order), _BLOCK)):
            alone = base.logits[rows := order[at]]
            said = memory.answer(alone, {s: keys[s][rows] for s in keys}, names)
            logits = alone.astype(np.float64)
            for name, evidence in said.evidence.items():
                logits += said.weights[name][:, np.newaxis] * evidence
            for space, each in weights.items():
                each[at] = said.weights[space]
            predictions[at], priority[at] = logits.argmax(axis=1), said.trust
            certainty.put(at, softmax(logits), stream.labels)
            base_certainty.put(at, softmax(alone), stream.labels)
        return Run(
            method=self.config(),
            predictions=predictions,
            base_predictions=base.label[order],
            trajectory=Trajectory(order, base.label[order], priority),
            labels=stream.labels,
            weights=np.sum(list(weights.values()), axis=0),
            space_weights=weights,
            seed=stream.seed,
            ordering=stream.ordering.name,
            certainty=certainty,
            base_certainty=base_certainty,
        )

    def check(self, stream: Any) -> None:
        """Refuse a name that the stream does not have."""
        for space in self._spaces(stream.features.spaces):
            stream.features.dim(space)

    def state(self) -> dict[str, Any]:
        """Settings and memories as plain data and arrays; `from_state` goes on from it."""
        state = super().state()
        assert self._memory is not None  # or there is no state
        return {**state, "names": list(self._memory.means)}

    def _restored(self, state: dict[str, Any]) -> _Memory:
        return _Memory.from_state(state["arrays"], state.get("names", ()))

    def _spaces(self, stored: Mapping[str, Any]) -> Sequence[str]:
        return self.spaces if self.spaces != "all" else [*stored, _OWN]

    def _memory_for(self, base: Float, keys: Mapping[str, Float]) -> _Memory:
        """The memory, made empty at the first query, when C and the dimensions are known."""
        shapes = {space: (len(base), key.shape[1]) for space, key in keys.items()}
        if self._memory is None:
            self._memory = _Memory.fresh(shapes)
        means = self._memory.means
        if set(means) != set(shapes):
            problem = "this query has other spaces than those remembered"
            raise MarcError(problem, got=", ".join(shapes), allowed=", ".join(means))
        for space, shape in shapes.items():
            check_same_shape(shape, means[space].sums.shape)
        return self._memory


class _Said(NamedTuple):
    """What the memory says of a block of images: logits are b + sum of weight x evidence."""

    evidence: dict[str, NDArray[np.floating]]
    """Of each space, and of the marginals, (B, C)."""
    weights: dict[str, NDArray[np.float64]]
    """(B,) each."""
    trust: NDArray[np.float64]
    """In all spaces together, (B,)."""


@dataclass(eq=False)
class _Memory:
    """Everything that is remembered."""

    means: dict[str, _Means]
    """By space; the predictor's own is always there, as what the others are held against."""
    agreements: dict[str, Agreement]
    together: Agreement
    """Of all spaces that are read."""
    scores: NDArray[np.float64]
    """Of each weight of the grid, (weights,)."""
    base_marginal: NDArray[np.float64]
    """One, and every posterior of the predictor so far, (C,)."""
    memory_marginal: NDArray[np.float64]
    """The same of softmax(w z)."""

    @classmethod
    def fresh(cls, shapes: Mapping[str, tuple[int, int]]) -> _Memory:
        """Nothing seen, in spaces of the shape (C, D)."""
        n_classes, _ = shapes[_OWN]
        return cls(
            {space: _Means.fresh(*shape) for space, shape in shapes.items()},
            {space: Agreement.fresh(n_classes) for space in shapes},
            Agreement.fresh(n_classes),
            np.zeros(len(GRID)),
            np.ones(n_classes),
            np.ones(n_classes),
        )

    def answer(self, base: Float, keys: Mapping[str, Float], names: Sequence[str]) -> _Said:
        """Read, then write, the next images: base logits (B, C), keys (B, D_s) by space."""
        posterior = softmax(base)
        written = np.where(posterior > _WRITTEN, posterior**2, 0.0)
        z = {space: means.follow(keys[space], written) for space, means in self.means.items()}
        agreed = {space: self.agreements[space].follow(base, z[space]) for space in z}
        shares = _shares({space: agreed[space].low for space in names})
        total = np.sum([shares[s][:, np.newaxis] * z[s] for s in names], axis=0)  # (3)
        together = self.together.follow(base, total)
        weight, self.scores = best_weights(self.scores, total, together)
        others = [agreed[space].low for space in names if space != _OWN]
        trust = _relative_trust(together.low, others, agreed[_OWN].high)  # (4)

        base_sums = running(self.base_marginal, posterior)
        memory_sums = running(self.memory_marginal, softmax(weight[:, np.newaxis] * total))
        self.base_marginal, self.memory_marginal = base_sums[-1], memory_sums[-1]
        evidence: dict[str, NDArray[np.floating]] = {space: z[space] for space in names}
        evidence[_MARGINALS] = np.log(memory_sums[1:] / base_sums[1:])  # of as many images
        weights = {space: trust * weight * shares[space] for space in names}  # (5)
        return _Said(evidence, {**weights, _MARGINALS: trust * together.low}, trust)

    def state(self) -> dict[str, Any]:
        """The arrays of every part; spaces by number, because a name may be any text."""
        parts: dict[str, Any] = {"together": self.together.state()}
        for number, space in enumerate(self.means):
            parts[f"means-{number}"] = _copied(vars(self.means[space]))
            parts[f"agreement-{number}"] = self.agreements[space].state()
        names = ("scores", "base_marginal", "memory_marginal")
        return {**parts, "answers": {name: getattr(self, name).copy() for name in names}}

    @classmethod
    def from_state(cls, parts: Mapping[str, Any], names: Sequence[str]) -> _Memory:
        """What gave these arrays; refused where one is missing or of another shape."""
        try:
            n_classes = max(1, parts["answers"]["base_marginal"].size)  # sizes: they are in memory
            dims = [parts[f"means-{i}"]["sums"].size // n_classes for i in range(len(names))]
            fresh = cls.fresh({s: (n_classes, d) for s, d in zip(names, dims, strict=True)})
            whole = _facts(parts) == _facts(fresh.state())
        except (KeyError, IndexError, AttributeError, TypeError):
            whole = False
        if not whole:
            raise MarcError(
                "the stored class means are damaged: their arrays do not fit each other"
            )
        means = {s: _Means(**_copied(parts[f"means-{i}"])) for i, s in enumerate(names)}
        agreed = {s: Agreement(**_copied(parts[f"agreement-{i}"])) for i, s in enumerate(names)}
        together, answers = Agreement(**_copied(parts["together"])), _copied(parts["answers"])
        return cls(means, agreed, together, **answers)


def _shares(agreement: Mapping[str, Float]) -> dict[str, NDArray[np.float64]]:
    """k_s^2 / sum k_s^2 (B,) by space; alike where nothing agrees yet."""
    none = np.sum(list(agreement.values()), axis=0) <= 0
    squares = {space: np.where(none, 1.0, k**2) for space, k in agreement.items()}
    whole = np.sum(list(squares.values()), axis=0)
    return {space: square / whole for space, square in squares.items()}


def _relative_trust(
    agreement: Float, others: Sequence[Float], reference: Float
) -> NDArray[np.float64]:
    """R of (4), (B,): from the agreement of all, of single spaces, and of the predictor's own.

    >>> half = np.array([0.5])
    >>> _relative_trust(half, [half], half), _relative_trust(half, [], half).round(3)
    (array([1.]), array([0.354]))
    """
    best = np.max([np.zeros(len(agreement)), *others], axis=0)
    relative = np.divide(best, reference, out=(best > 0).astype(float), where=reference > 0)
    return np.asarray(np.maximum(agreement, np.minimum(relative, 1)) ** _CAUTION)


@dataclass(eq=False)
class _Means:
    """The class means of one space, as sums, and its leading principal directions."""

    sums: NDArray[np.float64]
    """S_c, (C, D)."""
    counts: NDArray[np.float64]
    """n_c, (C,)."""
    squares: NDArray[np.float64]
    """|S_c|^2, (C,)."""
    crossed: NDArray[np.float64]
    """S_c . total, (C,)."""
    total: NDArray[np.float64]
    """The sum of all images, (D,)."""
    size: NDArray[np.float64]
    """How many images, and |total|^2, (2,)."""
    basis: NDArray[np.float64]
    """Leading principal directions at the last update, (k, D)."""
    strengths: NDArray[np.float64]
    """Their singular values, (k,)."""
    center: NDArray[np.float64]
    """The mean of all images at the last update, (D,)."""
    projected: NDArray[np.float64]
    """S_c, and last the total, along the directions, (C + 1, k)."""
    pending: NDArray[np.float64]
    """Images since the last update, then older ones, (16, D)."""

    @classmethod
    def fresh(cls, n_classes: int, dim: int) -> _Means:
        """No image seen."""
        C, D, k = n_classes, dim, min(_KEPT, dim)
        shapes = ((C, D), C, C, C, D, 2, (k, D), k, D, (C + 1, k), (_BLOCK, D))
        return cls(*(np.zeros(shape) for shape in shapes))

    def follow(self, keys: Float, written: Float) -> NDArray[np.float32]:
        """Read z of (2) for the next images (B, D), each read before it is written with (B, C).

        Each inner product that a mean has part in is kept up to date, so that one product with
        `sums` is all that depends on D. In float32, so that equal means tie as they should.
        """
        x = np.asarray(keys, dtype=np.float64)
        inner = x @ x.T
        earlier, own = np.tril(inner, -1), inner.diagonal()
        dots = x @ self.sums.T + earlier @ written  # S_c . x
        total_dots = x @ self.total + earlier.sum(axis=1)
        along = x @ self.basis.T  # (B, k)

        counts = running(self.counts, written)
        squares = running(self.squares, written * (2 * dots + written * own[:, np.newaxis]))
        grown = written * (total_dots + own)[:, np.newaxis]
        crossed = running(self.crossed, dots + grown)
        sizes = running(self.size, np.stack([np.ones(len(x)), 2 * total_dots + own], axis=1))
        shares = np.concatenate([written, np.ones((len(x), 1))], axis=1)
        projected = running(self.projected, shares[:, :, np.newaxis] * along[:, np.newaxis])

        n, N = np.maximum(counts[:-1], _WRITTEN**2), np.maximum(sizes[:-1, 0], 1)[:, np.newaxis]
        mean_square, cross = sizes[:-1, 1:] / N**2, crossed[:-1] / (n * N)
        mean_dot = total_dots[:, np.newaxis] / N
        both = dots / n - mean_dot - cross + mean_square  # (x - m) . (mu_c - m)
        image = own[:, np.newaxis] - 2 * mean_dot + mean_square  # |x - m|^2
        mean = squares[:-1] / n**2 - 2 * cross + mean_square  # |mu_c - m|^2
        if self.size[0] >= _FEWEST:
            less = 1 - self._scaling()
            middle = projected[:-1, -1] / N
            x_along = along - middle
            c_along = projected[:-1, :-1] / n[:, :, np.newaxis] - middle[:, np.newaxis]
            both -= np.einsum("bck,bk->bc", c_along, less * x_along)
            image -= (x_along**2 @ less)[:, np.newaxis]
            mean -= c_along**2 @ less

        self.counts, self.squares, self.crossed = counts[-1], squares[-1], crossed[-1]
        self.size, self.projected = sizes[-1], projected[-1]
        some = np.flatnonzero(written.any(axis=0))
        self.sums[some] += written[:, some].T @ x
        self.total = self.total + x.sum(axis=0)
        self._learn_directions(x)
        known = (counts[:-1] > 0) & (mean > _FLAT) & (image > _FLAT)
        lengths = np.sqrt(np.where(known, mean * image, 1.0))
        return np.where(known, (both / lengths).clip(-1, 1), 0.0).astype(np.float32)

    def _scaling(self) -> NDArray[np.float64]:
        """A along each direction, (k,): at most 1, so that no noise is made louder."""
        variances = self.strengths**2
        scaling = variances[:_LEADING][-1] / np.maximum(variances, _FLAT)
        return np.asarray(scaling.clip(_LEAST, 1))

    def _learn_directions(self, x: Float) -> None:
        """Take the images that were just counted; a block of them never goes past an update."""
        end = int(self.size[0] - 1) % _BLOCK + 1
        self.pending[end - len(x) : end] = x
        if end < _BLOCK:
            return
        before = self.size[0] - _BLOCK
        self.basis, self.strengths, self.center = principal_directions(
            self.basis, self.strengths, self.center, before, self.pending
        )
        self.projected = np.concatenate([self.sums, self.total[np.newaxis]]) @ self.basis.T


def principal_directions(
    basis: Float, strengths: Float, center: Float, n_images: float, rows: Float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Directions (k, D), singular values (k,) and mean (D,) of images, and of more rows (B, D).

    Incremental PCA with a moving mean (Ross et al., IJCV 2008): exact but for what the directions
    that were not kept would have added.
    """
    mean, whole = rows.mean(axis=0), n_images + len(rows)
    moved = np.sqrt(n_images * len(rows) / whole) * (center - mean)
    stacked = np.concatenate([strengths[:, np.newaxis] * basis, rows - mean, moved[np.newaxis]])
    squares, left = np.linalg.eigh(stacked @ stacked.T)  # few rows, many columns
    kept = slice(None, -len(strengths) - 1, -1)  # the largest first
    values = np.sqrt(np.maximum(squares[kept], 0))
    directions = left[:, kept].T @ stacked / np.maximum(values, _FLAT)[:, np.newaxis]
    return directions, values, center + (mean - center) * len(rows) / whole


def _copied(arrays: Mapping[str, Float]) -> dict[str, NDArray[np.float64]]:
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def _facts(parts: Mapping[str, Any]) -> dict[str, Any]:
    return {n: {k: (a.shape, np.isfinite(a).all()) for k, a in p.items()} for n, p in parts.items()}
