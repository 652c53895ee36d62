"""The judge of a memory that answers: is it right more often than the base where they disagree?

Labels come late, of a few steps, and only disagreements matter: each is won by the memory, lost, or
neither answer was right. `log_evidence` of `marc.results.judge` is a test that holds at every look,
as long as what is labelled does not depend on who is right; it is followed for "helps" and for
"harms", in every mode. Beside it an interval of the gain that holds at every look as well.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from marc.results.judge import labels_needed, log_evidence

ALPHA = 0.05
"""How often "helps", and how often "harms", may be said wrongly, ever."""
_GRID = np.linspace(-1, 1, 2001)  # net rates that are tried for the interval
_MOST_POINTS = 400  # of the curve
_SENTENCES = {
    "helps": "helps: where the two differ, the memory's answers are right more often",
    "harms": "harms: where the two differ, the memory's answers are right less often",
    "not shown": "not shown to help: the labels do not say yet which answers are right more often",
}


class Trial:
    """What the labels said since the configuration or the memory last changed."""

    def __init__(self) -> None:
        self._results: dict[str, int | None] = {}  # by id, in the order in which labels came
        self._counts: Counter[int | None] = Counter()

    def add(self, name: str, result: int | None) -> bool:
        """Count a label, or count it otherwise; whether the test for harm has fired now."""
        if name in self._results:
            self._counts[self._results[name]] -= 1
        self._results[name] = result
        self._counts[result] += 1
        return self.verdict == "harms"

    def tally(self) -> tuple[int, int, int]:
        """How many labelled disagreements were won, lost, and neither."""
        return self._counts[1], self._counts[-1], self._counts[0]

    @property
    def verdict(self) -> str:
        """Helps, harms, or not shown; the first two are each wrong with at most alpha, ever."""
        won, lost, _ = self.tally()
        if log_evidence(won, lost) >= -math.log(ALPHA):
            return "helps"
        return "harms" if log_evidence(lost, won) >= -math.log(ALPHA) else "not shown"

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if not sum(self.tally()):
            return "not shown to help: without labels nothing is proven"
        return _SENTENCES[self.verdict]

    def curve(self) -> list[list[float]]:
        """Decided labels, and log10 E for "helps" and "harms" after each; thinned where many."""
        decided = np.array([r for r in self._results.values() if r], dtype=int)
        won = np.concatenate([[0], np.cumsum(decided == 1)])
        at = np.unique(np.linspace(0, len(decided), _MOST_POINTS).astype(int))
        pairs = [(n, int(won[n]), int(n - won[n])) for n in at.tolist()]
        ten = math.log(10)
        return [[n, log_evidence(w, x) / ten, log_evidence(x, w) / ten] for n, w, x in pairs]

    def to_dict(self, steps: int, disagreements: int, since: int) -> dict[str, Any]:
        """Counts, evidence, the gain on so many steps and disagreements, and the verdict."""
        won, lost, _ = tally = self.tally()
        logs = {"helps": log_evidence(won, lost), "harms": log_evidence(lost, won)}
        needed = 0
        if self.verdict == "not shown" and disagreements > sum(tally):
            needed = labels_needed(*tally, disagreements, ALPHA)  # type: ignore[assignment]
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "alpha": ALPHA,
            "since_seq": since,
            "steps": steps,
            "disagreements": disagreements,
            "disagreement_rate": disagreements / steps if steps else None,
            "labelled": {
                **dict(zip(("won", "lost", "neither"), tally, strict=True)),
                "agreements": len(self._results) - sum(tally),
            },
            "e_values": {name: math.exp(min(each, 700.0)) for name, each in logs.items()},
            "log10_e": {name: each / math.log(10) for name, each in logs.items()},
            "gain": self._gain(disagreements / steps) if steps and sum(tally) else None,
            "labels_needed": needed,
            "curve": self.curve(),
        }

    def _gain(self, rate: float) -> dict[str, float]:
        """The gain over all steps: the net rate of disagreements won, times how often they are."""
        won, lost, neither = self.tally()
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
    left = _GRID[_likeliest(*counts) >= mixture + math.log(alpha)]
    step = _GRID[1] - _GRID[0]  # what lies between two tried ones is left as well
    return round(float(max(-1, left[0] - step)), 9), round(float(min(1, left[-1] + step)), 9)


def _likeliest(won: float, lost: float, neither: float) -> Any:
    """The largest log-likelihood of counts for each net rate of the grid.

    With P(won) = a + d, P(lost) = a and P(neither) = 1 - 2a - d it is concave in a: where its slope
    is 0 is found by halving.
    """
    from scipy.special import xlogy

    low, high = np.maximum(0, -_GRID), (1 - _GRID) / 2
    for _ in range(50):
        a = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = won / (a + _GRID) + lost / a - 2 * neither / (1 - 2 * a - _GRID)
        rises = np.nan_to_num(slope, nan=0.0) > 0
        low, high = np.where(rises, a, low), np.where(rises, high, a)
    a = (low + high) / 2
    rest = np.maximum(1 - 2 * a - _GRID, 0)
    return xlogy(won, np.maximum(a + _GRID, 0)) + xlogy(lost, a) + xlogy(neither, rest)
