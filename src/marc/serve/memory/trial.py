"""The judge of a memory that answers: is it right more often than the base where they disagree?

Labels come late, of a few steps, and only disagreements matter: each is won by the memory, lost, or
neither answer was right. `log_evidence` of `marc.results.judge` is a test that holds at every look,
as long as what is labelled does not depend on who is right; it is followed for "helps" and for
"harms", in every mode. Beside it an interval of the gain that holds at every look as well.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from marc.results.judge import labels_needed, log_evidence

ALPHA = 0.05
"""How often "helps", and how often "harms", may be claimed wrongly, ever."""
_GRID = np.linspace(-1, 1, 2001)  # net rates that are tried for the interval
_MOST_POINTS = 400  # of the curve
_FARTHEST = 20_000  # labels ahead; what takes more is not estimated
_SENTENCES = {
    "helps": "helps: where the two differ, the memory's answers are right more often",
    "harms": "harms: where the two differ, the memory's answers are right less often",
    "not shown": "not shown to help: the labels do not show yet which answers are right more often",
}


class Tally(NamedTuple):
    """Labelled steps by their result."""

    won: int = 0
    lost: int = 0
    neither: int = 0
    agreements: int = 0
    """Both answers were the same: counted, and used for nothing."""

    @property
    def disagreements(self) -> int:
        """Labelled steps that say something."""
        return self.won + self.lost + self.neither

    def plus(self, result: int | None, count: int = 1) -> Tally:
        """With so many more steps of a result."""
        name = {1: "won", -1: "lost", 0: "neither", None: "agreements"}[result]
        return self._replace(**{name: getattr(self, name) + count})


@functools.lru_cache(maxsize=4096)
def _log_evidence(won: int, lost: int) -> float:
    """Asked for again with every look at the curve, and of more labels it takes milliseconds."""
    return log_evidence(won, lost)


def verdict(tally: Tally) -> str:
    """Helps, harms, or not shown; the first two are each wrong with at most alpha, ever."""
    if _log_evidence(tally.won, tally.lost) >= -math.log(ALPHA):
        return "helps"
    harms = _log_evidence(tally.lost, tally.won) >= -math.log(ALPHA)
    return "harms" if harms else "not shown"


class Trial:
    """What the labels show since the configuration or the memory last changed.

    >>> trial = Trial()
    >>> for _ in range(8):
    ...     trial.add(1)
    >>> trial.verdict, trial.tally.won
    ('helps', 8)
    """

    def __init__(self, tally: Tally | None = None, latest: Iterable[int | None] = ()) -> None:
        """Go on from a tally; of its `latest` results the order is known, for the curve."""
        self.tally = tally or Tally()
        decided = [result for result in latest if result]
        won = self.tally.won - decided.count(1)
        count = self.tally.won + self.tally.lost - len(decided)
        self._stride, self._path = 1, [(count, won)]  # decided labels, and those of them won
        for result in decided:
            count, won = count + 1, won + (result == 1)
            self._follow(count, won)

    def add(self, result: int | None) -> None:
        """Count a label: won 1, lost -1, neither 0; None where both answers were the same."""
        self.tally = self.tally.plus(result)
        if result:
            self._follow(self.tally.won + self.tally.lost, self.tally.won)

    def _follow(self, count: int, won: int) -> None:
        """Keep a point of the curve; of a longer one every second, then every fourth."""
        if count % self._stride == 0:
            self._path.append((count, won))
        if len(self._path) > _MOST_POINTS:
            self._stride *= 2
            first, *rest = self._path
            self._path = [first, *(point for point in rest if point[0] % self._stride == 0)]

    @property
    def verdict(self) -> str:
        """Helps, harms, or not shown; the first two are each wrong with at most alpha, ever."""
        return verdict(self.tally)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if not self.tally.disagreements:
            return "not shown to help: without labels nothing is proven"
        return _SENTENCES[self.verdict]

    def curve(self) -> list[list[float]]:
        """Decided labels, and log10 E for "helps" and "harms" after each; thinned where many."""
        now = (self.tally.won + self.tally.lost, self.tally.won)
        path = self._path if self._path[-1] == now else [*self._path, now]
        ten = math.log(10)
        return [
            [count, _log_evidence(won, count - won) / ten, _log_evidence(count - won, won) / ten]
            for count, won in path
        ]

    def summary(self, steps: int, disagreements: int) -> dict[str, Any]:
        """How often the two differ on so many steps, and the verdict."""
        return {
            "steps": steps,
            "disagreements": disagreements,
            "disagreement_rate": disagreements / steps if steps else None,
            "verdict": self.verdict,
            "sentence": self.sentence,
        }

    def to_dict(self, steps: int, disagreements: int, since: int) -> dict[str, Any]:
        """Counts, evidence, the gain on so many steps and disagreements, and the verdict."""
        tally = self.tally
        logs = {
            "helps": _log_evidence(tally.won, tally.lost),
            "harms": _log_evidence(tally.lost, tally.won),
        }
        return {
            **self.summary(steps, disagreements),
            "alpha": ALPHA,
            "since_seq": since,
            "labelled": tally._asdict(),
            "e_values": {name: math.exp(min(each, 700.0)) for name, each in logs.items()},
            "log10_e": {name: each / math.log(10) for name, each in logs.items()},
            "gain": self._gain(disagreements / steps) if steps and tally.disagreements else None,
            "labels_needed": self._labels_needed(disagreements),
            "curve": self.curve(),
        }

    def _labels_needed(self, disagreements: int) -> int | None:
        """About how many more labels decide; 0 if none, None if that cannot be estimated."""
        left = disagreements - self.tally.disagreements
        if self.verdict != "not shown" or left <= 0:
            return 0
        ahead = min(left, _FARTHEST)
        total = self.tally.disagreements + ahead
        needed = labels_needed(*self.tally[:3], total, ALPHA)
        return None if needed == ahead < left else needed

    def _gain(self, rate: float) -> dict[str, float]:
        """The gain over all steps: the net rate of disagreements won, times how often they are."""
        won, lost, neither, _ = self.tally
        low, high = rate_bounds(won, lost, neither, ALPHA)
        cut = {"helps": (max(low, 0.0), high), "harms": (low, min(high, 0.0))}
        low, high = cut.get(self.verdict, (min(low, 0.0), max(high, 0.0)))
        net = (won - lost) / (won + lost + neither)
        both = {"estimate": net * rate, "low": low * rate, "high": high * rate}
        return {**both, "confidence": 1 - 2 * ALPHA}  # the interval's, and the verdict's


def rate_bounds(won: int, lost: int, neither: int, alpha: float) -> tuple[float, float]:
    """Bounds of P(won) - P(lost) of a disagreement that hold at every look with 1 - alpha.

    The mean of the likelihood over all (P(won), P(lost), P(neither)), over that of the true ones,
    starts at 1 and does not grow on average; so it ever reaches 1 / alpha with a probability of at
    most alpha (Ville). The bounds hold every difference for which some probabilities are left.

    >>> rate_bounds(0, 0, 0, 0.05), rate_bounds(30, 5, 2, 0.05)
    ((-1.0, 1.0), (0.135, 0.943))
    """
    from scipy.special import gammaln

    counts = np.array([won, lost, neither], dtype=float)
    mixture = math.log(2) + gammaln(counts + 1).sum() - gammaln(counts.sum() + 3)
    # the estimate itself is always left; after many labels it may be all that is, between two
    nets = np.union1d(_GRID, (won - lost) / max(1.0, counts.sum()))
    left = nets[_likeliest(nets, *counts) >= mixture + math.log(alpha)]
    step = _GRID[1] - _GRID[0]  # what lies between two tried ones is left as well
    return round(float(max(-1, left[0] - step)), 9), round(float(min(1, left[-1] + step)), 9)


def _likeliest(nets: Any, won: float, lost: float, neither: float) -> Any:
    """The largest log-likelihood of counts for each net rate.

    With P(won) = a + d, P(lost) = a and P(neither) = 1 - 2a - d it is concave in a: where its slope
    is 0 is found by halving.
    """
    from scipy.special import xlogy

    low, high = np.maximum(0, -nets), (1 - nets) / 2
    for _ in range(50):
        a = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = won / (a + nets) + lost / a - 2 * neither / (1 - 2 * a - nets)
        rises = np.nan_to_num(slope, nan=0.0) > 0
        low, high = np.where(rises, a, low), np.where(rises, high, a)
    a = (low + high) / 2
    rest = np.maximum(1 - 2 * a - nets, 0)
    return xlogy(won, np.maximum(a + nets, 0)) + xlogy(lost, a) + xlogy(neither, rest)
