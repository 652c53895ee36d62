"""Print docs/results/paper-arithmetic.md: what the paper prints, recomputed from what it prints.

    python -m benchmarks.paper.arithmetic > docs/results/paper-arithmetic.md

Takes seconds and needs nothing but the printed values of `marc_paper.printed`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.paper.averages import benchmark_checks
from benchmarks.paper.checks import DIFFERENT, ROUNDED, SAME, Check
from benchmarks.paper.choices import SHOWN, choice_checks
from benchmarks.paper.findings import REASONS, REMARKS, UNCHECKED
from benchmarks.paper.intervals import (
    COUNTS,
    ELSEWHERE,
    OVER_REPEATS,
    P_VALUES,
    paired_checks,
    seed_checks,
)
from benchmarks.paper.ranks import NEAREST, RHO, rank_checks
from benchmarks.paper.shares import share_checks
from benchmarks.paper.views import view_checks
from benchmarks.words import numbered, table, wrapped


@dataclass(frozen=True)
class Group:
    """Checks of one section of the document."""

    title: str
    text: str
    checks: Sequence[Check]
    listed: tuple[str, ...] = ()
    """Kinds of which every value is shown; of the others only their number."""


_SECTIONS: tuple[tuple[str, str, Callable[[], list[Check]], tuple[str, ...]], ...] = (
    (
        "Rank correlations",
        "Spearman's with midranks, from printed purities, anti-hubs and gains. Where purities are "
        "not printed: the nearest value that any purities can have with those gains.",
        rank_checks,
        (RHO, NEAREST),
    ),
    (
        "Choices, transfer and anti-hubs",
        "Regrets, costs, shares of an oracle gain, and statements about streams and spaces.",
        choice_checks,
        SHOWN,
    ),
    (
        "Paired intervals and exact tests",
        "On 7,500 images at most one whole number of images is printed as a given gain. With the "
        "discordant images it fixes repairs and regressions, and these fix the interval and the "
        "p-value, so that nothing is left to choose.",
        paired_checks,
        (ELSEWHERE,),
    ),
    (
        "Seeds and timing",
        "Means, sample deviations (n - 1) and t-intervals, where seeds or sessions are printed.",
        seed_checks,
        OVER_REPEATS,
    ),
    (
        "Views, repairs and components",
        "Differences of accuracies, contrasts, means over splits, and ratios.",
        view_checks,
        (),
    ),
    (
        "Benchmark tables",
        "Averages of all rows, those of other papers included, and differences of rows.",
        benchmark_checks,
        (),
    ),
    (
        "Whole images",
        "A share of one run is a whole number of images: of 7,500 on ImageNet-A, where three of "
        "four values with two decimals are possible, and of the usual test splits elsewhere (the "
        "paper does not print their sizes), where fewer are.",
        share_checks,
        (),
    ),
)


def groups() -> list[Group]:
    """Every check, by section."""
    return [Group(title, text, checks(), listed) for title, text, checks, listed in _SECTIONS]


def document(found: Sequence[Group]) -> str:
    """All of it."""
    checks = [check for group in found for check in group.checks]
    wrong, rounded = ([c for c in checks if c.verdict == v] for v in (DIFFERENT, ROUNDED))
    parts = [
        "# The paper's own arithmetic",
        *introduction(),
        "## In short",
        overview(found),
        f"These {len(wrong)} do not reproduce:",
        numbered(map(contradiction, wrong)),
        f"These {len(rounded)} are within the rounding of their inputs (in brackets, what these "
        "allow):",
        one_by_one(rounded),
    ]
    for group in found:
        parts += [f"## {group.title}", group.text, *section(group)]
    parts += ["## Remarks, not counted", numbered(REMARKS)]
    parts += ["## What could not be checked", numbered(UNCHECKED)]
    return "\n\n".join(map(wrapped, parts))


def introduction() -> list[str]:
    """How to read the verdicts."""
    return [
        "Printed by `make paper-arithmetic`. The paper prints many of the numbers from which its "
        "other numbers follow. Here they are recomputed, with this library where it has the "
        "statistic, and named by the LaTeX label of the table, figure or section.",
        f"*{SAME.capitalize()}*: computed from the printed inputs and rounded to the printed "
        "digits (a half either way), it is what is printed; or the statement holds. "
        f"*{ROUNDED.capitalize()}*: not so, but inputs that are printed so exist for which it is. "
        f"*{DIFFERENT.capitalize()}*: no such inputs exist, or the statement does not hold. "
        "Distances are in units of the last printed digit. This is arithmetic: it does not say "
        "whether a measurement is right, and a contradiction does not say which side is wrong.",
    ]


def overview(found: Sequence[Group]) -> str:
    """Verdicts counted by section."""
    verdicts = (SAME, ROUNDED, DIFFERENT)
    counts = [(group.title, Counter(check.verdict for check in group.checks)) for group in found]
    total = sum((each for _, each in counts), Counter[str]())
    rows = [
        [title, str(each.total()), *(str(each[verdict]) for verdict in verdicts)]
        for title, each in [*counts, ("all", total)]
    ]
    return table(["section", "checks", *verdicts], rows)


def contradiction(check: Check) -> str:
    """One that does not reproduce, with both numbers and a reason."""
    said = f"printed {check.printed}, computed {check.computed}"
    return f"`{check.where}`, {check.what} ({check.item}): {said}. {REASONS[check.name]}"


def section(group: Group) -> list[str]:
    """What reproduces: some kinds value by value, the others as one line for each table."""
    same = [check for check in group.checks if check.verdict == SAME]
    shown = [check for check in same if check.what in group.listed]
    parts = [one_by_one(shown)] if shown else []
    if any(check.what == COUNTS for check in same):
        parts.append(tests(same))
    rest = [check for check in same if check.what not in (*group.listed, COUNTS, P_VALUES)]
    places = Counter(check.where for check in rest)
    if len({check.what for check in rest}) == 1:
        return [*parts, "So it is in " + ", ".join(f"{w} ({n})" for w, n in places.items()) + "."]
    rows = [_folded([check for check in rest if check.where == where]) for where in places]
    return [*parts, table(["reproduces in", "values", "farthest", "what"], rows)]


def one_by_one(checks: Sequence[Check]) -> str:
    """A line for each value."""
    rows = [[c.where, f"{c.what}: {c.item}", c.printed, c.computed] for c in checks]
    return table(["where", "what", "printed", "computed"], rows)


def tests(checks: Sequence[Check]) -> str:
    """Counts that follow from a gain and its discordant images, and the p-values from them."""
    p_values = {(c.where, c.item): c for c in checks if c.what == P_VALUES}
    rows = [
        [c.where, c.item, c.printed, c.computed, p_values[c.where, c.item].printed, found]
        for c in checks
        if c.what == COUNTS
        for found in [p_values[c.where, c.item].computed]
    ]
    names = ["where", "row", "images", "repairs, regressions", "p printed", "p computed"]
    return table(names, rows)


def _folded(checks: Sequence[Check]) -> list[str]:
    distances = [check.distance for check in checks if check.distance is not None]
    farthest = f"{max(distances):.2f}" if distances else "-"
    kinds = "; ".join(dict.fromkeys(check.what for check in checks))
    return [checks[0].where, str(len(checks)), farthest, kinds]


if __name__ == "__main__":
    sys.stdout.write(document(groups()) + "\n")
