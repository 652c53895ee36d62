"""Views and memory: gains, contrasts, repairs and regressions, the components and their cost."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import sqrt

from marc_paper.arithmetic.checks import (
    Check,
    Reach,
    Section,
    averages,
    claim,
    differences,
    in_rows,
    number,
    over_seeds,
)
from marc_paper.arithmetic.choices import BASES, N_IMAGES
from marc_paper.printed import PRINTED, STATEMENTS, stated, table

_SEEDS = ("0", "1", "2")
_BASE = BASES["A"]
_POINTS = Fraction(100, N_IMAGES)  # one image
_FRONTIER = ["CLIP", "MARC-B, M = 1", "MARC-B, M = 4", "MARC-L, M = 1", "MARC-L, M = 4"]
"""Rows of `pareto` that the paper prints in green."""


def _view_budgets() -> Iterator[Check]:
    """Gains of each view budget, and the change from one view to 64."""
    grid, splits = table("grid"), table("splits")
    budgets = ("1", "2", "4", "8", "16", "32", "64")
    yield from in_rows(grid, "gain of the memory", ("DINOv2", "none", "gain"), budgets)
    moves = [(c, grid.at("64", c), grid.at("1", c), grid.at("change", c)) for c in grid.columns]
    yield from differences(grid.label, "change from one view to 64", moves)
    yield from in_rows(splits, "gain with one view", ("memory 1", "none 1", "gain 1"))
    yield from in_rows(splits, "gain with four views", ("memory 4", "none 4", "gain 4"))
    yield from in_rows(splits, "shrink", ("gain 4", "gain 1", "shrink"))


def _other_gains() -> Iterator[Check]:
    """A memory scored alone, and a second predictor."""
    source, label = table("alone"), "sec:s_substitution"
    rows = [(s, source.at(s, "accuracy"), _BASE, n) for s, n in source.column("difference").items()]
    yield from differences(source.label, "difference to no memory", rows)
    base, many, memory = (
        stated(label, f"accuracy, A, RN50, {each}")
        for each in ("M = 1, no memory", "M = 64, no memory", "M = 1, DINOv2-B")
    )
    rows = [
        ("64 views", many, base, stated(label, "gain of 64 views, A, RN50")),
        ("one view, memory", memory, base, stated(label, "gain of the memory, A, RN50, M = 1")),
    ]
    yield from differences(label, "ResNet-50 predictor", rows)


def _contrasts() -> Iterator[Check]:
    """The replication over three seeds: contrasts, means, deviations and fractions."""
    source = table("substitution")
    label, cell = source.label, source.at
    for views in (4, 64):
        name = f"Sub(1, {views})"
        rows = [
            (f"seed {s}", cell(f"gain at {views}", s), cell("gain at 1", s), cell(name, s))
            for s in _SEEDS
        ]
        yield from differences(label, name, rows)
    for seed in _SEEDS:
        fraction = cell("shared repairs", seed).value / cell("augmentation repairs", seed).value
        printed = cell("shared share", seed)
        yield number(label, "shared over augmentation", seed, printed, 100 * fraction)
    for row in source.rows:
        inputs = [cell(row, seed) for seed in _SEEDS]
        # repairs are counted, everything else was rounded
        values = [n.value if "repairs" in row else Reach.of(n) for n in inputs]
        yield from over_seeds(label, row, values, source.numbers(row, "mean"))
    for budget in ("1", "4", "64"):
        printed, same = cell(f"gain at {budget}", "0"), table("grid").at(budget, "gain")
        yield number(label, "seed 0 as in tab:grid", f"M = {budget}", printed, same)


def _accuracies_over_seeds() -> Iterator[Check]:
    """What the text gives over three seeds, from the gains of each."""
    what, text, item = "accuracy from gains", "sec:s_substitution", "one view, memory"
    one, many = ([table("substitution").at(f"gain at {m}", s) for s in _SEEDS] for m in (1, 64))
    printed = stated("sec:capacity", "accuracy, A, M = 1, DINOv2-B")
    yield number("sec:capacity", what, item, printed, Reach.mean(one) + _BASE)
    views = stated("sec:capacity", "accuracy, A, M = 64, no memory")
    reduced, spread = STATEMENTS["sec:protocol"].numbers("accuracy, A, M = 64, reduced", PRINTED)
    yield number("sec:protocol", what, "64 views, memory", reduced, Reach.mean(many) + views)
    wide, narrow = (stated(text, f"span over seeds, A, M = {m}, DINOv2-B") for m in (1, 64))
    span = Reach.of(max(one, key=float)) - min(one, key=float)
    yield number(text, "span over seeds", item, wide, span)
    low, high = float(narrow) / 2, float(narrow) / sqrt(3)
    yield claim(
        text,
        "span and deviation of three seeds",
        "64 views, memory",
        f"{narrow.text} and {spread.text}",
        f"a span of {narrow.text} allows {low:.3f} to {high:.3f}",
        holds=round(low, 2) <= float(spread) <= round(high, 2),
    )


def _regressions() -> Iterator[Check]:
    """Regressions of the memory, seed by seed: its repairs less its gain in images."""
    source, repairs = table("substitution"), table("repairs")
    lost = []
    for seed in _SEEDS:
        [net] = source.at("gain at 1", seed).image_counts(N_IMAGES)
        lost.append(source.at("retrieval repairs", seed).value - net)
    printed = repairs.numbers("regressions", "retrieval")
    yield from over_seeds(repairs.label, "retrieval regressions", lost, printed)


def _mean_repairs() -> Iterator[Check]:
    """Means over seeds: accuracies that follow from them, and the partition of the repairs."""
    source = table("repairs")
    repaired = {column: Reach.of(source.at("repairs", column)) for column in source.columns}
    broken = {column: source.at("regressions", column) for column in source.columns}
    for name, row in (("augmentation", "M = 64, no memory"), ("retrieval", "M = 1, DINOv2-B")):
        printed = stated("sec:capacity", f"accuracy, A, {row}")
        computed = (repaired[name] - broken[name]) * _POINTS + _BASE
        yield number("sec:capacity", "accuracy from repairs", name, printed, computed)
    for name, words in (("augmentation", "views"), ("retrieval", "the memory")):
        printed = stated("sec:s_substitution", f"repaired by {words} alone")
        alone = repaired[name] - repaired["shared"]
        yield number(source.label, "repaired by one source alone", name, printed, alone)
    fraction = repaired["shared"] / repaired["augmentation"] * 100
    printed = table("substitution").at("shared share", "mean")
    yield number(source.label, "shared over augmentation", "means", printed, fraction)


def _coverage() -> Iterator[Check]:
    """An oracle over two sources cannot keep what both of them break."""
    [right] = _BASE.image_counts(N_IMAGES)
    views, memory, both = (
        table("substitution").at(f"{source} repairs", "0").value
        for source in ("augmentation", "retrieval", "shared")
    )
    either = Reach.of(right + views + memory - both)
    shared, spread = map(Reach.of, table("repairs").numbers("regressions", "shared"))
    # one of three values lies within 2 / sqrt 3 sample deviations of their mean
    far = Fraction("1.1548") * spread.high
    broken = Reach(shared.value, shared.low - far, shared.high + far)
    label, what = "sec:s_substitution", "accuracy of an oracle over both sources"
    printed = stated(label, "coverage of 64 views and DINOv2-B")
    yield number(label, what, "seed 0", printed, (either - broken) * _POINTS)
    yield number(label, f"{what}, with what both break", "seed 0", printed, either * _POINTS)


def _components() -> Iterator[Check]:
    """Means over splits, paired differences and their deviations."""
    controls, sides = table("controls"), ("variant", "reference", "difference")
    yield from averages(table("components"), "mean", ("A", "V2", "R", "Sketch"))
    yield from in_rows(controls, "paired difference", sides)
    for row in ("priority, DINOv2-B", "priority, DINOv2-L"):
        first, second, printed = (controls.numbers(row, side)[1] for side in sides)
        least, most = abs(first.value - second.value), first.value + second.value
        slack = (first.unit + second.unit) / 2
        yield claim(
            controls.label,
            "deviation of a difference against those of its sides",
            row,
            printed.text,
            f"{float(least):.2f} to {float(most):.2f}",
            holds=least - slack <= printed.high and printed.low <= most + slack,
        )


def _admission() -> Iterator[Check]:
    """Policies: the gap between two spaces, and the least gain."""
    source, label = table("admission"), "sec:s_components"
    for space in ("DINOv2-B", "DINOv2-L"):
        printed = stated(label, f"least gain without priority, {space}")
        least = min((source.at(row, space) for row in ("reservoir", "FIFO")), key=float)
        rows = [(space, least, _BASE, printed)]
        yield from differences(label, "least gain without priority", rows)
    gaps = [
        Reach.of(source.at(row, "DINOv2-L")) - source.at(row, "DINOv2-B") for row in source.rows
    ]
    what = "gap of DINOv2-L and DINOv2-B"
    yield number(label, what, "mean of five policies", stated(label, what), Reach.mean(gaps))


def _capacity_at_64_views() -> Iterator[Check]:
    """Changes from K = 8 to K = 16, and their ratio to the pooled deviation."""
    source = table("capacities_at_64")
    yield from in_rows(source, "change with capacity", ("16", "8", "change"))
    streams = [row for row in source.rows if row != "mean"]
    for row in streams:
        deviations = [source.numbers(row, column)[1] for column in ("8", "16")]
        ratio = Reach.at_corners(_over_pooled, [source.at(row, "change"), *deviations])
        printed = source.at(row, "ratio")
        yield number(source.label, "change over pooled deviation", row, printed, ratio)
    for column in ("8", "16"):
        computed = Reach.mean([source.at(row, column) for row in streams])
        printed, item = source.at("mean", column), f"K = {column}"
        yield number(source.label, "mean of six streams", item, printed, computed)


def _over_pooled(values: list[float]) -> float:
    change, first, second = values
    return abs(change) / sqrt((first**2 + second**2) / 2)


def _costs() -> Iterator[Check]:
    """Ratios of cost and the frontier of cost and accuracy."""
    source, last = table("pareto"), "MARC-L against ensemble"
    seconds, accuracy = source.column("seconds"), source.column("accuracy")
    ratios = [(source.label, "ensemble", "MARC-L, M = 1", seconds[last])]
    for slow, fast in (("ensemble", "MARC-B, M = 1"), ("COSMIC", "MARC-B, M = 8")):
        printed = stated("sec:capacity", f"{slow} over {fast}, seconds")
        ratios.append(("sec:capacity", slow, fast, printed))
    for where, slow, fast, printed in ratios:
        ratio = Reach.of(seconds[slow]) / seconds[fast]
        yield number(where, "ratio of seconds", f"{slow} over {fast}", printed, ratio)
    rows = [(last, accuracy["MARC-L, M = 1"], accuracy["ensemble"], accuracy[last])]
    yield from differences(source.label, "difference of accuracies", rows)
    cost = {row: (seconds[row].value, accuracy[row].value) for row in source.rows if row != last}
    best = [
        row
        for row, (time, right) in cost.items()
        if not any(other <= time and higher > right for other, higher in cost.values())
    ]
    what, text, computed = "best accuracy for their seconds", "; ".join(_FRONTIER), "; ".join(best)
    yield claim(source.label, what, "rows in green", text, computed, holds=best == _FRONTIER)


VIEWS = Section(
    "Views, repairs and components",
    "Differences of accuracies, contrasts, means over splits, and ratios.",
    (
        *(_view_budgets, _other_gains, _contrasts, _accuracies_over_seeds, _regressions),
        *(_mean_repairs, _coverage, _components, _admission, _capacity_at_64_views, _costs),
    ),
)
