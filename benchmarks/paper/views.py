"""Views and memory: gains, contrasts, repairs and regressions, and the components."""

from __future__ import annotations

from math import sqrt

from benchmarks.paper.checks import Check, averages, claim, differences, in_rows, number, over_seeds
from benchmarks.paper.reaches import at_corners, exact, mean, reach_of
from benchmarks.paper.repairs import BASE, SEEDS, repair_checks
from marc_paper.printed import (
    ADMISSION,
    ALONE,
    CAPACITIES_AT_64,
    COMPONENTS,
    CONTROLS,
    FRONTIER,
    GRID,
    PARETO,
    PRINTED,
    SPLITS,
    STATEMENTS,
    SUBSTITUTION,
    stated,
)


def view_budgets() -> list[Check]:
    """Gains of each view budget, and the change from one view to 64."""
    budgets = ("1", "2", "4", "8", "16", "32", "64")
    moves = [(c, GRID.at("64", c), GRID.at("1", c), GRID.at("change", c)) for c in GRID.columns]
    return [
        *in_rows(GRID, "gain of the memory", ("DINOv2", "none", "gain"), budgets),
        *differences(GRID.label, "change from one view to 64", moves),
        *in_rows(SPLITS, "gain with one view", ("memory 1", "none 1", "gain 1")),
        *in_rows(SPLITS, "gain with four views", ("memory 4", "none 4", "gain 4")),
        *in_rows(SPLITS, "shrink", ("gain 4", "gain 1", "shrink")),
    ]


def other_gains() -> list[Check]:
    """A memory scored alone, and a second predictor."""
    alone = [(s, ALONE.at(s, "accuracy"), BASE, n) for s, n in ALONE.column("difference").items()]
    place = "sec:s_substitution"
    base, many, memory = (
        stated(place, f"accuracy, A, RN50, {each}")
        for each in ("M = 1, no memory", "M = 64, no memory", "M = 1, DINOv2-B")
    )
    resnet = [
        ("64 views", many, base, stated(place, "gain of 64 views, A, RN50")),
        ("one view, memory", memory, base, stated(place, "gain of the memory, A, RN50, M = 1")),
    ]
    return [
        *differences(ALONE.label, "difference to no memory", alone),
        *differences(place, "ResNet-50 predictor", resnet),
    ]


def contrasts() -> list[Check]:
    """The replication over three seeds: contrasts, means, deviations and shares."""
    label, checks = SUBSTITUTION.label, []
    cell = SUBSTITUTION.at
    for views in (4, 64):
        name = f"Sub(1, {views})"
        rows = [
            (f"seed {s}", cell(f"gain at {views}", s), cell("gain at 1", s), cell(name, s))
            for s in SEEDS
        ]
        checks += differences(label, name, rows)
    for seed in SEEDS:
        share = cell("shared repairs", seed).value / cell("augmentation repairs", seed).value
        said = cell("shared share", seed)
        checks.append(number(label, "shared over augmentation", seed, said, exact(100 * share)))
    for row in SUBSTITUTION.rows:
        printed = SUBSTITUTION.numbers(row, "mean")
        inputs = [cell(row, s) for s in SEEDS]
        # repairs are counted, everything else was rounded
        reaches = [exact(n.value) if "repairs" in row else reach_of(n) for n in inputs]
        checks += over_seeds(label, row, reaches, printed)
    for budget in ("1", "4", "64"):
        said, same = cell(f"gain at {budget}", "0"), reach_of(GRID.at(budget, "gain"))
        checks.append(number(label, "seed 0 as in tab:grid", f"M = {budget}", said, same))
    return checks


def accuracies_over_seeds() -> list[Check]:
    """What the text gives over three seeds, from the gains of each."""
    one, many = ([SUBSTITUTION.at(f"gain at {m}", s) for s in SEEDS] for m in (1, 64))
    span = reach_of(max(one, key=float)) - reach_of(min(one, key=float))
    views = reach_of(stated("sec:capacity", "accuracy, A, M = 64, no memory"))
    first = mean([reach_of(gain) for gain in one]) + reach_of(BASE)
    last = mean([reach_of(gain) for gain in many]) + views
    said = stated("sec:capacity", "accuracy, A, M = 1, DINOv2-B")
    reduced, spread = STATEMENTS["sec:protocol"].numbers("accuracy, A, M = 64, reduced", PRINTED)
    said_span, narrow = (
        stated("sec:s_substitution", f"span over seeds, A, M = {m}, DINOv2-B") for m in (1, 64)
    )
    ends = [float(narrow) / 2, float(narrow) / sqrt(3)]
    return [
        number("sec:capacity", "accuracy from gains", "one view, memory", said, first),
        number("sec:protocol", "accuracy from gains", "64 views, memory", reduced, last),
        number("sec:s_substitution", "span over seeds", "one view, memory", said_span, span),
        claim(
            "sec:s_substitution",
            "span and deviation of three seeds",
            "64 views, memory",
            f"{narrow.text} and {spread.text}",
            f"a span of {narrow.text} allows {ends[0]:.3f} to {ends[1]:.3f}",
            holds=round(ends[0], 2) <= float(spread) <= round(ends[1], 2),
        ),
    ]


def components() -> list[Check]:
    """Means over splits, paired differences and their deviations."""
    sides = ("variant", "reference", "difference")
    checks = averages(COMPONENTS, "mean", ("A", "V2", "R", "Sketch"))
    checks += in_rows(CONTROLS, "paired difference", sides)
    for row in ("priority, DINOv2-B", "priority, DINOv2-L"):
        first, second, said = (CONTROLS.numbers(row, side)[1] for side in sides)
        least, most = abs(first.value - second.value), first.value + second.value
        slack = (first.unit + second.unit) / 2
        checks.append(
            claim(
                CONTROLS.label,
                "deviation of a difference against those of its sides",
                row,
                said.text,
                f"{float(least):.2f} to {float(most):.2f}",
                holds=least - slack <= said.high and said.low <= most + slack,
            )
        )
    return checks


def admission() -> list[Check]:
    """Policies: the gap between two spaces, and the least gain."""
    label, checks = "sec:s_components", []
    for space in ("DINOv2-B", "DINOv2-L"):
        said = stated(label, f"least gain without priority, {space}")
        least = min((ADMISSION.at(row, space) for row in ("reservoir", "FIFO")), key=float)
        rows = [(space, least, BASE, said)]
        checks += differences(label, "least gain without priority", rows)
    gaps = [
        reach_of(ADMISSION.at(row, "DINOv2-L")) - reach_of(ADMISSION.at(row, "DINOv2-B"))
        for row in ADMISSION.rows
    ]
    what = "gap of DINOv2-L and DINOv2-B"
    said_gap = stated(label, what)
    return [*checks, number(label, what, "mean of five policies", said_gap, mean(gaps))]


def capacity_at_64_views() -> list[Check]:
    """Changes from K = 8 to K = 16, and their ratio to the pooled deviation."""
    label = CAPACITIES_AT_64.label
    checks = in_rows(CAPACITIES_AT_64, "change with capacity", ("16", "8", "change"))
    streams = [row for row in CAPACITIES_AT_64.rows if row != "mean"]
    for row in streams:
        spreads = [reach_of(CAPACITIES_AT_64.numbers(row, c)[1]) for c in ("8", "16")]
        change = reach_of(CAPACITIES_AT_64.at(row, "change"))
        found = at_corners(_over_pooled, [change, *spreads])
        said = CAPACITIES_AT_64.at(row, "ratio")
        checks.append(number(label, "change over pooled deviation", row, said, found))
    for column in ("8", "16"):
        inputs = [reach_of(CAPACITIES_AT_64.at(row, column)) for row in streams]
        said = CAPACITIES_AT_64.at("mean", column)
        checks.append(number(label, "mean of six streams", f"K = {column}", said, mean(inputs)))
    return checks


def _over_pooled(values: list[float]) -> float:
    change, first, second = values
    return abs(change) / sqrt((first**2 + second**2) / 2)


def costs() -> list[Check]:
    """Ratios of cost and the frontier of cost and accuracy."""
    seconds, accuracy = PARETO.column("seconds"), PARETO.column("accuracy")
    label, last = PARETO.label, "MARC-L against ensemble"
    pairs = [("ensemble", "MARC-B, M = 1"), ("COSMIC", "MARC-B, M = 8")]
    ratios = [(label, "ensemble", "MARC-L, M = 1", seconds[last])]
    for slow, fast in pairs:
        said = stated("sec:capacity", f"{slow} over {fast}, seconds")
        ratios.append(("sec:capacity", slow, fast, said))
    checks = [
        number(where, "ratio of seconds", f"{slow} over {fast}", said, ratio)
        for where, slow, fast, said in ratios
        for ratio in [reach_of(seconds[slow]) / reach_of(seconds[fast])]
    ]
    systems = [row for row in PARETO.rows if row != last]
    best = [row for row in systems if not _beaten(row, systems)]
    rows = [(last, accuracy["MARC-L, M = 1"], accuracy["ensemble"], accuracy[last])]
    return [
        *checks,
        *differences(label, "difference of accuracies", rows),
        claim(
            label,
            "best accuracy for their seconds",
            "rows in green",
            "; ".join(FRONTIER),
            "; ".join(best),
            holds=tuple(best) == FRONTIER,
        ),
    ]


def _beaten(row: str, systems: list[str]) -> bool:
    """Whether another system takes no more seconds and is right more often."""
    seconds, accuracy = PARETO.column("seconds"), PARETO.column("accuracy")
    return any(
        seconds[other].value <= seconds[row].value and accuracy[other].value > accuracy[row].value
        for other in systems
    )


def view_checks() -> list[Check]:
    """All of them."""
    return [
        *view_budgets(),
        *other_gains(),
        *contrasts(),
        *accuracies_over_seeds(),
        *repair_checks(),
        *components(),
        *admission(),
        *capacity_at_64_views(),
        *costs(),
    ]
