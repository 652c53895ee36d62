"""What experiments about choosing a space share: ceilings, leads, measures, views and batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from marc.replay.sweep import Sweep
from marc.spaces.geometry import Geometry
from marc.stats import Interval


def ceilings(sweep: Sweep, capacity: int, spaces: Sequence[str] = ()) -> dict[str, float]:
    """G* by space at one capacity, mean over orders; of all spaces of the sweep by default."""
    return {space: sweep.oracle(space, capacity).gain for space in spaces or sweep.spaces}


def first_ceilings(sweep: Sweep, capacity: int, spaces: Sequence[str] = ()) -> dict[str, float]:
    """The same of the first order alone."""
    return ceilings(sweep.of_orders(sweep.seeds[:1]), capacity, spaces)


def purities(geometry: Mapping[str, Geometry], measure: str, kappa: int) -> dict[str, Interval]:
    """Purity or pseudo-purity of each space with its interval; a study's streams have labels."""
    return {space: getattr(each.measures[kappa], measure) for space, each in geometry.items()}


def _rivals(values: Mapping[str, Interval]) -> list[str]:
    """Spaces from which the lead of the highest value is not resolved.

    A lead is resolved where it is above the sum of both half-widths; an interval that is not known
    resolves nothing.

    >>> _rivals({"a": Interval(0.9, 0.8, 1.0), "b": Interval(0.7, 0.6, 0.8)})
    ['b']
    >>> _rivals({"a": Interval(0.9, 0.85, 0.95), "b": Interval(0.7, 0.6, 0.8)})
    []
    """
    leader = max(values, key=lambda space: values[space].estimate)
    first = values[leader]
    return [
        space
        for space, value in values.items()
        if space != leader and not first.estimate - value.estimate > _radius(first) + _radius(value)
    ]


def lead_text(values: Mapping[str, Interval]) -> str:
    """Whether the highest value stands apart, and from which spaces it does not."""
    close = _rivals(values)
    return f"no: {', '.join(close)}" if close else "yes"


def sources_of(sweeps: Mapping[str, Sweep], stream: str) -> list[str]:
    """Other streams, none of whose images are images of this one: settings may be chosen there."""
    images = sweeps[stream].images
    return [name for name, each in sweeps.items() if name != stream and not each.images & images]


def _radius(interval: Interval) -> float:
    # a share's interval is cut at 0 and 1, so the wider side is its error
    return max(interval.high - interval.estimate, interval.estimate - interval.low)
