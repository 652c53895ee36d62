"""How far a replication may be off, for each kind of quantity, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from marc.types import CAPACITIES, WEIGHTS
from marc_paper.printed.numbers import Printed


@final
@dataclass(frozen=True)
class Tolerance:
    """A distance that counts as met; half the last printed digit is always added."""

    name: str
    reason: str
    amount: float = 0.0  # in the printed unit: points, images, or the number itself
    deviations: float = 0.0  # so many printed deviations instead, where the paper prints one
    least: float = 0.0  # at least this much, where deviations count
    fraction: float = 0.0  # of the printed value, where that is more
    most: float = math.inf  # at most this much, where a fraction counts
    grid: tuple[float, ...] = ()  # values on a grid: distances are counted in its steps
    factor: float = 0.0  # up to so many times as much or as little: distances are in log10
    floor: float = 0.0  # where a factor counts, less than this counts as this
    errors: float = 0.0  # of a p-value: its effect may move by so many of its standard errors
    keeps_sign: bool = False  # of the other sign, only half the distance from zero meets

    def allowed(self, printed: Printed, deviation: Printed | None = None) -> float:
        """The largest distance that meets a printed value, beside the deviation of its cell."""
        half = float(printed.unit) / 2
        if self.grid:
            return self.amount
        if self.errors:
            return _shift_of_log10_p(printed.log10, self.errors)
        if self.factor:
            value = max(float(printed), self.floor)
            return math.log10(self.factor * (value + half) / value)
        amount = self.amount
        if deviation is not None and self.deviations:
            amount = max(self.least, self.deviations * float(deviation))
        part = min(self.most, self.fraction * abs(float(printed)))
        return max(amount, part) + half

    def distance(self, printed: float, got: float) -> float:
        """How far apart two values are, with its sign; in steps where there is a grid.

        >>> KINDS["capacity"].distance(8, 16), KINDS["geometry"].distance(48.9, 49.0) > 0
        (1.0, True)
        >>> round(KINDS["deviation"].distance(0.2, 0.4), 3), KINDS["deviation"].distance(0.02, 0.0)
        (0.301, 0.0)
        """
        if self.factor:
            return math.log10(max(got, self.floor) / max(printed, self.floor))
        if not self.grid:
            return got - printed
        return _position(self.grid, got) - _position(self.grid, printed)


def _shift_of_log10_p(log10_p: float, errors: float) -> float:
    """How far log10 p moves where its effect grows by some standard errors.

    The tail of a normal distribution falls as exp(-z^2 / 2), and z grows by `errors`.

    >>> round(_shift_of_log10_p(-97.4, 2.0), 1)
    19.3
    """
    return errors * math.sqrt(2 * abs(log10_p) / math.log(10)) + errors**2 / (2 * math.log(10))


def _position(grid: tuple[float, ...], value: float) -> float:
    """The index of a value on a grid; one that is not on it lies between its neighbours.

    >>> _position((1.0, 2.0, 4.0), 2.0), _position((1.0, 2.0, 4.0), 3.0), _position((1.0, 2.0), 9.0)
    (1.0, 1.5, 1.5)
    """
    below = sum(each < value for each in grid)
    return float(below) if value in grid else below - 0.5


_ALL = (
    Tolerance("geometry", "nothing is drawn, but libraries resize and round in their own way", 0.3),
    Tolerance(
        "one view, no memory",
        "no order and no view enters; libraries resize and round in their own way",
        0.3,
    ),
    Tolerance(
        "order",
        "the paper's orders cannot be drawn again: three of its deviations, else one point",
        1.0,
        deviations=3.0,
        least=0.5,
    ),
    Tolerance(
        "oracle gain",
        "as for orders; the deviations that the paper prints for small oracle gains are small",
        0.3,
        deviations=3.0,
        least=0.3,
        fraction=0.15,
        most=1.0,
    ),
    Tolerance(
        "views", "the paper does not say how its views are drawn", 1.5, deviations=3.0, least=1.5
    ),
    Tolerance(
        "change",
        "two accuracies of one order are paired, so most of what an order does cancels",
        0.5,
        deviations=3.0,
        least=0.5,
    ),
    Tolerance(
        "change under views",
        "both sides see the same order and the same views, so most of what these do cancels; of "
        "the other sign no more than half of it",
        0.7,
        deviations=3.0,
        least=0.7,
        fraction=0.2,
        keeps_sign=True,
    ),
    Tolerance(
        "advantage of one order",
        "the paper's own three orders lie 1.4 points apart; of the other sign no more than "
        "half of it",
        1.4,
        keeps_sign=True,
    ),
    Tolerance(
        "deviation",
        "two deviations of three orders differ by up to a factor of six either way (F test, 95 %)",
        factor=6.0,
        floor=0.05,
    ),
    Tolerance("ranks", "neighbours in rank trade places when gains move by a little", 0.05),
    Tolerance("ranks of five", "one trade of places among five spaces is 0.1", 0.1),
    Tolerance(
        "ranks of capacities",
        "K* of five spaces has ties: a neighbouring K* of one space moves it that much",
        0.35,
    ),
    Tolerance("regret", "the difference of two gains that depend on the order", 1.0),
    Tolerance("share of batches", "a share of 300 draws, of gains that move", 0.1),
    Tolerance("share", "a ratio of two numbers that depend on the order", 5.0),
    Tolerance(
        "images",
        "as for orders, of 7,500 images: three printed deviations and half a point at least, "
        "else one",
        75.0,
        deviations=3.0,
        least=37.5,
    ),
    Tolerance(
        "images under views",
        "other views change which images are repaired: three printed deviations, 25 images (three "
        "counting deviations of the smallest set, 80) or 15 % of the set; 1.5 points at most",
        25.0,
        deviations=3.0,
        least=25.0,
        fraction=0.15,
        most=112.5,
    ),
    Tolerance("range", "the lowest or highest of three orders that lie several points apart", 4.0),
    Tolerance("tenths", "a tenth of the stream has 750 images: two standard errors", 5.0),
    Tolerance(
        "capacity",
        "the same or a neighbouring value of the grid, where the gain is nearly flat",
        1.0,
        grid=tuple(map(float, CAPACITIES)),
    ),
    Tolerance(
        "weight", "up to two places of the grid, where the gain is nearly flat", 2.0, grid=WEIGHTS
    ),
    Tolerance("count", "one space or stream may tip over", 1.0),
    Tolerance("exact", "a number of things, not a measurement"),
    Tolerance(
        "p",
        "what its effect is allowed, one point with an order, is up to three of its standard "
        "errors",
        errors=3.0,
    ),
    Tolerance(
        "ratio of deviations",
        "divided by two pooled deviations of three orders: up to a factor of three; near zero "
        "up to 2",
        factor=3.0,
        floor=0.7,
    ),
)
KINDS = {kind.name: kind for kind in _ALL}
"""How far each kind of quantity may be off, by the name that the files of printed values use."""
