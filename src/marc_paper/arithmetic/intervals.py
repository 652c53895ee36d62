"""Paired intervals, exact tests, intervals over seeds and over sessions, families of tests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial

from marc.stats import mcnemar_log10, paired_interval, ratio_interval, seed_interval
from marc_paper.arithmetic.checks import (
    Check,
    Reach,
    Section,
    Verdict,
    claim,
    in_rows,
    number,
    over_seeds,
)
from marc_paper.arithmetic.choices import N_IMAGES
from marc_paper.printed import PRINTED, STATEMENTS, Printed, Table, stated, table

COUNTS, P_VALUES = "repairs and regressions", "exact p-value"
_ENDS = ("mean", "low", "high")
_ORDERS, _RATIOS = "interval over orders", "interval of a ratio"
_ELSEWHERE = "whole counts with this interval and p"
_TEXT = "sec:s_ci"


def _all_stated(row: str, label: str = _TEXT) -> list[Printed]:
    return STATEMENTS[label].numbers(row, PRINTED)


def _paired_rows(source: Table, column: str, rows: Sequence[str]) -> Iterator[Check]:
    """Interval and exact p-value of each row, from its gain and its discordant images.

    At 7,500 images one integer number of images at most is printed as a given gain, so that nothing
    is left to choose; the number of discordant images then fixes repairs and regressions.
    """
    for row in rows:
        gain, *ends = source.numbers(row, column)
        changed = int(source.at(row, "discordant").value)
        [net] = gain.image_counts(N_IMAGES)
        repairs, odd = divmod(changed + net, 2)
        regressions = changed - repairs
        text, computed = f"net {net} of {changed} discordant", f"{repairs} and {regressions}"
        yield claim(source.label, COUNTS, row, text, computed, holds=not odd)
        interval = paired_interval(repairs, regressions, N_IMAGES)
        for end, printed, value in zip(_ENDS[1:], ends, interval[1:], strict=True):
            yield number(source.label, "paired interval", f"{row}, {end}", printed, 100 * value)
        log10 = mcnemar_log10(repairs, regressions)
        yield _p_value(source.label, P_VALUES, row, source.cell(row, "p"), log10)


def _p_value(where: str, what: str, item: str, printed: str, log10: float) -> Check:
    """Judge a printed p-value by its digits; it may be smaller than any float."""
    exponent = math.floor(log10)
    digits = 10 ** (log10 - exponent)
    computed = f"{digits:.2f}e{exponent}" if log10 < -2 else f"{10**log10:.4f}"
    if printed.startswith("<"):
        holds = log10 < math.log10(Printed(printed[1:].strip()).value)
        return claim(where, what, item, printed, computed, holds=holds)
    value = Fraction(digits) * Fraction(10) ** exponent
    distance = float(abs(value - Printed(printed).value) / Printed(printed).unit)
    verdict = Verdict.SAME if distance <= 0.5 else Verdict.DIFFERENT
    return Check(where, what, item, printed, computed, verdict, distance)


def _sixteen_spaces() -> Iterator[Check]:
    """The table of sixteen intervals, and what the text counts in it."""
    source = table("paired16")
    yield from _paired_rows(source, "gain at 10", list(source.rows))
    rows = {space: source.numbers(space, "gain at 10") for space in source.rows}
    lost = [space for space, (gain, _, _) in rows.items() if gain.value < 0]
    yield number(_TEXT, "spaces that lose at w = 10", "of sixteen", "7", len(lost))
    unclear = [space for space, (_, low, high) in rows.items() if low.value < 0 < high.value]
    what, only, computed = "only interval with zero inside", "DINOv2-S", ", ".join(unclear)
    yield claim(_TEXT, what, "of sixteen", only, computed, holds=unclear == [only])


def _matched_rows() -> Iterator[Check]:
    return _paired_rows(table("cosmic"), "advantage", ("0", "1", "2"))


def _matched_orders() -> Iterator[Check]:
    """Rows, means, deviations and the interval over orders."""
    source, orders = table("cosmic"), ("0", "1", "2")
    yield from in_rows(source, "advantage", ("MARC", "COSMIC", "advantage"), orders)
    for name in ("MARC", "COSMIC", "advantage"):
        printed = [source.at("pooled", name)]
        if name != "advantage":
            printed.append(stated(_TEXT, f"deviation over orders, {name}"))
        values = [source.at(row, name) for row in orders]
        yield from over_seeds(source.label, name, values, printed)
    gains = [source.at(row, "advantage") for row in orders]
    interval = _all_stated("advantage over COSMIC, three orders")
    for i, (end, printed_end) in enumerate(zip(_ENDS, interval, strict=True)):
        computed = Reach.at_corners(partial(_end_over_orders, i), gains)
        yield number(_TEXT, _ORDERS, end, printed_end, computed)


def _end_over_orders(end: int, values: list[float]) -> float:
    return seed_interval(values)[end]


def _end_of_ratio(end: int, values: list[float]) -> float:
    """Of numerators and denominators in turn."""
    return ratio_interval(values[::2], values[1::2])[end]


def _seeds() -> Iterator[Check]:
    """Means and deviations where the three seeds are printed, and of a difference seed by seed."""
    sixteen, matched = table("seeds16"), table("matched")
    gains = [sixteen.at(seed, "gain") for seed in "012"]
    yield from over_seeds(sixteen.label, "DINOv2-L", gains, sixteen.numbers("mean", "gain"))
    rows = {n: [Reach.of(matched.at(n, seed)) for seed in "012"] for n in ("COSMIC", "MARC")}
    pairs = zip(rows["MARC"], rows["COSMIC"], strict=True)
    rows["advantage"] = [ours - theirs for ours, theirs in pairs]
    for name, values in rows.items():
        yield from over_seeds(matched.label, name, values, matched.numbers(name, "mean"))


def _factors() -> Iterator[Check]:
    """Half a t-interval in units of the deviation, and the widest intervals of the paper."""
    three, two = seed_interval([-1, 0, 1]).high, seed_interval([-1, 1]).high  # deviations 1, sqrt 2
    width, value = "half-width over deviation", "critical value of t"
    for what, item, computed in (
        (width, "three orders", three),
        (value, "three orders", three * math.sqrt(3)),
        (value, "two orders", two),
        (width, "two orders", two / math.sqrt(2)),
    ):
        yield number(_TEXT, what, item, stated(_TEXT, f"{what}, {item}"), computed)
    euro, what = "sec:s_eurosat", "span of an interval over seeds"
    low, high = _all_stated("interval over seeds, DINOv2-L, M = 4", euro)
    deviation = table("cross_domain").numbers("MARC, M = 64", "EuroSAT")[1]
    for item, span in (
        ("DINOv2-L, M = 4", Reach.of(high) - low),
        ("DINOv2-B, M = 64", Reach.of(deviation) * (2 * Fraction(three))),
    ):
        yield number(euro, what, item, stated(euro, f"span of that interval, {item}"), span)


def _families() -> Iterator[Check]:
    """Arithmetic of the 378 tests; their p-values are not printed."""
    names = ("tests", "rejected at q = 0.05", "intervals with zero inside", "Bonferroni threshold")
    tests, rejected, unclear, threshold = (stated(_TEXT, name) for name in names)
    allowed = stated(_TEXT, "false discoveries allowed at q = 0.05")
    n_tests, n_rejected = int(tests.text), int(rejected.text)
    yield number(_TEXT, names[3], f"{n_tests} tests", threshold, 0.05 / n_tests)
    what, item = "false discoveries allowed", f"{n_rejected} at 0.05"
    yield number(_TEXT, what, item, allowed, Fraction(n_rejected, 20))
    yield number(_TEXT, names[2], f"{n_tests} less {n_rejected}", unclear, n_tests - n_rejected)


def _elsewhere() -> Iterator[Check]:
    """Paired intervals of the text: counts that give them, where the size of the split is known."""
    for stream, n_images in (("Caltech101", 2465), ("DTD", 1692)):
        row, p = f"gain, {stream}", stated(_TEXT, f"p, {stream}")
        counts = _counts(_all_stated(row), p, n_images)
        computed = "; ".join(f"net {net} of {changed} discordant" for net, changed in counts)
        text = f"{STATEMENTS[_TEXT].cell(row, PRINTED)}, {p.text}"
        yield claim(_TEXT, _ELSEWHERE, stream, text, computed, holds=bool(counts))
    for where, stream, row in (
        ("sec:s_eurosat", "EuroSAT, M = 4", "gain of the memory, M = 4"),
        (_TEXT, "Aircraft", "gain, Aircraft"),
        (_TEXT, "Food101", "gain, Food101"),
    ):
        centre, low, high = _all_stated(row, where)
        middle = (Reach.of(low) + high) * Fraction(1, 2)
        yield number(where, "middle of an interval", stream, centre, middle)


def _counts(printed: list[Printed], p: Printed, n_images: int) -> list[tuple[int, int]]:
    """Net and discordant images that are printed as this interval and this p-value."""
    counts = []
    for net in printed[0].image_counts(n_images):
        for changed in range(abs(net), n_images, 2):
            repairs = (changed + net) // 2
            interval = paired_interval(repairs, changed - repairs, n_images)
            if 100 * interval.low < printed[1].low:
                break  # intervals widen with the discordant images
            value = 10 ** mcnemar_log10(repairs, changed - repairs)
            pairs = zip((*printed, p), (*(100 * end for end in interval), value), strict=True)
            if all(one.low <= other <= one.high for one, other in pairs):
                counts.append((net, changed))
    return counts


def _timing() -> Iterator[Check]:
    """Spreads, ratios inside each session, and their intervals."""
    source, pareto, text = table("timing"), table("pareto"), "sec:s_timing"
    label = source.label
    sessions = {row: [source.at(row, s) for s in "123"] for row in source.rows}
    for row, values in sessions.items():
        spread = Reach.of(max(values, key=float)) - min(values, key=float)
        yield number(label, "spread of three sessions", row, source.at(row, "spread"), spread)
    for slow, fast in (("COSMIC", "MARC-B, M = 8"), ("ensemble", "MARC-L, M = 1")):
        each = _all_stated(f"{slow} over {fast}, sessions", text)
        pairs = list(zip(sessions[slow], sessions[fast], strict=True))
        for i, printed, (a, b) in zip("123", each, pairs, strict=True):
            yield number(label, "ratio in a session", f"{slow}, {i}", printed, Reach.of(a) / b)
        inputs = [n for pair in pairs for n in pair]
        interval = zip(_ENDS, _all_stated(f"{slow} over {fast}, seconds"), strict=True)
        for index, (end, printed) in enumerate(interval):
            computed = Reach.at_corners(partial(_end_of_ratio, index), inputs)
            yield number(label, _RATIOS, f"{slow}, {end}", printed, computed)
    fraction = Reach.of(source.at("CLIP", "spread")) / Reach.mean(sessions["CLIP"]) * 100
    printed = stated(text, "spread over mean, CLIP")
    yield number(label, "spread over mean", "CLIP", printed, fraction)
    for row, printed in pareto.column("seconds", sessions).items():
        what = "first session of tab:s_timing"
        yield number(pareto.label, what, row, printed, sessions[row][0])


_PAIRED = Section(
    "Paired intervals and exact tests",
    "On 7,500 images at most one whole number of images is printed as a given gain. With the "
    "discordant images it fixes repairs and regressions, and these fix the interval and the "
    "p-value, so that nothing is left to choose.",
    (_sixteen_spaces, _matched_rows, _elsewhere, _families),
    (_ELSEWHERE,),
)
_REPEATED = Section(
    "Seeds and timing",
    "Means, sample deviations (n - 1) and t-intervals, where seeds or sessions are printed.",
    (_matched_orders, _seeds, _factors, _timing),
    (_ORDERS, _RATIOS),
)
INTERVALS = (_PAIRED, _REPEATED)
