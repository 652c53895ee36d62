"""Tables of gains: in short, methods, orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from benchmarks.class_means.cells import ALL, Cell
from benchmarks.class_means.peers import IN_ORDERS, KINDS, Outcome
from benchmarks.class_means.streams import BAD
from benchmarks.words import percent, points, table, with_ends
from marc.stats import Interval, paired_difference, worst_tenth

GROUPS = ("photographs", "lab", "lab, unseen shifts", "hostile", BAD)
HARM = -0.003 - 1e-9  # more than 0.3 points below no memory; 3 images of 1,000 are not
NAMES = {"class-means": "class-means, all", "marc": "MARC, w = 10", "marc, auto": "MARC, auto"}


def hundredths(gain: float) -> str:
    """A difference in points with two digits."""
    return f"{round(100 * gain, 2) + 0.0:+.2f}"


def mean(values: Iterable[float]) -> float:
    """The mean of some gains."""
    return float(np.mean(list(values)))


def single_and_all(cells: Sequence[Cell], group: str) -> tuple[list[Cell], list[Cell]]:
    """Cells of one space, and those of all spaces at once."""
    own = [each for each in cells if each.group == group]
    return [c for c in own if c.space != ALL], [c for c in own if c.space == ALL]


def in_short(cells: Sequence[Cell]) -> str:
    """Each group in a line."""
    header = [
        "streams",
        "cells",
        "MARC, w = 10, K = 16",
        "MARC, auto, K = 8",
        "class-means",
        "oracle",
    ]
    rows = []
    for group in GROUPS:
        single, every = single_and_all(cells, group)
        if single:
            rows.append(
                [
                    *(group, str(len(single)), *(_mean(single, n) for n in ("paper", "auto"))),
                    *(f"**{_mean(single, 'class_means')}**", _mean(single, "oracle")),
                    *(_share(single), hundredths(min(c.class_means for c in single))),
                    *(str(sum(c.class_means < HARM for c in single)), *_all_spaces(every)),
                ]
            )
    return table([*header, "of it", "worst", "below -0.3", "all spaces", "worst stream"], rows)


def _mean(cells: Sequence[Cell], name: str) -> str:
    return points(mean(getattr(each, name) for each in cells))


def _share(cells: Sequence[Cell]) -> str:
    oracle = mean(each.oracle for each in cells)
    found = mean(each.class_means for each in cells)
    return f"{100 * found / oracle:.0f} %" if oracle >= 0.002 else "-"


def _all_spaces(cells: Sequence[Cell]) -> list[str]:
    gains = [each.class_means for each in cells]
    return [points(mean(gains)), hundredths(min(gains))] if gains else ["-", "-"]


def worst_cells(cells: Sequence[Cell]) -> str:
    """Every cell that loses more than 0.3 points."""
    lost = [c for c in cells if c.class_means < HARM]
    header = ["stream", "space", "class-means", "MARC, auto", "oracle"]
    return table(
        header,
        [
            [c.stream, c.space, hundredths(c.class_means), _known(c.auto), _known(c.oracle)]
            for c in sorted(lost, key=lambda c: c.class_means)
        ],
    )


def _known(gain: float) -> str:
    return "-" if np.isnan(gain) else points(gain)


def by_space(cells: Sequence[Cell]) -> str:
    """Each photograph stream and space in a line."""
    header = ["stream", "space", "MARC, w = 10", "MARC, auto", "class-means", "oracle"]
    return table(
        header,
        [
            [
                *(c.stream, c.space, _known(c.paper), _known(c.auto)),
                *(points(c.class_means), _known(c.oracle)),
            ]
            for c in cells
            if c.group == "photographs"
        ],
    )


def by_stream(cells: Sequence[Cell], group: str) -> str:
    """Each stream of a group in a line, mean over its spaces."""
    single, every = single_and_all(cells, group)
    together = {each.stream: each.class_means for each in every}
    header = ["stream", "MARC, w = 10", "MARC, auto", "class-means", "oracle", "worst space", "all"]
    rows = []
    for stream in together:
        own = [each for each in single if each.stream == stream]
        worst = min(own, key=lambda each: each.class_means)
        gains = [_mean(own, name) for name in ("paper", "auto", "class_means", "oracle")]
        place = f"{hundredths(worst.class_means)} `{worst.space}`"
        rows.append([stream, *gains, place, points(together[stream])])
    return table(header, rows)


def streams_of(outcomes: Sequence[Outcome]) -> list[str]:
    """Names, once each."""
    return list(dict.fromkeys(each.stream for each in outcomes))


def methods_of(outcomes: Sequence[Outcome]) -> list[str]:
    """Class means first, then its single spaces, then the others, best first."""
    names = list(dict.fromkeys(each.method for each in outcomes))
    single = [name for name in names if name.startswith("class-means, ")]
    others = [n for n in names if n not in ("class-means", *single) and n not in idle(outcomes)]
    others.sort(key=lambda name: -mean(o.gain for o in outcomes if o.method == name))
    return ["class-means", *single, *others]


def idle(outcomes: Sequence[Outcome]) -> list[str]:
    """Methods that answer as the predictor does, everywhere."""
    names = dict.fromkeys(each.method for each in outcomes)
    return [n for n in names if not any(any(o.gains) for o in outcomes if o.method == n)]


def methods_table(outcomes: Sequence[Outcome]) -> str:
    """The gain of each method on each stream, and the mean."""
    streams = streams_of(outcomes)
    found = {(o.method, o.stream): o.gain for o in outcomes}
    right = {o.stream: o.correct for o in outcomes if o.method == "no-memory"}
    rows = [["no memory, %", *(percent(float(np.mean(right[s]))) for s in streams), ""]]
    for name in methods_of(outcomes):
        gains = [found.get((name, stream)) for stream in streams]
        texts = ["-" if gain is None else points(gain) for gain in gains]
        whole = [gain for gain in gains if gain is not None]
        last = points(mean(whole)) if len(whole) == len(streams) else ""
        rows.append([NAMES.get(name, name), *texts, last])
    return table(["method", *streams, "mean"], rows)


def differences_table(outcomes: Sequence[Outcome]) -> str:
    """Class means in all spaces minus each other method, paired by image."""
    rows = []
    for name in ["no-memory", *methods_of(outcomes)]:
        if not name.startswith("class-means"):
            found = [each for _, each in differences(outcomes, name)]
            whole = with_ends(averaged(found))
            rows.append([NAMES.get(name, name), *map(with_ends, found), whole])
    return table(["class-means, all, minus", *streams_of(outcomes), "mean"], rows)


def differences(outcomes: Sequence[Outcome], name: str) -> list[tuple[str, Interval]]:
    """Class means in all spaces minus one method, by stream; in the orders that both have."""
    correct = {(o.method, o.stream): o.correct for o in outcomes}
    found = []
    for stream in streams_of(outcomes):
        other = correct[name, stream]
        own = correct["class-means", stream][: len(other)]
        found.append((stream, paired_difference(own, other)))
    return found


def averaged(intervals: Sequence[Interval]) -> Interval:
    """The mean over streams: their images are different, so their errors are independent."""
    estimate = mean(each.estimate for each in intervals)
    halves = [each.high - each.estimate for each in intervals]
    half = float(np.sqrt(np.sum(np.square(halves)))) / len(intervals)
    return Interval(estimate, estimate - half, estimate + half)


def orders_table(outcomes: Sequence[Outcome], of: Callable[[Sequence[float]], float]) -> str:
    """A statistic over the orders of each stream, mean over streams: by kind and method."""
    methods = ("class-means", *IN_ORDERS)
    rows = []
    for kind in KINDS:
        own = [each for each in outcomes if each.kind == kind]
        if own:
            texts = [points(mean(of(o.gains) for o in own if o.method == m)) for m in methods]
            rows.append([kind, str(len(streams_of(own))), *texts])
    header = ["order", "streams", *(NAMES.get(m, m.upper()) for m in methods)]
    return table(header, rows)


def safety_table(outcomes: Sequence[Outcome]) -> str:
    """How low each kind of order brings class means, in all spaces and in one."""
    rows = []
    for kind in KINDS:
        own = [each for each in outcomes if each.kind == kind]
        if not own:
            continue
        every = [each for each in own if each.method == "class-means"]
        single = [each for each in own if each.method.startswith("class-means, ")]
        low, worst = (min(some, key=lambda each: each.gain) for some in (every, single))
        space = worst.method.removeprefix("class-means, ")
        rows.append(
            [
                *(
                    kind,
                    points(mean(o.gain for o in every)),
                    f"{hundredths(low.gain)} {low.stream}",
                ),
                hundredths(min(worst_tenth(o.gains) for o in every)),
                points(mean(o.gain for o in single)),
                f"{hundredths(worst.gain)} {worst.stream}, `{space}`",
                f"{sum(o.gain < HARM for o in single)} of {len(single)}",
            ]
        )
    header = ["order", "all spaces", "worst stream", "worst order", "one space"]
    return table([*header, "worst cell", "below -0.3"], rows)
