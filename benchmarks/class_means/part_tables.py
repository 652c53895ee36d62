"""Tables of what each part does: variants, other memories, and estimates of trust."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.class_means.ablation import BOUNDED_KINDS, Gain
from benchmarks.class_means.cells import ALL
from benchmarks.class_means.tables import HARM, hundredths, mean
from benchmarks.class_means.trust import ESTIMATES, Trusted, correlation
from benchmarks.class_means.variants import ABLATION, BOUNDED, OWN
from benchmarks.words import decimal, percent, points, table
from marc.stats import spearman

GROUPS = ("photographs", "lab", "hostile")


def grouped(gain: Gain) -> str:
    """Unseen shifts are shifts like the others here."""
    return gain.group.partition(",")[0]


def chosen(gains: Sequence[Gain], variant: str, group: str, kind: str = "shuffled") -> list[Gain]:
    """Of one variant, group and kind of order."""
    wanted = (variant, group, kind)
    return [each for each in gains if (each.variant, grouped(each), each.kind) == wanted]


def single_all(gains: Sequence[Gain]) -> tuple[list[float], list[float]]:
    """Gains in one space, and in all."""
    single = [each.gain for each in gains if each.space != ALL]
    return single, [each.gain for each in gains if each.space == ALL]


def ablation_table(gains: Sequence[Gain]) -> str:
    """Every variant: single and all spaces, worst cell and cells that lose."""
    header = ["variant", *(f"{group}: one, all (worst, below -0.3)" for group in GROUPS)]
    rows = []
    for variant in ABLATION:
        texts = []
        for group in GROUPS:
            single, every = single_all(chosen(gains, variant, group))
            if single:
                harmed = sum(gain < HARM for gain in single)
                low = f"({hundredths(min(single))}, {harmed})"
                texts.append(f"{hundredths(mean(single))}, {hundredths(mean(every))} {low}")
            else:
                texts.append("-")
        single, every = single_all(chosen(gains, variant, "photographs", "sorted"))
        sorted_text = f"{points(mean(single))}, {points(mean(every))} ({hundredths(min(single))})"
        rows.append([variant, *texts, sorted_text, confused(gains, variant)])
    return table([*header, "sorted: one, all (worst)", "names confused"], rows)


def confused(gains: Sequence[Gain], variant: str) -> str:
    """All spaces, where half of the class names lean towards another: mean and worst."""
    found = [
        each.gain
        for each in chosen(gains, variant, "hostile")
        if "confused" in each.stream and each.space == ALL
    ]
    return f"{points(mean(found))} ({hundredths(min(found))})" if found else "-"


def bounded_table(gains: Sequence[Gain]) -> str:
    """Every memory in every kind of order."""
    kinds = [kind for kind in BOUNDED_KINDS if any(each.kind == kind for each in gains)]
    rows = []
    for variant in BOUNDED:
        texts = []
        for kind in kinds:
            single, every = single_all(chosen(gains, variant, "photographs", kind))
            low = hundredths(min(single))
            texts.append(f"{points(mean(single))}, {points(mean(every))} ({low})")
        rows.append([variant, *texts])
    return table(["one, all (worst)", *kinds], rows)


def memories(trusts: Sequence[Trusted], group: str) -> list[Trusted]:
    """Single spaces of a group; unseen shifts of the lab are among the lab's."""
    outside = (ALL, OWN)
    return [t for t in trusts if t.group.startswith(group) and t.space not in outside]


def estimates_table(trusts: Sequence[Trusted]) -> str:
    """Rank correlations of each estimate with the truth: over all cells, and inside streams."""
    groups = [group for group in ("photographs", "lab") if memories(trusts, group)]
    header = ["estimate"]
    header += [f"{group}: {of}" for group in groups for of in ("accuracy", "best trust")]
    rows = []
    for estimate, idea in ESTIMATES.items():
        texts = []
        for group in groups:
            for of in ("accuracy", "best_trust"):
                over, inside = correlation(memories(trusts, group), estimate, of)
                texts.append(f"{decimal(over)}, {decimal(inside)}")
        rows.append([estimate, *texts, idea])
    return table([*header, "what it is"], rows)


def predictor_table(trusts: Sequence[Trusted]) -> str:
    """Rank correlations, over streams, of what is said of the predictor with its accuracy."""
    own = [each for each in trusts if each.space == OWN]
    groups = [g for g in ("photographs", "lab") if any(t.group.startswith(g) for t in own)]
    rows = []
    for estimate in own[0].estimates:
        texts = []
        for group in groups:
            some = [each for each in own if each.group.startswith(group)]
            values = [each.estimates[estimate] for each in some]
            texts.append(decimal(spearman(values, [each.accuracy for each in some])))
        rows.append([estimate, *texts])
    return table(["of the predictor", *groups], rows)


def best_trust_table(trusts: Sequence[Trusted]) -> str:
    """All spaces: the trust that ships beside the best one, chosen with the labels."""
    own = {each.stream: each.accuracy for each in trusts if each.space == OWN}
    rows = [
        [
            *(each.stream, percent(own[each.stream]), points(each.gain)),
            *(points(each.best_gain), f"{each.best_trust:.2f}"),
        ]
        for each in trusts
        if each.space == ALL and each.group == "photographs"
    ]
    return table(["stream", "no memory", "class-means", "best trust, oracle", "it is"], rows)
