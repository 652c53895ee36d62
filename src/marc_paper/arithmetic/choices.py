"""What a rule chooses and loses, what a transfer costs, and statements about spaces and streams."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from math import comb

from marc.stats import spearman
from marc_paper.analysis.regrets import Choice
from marc_paper.arithmetic.checks import Check, Reach, Section, claim, differences, in_rows, number
from marc_paper.arithmetic.ranks import FIVE, SIX, eight_gains, judged
from marc_paper.printed import PRINTED, STATEMENTS, Printed, stated, table

BASES = {"A": Printed("50.84"), "V2": Printed("63.66")}
"""Accuracy without memory, one view, in percent."""
N_IMAGES = 7500
"""Of ImageNet-A."""

_WORST = "worst regret"
_LAMBDA, _RANKINGS = "lambda that orders five spaces as their gains", "rankings for lambda >= 0"
_OF_ORACLE = "share of the oracle gain"


def _composite() -> Iterator[Check]:
    """Purity minus lambda times anti-hubs, over all lambda >= 0."""
    spaces, label = table("spaces16"), "sec:s_discarded"
    purity = [spaces.at(space, "purity A").value for space in FIVE]
    hubs = [spaces.at(space, "anti-hub A").value for space in FIVE]
    gains = [float(table("swap").at(space, "oracle")) for space in FIVE]
    pairs = [(i, j) for i, j in itertools.combinations(range(5), 2) if hubs[i] != hubs[j]]
    crossings = sorted((purity[i] - purity[j]) / (hubs[i] - hubs[j]) for i, j in pairs)
    ends = [Fraction(0), *(each for each in crossings if each > 0)]
    # between two crossings no pair changes order, so one lambda represents all
    middles = [(a + b) / 2 for a, b in itertools.pairwise([*ends, ends[-1] + 2])]
    scores = [[float(p - w * h) for p, h in zip(purity, hubs, strict=True)] for w in middles]
    perfect = [i for i, each in enumerate(scores) if spearman(each, gains) > 1 - 1e-12]
    bounded = [(ends[i], ends[i + 1]) for i in perfect if i + 1 < len(ends)]
    ranges = " and ".join(f"{float(low):.2f} to {float(high):.2f}" for low, high in bounded)
    yield claim(label, _LAMBDA, "A", "some", ranges, holds=bool(perfect))
    most = stated(label, "rankings of five spaces, at most")
    yield number(label, "highest number of rankings", "five spaces", most, comb(5, 2) + 1)
    n, printed = len(middles), f"at most {most.text}"
    yield claim(label, _RANKINGS, "A", printed, str(n), holds=n <= most.value)


def _gains_and_costs() -> Iterator[Check]:
    """Differences inside the tables of five spaces."""
    swap, transfer, geometry = table("swap"), table("transfer"), "sec:geometry"
    gains = [(s, swap.at(s, "accuracy"), BASES["A"], swap.at(s, "gain at 10")) for s in FIVE]
    yield from differences(swap.label, "gain at w = 10", gains)
    spans = [
        (kind, swap.at("DINOv2-L", kind), swap.at("MAE", kind), swap.at("span", kind))
        for kind in ("oracle", "held-out")
    ]
    yield from differences(swap.label, "span", spans)
    columns = ("oracle", "held-out", "cost")
    yield from in_rows(transfer, "cost of transfer", columns, (*FIVE, "span"))
    cost = max((transfer.at(space, "cost") for space in FIVE), key=float)
    bound = stated(geometry, "highest cost of transfer, A")
    what, printed = "highest cost of transfer", f"at most {bound.text}"
    yield claim(geometry, what, "A", printed, cost.text, holds=cost.value <= bound.value)
    small, clip = (swap.at(space, "oracle").value for space in ("DINOv2-S", "CLIP"))
    what, ratio = "oracle gain of DINOv2-S over that of CLIP", f"{float(small / clip):.2f}"
    yield claim("sec:swap", what, "A", "more than twice", ratio, holds=small > 2 * clip)


def _joint_selection() -> Iterator[Check]:
    """Accuracy, gain, oracle and regret of the transferred choice."""
    joint, spaces = table("joint"), table("spaces16")
    rows = [(s, joint.at(s, "accuracy"), base, joint.at(s, "gain")) for s, base in BASES.items()]
    yield from differences(joint.label, "gain", rows)
    yield from in_rows(joint, "regret", ("oracle", "accuracy", "regret"))
    oracle, printed = (
        Reach.of(joint.at("V2", "oracle")) - BASES["V2"],
        spaces.at("DeiT-III", "gain V2"),
    )
    yield number(spaces.label, "oracle of tab:s_joint_selection", "V2", printed, oracle)
    for stream in BASES:
        loss = Reach.of(joint.at(stream, "regret")) / joint.at(stream, "gain")
        printed = stated("sec:intro", f"{_OF_ORACLE}, {stream}")
        yield number("sec:intro", _OF_ORACLE, stream, printed, Reach.of(100) / (Reach.of(1) + loss))


def _selection_rules() -> Iterator[Check]:
    """Rules over eight streams: one or two misses fix their mean regret."""
    rules = table("selection")
    one, two = (Reach.of(rules.at(f"purity at {n}", "worst")) for n in (5, 10))
    printed, what = rules.at("purity at 5", "mean"), "mean regret of one miss"
    yield number(rules.label, what, "purity at 5", printed, one * Fraction(1, 8))
    other = Reach.of(rules.at("purity at 10", "mean")) * 8 - two
    yield claim(
        rules.label,
        "second of two misses, from mean and worst",
        "purity at 10",
        "not above the worst, 1.65",
        f"{float(other.low):.2f} to {float(other.high):.2f}",
        holds=other.low > 0 and other.high <= two.high,
    )


def _worst_regrets() -> Iterator[Check]:
    """Worst regrets that are a difference of printed gains."""
    eight, rules = table("eight"), table("selection")
    hubs = {space: -float(eight.at(space, "anti-hub")) for space in eight.rows}
    gains = {space: float(eight.at(space, "oracle")) for space in eight.rows}
    fewest = Choice.of("A", hubs, gains)
    for measure, chosen, item in (
        ("skewness", "DINO v1", "lowest skewness, if DINO v1 on A"),
        ("anti-hub", fewest.chosen, f"lowest anti-hub, {fewest.chosen} on A"),
    ):
        lost = Reach.of(eight.at(fewest.best, "oracle")) - eight.at(chosen, "oracle")
        yield number(rules.label, _WORST, item, rules.at(f"lowest {measure}", "worst"), lost)
    small, large = (table("five_elsewhere").at("EuroSAT", f"DINOv2-{size}") for size in "SL")
    label, item = "sec:s_newspaces", "five spaces, EuroSAT"
    printed = stated(label, "worst regret of purity, five and eight spaces")
    yield number(label, _WORST, item, printed, Reach.of(small) - large)


def _about_eurosat() -> Iterator[Check]:
    """The stream on which the rule fails."""
    five, scope = table("five_elsewhere"), "sec:s_scope"
    ranges = {stream: five.at(stream, "range").value for stream in SIX}
    narrow = ranges.pop("EuroSAT")
    next_narrowest = min(ranges.values())
    yield claim(
        scope,
        "next-narrowest purity range over that of EuroSAT",
        "five spaces",
        "over three times",
        f"{float(next_narrowest / narrow):.2f}",
        holds=next_narrowest > 3 * narrow,
    )
    gains = eight_gains("EuroSAT")
    rank = 1 + sum(gain > gains[FIVE.index("DINOv2-L")] for gain in gains)
    printed = stated(scope, "place of DINOv2-L on EuroSAT, eight spaces")
    yield number(scope, "place of DINOv2-L on EuroSAT", "of eight", printed, rank)
    below = Reach.of(five.at("EuroSAT", "DINOv2-S")) - five.at("EuroSAT", "DINOv2-L")
    printed = stated("sec:s_eurosat", "oracle gain, DINOv2-L below DINOv2-S")
    yield number("sec:s_eurosat", "DINOv2-L below DINOv2-S", "EuroSAT", printed, below)
    clip = {stream: five.at(stream, "CLIP") for stream in SIX}
    yield claim(
        "sec:s_transfer",
        "CLIP memory contributes over one point",
        "EuroSAT",
        "there alone",
        f"{clip['EuroSAT'].text} there, {clip['UCF101'].text} on UCF101",
        holds=[stream for stream in SIX if clip[stream].value > 1] == ["EuroSAT"],
    )


def _about_streams() -> Iterator[Check]:
    """Best spaces, ties and ranges."""
    sixteen, spaces = table("sixteen_elsewhere"), table("spaces16")
    best = {judged(spaces, f"purity {s}", f"gain {s}").best for s in ("A", "V2")}
    best |= {sixteen.cell(stream, "best") for stream in sixteen.rows}
    yield claim(
        "sec:intro",
        "different best spaces over five streams",
        "sixteen spaces",
        "four",
        f"three ({', '.join(sorted(best))})" if len(best) == 3 else str(len(best)),
        holds=len(best) == 4,
    )
    ties, ranges = (sixteen.column(name) for name in ("ties", "range"))
    more_ties = all(n.value >= eight_gains(s).count(0) for s, n in ties.items())
    five = table("five_elsewhere").column("range", ranges)
    yield claim(
        sixteen.label,
        "no fewer ties and no narrower ranges than among eight or five spaces",
        "three streams",
        "sixteen contain them",
        "so it is",
        holds=more_ties and all(n.value >= five[s].value for s, n in ranges.items()),
    )
    zeros = [s for s in SIX[:5] if not table("three_elsewhere").at(s, "DINO v1").value]
    printed = stated("sec:s_scope", "streams of five without gain, DINO v1")
    yield number("sec:s_scope", "streams without gain for DINO v1", "of five", printed, len(zeros))


def _anti_hubs() -> Iterator[Check]:
    """The same fractions printed twice, with two digits and with one, and what is said of them."""
    source, figure = table("spaces16").column("anti-hub A"), "fig:s_geometry"
    for other in (table("swap"), table("eight")):
        for space, printed in other.column("anti-hub").items():
            what = "anti-hubs as in tab:spaces16"
            yield number(other.label, what, space, printed, source[space])
    [v1] = source["DINO v1"].image_counts(N_IMAGES)
    printed, of_v1 = stated(figure, "anti-hub, DINO v1"), Fraction(100 * v1, N_IMAGES)
    yield number(figure, "anti-hubs", "DINO v1", printed, of_v1)
    low, _, high = sorted(source[f"DINOv2-{size}"].value for size in "SBL")
    supervised = source["Supervised"]
    yield claim(
        figure,
        "anti-hubs between those of CLIP and of DINOv2",
        "supervised ViT",
        stated(figure, "anti-hub, Supervised").text,
        f"{supervised.text}, while DINOv2 has {float(low):.2f} to {float(high):.2f}",
        holds=high < supervised.value < source["CLIP"].value,
    )


def _capacities() -> Iterator[Check]:
    """Best capacities that figures name, and the size of a memory."""
    best = {space: int(n.value) for space, n in table("eight").column("capacity").items()}
    family = sorted(best[f"DINOv2-{size}"] for size in "SBL")
    computed = f"{family[0]} to {family[-1]}, {best['CLIP']}, {best['BEiT']}"
    figure, item = STATEMENTS["fig:s_geometry"], "DINOv2, CLIP, BEiT"
    text = ", ".join(figure.cell(f"capacity, {s}", PRINTED) for s in item.split(", "))
    yield claim(figure.label, "best capacities", item, text, computed, holds=computed == text)
    keys = STATEMENTS["fig:s_kernel"].numbers("active keys of all, CLIP", PRINTED)[1]
    most, what = 8 * 200, "keys in a memory of eight for each of 200 classes"
    computed = f"at most {most:,}"
    yield claim("fig:s_kernel", what, "A", keys.text, computed, holds=keys.value <= most)


def _oracles_and_fixed() -> Iterator[Check]:
    """Weight 10 is on the grid, so that no oracle gain lies below the gain at weight 10."""
    paired, eight, spaces = table("paired16"), table("eight"), table("spaces16")
    for source, rows in ((paired, list(paired.rows)), (table("swap"), list(FIVE))):
        for space in rows:
            oracle, fixed = source.at(space, "oracle"), source.at(space, "gain at 10")
            what, text = "oracle gain, at least the gain at w = 10", f"{fixed.text} at w = 10"
            holds = oracle.value >= fixed.value
            yield claim(source.label, what, space, oracle.text, text, holds=holds)
    same = [paired.at(s, "oracle").text == spaces.at(s, "gain A").text for s in paired.rows]
    yield number(paired.label, "oracle gains as in tab:spaces16", "rows", "16", sum(same))
    gains = [float(gain) for gain in eight.column("oracle").values()]
    what, order = "rows in the order of their gains", "ascending"
    yield claim(eight.label, what, "eight", order, order, holds=gains == sorted(gains))


CHOICES = Section(
    "Choices, transfer and anti-hubs",
    "Regrets, costs, shares of an oracle gain, and statements about streams and spaces.",
    (
        *(_composite, _gains_and_costs, _joint_selection, _selection_rules, _worst_regrets),
        *(_about_eurosat, _about_streams, _anti_hubs, _capacities, _oracles_and_fixed),
    ),
    (_LAMBDA, _RANKINGS, _OF_ORACLE, _WORST),
)
