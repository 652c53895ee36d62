"""The judge: does a method help on a stream without labels, once a few images are labelled?

Only disagreements between the adapted and the base answer matter. Of D disagreements among T
images, W are won by the adapted answer, L by the base answer, and in the others neither is right:
gain = (W - L) / T on the images of this run. D and T are known, and the only chance is in which
disagreements are labelled: an audit, uniformly at random and without replacement.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from marc.errors import MarcError
from marc.results.audit import Disagreement, Labels, distinct, read_labels, write_audit
from marc.results.compare import class_names
from marc.results.run import stored_run
from marc.stats import Interval
from marc.types import Run, Shown

_PRIOR = 2  # a of the beta mixture: wins are neither sure nor close to a coin's


def log_evidence(won: int, lost: int) -> float:
    """Log E, the evidence that more disagreements are won than lost; E >= 1 / alpha decides.

    E = 2^(n+1) B(won+a, lost+a) / B(a, a) (1 - I_{1/2}(won+a, lost+a)), n = won + lost, a = 2: the
    mean of theta^won (1-theta)^lost / 2^-n over a beta(a, a) theta that is cut to theta > 1/2. If
    each win has a probability p <= 1/2 whatever came before, one more label multiplies each such
    ratio by 2 theta p + 2 (1-theta) (1-p) <= 1 on average. So E starts at 1, does not grow on
    average, and reaches 1 / alpha at any look with a probability of at most alpha (Ville).

    An audit draws without replacement, and after losses wins are more likely than 1/2. That does
    no harm. Labels of `won` and `lost` then have the probability
    q(W, L) = (W)_won (L)_lost / (W+L)_n in falling factorials. For W < L and won >= lost it grows
    with W, and q(x, x) / q(x-1, x-1) >= 1 if and only if x ((won-lost)^2 - n) + 2 won lost >= 0.
    So where (won-lost)^2 >= n, q rises with x to its limit 2^-n: no null makes such labels likelier
    than a fair coin does. Elsewhere E < 1.14, and nothing is decided for alpha < 1/2.

    >>> round(math.exp(log_evidence(8, 0)), 1), round(math.exp(log_evidence(0, 0)), 1)
    (27.8, 1.0)
    """
    from scipy.special import betaln, gammaln, logsumexp

    # 1 - I_{1/2} as a sum over a binomial tail: scipy's betainc becomes 0 where losses prevail
    trials = won + lost + 2 * _PRIOR - 1
    tail = np.arange(lost + _PRIOR, trials + 1)
    terms = gammaln(trials + 1) - gammaln(tail + 1) - gammaln(trials - tail + 1)
    mixed = betaln(won + _PRIOR, lost + _PRIOR) - betaln(_PRIOR, _PRIOR)
    powers = (won + lost + 1 - trials) * math.log(2)
    return float(powers + mixed + logsumexp(terms))


def net_bounds(won: int, lost: int, neither: int, total: int, alpha: float) -> tuple[int, int]:
    """The least and the largest W - L that the labels leave possible, at every look.

    Let all (W, L, rest) of D = `total` be equally likely before. The probability of the labels
    under that mixture, 2 won! lost! neither! / (n+2)!, over their probability under the true
    (W, L, rest) is a martingale that starts at 1; it ever reaches 1 / alpha with a probability of
    at most alpha. The bounds hold all (W, L, rest) for which it has not. Once all is labelled, only
    the truth is left.

    >>> net_bounds(6, 1, 2, total=9, alpha=0.05), net_bounds(0, 0, 0, total=9, alpha=0.05)
    ((5, 5), (-9, 9))
    """
    from scipy.special import gammaln

    n = won + lost + neither

    def log_falling(start: Any, length: int) -> Any:
        return gammaln(start + 1) - gammaln(start - length + 1)

    mixture = math.log(2) + gammaln([won + 1, lost + 1, neither + 1]).sum() - gammaln(n + 3)
    floor = mixture + math.log(alpha) + log_falling(total, n)

    def possible(net: int) -> bool:
        L = np.arange(max(lost, won - net), (total - neither - net) // 2 + 1)
        likelihood = log_falling(L + net, won) + log_falling(L, lost)
        return bool((likelihood + log_falling(total - net - 2 * L, neither) > floor).any())

    # even and odd differences leave even and odd rests, so each kind has an end of its own
    def end(outermost: int, step: int) -> int:
        nets = range(outermost, middle, step)
        found = bisect_left(nets, True, key=lambda net: possible(net) or possible(net - step))
        return outermost + step * found

    left = total - n
    middle = round((won - lost) * total / n) if n else 0
    return end(won - lost - left, 1), end(won - lost + left, -1)


def labels_needed(won: int, lost: int, neither: int, total: int, alpha: float) -> int | None:
    """About how many more labels decide, if the rest are as those so far; None: cannot be said.

    The side that leads goes on winning at its rate so far, drawn towards 1/2 as by 2 wins and 2
    losses. It is never more than are left: once all are labelled, the gain is known.
    """
    ahead, behind = max(won, lost), min(won, lost)
    if ahead == behind:
        return None
    rate = (ahead + _PRIOR) / (ahead + behind + 2 * _PRIOR)
    left = total - won - lost - neither

    def decided(more: int) -> bool:
        wins = round(rate * more)
        return log_evidence(ahead + wins, behind + more - wins) >= -math.log(alpha)

    more = bisect_left(range(left + 1), True, key=decided)
    return min(left, math.ceil(more * (won + lost + neither) / (won + lost)))


class _Tally(NamedTuple):
    won: int
    lost: int
    neither: int


@dataclass(frozen=True, repr=False)
class Judgement(Shown):
    """What the labels so far say of one order of a run."""

    run: str
    order: int | None
    """The seed of the order that is judged; None is the order in which the images are stored."""
    n_images: int
    disagreements: tuple[Disagreement, ...] = field(repr=False)
    n_agreements: int
    """Labels of images on which both answers agree: counted, and used for nothing."""
    alpha: float
    has_truth: bool
    """Whether the stream itself has labels: then exact numbers need no judge."""

    @cached_property
    def tally(self) -> _Tally:
        """How many labelled disagreements each side won."""
        results = [each.result for each in self.disagreements]
        return _Tally(results.count(1), results.count(-1), results.count(0))

    @property
    def left(self) -> int:
        """Disagreements that are not labelled."""
        return len(self.disagreements) - sum(self.tally)

    @cached_property
    def log_e(self) -> tuple[float, float]:
        """Log E that it helps, and that it harms."""
        won, lost, _ = self.tally
        return log_evidence(won, lost), log_evidence(lost, won)

    @property
    def verdict(self) -> str:
        """Helps, harms, or not shown; the first two are each wrong with at most alpha, ever."""
        net, (helps, harms) = self.tally.won - self.tally.lost, self.log_e
        if helps >= -math.log(self.alpha) or net > self.left:  # or whatever the rest may be
            return "helps"
        return "harms" if harms >= -math.log(self.alpha) or -net > self.left else "not shown"

    @cached_property
    def gain(self) -> Interval | None:
        """The gain on these images, and bounds that hold at every look with 1 - 2 alpha.

        The bounds of `net_bounds` miss with at most alpha, and the verdict is wrong with at most
        alpha; both are true together with 1 - 2 alpha, so the bounds end at 0 where the verdict
        says so, and hold 0 where nothing is shown. None where nothing is labelled.
        """
        total = len(self.disagreements)
        if total > 0 == sum(self.tally):
            return None
        low, high = net_bounds(*self.tally, total, self.alpha)
        cut = {"helps": (max(low, 1), high), "harms": (low, min(high, -1))}
        low, high = cut.get(self.verdict, (min(low, 0), max(high, 0)))
        net = (self.tally.won - self.tally.lost) * total / max(1, sum(self.tally))
        return Interval(net / self.n_images, low / self.n_images, high / self.n_images)

    @property
    def labels_needed(self) -> int | None:
        """About how many more labels decide; 0 if none, None if that cannot be said."""
        if self.verdict != "not shown" or not self.left:
            return 0
        return labels_needed(*self.tally, len(self.disagreements), self.alpha)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        if not self.disagreements:
            return "not shown: both give the same answer to every image"
        if not sum(self.tally):
            return "not shown: without labels nothing is proven"
        if self.verdict == "not shown" and self.left:
            return "not shown: the labels do not say yet which answers are right more often"
        if self.verdict == "not shown":
            return "not shown: all are labelled, and both answers are right equally often"
        more = "more" if self.verdict == "helps" else "less"
        sure = abs(self.tally.won - self.tally.lost) > self.left > 0
        end = ", whatever the labels that are missing" if sure else ""
        return f"{self.verdict}: adapted answers are right {more} often than base answers here{end}"

    def write_audit(self, path: str | Path, n: int = 50, seed: int = 0) -> list[Disagreement]:
        """Write a .csv file of disagreements to label, drawn at random; gives what was drawn.

        Who labels sees two answers and not whose they are. Fill in the column `label` of every
        row, then `judge(run, path)`.
        """
        return write_audit(Path(path), self.disagreements, n, seed)

    def to_dict(self) -> dict[str, Any]:
        """Every number as plain data."""
        log10 = [each / math.log(10) for each in self.log_e]
        sure = 1 - 2 * self.alpha if self.left else 1.0
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "run": {"path": self.run, "order": self.order, "has_truth": self.has_truth},
            "n_images": self.n_images,
            "n_disagreements": len(self.disagreements),
            "labelled": {**self.tally._asdict(), "agreements": self.n_agreements},
            "evidence": {"alpha": self.alpha, "log10_helps": log10[0], "log10_harms": log10[1]},
            "gain": self.gain and {**self.gain._asdict(), "confidence": sure},
            "labels_needed": self.labels_needed,
        }

    def _columns(self) -> dict[str, Any]:
        rows = zip(*self.disagreements, strict=True) if self.disagreements else [()] * 5
        return dict(zip(Disagreement._fields, map(list, rows), strict=True))


def judge(
    run: str | Path | Run | Sequence[Run],
    labels: Labels = (),
    alpha: float = 0.05,
    *,
    order: int | None = None,
) -> Judgement:
    """Whether a run helps, from a few labels.

    Valid if what is labelled does not depend on who is right: label an audit, which is drawn at
    random (`judge(run).write_audit("audit.csv", 50)`).

    Args:
        run: a run folder, a run, or several orders of a method.
        labels: the true class by image id, as its name, its number, or "neither" where both
            answers are wrong; or .csv files with the columns `id` and `label`.
        alpha: how often "helps", and how often "harms", may be said wrongly, however often one
            looks.
        order: the seed of the order to judge; by default the first.

    >>> import marc
    >>> stream = marc.synthetic_stream(n_images=200)
    >>> run = marc.run(marc.MARC("classes"), stream)
    >>> marc.judge(run).verdict, marc.judge(run, dict(enumerate(stream.labels))).verdict
    ('not shown', 'helps')
    """
    if not 0 < alpha < 0.5:
        raise MarcError("alpha must be between 0 and 0.5", got=alpha, hint="--alpha 0.05")
    stored = stored_run(run)
    arrays, seeds = stored.arrays, stored.config["seeds"]
    if order is not None and order not in seeds:
        known = ", ".join(map(str, seeds))
        raise MarcError("the run does not have this order", got=order, allowed=known)
    index = 0 if order is None else seeds.index(order)
    base, adapted = arrays["base_prediction"], arrays["prediction"][index]
    names, ids = distinct(class_names(stored)), [str(each) for each in arrays["ids"]]
    truth = read_labels(labels, ids, names, named="class_names" in arrays)
    results = {row: int(c == adapted[row]) - int(c == base[row]) for row, c in truth.items()}
    disagreements = tuple(
        Disagreement(row, ids[row], names[base[row]], names[adapted[row]], results.get(row))
        for row in np.flatnonzero(base != adapted).tolist()
    )
    agreements = sum(bool(base[row] == adapted[row]) for row in truth)
    about = len(base), disagreements, agreements, alpha, "label" in arrays
    return Judgement(str(stored.path), seeds[index], *about)
