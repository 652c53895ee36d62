"""Rank correlations, choices and regrets, from the paper's printed purities and gains."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import cache

import numpy as np
from scipy.stats import rankdata

from benchmarks.paper.checks import Check, claim, number, over_seeds
from benchmarks.paper.reaches import mean, reach_of
from marc.stats import spearman
from marc_paper.analysis.regrets import Choice, choice_of
from marc_paper.printed import (
    BATCHES,
    CORRELATIONS,
    EIGHT,
    FIVE_ELSEWHERE,
    RANK_CHECKS,
    RANK_INTERVALS,
    SEEDS16,
    SPACES16,
    SPACES16_RANKS,
    SWAP,
    THREE_ELSEWHERE,
    TRANSFER,
    stated,
)
from marc_paper.printed.numbers import Table, numbers

FIVE = ("MAE", "CLIP", "DINOv2-S", "DINOv2-B", "DINOv2-L")
SIX = ("Pets", "Caltech101", "DTD", "UCF101", "Flowers102", "EuroSAT")
NEAR = ("DINOv2-B", "DeiT-III", "DINOv3-B", "CLIP-L", "Supervised", "EVA-02 CLIP")
"""The six of the near-matched row: the only six neighbours in gain below DINOv2-L."""
RHO = "rank correlation"
NEAREST = "nearest correlation that the gains allow"


def judged(
    source: Table, measure: str, outcome: str, rows: Iterable[str] | None = None, sign: int = 1
) -> Choice:
    """What a measure chooses among the rows of a table, and how it ranks them."""
    scores = {row: sign * float(n) for row, n in source.column(measure, rows).items()}
    gains = {row: float(n) for row, n in source.column(outcome, scores).items()}
    return choice_of(source.label, scores, gains)


def sixteen_spaces() -> list[Check]:
    """Purity and anti-hubs against gains; anti-hubs of ImageNet-V2 are not printed."""
    label, checks = SPACES16.label, []
    for stream in ("A", "V2"):
        by_purity = judged(SPACES16, f"purity {stream}", f"gain {stream}")
        said = SPACES16_RANKS.column(f"gain {stream}")
        checks += [
            number(label, RHO, f"purity, {stream}", said["purity"], by_purity.rank_correlation),
            number(label, "regret of purity", stream, said["regret"], by_purity.regret),
        ]
    hubs = judged(SPACES16, "anti-hub A", "gain A", sign=-1)
    said_hubs = SPACES16_RANKS.at("anti-hub", "gain A")
    return [*checks, number(label, RHO, "anti-hubs, A", said_hubs, hubs.rank_correlation)]


def subsets_of_sixteen() -> list[Check]:
    """All, positive gains only, and the six near-matched spaces."""
    checks = []
    for row in ("A, all", "A, positive", "V2, all", "V2, positive", "A, near-matched"):
        stream, kind = row.split(", ")
        gains = SPACES16.column(f"gain {stream}")
        rows = [space for space, gain in gains.items() if kind != "positive" or gain.value > 0]
        found = judged(
            SPACES16,
            f"purity {stream}",
            f"gain {stream}",
            NEAR if kind == "near-matched" else rows,
        )
        said = RANK_CHECKS.column("rho")[row]
        checks.append(number(RANK_CHECKS.label, RHO, row, said, found.rank_correlation))
        chosen = RANK_CHECKS.rows[row][2]
        checks.append(
            claim(
                RANK_CHECKS.label,
                "chosen space, without regret",
                row,
                chosen,
                f"{found.chosen}, regret {found.regret:.2f}",
                holds=(found.chosen, found.regret) == (chosen, 0),
            )
        )
        n_spaces = len(NEAR) if kind == "near-matched" else len(rows)
        checks.append(
            number(RANK_CHECKS.label, "number of spaces", row, RANK_CHECKS.at(row, "n"), n_spaces)
        )
    return checks


def near_matched_range() -> Check:
    """The range that the near-matched row names, against the gains of the table."""
    inside = [
        space for space, gain in SPACES16.column("gain A").items() if 4.4 <= float(gain) <= 10.0
    ]
    ends = sorted(float(SPACES16.at(space, "gain A")) for space in NEAR)
    return claim(
        RANK_CHECKS.label,
        "near-matched spaces by gain",
        "A",
        "six between 4.4 and 10.0",
        f"{len(inside)} in between; the six span {ends[0]:.2f} to {ends[-1]:.2f}",
        holds=len(inside) == len(NEAR),
    )


def five_and_eight_spaces() -> list[Check]:
    """Geometry against oracle gain and best capacity."""
    checks = []
    for outcome in ("oracle", "capacity"):
        for measure, sign in (("purity", 1), ("anti-hub", -1)):
            found = judged(SWAP, measure, outcome, FIVE, sign).rank_correlation
            said = CORRELATIONS.at(f"{measure}, A", outcome)
            item = f"five spaces, A: {measure} and {outcome}"
            checks.append(number(CORRELATIONS.label, RHO, item, said, found))
    five_v2 = judged(SPACES16, "purity V2", "gain V2", FIVE).rank_correlation
    eight_a = judged(EIGHT, "purity", "oracle").rank_correlation
    eight_v2 = judged(SPACES16, "purity V2", "gain V2", EIGHT.rows).rank_correlation
    said_v2 = CORRELATIONS.at("purity, V2", "oracle")
    label = "sec:s_newspaces"
    return [
        *checks,
        number(CORRELATIONS.label, RHO, "five spaces, V2: purity and oracle", said_v2, five_v2),
        *(
            number(
                label,
                RHO,
                f"eight spaces, {stream}: purity and oracle",
                stated(label, f"correlation of purity and gain, {stream}, eight spaces"),
                found,
            )
            for stream, found in (("A", eight_a), ("V2", eight_v2))
        ),
    ]


def transfer_ranks() -> list[Check]:
    """Purity against oracle and held-out gains of five spaces."""
    purity = SWAP.column("purity", FIVE)
    return [
        number(
            TRANSFER.label,
            RHO,
            f"purity and {kind}",
            TRANSFER.at("correlation", kind),
            spearman([float(purity[s]) for s in FIVE], [float(TRANSFER.at(s, kind)) for s in FIVE]),
        )
        for kind in ("oracle", "held-out")
    ]


@cache
def attainable(gains: tuple[float, ...]) -> tuple[float, ...]:
    """Every correlation that some measure without ties can have with these gains."""
    orders = np.array(list(itertools.permutations(range(len(gains)))))
    sums = np.unique((2 * orders - len(gains) + 1) @ rankdata(gains))
    highest = spearman(rankdata(gains, "ordinal"), gains)  # fixes the scale of the sums
    return tuple(float(value) for value in sums * (highest / sums[-1]))


def eight_gains(stream: str) -> tuple[float, ...]:
    """Oracle gains of the eight spaces on a cross-domain stream."""
    sources = ((FIVE_ELSEWHERE, FIVE), (THREE_ELSEWHERE, ("Supervised", "DINO v1", "BEiT")))
    return tuple(float(source.at(stream, space)) for source, spaces in sources for space in spaces)


def nearest(stream: str, n_spaces: int) -> float:
    """The attainable correlation that is nearest to the printed one."""
    source = FIVE_ELSEWHERE if n_spaces == len(FIVE) else THREE_ELSEWHERE
    return _closest(attainable(eight_gains(stream)[:n_spaces]), float(source.at(stream, "rho")))


def _closest(values: Iterable[float], to: float) -> float:
    return min(values, key=lambda value: abs(value - to))


def cross_domain_ranks() -> list[Check]:
    """Purities are not printed here; but ties among gains exclude some correlations."""
    checks = []
    for source, n_spaces in ((FIVE_ELSEWHERE, 5), (THREE_ELSEWHERE, 8)):
        said = source.column("rho")
        checks += [
            number(source.label, NEAREST, stream, said[stream], nearest(stream, n_spaces))
            for stream in SIX
        ]
        five = mean([reach_of(said[stream]) for stream in SIX[:5]])
        checks.append(number(source.label, "mean of five", "rho", said["mean"], five))
    ranges = [reach_of(FIVE_ELSEWHERE.at(stream, "range")) for stream in SIX[:5]]
    said_range = FIVE_ELSEWHERE.at("mean", "range")
    midranked = sum(nearest(stream, 5) for stream in SIX[:5]) / 5
    return [
        *checks,
        number(FIVE_ELSEWHERE.label, "mean of five", "range", said_range, mean(ranges)),
        number(
            "sec:s_scope",
            "mean of five",
            "rho, five spaces, one seed",
            stated("sec:s_scope", "mean correlation, five streams, five spaces, one seed"),
            midranked,
        ),
    ]


def spacings() -> list[Check]:
    """How far apart correlations of untied ranks are."""
    checks = []
    for n_spaces in (5, 8):
        what = "smallest step between correlations"
        printed = stated("sec:s_figures", f"{what}, n = {n_spaces}")
        values = attainable(tuple(map(float, range(n_spaces))))
        steps = {round(b - a, 9) for a, b in itertools.pairwise(values)}
        checks.append(number("sec:s_figures", what, f"n = {n_spaces}", printed, min(steps)))
    six = attainable(tuple(map(float, range(6))))
    for measure in ("purity at 5", "anti-hub", "skewness"):
        row = f"correlation of {measure} and gain, six streams"
        printed = stated("sec:s_discarded", row)
        closest = _closest(six, float(printed))
        what = "nearest correlation of six streams"
        checks.append(number("sec:s_discarded", what, printed.text, printed, closest))
    return checks


def correlations_over_seeds() -> list[Check]:
    """Three seeds of the sixteen spaces, and a mean over streams that the text gives."""
    seeds = [SEEDS16.at(seed, "rho") for seed in "012"]
    first = judged(SPACES16, "purity A", "gain A").rank_correlation
    said = SEEDS16.numbers("mean", "rho")
    six = mean([reach_of(FIVE_ELSEWHERE.at(stream, "rho")) for stream in SIX])
    said_six = stated("sec:s_transfer", "correlation, oracle and held-out, six streams")
    return [
        number(SEEDS16.label, RHO, "seed 0", seeds[0], first),
        *over_seeds(SEEDS16.label, "rho", [reach_of(seed) for seed in seeds], said),
        number("sec:s_transfer", "mean of six", "rho, five spaces, oracle", said_six, six),
    ]


def claims_about_ranks() -> list[Check]:
    """What the text says about the correlations of its tables."""
    high = [stream for stream in SIX if float(THREE_ELSEWHERE.at(stream, "rho")) >= 0.8]
    repeated = [
        (BATCHES.rows[f"{stream}, 2000"][0], RANK_INTERVALS.rows[f"purity, {stream}"][1])
        for stream in ("A", "V2")
    ]
    worst, share = min(BATCHES.column("no regret").items(), key=lambda item: item[1].value)
    return [
        claim(
            "sec:capacity",
            "cross-domain streams with rho of at least 0.80",
            "eight spaces",
            "five of six",
            f"two of six ({', '.join(high)})" if len(high) == 2 else f"{len(high)} of six",
            holds=len(high) == 5,
        ),
        claim(
            RANK_INTERVALS.label,
            "interval at 2,000 images as in tab:s_bootstrap_selection",
            "A and V2",
            "; ".join(second for _, second in repeated),
            "; ".join(first for first, _ in repeated),
            holds=all(numbers(a) == numbers(b.replace("+", "")) for a, b in repeated),
        ),
        claim(
            "sec:s_ci",
            "zero regret at every calibration size",
            "both streams",
            "always",
            f"in {share.text} of the batches ({worst})",
            holds=share.value == 1,
        ),
    ]


def rank_checks() -> list[Check]:
    """All of them."""
    return [
        *sixteen_spaces(),
        *subsets_of_sixteen(),
        near_matched_range(),
        *five_and_eight_spaces(),
        *transfer_ranks(),
        *cross_domain_ranks(),
        *spacings(),
        *correlations_over_seeds(),
        *claims_about_ranks(),
    ]
