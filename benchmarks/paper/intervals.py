"""Paired intervals, exact tests, intervals over seeds and over sessions, families of tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from benchmarks.paper.checks import Check, claim, in_rows, number, over_seeds, p_value
from benchmarks.paper.numbers import Printed, Table, at_corners, exact, mean, numbers
from benchmarks.paper.values import N_IMAGES, PAIRED16, SEEDS16
from benchmarks.paper.values_benchmarks import CROSS_DOMAIN
from benchmarks.paper.values_systems import COSMIC, MATCHED, PARETO, TIMING
from marc.stats import Interval, mcnemar_log10, paired_interval, ratio_interval, seed_interval

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
        [net] = gain.counts(N_IMAGES)
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
        "MARC": [COSMIC.at("pooled", "MARC"), Printed("0.25")],
        "COSMIC": [COSMIC.at("pooled", "COSMIC"), Printed("0.86")],
        "advantage": [COSMIC.at("pooled", "advantage")],
    }
    checks = in_rows(COSMIC, "advantage", ("MARC", "COSMIC", "advantage"), orders)
    for name, said in printed.items():
        values = [COSMIC.at(row, name).reach for row in orders]
        checks += over_seeds(label, name, values, said)
    gains = [COSMIC.at(row, "advantage").reach for row in orders]
    return checks + [
        number("sec:s_ci", ORDERS, end, said, found)
        for i, (end, said) in enumerate(zip(ALL, numbers("+1.12 [-0.62, +2.86]"), strict=True))
        for found in [at_corners(partial(_end_over_orders, i), gains)]
    ]


def _end_over_orders(end: int, values: list[float]) -> float:
    return seed_interval(values)[end]


def _end_of_ratio(end: int, values: list[float]) -> float:
    """Of numerators and denominators in turn."""
    return ratio_interval(values[::2], values[1::2])[end]


def seeds() -> list[Check]:
    """Means and deviations where the three seeds are printed, and of a difference seed by seed."""
    gains = [SEEDS16.at(seed, "gain").reach for seed in "012"]
    systems = {
        name: [MATCHED.at(name, seed).reach for seed in "012"] for name in ("COSMIC", "MARC")
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
    low, high = Printed("47.63").reach, Printed("70.06").reach
    deviation = CROSS_DOMAIN.numbers("MARC, M = 64", "EuroSAT")[1].reach
    euro = "sec:s_eurosat"
    return [
        number("sec:s_ci", "half-width over deviation", "three orders", "2.484", three),
        number("sec:s_ci", "critical value of t", "three orders", "4.303", three * math.sqrt(3)),
        number("sec:s_ci", "critical value of t", "two orders", "12.706", two),
        number("sec:s_ci", "half-width over deviation", "two orders", "9", two / math.sqrt(2)),
        number(euro, "span of an interval over seeds", "DINOv2-L, M = 4", "22.4", high - low),
        number(
            euro,
            "span of an interval over seeds",
            "DINOv2-B, M = 64",
            "38.6",
            deviation * (2 * Fraction(three)),
        ),
    ]


def families() -> list[Check]:
    """Arithmetic of the 378 tests; their p-values are not printed."""
    label = "sec:s_ci"
    return [
        number(label, "Bonferroni threshold", "378 tests", "1.32e-4", 0.05 / 378),
        number(
            label, "false discoveries allowed", "328 at 0.05", "16.4", exact(328) * Fraction(1, 20)
        ),
        number(label, "intervals with zero inside", "378 less 328", "50", 378 - 328),
    ]


def elsewhere() -> list[Check]:
    """Paired intervals of the text: counts that give them, where the size of the split is known."""
    checks = []
    for stream, n_images, said, p in (
        ("Caltech101", 2465, "-0.04 [-0.95, +0.87]", "1.00"),
        ("DTD", 1692, "+0.83 [-1.18, +2.83]", "0.45"),
    ):
        found = _counts(numbers(said), Printed(p), n_images)
        shown = "; ".join(f"net {net} of {changed} discordant" for net, changed in found)
        checks.append(
            claim("sec:s_ci", ELSEWHERE, stream, f"{said}, {p}", shown, holds=bool(found))
        )
    for stream, said in (
        ("EuroSAT, M = 4", "+7.32 [+6.21, +8.43]"),
        ("Aircraft", "-7.92 [-9.18, -6.66]"),
        ("Food101", "-4.74 [-5.08, -4.40]"),
    ):
        centre, low, high = numbers(said)
        middle = (low.reach + high.reach) * Fraction(1, 2)
        label = "sec:s_eurosat" if "EuroSAT" in stream else "sec:s_ci"
        checks.append(number(label, "middle of an interval", stream, centre, middle))
    return checks


def _counts(said: list[Printed], p: Printed, n_images: int) -> list[tuple[int, int]]:
    """Net and discordant images that are printed as this interval and this p-value."""
    found = []
    for net in said[0].counts(n_images):
        for changed in range(abs(net), n_images, 2):
            repairs = (changed + net) // 2
            interval = paired_interval(repairs, changed - repairs, n_images)
            if 100 * interval.low < said[1].reach.low:
                break  # intervals widen with the discordant images
            value = 10 ** mcnemar_log10(repairs, changed - repairs)
            pairs = zip((*said, p), (*(100 * end for end in interval), value), strict=True)
            if all(one.reach.low <= other <= one.reach.high for one, other in pairs):
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
            max(values, key=float).reach - min(values, key=float).reach,
        )
        for row, values in sessions.items()
    ]
    for slow, fast, each, said in (
        ("COSMIC", "MARC-B, M = 8", ("2.6", "2.6", "2.6"), "2.58 [2.52, 2.64]"),
        ("ensemble", "MARC-L, M = 1", ("5.1", "5.1", "5.0"), "5.06 [4.95, 5.18]"),
    ):
        pairs = list(zip(sessions[slow], sessions[fast], strict=True))
        checks += [
            number(label, "ratio in a session", f"{slow}, {i}", one, a.reach / b.reach)
            for i, one, (a, b) in zip("123", each, pairs, strict=True)
        ]
        inputs = [n.reach for pair in pairs for n in pair]
        checks += [
            number(label, RATIOS, f"{slow}, {end}", one, value)
            for i, (end, one) in enumerate(zip(ALL, numbers(said), strict=True))
            for value in [at_corners(partial(_end_of_ratio, i), inputs)]
        ]
    clip = [value.reach for value in sessions["CLIP"]]
    share = TIMING.at("CLIP", "spread").reach / mean(clip) * 100
    first = [
        number(PARETO.label, "first session of tab:s_timing", row, said, sessions[row][0].reach)
        for row, said in PARETO.column("seconds", sessions).items()
    ]
    return [*checks, number(label, "spread over mean", "CLIP", "31", share), *first]


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
