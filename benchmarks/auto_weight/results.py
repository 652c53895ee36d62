"""Print docs/results/auto-weight.md: what a weight learned without labels gains, and what it harms.

    python -m benchmarks.auto_weight.results PACK.npz ... > docs/results/auto-weight.md

Feature packs of photographs come from the command line; the lab is drawn. Takes about 15 minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from benchmarks.auto_weight.cells import CAPACITY, SEEDS, all_streams, cells_of
from benchmarks.auto_weight.rules import RULES
from benchmarks.words import numbered, percent, points, table, wrapped

GROUPS = ("photographs", "lab", "hostile", "bad on purpose")
HARM = -0.003  # more than 0.3 points below no memory


@dataclass(frozen=True)
class Result:
    """One stream and space, mean over orders; gains are shares of the images."""

    group: str
    stream: str
    space: str
    base: float
    confidence: float
    oracle: float
    oracle_beyond: float
    gains: dict[str, float]
    """By rule."""
    final_weight: float

    @property
    def auto(self) -> float:
        """The gain of `weight="auto"`."""
        return self.gains["auto"]


def measure(packs: list[str]) -> list[Result]:
    """Every rule on every stream, space and order."""
    results = []
    for group, stream in all_streams(packs):
        print(f"{group}: {stream.name}", file=sys.stderr)
        for (kind, space), cells in groupby(cells_of(group, stream), lambda c: (c.group, c.space)):
            orders = list(cells)

            def mean(of: Callable, orders: list = orders) -> float:
                return float(np.mean([of(cell) for cell in orders]))

            results.append(
                Result(
                    *(kind, stream.name, space),
                    base=mean(lambda cell: cell.base_right),
                    confidence=mean(lambda cell: cell.confidence.mean()),
                    oracle=mean(lambda cell: cell.oracle),
                    oracle_beyond=mean(lambda cell: cell.oracle_beyond),
                    gains={rule.name: mean(rule.gain) for rule in RULES},
                    final_weight=mean(lambda cell: cell.learned[-1]),
                )
            )
    return results


def share(gain: float, oracle: float) -> str:
    """How much of the oracle gain is reached, in percent; none where there is none to reach."""
    return f"{100 * gain / oracle:.0f} %" if oracle >= 0.002 else "-"


def mean_of(results: Sequence[Result], value: Callable[[Result], float]) -> float:
    """The mean over streams and spaces."""
    return float(np.mean([value(each) for each in results]))


def in_short(results: Sequence[Result]) -> str:
    """Each group in a line."""
    header = [
        "streams",
        "cells",
        "w = 10, fixed",
        "oracle",
        "auto, fixed",
        "of the oracle",
        "worst",
    ]
    rows = []
    for group in GROUPS:
        cells = [each for each in results if each.group == group]
        if cells:
            oracle, auto = mean_of(cells, lambda r: r.oracle), mean_of(cells, lambda r: r.auto)
            rows.append(
                [
                    *(group, str(len(cells)), points(mean_of(cells, lambda r: r.gains["fixed"]))),
                    *(points(oracle), points(auto), share(auto, oracle)),
                    *(hundredths(min(r.auto for r in cells)), harmed(cells, "auto")),
                ]
            )
    return table([*header, "below -0.3"], rows)


def harmed(cells: Sequence[Result], rule: str) -> str:
    """How many cells lose more than 0.3 points by a rule."""
    return str(sum(each.gains[rule] < HARM for each in cells))


def hundredths(gain: float) -> str:
    """A difference in points with two digits."""
    return f"{round(100 * gain, 2) + 0.0:+.2f}"


def rules_tried(results: Sequence[Result]) -> str:
    """Every rule on every group: mean gain, worst cell, cells that lose."""
    header = ["rule", *(f"{group}" for group in GROUPS), "idea"]
    rows = []
    for rule in RULES:
        texts = []
        for group in GROUPS:
            cells = [each for each in results if each.group == group]
            gains = [each.gains[rule.name] for each in cells]
            lost = f"{points(min(gains))}, {harmed(cells, rule.name)}" if cells else ""
            texts.append(f"{points(float(np.mean(gains)))} ({lost})" if cells else "-")
        rows.append([rule.name, *texts, rule.idea])
    return table(header, rows)


def by_space(results: Iterable[Result]) -> str:
    """Each cell of a group in a line."""
    header = ["stream", "space", "no memory", "w = 10, fixed", "oracle", "oracle, L'", "auto", "w"]
    return table(
        header,
        [
            [
                *(r.stream, r.space, percent(r.base), points(r.gains["fixed"]), points(r.oracle)),
                *(points(r.oracle_beyond), hundredths(r.auto), f"{r.final_weight:.2g}"),
            ]
            for r in results
        ],
    )


def by_stream(results: Iterable[Result]) -> str:
    """Each stream of a group in a line, mean over its spaces."""
    header = ["stream", "no memory", "confidence", "w = 10, fixed", "oracle", "auto, fixed"]
    rows = []
    for stream, found in groupby(results, lambda each: each.stream):
        cells = list(found)
        worst = min(cells, key=lambda each: each.auto)
        rows.append(
            [
                *(stream, percent(cells[0].base), percent(cells[0].confidence)),
                points(mean_of(cells, lambda r: r.gains["fixed"])),
                points(mean_of(cells, lambda r: r.oracle)),
                points(mean_of(cells, lambda r: r.auto)),
                *(f"{hundredths(worst.auto)} `{worst.space}`", harmed(cells, "auto")),
            ]
        )
    return table([*header, "worst space", "below -0.3"], rows)


def document(results: Sequence[Result]) -> Iterable[str]:
    """The parts of the page."""
    of = {group: [each for each in results if each.group == group] for group in GROUPS}
    yield "# A weight without labels"
    yield (
        "Printed by `make auto-weight-results PACKS='...'`; the photographs are the two packs of "
        "`real-packs.md`, the lab is that of `lab.md`. Gains are in points over the same predictor "
        f"without memory, one view, K = {CAPACITY}, mean over {len(SEEDS)} orders; a cell is one "
        "stream read in one space. *oracle* is the best weight of the paper's grid for each order, "
        "chosen with the labels, of plain evidence; every other number uses no label to choose."
    )
    yield (
        '`marc run SOURCE --space SPACE --weight auto`, or `MARC(space, weight="auto")`. The rule, '
        "in `src/marc/auto_weight.py`, is: L' is the evidence of an image beyond its mean over the "
        "stream so far; of the paper's grid, take the weight at which softmax(w L') best predicts "
        "the predictor's answers on the images it is surer of than on average (quadratic score); "
        "multiply it by Cohen's kappa between predictor and memory, each image weighted by the "
        "predictor's doubt, less one standard error. Nothing else is set, and nothing later is "
        "seen."
    )
    yield "## In short"
    yield in_short(results)
    yield (
        "Aimed at: never more than 0.3 points below no memory, and 90 % of the oracle gain. "
        "**The first is met on the photographs and in every space that is bad on purpose; it is "
        "missed in a few cells of the lab, where the predictor is wrong by system, and where its "
        "logit scale is half of what it was. The second is met on the photographs, and missed on "
        "the lab.** Hostile streams are the photographs and two streams of the lab under a "
        "predictor whose logit scale is wrong, whose text is noisy, or half of whose class names "
        "lean towards another class. 0.3 points are one or two of the 500 images of a 12-class "
        "stream."
    )
    yield (
        "**A caution.** The rule was chosen among those below by looking at what they gain on "
        "these very streams. No label enters a weight, but labels chose the rule. On four further "
        "streams of photographs, kept aside until then (19 cells), it gained 1.5 points on "
        "average, 57 % of the oracle's gain, and lost more than 0.3 points in 8 cells, 2.1 at "
        "worst. [class-means.md](class-means.md) has the method that came of it."
    )
    yield "## What was learned"
    yield numbered(lessons(of))
    yield "## Rules that were tried"
    yield (
        "Mean gain, and in brackets the worst cell and the number of cells that lose more than 0.3 "
        "points. All but the last see the whole stream before they choose."
    )
    yield rules_tried(results)
    if of["photographs"]:
        yield "## Photographs"
        yield "*oracle, L'* is the oracle of evidence beyond its mean; *w* is auto's last weight."
        yield by_space(of["photographs"])
    yield "## The lab, mean over its fourteen spaces"
    yield "*confidence* is what the predictor says of itself, in percent."
    yield by_stream(of["lab"])
    yield "## Hostile variants, mean over spaces"
    yield by_stream(of["hostile"])


def lessons(of: dict[str, list[Result]]) -> list[str]:
    """What the tables teach, with their numbers."""
    lab, hostile = of["lab"], of["hostile"]
    confused = [each for each in hostile if "confused" in each.stream]
    by_name = {each.stream: [r for r in confused if r.stream == each.stream] for each in confused}
    worst = min(by_name.values(), key=lambda cells: mean_of(cells, lambda r: r.auto))
    gained = mean_of(lab, lambda r: r.oracle_beyond) - mean_of(lab, lambda r: r.oracle)
    sure = [each for each in lab if each.confidence - each.base > 0.3]
    rest = [each for each in lab if each not in sure]
    reached = [
        share(mean_of(cells, lambda r: r.auto), mean_of(cells, lambda r: r.oracle))
        for cells in (sure, rest)
    ]
    return [
        "**What the memory says of every image does the harm.** Taking the running mean of the "
        f"evidence away raises even the oracle, on the lab by {points(gained)} points, and makes "
        "every rule safer. In a poor space the evidence mostly counts how full each class is.",
        "**Where the predictor is sure, a memory looks better than it is where it is needed.** "
        "Rules that look at sure images alone overshoot; the agreement in doubt tells a space that "
        "fails there. Agreement must be counted beyond chance: in doubt, a predictor tends to give "
        "few answers.",
        "**An overconfident predictor cannot be told from a poor memory.** Both show as "
        "disagreement. auto then trusts the predictor's confidence: on the lab's streams where it "
        f"claims 30 points more than it has, auto reaches {reached[0]} of the oracle gain, on the "
        f"others {reached[1]}. A logit scale that fits the stream is worth more than a rule.",
        "Asking whether the two halves of the memory agree with each other tells the two apart in "
        "part; it gains on overconfident streams and harms others, and needs a second read of the "
        "memory. It is not shipped.",
        "**Mistakes with a system stay.** Half of the class names were confused with a neighbour's "
        f"in {len(by_name)} ways. In the worst, {worst[0].stream}, auto loses "
        f"{-100 * mean_of(worst, lambda r: r.auto):.1f} points on average, where the oracle finds "
        f"{points(mean_of(worst, lambda r: r.oracle))}. The memory repeats what the predictor "
        "tends to say, and no statistic of the unlabelled stream that was tried sees it.",
    ]


if __name__ == "__main__":
    print("\n\n".join(map(wrapped, document(measure(sys.argv[1:])))))
