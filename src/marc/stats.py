"""Statistics of answers: intervals, paired tests, families of tests, ranks and the best weight.

Two answers to the same images are compared image by image. Intervals are 95 %, and rates are
fractions of the images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import MarcError, integer
from marc.replay.weights import check_weights
from marc.scores import Float, Int, softmax

Z_95 = 1.959963984540054  # two-sided 95 % of a normal


class Interval(NamedTuple):
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float


def paired_difference(correct: ArrayLike, reference: ArrayLike) -> Interval:
    """Accuracy of one method minus that of a reference, with a Wald interval over images.

    Both are 0/1 arrays (T,), or (orders, T) with the same images in the same columns: an image's
    differences are then averaged over orders before the interval over images is formed.

    >>> correct = np.r_[np.ones(1511), np.zeros(147), np.zeros(5842)]
    >>> reference = np.r_[np.zeros(1511), np.ones(147), np.zeros(5842)]
    >>> [round(100 * value, 2) for value in paired_difference(correct, reference)]
    [18.19, 17.21, 19.17]
    """
    a, b = _same_images(correct, reference)
    difference = np.atleast_2d(a - b).mean(axis=0)
    estimate = float(difference.mean())
    half = Z_95 * float(difference.std()) / math.sqrt(len(difference))
    return Interval(estimate, estimate - half, estimate + half)


def paired_interval(n_repairs: int, n_regressions: int, n_images: int) -> Interval:
    """The interval of `paired_difference` for one order, from its counts alone.

    >>> [round(100 * value, 2) for value in paired_interval(545, 1316, 7500)]
    [-10.28, -11.38, -9.18]
    """
    n_images = integer("n_images", n_images, 1)
    changed = _discordant(n_repairs, n_regressions)
    if changed > n_images:
        raise MarcError(
            "an image is repaired or regresses once at most",
            got=f"{n_repairs} repairs and {n_regressions} regressions of {n_images} images",
        )
    net = n_repairs - n_regressions
    half = Z_95 * math.sqrt(changed - net * net / n_images)
    return Interval(net / n_images, (net - half) / n_images, (net + half) / n_images)


def mcnemar_exact(correct: ArrayLike, reference: ArrayLike) -> float:
    """Two-sided exact p-value that the two methods are right equally often, for one order (T,).

    It is 0 where it is smaller than a float can be: `mcnemar_log10` never is.
    """
    from scipy.stats import binomtest

    a, b = _same_images(correct, reference)
    if a.ndim != 1:
        raise MarcError("an exact test compares one order", got=a.shape, allowed="(T,)")
    if not np.isin([a, b], (0, 1)).all():
        raise MarcError(
            "an exact test needs answers that are right or wrong",
            got=f"{np.unique([a, b])[:5]}",
            allowed="0 and 1",
        )
    gained, lost = int((a > b).sum()), int((a < b).sum())
    return 1.0 if gained + lost == 0 else float(binomtest(gained, gained + lost).pvalue)


def mcnemar_log10(n_repairs: int, n_regressions: int) -> float:
    """log10 of the exact two-sided p-value, finite however small the p-value is.

    >>> round(mcnemar_log10(3416, 140), 1)
    -815.3
    """
    from scipy.special import gammaln, logsumexp

    n = _discordant(n_repairs, n_regressions)
    # scipy's binom.logcdf takes the logarithm of a sum that has already become 0
    k = np.arange(min(n_repairs, n_regressions) + 1)
    tail = logsumexp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)) - n * math.log(2)
    return min(0.0, float(tail + math.log(2)) / math.log(10))


def wilson(n_correct: int, n_images: int) -> Interval:
    """An accuracy with its Wilson interval."""
    from scipy.stats import binomtest

    n_images = integer("n_images", n_images, 1)
    n_correct = integer("n_correct", n_correct, 0)
    if n_correct > n_images:
        raise MarcError("n_correct must be at most n_images", got=f"{n_correct} of {n_images}")
    interval = binomtest(n_correct, n_images).proportion_ci(method="wilson")
    return Interval(n_correct / n_images, float(interval.low), float(interval.high))


def seed_interval(values: ArrayLike) -> Interval:
    """The mean over stream orders, with a t-interval (sample standard deviation, n - 1).

    >>> [round(value, 3) for value in seed_interval([0.58, 0.59, 0.60])]
    [0.59, 0.565, 0.615]
    """
    from scipy.stats import t

    numbers = _numbers("an interval over orders", values)
    if len(numbers) < 2:
        raise MarcError(
            "an interval over orders needs several of them",
            got=f"{len(numbers)} value",
            allowed="two or more",
            hint="marc run ... --seed 0 1 2",
        )
    mean = float(numbers.mean())
    spread = float(numbers.std(ddof=1)) / math.sqrt(len(numbers))
    half = float(t.ppf(0.975, len(numbers) - 1)) * spread
    return Interval(mean, mean - half, mean + half)


def worst_tenth(values: ArrayLike) -> float:
    """The mean of the lowest tenth of the values over orders; below 20 orders, of the lowest one.

    >>> worst_tenth([0.03, -0.01, 0.02]), round(worst_tenth(np.arange(20) / 100), 4)
    (-0.01, 0.005)
    """
    numbers = np.sort(_numbers("the worst tenth", values))
    return float(numbers[: max(1, len(numbers) // 10)].mean())


def ratio_interval(numerators: ArrayLike, denominators: ArrayLike) -> Interval:
    """The mean ratio over repeats, with a t-interval: the ratio is taken inside each repeat.

    >>> [round(value, 2) for value in ratio_interval([2.0, 4.4, 5.7], [1.0, 2.0, 3.0])]
    [2.03, 1.65, 2.41]
    """
    above, below = _pairs("a ratio", numerators, denominators)
    if (below == 0).any():
        raise MarcError("a ratio needs denominators that are not zero", got=list(map(float, below)))
    return seed_interval(above / below)


def spearman(first: ArrayLike, second: ArrayLike, *, only_positive: bool = False) -> float:
    """Spearman's correlation: Pearson's of midranks; not a number where one side is constant.

    Args:
        first: for example a measure of each space.
        second: for example the oracle gain of each space.
        only_positive: leave out the pairs whose `second` is not above 0. Oracle gains tie only
            at zero, where no weight helps, so this is the variant without ties.

    >>> spearman([1, 2, 3, 4], [0.0, 0.0, 0.5, 0.2], only_positive=True)
    -1.0
    """
    from scipy.stats import rankdata

    a, b = _pairs("a rank correlation", first, second)
    used = b > 0 if only_positive else np.full(len(b), True)
    # equal values share their mean rank; twice its distance from the middle is an integer
    x, y = (2 * rankdata(side[used]) - (used.sum() + 1) for side in (a, b))
    scale = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / scale if scale > 0 else float("nan")


def temperature(logits: ArrayLike, confidence: float) -> float:
    """The temperature at which the mean confidence of softmax(logits / temperature) is given.

    No label is needed. A memory makes scores sharper; the mean confidence of the same answers
    without memory is what it may be brought back to, with what was seen so far. Where the predictor
    is itself too sure, so are the answers then; answers stay the same.

    Args:
        logits: scores whose softmax gives probabilities, (T, C).
        confidence: the mean of their largest probability to be reached, above 1 / C and below 1.

    >>> round(temperature([[4.0, 0.0], [2.0, 0.0]], confidence=0.75), 3)
    2.644
    """
    scores = np.asarray(logits, dtype=np.float64)
    if scores.ndim != 2 or not scores.size or not np.isfinite(scores).all():
        raise MarcError("a temperature needs finite logits", got=scores.shape, allowed="(T, C)")
    if not 1 / scores.shape[1] < confidence < 1:
        allowed = f"above {1 / scores.shape[1]:g} and below 1"
        raise MarcError("no temperature gives this confidence", got=confidence, allowed=allowed)
    low, high = -10.0, 10.0  # of its logarithm; a higher one is less sure
    for _ in range(50):
        middle = (low + high) / 2
        sure = softmax(scores / math.exp(middle)).max(axis=1).mean() > confidence
        low, high = (middle, high) if sure else (low, middle)
    return math.exp(high)


def bonferroni(p_values: ArrayLike) -> NDArray[np.float64]:
    """P-values times their number: below 0.05, the chance of any false one is below 5 %."""
    family = _family(p_values)
    return np.minimum(1, family * family.size)


def benjamini_hochberg(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values of a family, of any shape: below 0.05, 5 % of them are false on average.

    >>> benjamini_hochberg([0.01, 0.04, 0.03, 0.5]).round(4).tolist()
    [0.04, 0.0533, 0.0533, 0.5]
    """
    from scipy.stats import false_discovery_control

    family = _family(p_values)
    return false_discovery_control(family.ravel()).reshape(family.shape)


def benjamini_hochberg_log10(log10_p_values: ArrayLike) -> NDArray[np.float64]:
    """The same for p-values that are too small for a float: log10 in, log10 out."""
    logs = np.asarray(log10_p_values, dtype=np.float64)
    if logs.size == 0 or not (logs <= 0).all() or np.isinf(logs).any():
        raise MarcError("logarithms of p-values are finite numbers <= 0", got=logs.tolist())
    order = np.argsort(logs, axis=None)
    raised = logs.ravel()[order] + np.log10(logs.size / np.arange(1, logs.size + 1))
    adjusted = np.empty(logs.size)
    adjusted[order] = np.minimum.accumulate(raised[::-1])[::-1]
    return np.minimum(0, adjusted).reshape(logs.shape)


def envelope_bootstrap(
    lower: ArrayLike,
    upper: ArrayLike,
    base_correct: ArrayLike,
    *,
    weights: tuple[float, ...] | list[float] | None = None,
    n_replicates: int = 2000,
    seed: int = 0,
) -> Interval:
    """The oracle gain over the weight, with a percentile interval over images.

    The images are drawn again with replacement, and the best weight is chosen again inside each
    replicate: an interval at the weight that was best once would hide that it was chosen. The
    best of a draw leans upwards, so the interval does too.

    Args:
        lower: closed intervals of the weights at which each image is right, see
            `marc.replay.weights.right_weights`: (T,), or (orders, T) with the same images in
            the same columns. An image is then drawn with all its orders, each order chooses its own
            weight, and the gains are averaged over orders.
        upper: their other ends.
        base_correct: whether each image is right without memory, (T,).
        weights: a grid to choose from, such as `marc.WEIGHTS`; all w >= 0 by default.
        n_replicates: how often the images are drawn.
        seed: of the draws.
    """
    ends = (
        np.atleast_2d(np.asarray(lower, np.float64)),
        np.atleast_2d(np.asarray(upper, np.float64)),
    )
    base = np.asarray(base_correct)
    if not ends[0].shape == ends[1].shape == (len(ends[0]), base.size) or base.ndim != 1:
        raise MarcError(
            "an envelope needs the same images on all sides",
            got=f"{np.shape(lower)}, {np.shape(upper)}, {base.shape}",
            allowed="(T,) or (orders, T) twice, and (T,)",
        )
    if base.size == 0 or np.isnan(ends).any() or not np.isin(base, (0, 1)).all():
        raise MarcError(
            "an envelope needs ends that are numbers, and answers",
            got=f"{base.size} images, {np.isnan(ends).sum()} ends that are not a number",
            allowed="one or more images; answers 0 or 1",
        )
    grid = None if weights is None else check_weights(weights)
    n_replicates = integer("n_replicates", n_replicates, 1, _MOST_REPLICATES)
    draws = np.random.default_rng(integer("seed", seed, 0))
    estimate, gains = _replicate_gains(*ends, base, grid, n_replicates, draws)
    low, high = np.quantile(gains, (0.025, 0.975))
    return Interval(estimate, float(low), float(high))


def _same_images(
    correct: ArrayLike, reference: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = np.asarray(correct, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if a.shape != b.shape or a.size == 0:
        raise MarcError(
            "a paired comparison needs the same images on both sides", got=f"{a.shape}, {b.shape}"
        )
    if np.isnan(a).any() or np.isnan(b).any():
        raise MarcError("an answer is right (1) or wrong (0)", got="nan")
    return a, b


def _discordant(n_repairs: int, n_regressions: int) -> int:
    return integer("n_repairs", n_repairs, 0) + integer("n_regressions", n_regressions, 0)


def _numbers(what: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise MarcError(
            f"{what} needs finite numbers", got=array.tolist(), allowed="a list of them"
        )
    return array


def _pairs(
    what: str, first: ArrayLike, second: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = _numbers(what, first), _numbers(what, second)
    if len(a) != len(b):
        raise MarcError(f"{what} needs pairs of numbers", got=f"{len(a)} and {len(b)}")
    return a, b


def _family(p_values: ArrayLike) -> NDArray[np.float64]:
    family = np.asarray(p_values, dtype=np.float64)
    if family.size == 0 or not ((family >= 0) & (family <= 1)).all():
        raise MarcError("p-values lie between 0 and 1", got=family.tolist(), allowed="one or more")
    return family


_OnGrid = tuple[int, Int, Int]
"""The length of the grid, and for each image its first weight inside and the first one after."""

_MOST_REPLICATES = 1_000_000
_BLOCK = 2**18  # images drawn at a time: a block fits the cache of a processor


def _replicate_gains(
    lower: Float,
    upper: Float,
    base_correct: NDArray[np.bool_],
    weights: Sequence[float] | None,
    n_replicates: int,
    draws: np.random.Generator,
) -> tuple[float, NDArray[np.float64]]:
    """The oracle gain on all images, and on each of `n_replicates` draws of them.

    `lower` and `upper` are (orders, T), `base_correct` (T,); each order has the gain at its own
    best weight, and the mean over orders is taken.
    """
    n_images = len(base_correct)
    orders = [_on_grid(*ends, weights) for ends in zip(lower, upper, strict=True)]
    base = base_correct.astype(np.int64)

    def gains(drawn: Int) -> Float:
        best = np.mean([_most_right(drawn, order) for order in orders], axis=0)
        return (best - base[drawn].sum(axis=1)) / n_images

    estimate = float(gains(np.arange(n_images)[np.newaxis])[0])
    size = max(1, _BLOCK // n_images)
    blocks = [min(size, n_replicates - start) for start in range(0, n_replicates, size)]
    replicates = [gains(draws.integers(n_images, size=(block, n_images))) for block in blocks]
    return estimate, np.concatenate(replicates)


def _on_grid(lower: Float, upper: Float, weights: Sequence[float] | None) -> _OnGrid:
    """Where the intervals (T,) of one order lie on a grid; of all w >= 0 on that of its openings.

    >>> _on_grid(np.array([0.0, 2.0, 0.0]), np.array([1.0, np.inf, -np.inf]), (0, 1, 2, 3))
    (4, array([0, 2, 4]), array([2, 4, 4]))
    """
    opens = np.maximum(lower, 0.0)
    inside = (opens <= upper) & (opens < np.inf)
    grid = np.unique(opens[inside]) if weights is None else np.array(weights)
    first = np.searchsorted(grid, opens, side="left")
    after = np.searchsorted(grid, upper, side="right")
    never = first >= after  # opens and closes behind the end, where nobody looks
    return len(grid), np.where(never, len(grid), first), np.where(never, len(grid), after)


def _most_right(drawn: Int, order: _OnGrid) -> Int:
    """Right answers at the best weight of each draw (replicates, T) of the images."""
    size, first, after = order
    changes = _tally(first[drawn], size) - _tally(after[drawn], size)
    return changes.cumsum(axis=1).max(axis=1, initial=0)


def _tally(values: Int, size: int) -> Int:
    """How often each row has the values 0 to size - 1; `values` is overwritten."""
    values += np.arange(len(values))[:, np.newaxis] * (size + 1)
    counts = np.bincount(values.ravel(), minlength=len(values) * (size + 1))
    return counts.reshape(len(values), size + 1)[:, :size]
