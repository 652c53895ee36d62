"""DOTA: a Gaussian per class, learned from the stream, with one precision for all classes.

Every image is scored by a linear discriminant with class means and a shared precision, and that
score joins the logits with a weight that grows with what was seen. Then the image moves the mean
and the covariance of every class by its posterior under the predictor. It reads before it writes.

The released loop inverts a D x D matrix for every image. Here the Cholesky factor of the same
matrix replaces it: the scores are the same to rounding. On
real features of 1,280 dimensions they differed from the literal steps in float64 by a millionth
of their size, and no answer did.

Two settings trade exactness for time. Measured against the literal method on real features with
logits that span 12 to 37:

- `floor`: posteriors up to it count as 0, so that a class that an image hardly belongs to is not
  touched; 0 keeps them all. The default 1e-8 moves logits by up to 3e-5, which is below the
  rounding of float32 scores; 1e-6 moves them by up to 4e-3, 1e-4 by up to 0.2.
- `refresh`: images between two refreshes of the precision. Above 1 it is another method, though
  as accurate: an image no longer meets the near-duplicate that came just before it. 4 changed
  11 of 2,533 answers at half the time, 16 changed 30 at a fifth. So the default is 1.

Memory is C D (D + 1) / 2 float32 numbers for the covariances: 0.5 GB at C = 1,000, D = 512, and
neither setting makes it smaller. More than 8 GiB is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, check_same_shape, integer, number, one_of, switch
from marc.memory import Resumable
from marc.peers._arrays import check_arrays, first_equal
from marc.peers.view_selection import check_fraction, select_views
from marc.scores import Float, Int, softmax
from marc.stream.predictor import Predictor
from marc.types import Query, Step

_STARTS = ("text", "constant")
_CONSTANT = 0.001
_MOST_BYTES = 8 * 2**30
_WELL_CONDITIONED = 1e5


@dataclass(eq=False)
class DOTA(Resumable):
    """Class Gaussians with a shared precision beside the predictor.

    >>> DOTA().config()["sigma"], DOTA(start="constant").start
    (0.002, 'constant')
    """

    name: ClassVar[str] = "dota"

    sigma: float = 2e-3
    """Every class starts with the covariance sigma I."""
    epsilon: float = 1e-4
    """The fraction of the identity in the shared covariance."""
    eta: float = 0.3
    """The largest weight of the Gaussian score."""
    rho: float = 0.02
    """How fast that weight grows: min(rho x mean count / kept views, eta)."""
    fraction: float = 0.1
    """The fraction of the views that is kept, where there is more than one view."""
    start: str = "text"
    """Where the means start: `text` prototypes, or the `constant` 0.001 of a later version."""
    floor: float = 1e-8
    """Posteriors up to this count as 0; 0 keeps all of them."""
    refresh: int = 1
    """Images between two refreshes of the precision."""
    half_precision: bool = False
    """Round the precision matrix to float16, as released. That takes an inverse per refresh."""

    _memory: _SharedPrecision | None = field(default=None, init=False, repr=False)
    _equal: tuple[Predictor, Int] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("sigma", "epsilon", "eta", "rho", "floor"):
            setattr(self, name, number(name, getattr(self, name)))
        if self.epsilon > 1:
            raise MarcError("epsilon is a fraction", got=self.epsilon, allowed="0 to 1")
        if self.sigma == 0 == self.epsilon:
            raise MarcError(
                "sigma and epsilon are both 0: the first covariance has no inverse",
                got="sigma 0, epsilon 0",
                allowed="one of them above 0",
                hint="epsilon=1e-4",
            )
        self.fraction = check_fraction(self.fraction)
        one_of("start of the means", self.start, _STARTS)
        self.refresh = integer("refresh", self.refresh, 1)
        self.half_precision = switch("half_precision", self.half_precision)

    def step(self, query: Query) -> Step:
        """Score the image under the Gaussians, then give it to each class by its posterior."""
        view_logits = query.view_logits
        kept = select_views(view_logits, self.fraction, method=self.name)
        features, logits = query.views[kept], view_logits[kept]
        base = logits.mean(axis=0, dtype=np.float64).astype(np.float32)
        memory = self._memory_for(query)
        read = memory.half_scores if self.half_precision else memory.scores
        scores = read(features.mean(axis=0), self.sigma, self.epsilon)[self._first_equal(query)]
        weight = min(self.rho * float(memory.counts.mean()) / len(kept), self.eta)
        posteriors = softmax(logits)
        posteriors[posteriors <= self.floor] = 0
        memory.write(features, posteriors, self.refresh)
        return Step(
            query.item, base, {"gaussians": scores}, {"gaussians": weight}, int(base.argmax()), 0.0
        )

    def _memory_for(self, query: Query) -> _SharedPrecision:
        prototypes = query.predictor.prototypes
        if self._memory is None:
            constant = np.full_like(prototypes, _CONSTANT)
            self._memory = _SharedPrecision.fresh(prototypes if self.start == "text" else constant)
        check_same_shape(prototypes.shape, self._memory.means.shape)
        return self._memory

    def _first_equal(self, query: Query) -> Int:
        if self._equal is None or self._equal[0] is not query.predictor:
            self._equal = query.predictor, first_equal(query.predictor.prototypes)
        return self._equal[1]

    def _restored(self, state: dict[str, Any]) -> _SharedPrecision:
        return _SharedPrecision.from_state(state["arrays"])


@dataclass(eq=False)
class _SharedPrecision:
    """Means (C, D), counts (C,) and scatters of the classes, and the scores they give.

    Only the mean of the covariances enters a score, but each covariance is divided by a count of
    its own that moves with every image, so the mean has no recursion of its own. What is stored:

    - per class the scatter S_c = sum of P (x - mu_c)(x - mu_c)^T without its start sigma I, as the
      lower triangle in float32: C D (D + 1) / 2 numbers, 0.5 GB at C = 1,000, D = 512;
    - the sum of S_c / count_c in float64, changed in the same pass that changes S_c.

    A class whose posterior is 0 for an image is not touched at all. The precision is never formed:
    with the Cholesky factor L of the shared covariance A = L L^T,
    x A^-1 mu - mu A^-1 mu / 2 = <L^-1 x, L^-1 mu> - |L^-1 mu|^2 / 2,
    which is one factorisation (a sixth of the time of an inverse) and one triangular solve.
    """

    means: NDArray[np.float32]
    counts: NDArray[np.float64]
    scatters: NDArray[np.float32]
    """(C, D (D + 1) / 2)."""
    total: NDArray[np.float64]
    """Sum over classes of scatter / counted, (D (D + 1) / 2,)."""
    counted: NDArray[np.float64]
    """The counts that `total` was made with, (C,)."""
    waiting: list[tuple[Float, Float, Float]] = field(default_factory=list)
    """Images that are in the means and counts, but not yet in the scatters: features (k, D),
    posteriors (k, C) and the means (C, D) before them."""
    _factor: Float | None = None

    @classmethod
    def fresh(cls, means: Float) -> _SharedPrecision:
        """Nothing seen: every class counts 1."""
        n_classes, dim = means.shape
        packed = dim * (dim + 1) // 2
        if 4 * n_classes * packed > _MOST_BYTES:
            raise MarcError(
                "a covariance for every class does not fit into memory",
                got=f"{n_classes} classes x {dim} dimensions: {4 * n_classes * packed:.2g} bytes",
                allowed=f"{_MOST_BYTES:.2g} bytes",
                hint="fewer classes, or features of fewer dimensions",
            )
        return cls(
            means=np.array(means, dtype=np.float32),
            counts=np.ones(n_classes),
            scatters=np.zeros((n_classes, packed), dtype=np.float32),
            total=np.zeros(packed),
            counted=np.ones(n_classes),
        )

    def covariance(self, sigma: float, epsilon: float, dtype: type = np.float64) -> Float:
        """A = (1 - epsilon) mean of the covariances + epsilon I: its lower triangle, (D, D)."""
        from marc.peers._scatter_kernel import unpack_lower

        n_classes, dim = self.means.shape
        square: Float = np.zeros((dim, dim), dtype=dtype)
        unpack_lower(
            self.total, (1 - epsilon) / n_classes, self._on_diagonal(sigma, epsilon), square
        )
        return square

    def _on_diagonal(self, sigma: float, epsilon: float) -> float:
        """What the start sigma I of every class and epsilon leave on the diagonal of A."""
        return (1 - epsilon) * sigma * float((1 / self.counted).mean()) + epsilon

    def _solver_type(self, sigma: float, epsilon: float) -> type[np.floating]:
        """float32 where the condition number is known to be small, as it is for the defaults.

        The scores of real features then differ from those in float64 by a millionth of their
        size, as any product of float32 features does, and it takes half the time.
        """
        n_classes, dim = self.means.shape
        trace = self.total[np.arange(1, dim + 1).cumsum() - 1].sum() / n_classes
        small = trace < _WELL_CONDITIONED * self._on_diagonal(sigma, epsilon)
        return np.float32 if small else np.float64

    def scores(self, feature: Float, sigma: float, epsilon: float) -> NDArray[np.float64]:
        """Scores x Lambda mu_c - mu_c Lambda mu_c / 2 of every class, (C,)."""
        from scipy.linalg import cho_factor, solve_triangular

        if self._factor is None:
            # The transpose is laid out as the solver wants it: nothing is copied.
            upper = self.covariance(sigma, epsilon, self._solver_type(sigma, epsilon)).T
            self._factor, _ = cho_factor(upper, overwrite_a=True, check_finite=False)
        both = np.empty((len(self.means) + 1, len(feature)), dtype=self._factor.dtype)
        both[:-1], both[-1] = self.means, feature
        white = solve_triangular(
            self._factor, both.T, trans="T", overwrite_b=True, check_finite=False
        )
        query, means = white[:, -1].astype(np.float64), white[:, :-1].astype(np.float64)
        return np.asarray(query @ means - 0.5 * np.einsum("dc,dc->c", means, means))

    def half_scores(self, feature: Float, sigma: float, epsilon: float) -> NDArray[np.float64]:
        """The same scores with the precision rounded to float16, as released: an inverse."""
        from scipy.linalg import cho_solve, cholesky

        if self._factor is None:
            covariance = self.covariance(sigma, epsilon)
            factor = cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
            inverse = cho_solve((factor, True), np.eye(len(factor)), check_finite=False)
            if np.abs(inverse).max() > np.finfo(np.float16).max:
                raise MarcError(
                    "the precision matrix does not fit into float16",
                    got=f"{np.abs(inverse).max():.3g}",
                    allowed=f"{np.finfo(np.float16).max:.3g}",
                    hint="half_precision=False, or a larger epsilon",
                )
            self._factor = inverse.astype(np.float16).astype(np.float64)
        turned = self.means.astype(np.float64) @ self._factor
        return np.asarray(turned @ feature - 0.5 * np.einsum("cd,cd->c", turned, self.means))

    def write(self, features: Float, posteriors: Float, refresh: int) -> None:
        """Give the features (k, D) to every class by their posteriors (k, C).

        Means and counts move at once. Scatters, and with them the precision, move when `refresh`
        images wait.
        """
        if self.waiting and len(self.waiting[0][0]) != len(features):
            self._take_in()
        self.waiting.append((features, posteriors, self.means.copy()))
        mass = posteriors.sum(axis=0)
        touched = np.flatnonzero(mass)
        after = (self.counts + mass)[touched, np.newaxis]
        pull = posteriors[:, touched].T @ features - mass[touched, np.newaxis] * self.means[touched]
        self.means[touched] += (pull / after).astype(np.float32)
        self.counts += mass
        if len(self.waiting) >= refresh:
            self._take_in()

    def _take_in(self) -> None:
        from marc.peers._scatter_kernel import add_outer_products

        rows = np.concatenate([features for features, _, _ in self.waiting])
        weights = np.concatenate([posteriors for _, posteriors, _ in self.waiting])
        means = np.stack([means for _, _, means in self.waiting])
        image = np.repeat(np.arange(len(means)), [len(features) for features, _, _ in self.waiting])
        for c in np.flatnonzero(weights.any(axis=0)):
            some = np.flatnonzero(weights[:, c])
            add_outer_products(
                self.scatters[c],
                self.total,
                rows[some] - means[image[some], c],
                weights[some, c].astype(np.float32),
                1 / self.counted[c],
                1 / self.counts[c],
            )
        self.counted = self.counts.copy()
        self.waiting, self._factor = [], None

    def state(self) -> dict[str, Any]:
        """Copies of everything, by name."""
        parts = [np.array(part) for part in zip(*self.waiting, strict=True)] or [np.empty(0)] * 3
        names = "waiting_features", "waiting_posteriors", "waiting_means"
        stored = "means", "counts", "scatters", "total", "counted"
        return {
            **{name: getattr(self, name).copy() for name in stored},
            **dict(zip(names, parts, strict=True)),
        }

    @classmethod
    def from_state(cls, arrays: dict[str, Any]) -> _SharedPrecision:
        """What gave the arrays."""
        names = "waiting_features", "waiting_posteriors", "waiting_means"
        (C, D), (n, *k) = arrays["means"].shape, arrays[names[0]].shape
        each = (
            [("f4", n, *k[:1], D), ("f8", n, *k[:1], C), ("f4", n, C, D)] if n else [("f8", 0)] * 3
        )
        check_arrays(
            arrays,
            {
                **{"means": ("f4", C, D), "counts": ("f8", C), "counted": ("f8", C)},
                **{"scatters": ("f4", C, D * (D + 1) // 2), "total": ("f8", D * (D + 1) // 2)},
                **dict(zip(names, each, strict=True)),
            },
        )
        own = {name: array.copy() for name, array in arrays.items()}
        waiting = list(zip(*(own.pop(name) for name in names), strict=True))
        return cls(**own, waiting=waiting)
