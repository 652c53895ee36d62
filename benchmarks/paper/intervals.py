"""Paired intervals, exact tests, intervals over seeds and over sessions, families of tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from benchmarks.paper.checks import Check, claim, in_rows, number, over_seeds, p_value
from benchmarks.paper.reaches import at_corners, exact, mean, reach_of, whole_counts
from marc.stats import Interval, mcnemar_log10, paired_interval, ratio_interval, seed_interval
from marc_paper.printed import (
    COSMIC,
    CROSS_DOMAIN,
    MATCHED,
    N_IMAGES,
    PAIRED16,
    PARETO,
    PRINTED,
    SEEDS16,
    STATEMENTS,
    TIMING,
    stated,
)
from marc_paper.printed.numbers import Printed, Table

ALL = ("mean", "low", "high")
COUNTS, P_VALUES = "repairs and regressions", "exact p-value"
ORDERS, RATIOS = "interval over orders", "interval of a ratio"
OVER_REPEATS = (ORDERS, RATIOS)
ELSEWHERE = "whole counts with this interval and p"


def paired_rows(source: Table, column: str, rows: Sequence[str]) -> list[Check]:
    """Interval and exact p-value of each row, from its gain and its discordant images.

    At 7,500 images one whole number of images at most is printed as a given gain, so that nothing
    is left to choose; the number of discordant images then fixes repairs and regressions.
    """
    checks = []
    for row in rows:
        gain, *ends = source.numbers(row, column)
        changed = int(source.at(row, "discordant").value)
        [net] = whole_counts(gain, N_IMAGES)
        repairs, odd = divmod(changed + net, 2)
        regressions = changed - repairs
        checks.append(
            claim(
                source.label,
                COUNTS,
                row,
                f"net {net} of {changed} discordant",
                f"{repairs} and {regressions}",
                holds=not odd,
            )
        )
        found = paired_interval(repairs, regressions, N_IMAGES)
        checks += _ends(source.label, "paired interval", row, ends, found, 100)
        said = source.rows[row][source.columns.index("p")]
        log10 = mcnemar_log10(repairs, regressions)
        checks.append(p_value(source.label, P_VALUES, row, said, log10))
    return checks


def _ends(
    label: str, what: str, item: str, printed: Sequence[Printed], found: Interval, factor: int = 1
) -> list[Check]:
    pairs = zip(ALL[1:], printed, found[1:], strict=True)
    return [
        number(label, what, f"{item}, {end}", said, factor * value) for end, said, value in pairs
    ]


def about_sixteen() -> list[Check]:
    """What the text counts in the table of sixteen intervals."""
    rows = {space: PAIRED16.numbers(space, "gain at 10") for space in PAIRED16.rows}
    lost = [space for space, (gain, _, _) in rows.items() if gain.value < 0]
    unclear = [space for space, (_, low, high) in rows.items() if low.value < 0 < high.value]
    return [
        number("sec:s_ci", "spaces that lose at w = 10", "of sixteen", "7", len(lost)),
        claim(
            "sec:s_ci",
            "only interval with zero inside",
            "of sixteen",
            "DINOv2-S",
            ", ".join(unclear),
            holds=unclear == ["DINOv2-S"],
        ),
    ]


def cosmic() -> list[Check]:
    """Matched orders: rows, means, deviations and the interval over orders."""
    label, orders = COSMIC.label, ("0", "1", "2")
    printed = {
        "MARC": [COSMIC.at("pooled", "MARC"), stated("sec:s_ci", "deviation over orders, MARC")],
        "COSMIC": [
            COSMIC.at("pooled", "COSMIC"),
            stated("sec:s_ci", "deviation over orders, COSMIC"),
        ],
        "advantage": [COSMIC.at("pooled", "advantage")],
    }
    checks = in_rows(COSMIC, "advantage", ("MARC", "COSMIC", "advantage"), orders)
    for name, said in printed.items():
        values = [reach_of(COSMIC.at(row, name)) for row in orders]
        checks += over_seeds(label, name, values, said)
    gains = [reach_of(COSMIC.at(row, "advantage")) for row in orders]
    interval = _stated("advantage over COSMIC, three orders")
    return checks + [
        number("sec:s_ci", ORDERS, end, said, found)
        for i, (end, said) in enumerate(zip(ALL, interval, strict=True))
        for found in [at_corners(partial(_end_over_orders, i), gains)]
    ]


def _end_over_orders(end: int, values: list[float]) -> float:
    return seed_interval(values)[end]


def _end_of_ratio(end: int, values: list[float]) -> float:
    """Of numerators and denominators in turn."""
    return ratio_interval(values[::2], values[1::2])[end]


def seeds() -> list[Check]:
    """Means and deviations where the three seeds are printed, and of a difference seed by seed."""
    gains = [reach_of(SEEDS16.at(seed, "gain")) for seed in "012"]
    systems = {
        name: [reach_of(MATCHED.at(name, seed)) for seed in "012"] for name in ("COSMIC", "MARC")
    }
    pairs = zip(systems["MARC"], systems["COSMIC"], strict=True)
    rows = {**systems, "advantage": [ours - theirs for ours, theirs in pairs]}
    checks = over_seeds(SEEDS16.label, "DINOv2-L", gains, SEEDS16.numbers("mean", "gain"))
    for name, values in rows.items():
        checks += over_seeds(MATCHED.label, name, values, MATCHED.numbers(name, "mean"))
    return checks


def factors() -> list[Check]:
    """Half a t-interval in units of the deviation, and the widest intervals of the paper."""
    three, two = seed_interval([-1, 0, 1]).high, seed_interval([-1, 1]).high  # deviations 1, sqrt 2
    low, high = map(reach_of, _stated("interval over seeds, DINOv2-L, M = 4", "sec:s_eurosat"))
    deviation = reach_of(CROSS_DOMAIN.numbers("MARC, M = 64", "EuroSAT")[1])
    width, value = "half-width over deviation", "critical value of t"
    rows = (
        (width, "three orders", three),
        (value, "three orders", three * math.sqrt(3)),
        (value, "two orders", two),
        (width, "two orders", two / math.sqrt(2)),
    )
    spans = (
        ("DINOv2-L, M = 4", high - low),
        ("DINOv2-B, M = 64", deviation * (2 * Fraction(three))),
    )
    euro, what = "sec:s_eurosat", "span of an interval over seeds"
    return [
        *(number("sec:s_ci", w, item, *_stated(f"{w}, {item}"), n) for w, item, n in rows),
        *(
            number(euro, what, item, stated(euro, f"span of that interval, {item}"), span)
            for item, span in spans
        ),
    ]


def _stated(row: str, label: str = "sec:s_ci") -> list[Printed]:
    return STATEMENTS[label].numbers(row, PRINTED)


def families() -> list[Check]:
    """Arithmetic of the 378 tests; their p-values are not printed."""
    label = "sec:s_ci"
    names = ("tests", "rejected at q = 0.05", "intervals with zero inside", "Bonferroni threshold")
    n_tests, rejected, unclear, threshold = (stated(label, name) for name in names)
    allowed = stated(label, "false discoveries allowed at q = 0.05")
    tests, found = n_tests.text, rejected.text
    share = exact(rejected.value) * Fraction(1, 20)
    return [
        number(label, names[3], f"{tests} tests", threshold, 0.05 / int(tests)),
        number(label, "false discoveries allowed", f"{found} at 0.05", allowed, share),
        number(label, names[2], f"{tests} less {found}", unclear, int(tests) - int(found)),
    ]


def elsewhere() -> list[Check]:
    """Paired intervals of the text: counts that give them, where the size of the split is known."""
    checks = []
    label = "sec:s_ci"
    for stream, n_images in (("Caltech101", 2465), ("DTD", 1692)):
        said, p = STATEMENTS[label].cell(f"gain, {stream}", PRINTED), stated(label, f"p, {stream}")
        found = _counts(_stated(f"gain, {stream}"), p, n_images)
        shown = "; ".join(f"net {net} of {changed} discordant" for net, changed in found)
        checks.append(
            claim(label, ELSEWHERE, stream, f"{said}, {p.text}", shown, holds=bool(found))
        )
    for where, stream, row in (
        ("sec:s_eurosat", "EuroSAT, M = 4", "gain of the memory, M = 4"),
        (label, "Aircraft", "gain, Aircraft"),
        (label, "Food101", "gain, Food101"),
    ):
        centre, low, high = _stated(row, where)
        middle = (reach_of(low) + reach_of(high)) * Fraction(1, 2)
        checks.append(number(where, "middle of an interval", stream, centre, middle))
    return checks


def _counts(said: list[Printed], p: Printed, n_images: int) -> list[tuple[int, int]]:
    """Net and discordant images that are printed as this interval and this p-value."""
    found = []
    for net in whole_counts(said[0], n_images):
        for changed in range(abs(net), n_images, 2):
            repairs = (changed + net) // 2
            interval = paired_interval(repairs, changed - repairs, n_images)
            if 100 * interval.low < said[1].low:
                break  # intervals widen with the discordant images
            value = 10 ** mcnemar_log10(repairs, changed - repairs)
            pairs = zip((*said, p), (*(100 * end for end in interval), value), strict=True)
            if all(one.low <= other <= one.high for one, other in pairs):
                found.append((net, changed))
    return found


def timing() -> list[Check]:
    """Spreads, ratios inside each session, and their intervals."""
    label = TIMING.label
    sessions = {row: [TIMING.at(row, s) for s in "123"] for row in TIMING.rows}
    checks = [
        number(
            label,
            "spread of three sessions",
            row,
            TIMING.at(row, "spread"),
            reach_of(max(values, key=float)) - reach_of(min(values, key=float)),
        )
        for row, values in sessions.items()
    ]
    for slow, fast in (("COSMIC", "MARC-B, M = 8"), ("ensemble", "MARC-L, M = 1")):
        each = _stated(f"{slow} over {fast}, sessions", "sec:s_timing")
        said = _stated(f"{slow} over {fast}, seconds")
        pairs = list(zip(sessions[slow], sessions[fast], strict=True))
        checks += [
            number(label, "ratio in a session", f"{slow}, {i}", one, reach_of(a) / reach_of(b))
            for i, one, (a, b) in zip("123", each, pairs, strict=True)
        ]
        inputs = [reach_of(n) for pair in pairs for n in pair]
        checks += [
            number(label, RATIOS, f"{slow}, {end}", one, value)
            for i, (end, one) in enumerate(zip(ALL, said, strict=True))
            for value in [at_corners(partial(_end_of_ratio, i), inputs)]
        ]
    clip = [reach_of(value) for value in sessions["CLIP"]]
    share = reach_of(TIMING.at("CLIP", "spread")) / mean(clip) * 100
    first = [
        number(PARETO.label, "first session of tab:s_timing", row, said, reach_of(sessions[row][0]))
        for row, said in PARETO.column("seconds", sessions).items()
    ]
    said_share = stated("sec:s_timing", "spread over mean, CLIP")
    return [*checks, number(label, "spread over mean", "CLIP", said_share, share), *first]


def paired_checks() -> list[Check]:
    """Over images."""
    return [
        *paired_rows(PAIRED16, "gain at 10", list(PAIRED16.rows)),
        *about_sixteen(),
        *paired_rows(COSMIC, "advantage", ("0", "1", "2")),
        *elsewhere(),
        *families(),
    ]


def seed_checks() -> list[Check]:
    """Over stream orders and over sessions."""
    return [*cosmic(), *seeds(), *factors(), *timing()]
