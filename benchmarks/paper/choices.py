"""What a rule chooses and loses, what a transfer costs, and what is said of anti-hubs."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

from benchmarks.paper.checks import Check, claim, differences, in_rows, number
from benchmarks.paper.ranks import FIVE
from benchmarks.paper.reaches import exact, reach_of
from benchmarks.paper.statements import statement_checks
from marc.stats import spearman
from marc_paper.analysis.regrets import choice_of
from marc_paper.printed import (
    BASE_A,
    BASE_V2,
    EIGHT,
    FIVE_ELSEWHERE,
    JOINT,
    SELECTION,
    SPACES16,
    SWAP,
    TRANSFER,
    stated,
)
from marc_paper.printed.numbers import Printed

WORST = "worst regret"
LAMBDA, RANKINGS = "lambda that orders five spaces as their gains", "rankings for lambda >= 0"
SHARE = "share of the oracle gain"
SHOWN = (LAMBDA, RANKINGS, SHARE, WORST)


def composite() -> list[Check]:
    """Purity minus lambda times anti-hubs, over all lambda >= 0."""
    purity = [SPACES16.at(space, "purity A").value for space in FIVE]
    hubs = [SPACES16.at(space, "anti-hub A").value for space in FIVE]
    gains = [float(SWAP.at(space, "oracle")) for space in FIVE]
    pairs = [(i, j) for i, j in itertools.combinations(range(5), 2) if hubs[i] != hubs[j]]
    crossings = sorted((purity[i] - purity[j]) / (hubs[i] - hubs[j]) for i, j in pairs)
    ends = [Fraction(0), *(each for each in crossings if each > 0)]
    # between two crossings no pair changes places, so one lambda stands for all
    middles = [(a + b) / 2 for a, b in itertools.pairwise([*ends, ends[-1] + 2])]
    scores = [[float(p - w * h) for p, h in zip(purity, hubs, strict=True)] for w in middles]
    perfect = [i for i, each in enumerate(scores) if spearman(each, gains) > 1 - 1e-12]
    said = [
        f"{float(ends[i]):.2f} to {float(ends[i + 1]):.2f}" for i in perfect if i + 1 < len(ends)
    ]
    label = "sec:s_discarded"
    most = stated(label, "rankings of five spaces, at most")
    return [
        claim(
            label,
            LAMBDA,
            "A",
            "some",
            " and ".join(said),
            holds=bool(perfect),
        ),
        number(label, "highest number of rankings", "five spaces", most, comb(5, 2) + 1),
        claim(
            label,
            RANKINGS,
            "A",
            f"at most {most.text}",
            str(len(middles)),
            holds=len(middles) <= most.value,
        ),
    ]


def gains_and_costs() -> list[Check]:
    """Differences inside the tables of five spaces."""
    base, ends = Printed(BASE_A), ("DINOv2-L", "MAE")
    gains = [(s, SWAP.at(s, "accuracy"), base, SWAP.at(s, "gain at 10")) for s in FIVE]
    spans = [
        (kind, SWAP.at(ends[0], kind), SWAP.at(ends[1], kind), SWAP.at("span", kind))
        for kind in ("oracle", "held-out")
    ]
    highest = max((TRANSFER.at(space, "cost") for space in FIVE), key=float)
    bound = stated("sec:geometry", "highest cost of transfer, A")
    small, clip = (SWAP.at(space, "oracle").value for space in ("DINOv2-S", "CLIP"))
    return [
        *differences(SWAP.label, "gain at w = 10", gains),
        *differences(SWAP.label, "span", spans),
        *in_rows(TRANSFER, "cost of transfer", ("oracle", "held-out", "cost"), (*FIVE, "span")),
        claim(
            "sec:geometry",
            "highest cost of transfer",
            "A",
            f"at most {bound.text}",
            highest.text,
            holds=highest.value <= bound.value,
        ),
        claim(
            "sec:swap",
            "oracle gain of DINOv2-S over that of CLIP",
            "A",
            "more than twice",
            f"{float(small / clip):.2f}",
            holds=small > 2 * clip,
        ),
    ]


def joint_selection() -> list[Check]:
    """Accuracy, gain, oracle and regret of the transferred choice."""
    bases = {"A": Printed(BASE_A), "V2": Printed(BASE_V2)}
    cells = {(stream, c): JOINT.at(stream, c) for stream in bases for c in JOINT.columns[2:]}
    rows = [(s, cells[s, "accuracy"], bases[s], cells[s, "gain"]) for s in bases]
    checks = differences(JOINT.label, "gain", rows)
    checks += in_rows(JOINT, "regret", ("oracle", "accuracy", "regret"))
    oracle = reach_of(cells["V2", "oracle"]) - reach_of(bases["V2"])
    said = SPACES16.at("DeiT-III", "gain V2")
    checks.append(number(SPACES16.label, "oracle of tab:s_joint_selection", "V2", said, oracle))
    for stream in bases:
        printed = stated("sec:intro", f"share of the oracle gain, {stream}")
        loss = reach_of(cells[stream, "regret"]) / reach_of(cells[stream, "gain"])
        kept = exact(100) / (exact(1) + loss)
        checks.append(number("sec:intro", SHARE, stream, printed, kept))
    return checks


def selection_rules() -> list[Check]:
    """Rules over eight streams: one or two misses fix their mean regret."""
    label, said = SELECTION.label, SELECTION.at
    one, two = (reach_of(said(f"purity at {n}", "worst")) for n in (5, 10))
    other = reach_of(said("purity at 10", "mean")) * 8 - two
    mean = one * Fraction(1, 8)
    return [
        number(label, "mean regret of one miss", "purity at 5", said("purity at 5", "mean"), mean),
        claim(
            label,
            "second of two misses, from mean and worst",
            "purity at 10",
            "not above the worst, 1.65",
            f"{float(other.low):.2f} to {float(other.high):.2f}",
            holds=other.low > 0 and other.high <= two.high,
        ),
    ]


def worst_regrets() -> list[Check]:
    """Worst regrets that are a difference of printed gains."""
    hubs = {space: -float(EIGHT.at(space, "anti-hub")) for space in EIGHT.rows}
    gains = {space: float(EIGHT.at(space, "oracle")) for space in EIGHT.rows}
    fewest = choice_of("A", hubs, gains)
    lost = {
        space: reach_of(EIGHT.at(fewest.best, "oracle")) - reach_of(EIGHT.at(space, "oracle"))
        for space in ("DINO v1", fewest.chosen)
    }
    euro = [reach_of(FIVE_ELSEWHERE.at("EuroSAT", space)) for space in ("DINOv2-S", "DINOv2-L")]
    by_skewness, by_hubs = (SELECTION.at(f"lowest {m}", "worst") for m in ("skewness", "anti-hub"))
    five = stated("sec:s_newspaces", "worst regret of purity, five and eight spaces")
    label, hub_item = SELECTION.label, f"lowest anti-hub, {fewest.chosen} on A"
    return [
        number(label, WORST, "lowest skewness, if DINO v1 on A", by_skewness, lost["DINO v1"]),
        number(label, WORST, hub_item, by_hubs, lost[fewest.chosen]),
        number("sec:s_newspaces", WORST, "five spaces, EuroSAT", five, euro[0] - euro[1]),
    ]


def choice_checks() -> list[Check]:
    """All of them."""
    return [
        *composite(),
        *gains_and_costs(),
        *joint_selection(),
        *selection_rules(),
        *worst_regrets(),
        *statement_checks(),
    ]
