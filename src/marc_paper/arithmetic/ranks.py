"""Rank correlations, choices and regrets, from the paper's printed purities and gains."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np
from scipy.stats import rankdata

from marc.stats import spearman
from marc_paper.analysis.regrets import Choice
from marc_paper.arithmetic.checks import Check, Reach, Section, claim, number, over_seeds
from marc_paper.printed import Table, numbers, stated, table

FIVE = ("MAE", "CLIP", "DINOv2-S", "DINOv2-B", "DINOv2-L")
SIX = ("Pets", "Caltech101", "DTD", "UCF101", "Flowers102", "EuroSAT")
_NEAR = ("DINOv2-B", "DeiT-III", "DINOv3-B", "CLIP-L", "Supervised", "EVA-02 CLIP")
"""The six of the near-matched row: the only six neighbours in gain below DINOv2-L."""
_RHO = "rank correlation"
_NEAREST = "nearest correlation that the gains allow"


def judged(
    source: Table, measure: str, outcome: str, rows: Iterable[str] | None = None, sign: int = 1
) -> Choice:
    """What a measure chooses among the rows of a table, and how it ranks them."""
    scores = {row: sign * float(n) for row, n in source.column(measure, rows).items()}
    gains = {row: float(n) for row, n in source.column(outcome, scores).items()}
    return Choice.of(source.label, scores, gains)


def eight_gains(stream: str) -> tuple[float, ...]:
    """Oracle gains of the eight spaces on a cross-domain stream."""
    three = ("Supervised", "DINO v1", "BEiT")
    sources = ((table("five_elsewhere"), FIVE), (table("three_elsewhere"), three))
    return tuple(float(source.at(stream, space)) for source, spaces in sources for space in spaces)


def _sixteen_spaces() -> Iterator[Check]:
    """Purity and anti-hubs against gains; anti-hubs of ImageNet-V2 are not printed."""
    spaces, ranks = table("spaces16"), table("spaces16_ranks")
    for stream in ("A", "V2"):
        choice = judged(spaces, f"purity {stream}", f"gain {stream}")
        printed = ranks.column(f"gain {stream}")
        rho, item = choice.rank_correlation, f"purity, {stream}"
        yield number(spaces.label, _RHO, item, printed["purity"], rho)
        yield number(spaces.label, "regret of purity", stream, printed["regret"], choice.regret)
    rho = judged(spaces, "anti-hub A", "gain A", sign=-1).rank_correlation
    yield number(spaces.label, _RHO, "anti-hubs, A", ranks.at("anti-hub", "gain A"), rho)


def _subsets_of_sixteen() -> Iterator[Check]:
    """All, positive gains only, and the six near-matched spaces."""
    source, spaces = table("rank_checks"), table("spaces16")
    for row in ("A, all", "A, positive", "V2, all", "V2, positive", "A, near-matched"):
        stream, kind = row.split(", ")
        gains = spaces.column(f"gain {stream}")
        rows = [space for space, gain in gains.items() if kind != "positive" or gain.value > 0]
        rows = list(_NEAR) if kind == "near-matched" else rows
        choice = judged(spaces, f"purity {stream}", f"gain {stream}", rows)
        rho, what = source.column("rho")[row], "chosen space, without regret"
        yield number(source.label, _RHO, row, rho, choice.rank_correlation)
        chosen, computed = source.rows[row][2], f"{choice.chosen}, regret {choice.regret:.2f}"
        holds = (choice.chosen, choice.regret) == (chosen, 0)
        yield claim(source.label, what, row, chosen, computed, holds=holds)
        yield number(source.label, "number of spaces", row, source.at(row, "n"), len(rows))


def _near_matched_range() -> Iterator[Check]:
    """The range that the near-matched row names, against the gains of the table."""
    gains = {space: float(gain) for space, gain in table("spaces16").column("gain A").items()}
    inside = [space for space, gain in gains.items() if 4.4 <= gain <= 10.0]
    ends = sorted(gains[space] for space in _NEAR)
    yield claim(
        table("rank_checks").label,
        "near-matched spaces by gain",
        "A",
        "six between 4.4 and 10.0",
        f"{len(inside)} in between; the six span {ends[0]:.2f} to {ends[-1]:.2f}",
        holds=len(inside) == len(_NEAR),
    )


def _five_and_eight_spaces() -> Iterator[Check]:
    """Geometry against oracle gain and best capacity."""
    spaces, eight, source = table("spaces16"), table("eight"), table("correlations")
    for outcome in ("oracle", "capacity"):
        for measure, sign in (("purity", 1), ("anti-hub", -1)):
            rho = judged(table("swap"), measure, outcome, FIVE, sign).rank_correlation
            item = f"five spaces, A: {measure} and {outcome}"
            yield number(source.label, _RHO, item, source.at(f"{measure}, A", outcome), rho)
    rho = judged(spaces, "purity V2", "gain V2", FIVE).rank_correlation
    item = "five spaces, V2: purity and oracle"
    yield number(source.label, _RHO, item, source.at("purity, V2", "oracle"), rho)
    on_a = judged(eight, "purity", "oracle").rank_correlation
    on_v2 = judged(spaces, "purity V2", "gain V2", eight.rows).rank_correlation
    label = "sec:s_newspaces"
    for stream, rho in (("A", on_a), ("V2", on_v2)):
        printed = stated(label, f"correlation of purity and gain, {stream}, eight spaces")
        yield number(label, _RHO, f"eight spaces, {stream}: purity and oracle", printed, rho)


def _transfer_ranks() -> Iterator[Check]:
    """Purity against oracle and held-out gains of five spaces."""
    source, purity = table("transfer"), [float(table("swap").at(s, "purity")) for s in FIVE]
    for kind in ("oracle", "held-out"):
        rho = spearman(purity, [float(source.at(space, kind)) for space in FIVE])
        printed = source.at("correlation", kind)
        yield number(source.label, _RHO, f"purity and {kind}", printed, rho)


@cache
def _attainable(gains: tuple[float, ...]) -> tuple[float, ...]:
    """Every correlation that some measure without ties can have with these gains."""
    orders = np.array(list(itertools.permutations(range(len(gains)))))
    sums = np.unique((2 * orders - len(gains) + 1) @ rankdata(gains))
    highest = spearman(rankdata(gains, "ordinal"), gains)  # fixes the scale of the sums
    return tuple(float(value) for value in sums * (highest / sums[-1]))


def _closest(values: Iterable[float], to: float) -> float:
    return min(values, key=lambda value: abs(value - to))


def _cross_domain_ranks() -> Iterator[Check]:
    """Purities are not printed here; but ties among gains exclude some correlations."""
    closest: dict[tuple[str, int], float] = {}
    for name, n_spaces in (("five_elsewhere", 5), ("three_elsewhere", 8)):
        source = table(name)
        printed = source.column("rho")
        for stream in SIX:
            values = _attainable(eight_gains(stream)[:n_spaces])
            closest[stream, n_spaces] = rho = _closest(values, float(printed[stream]))
            yield number(source.label, _NEAREST, stream, printed[stream], rho)
        five = Reach.mean([printed[stream] for stream in SIX[:5]])
        yield number(source.label, "mean of five", "rho", printed["mean"], five)
    source, what = table("five_elsewhere"), "mean of five"
    ranges = Reach.mean([source.at(stream, "range") for stream in SIX[:5]])
    yield number(source.label, what, "range", source.at("mean", "range"), ranges)
    with_midranks = sum(closest[stream, 5] for stream in SIX[:5]) / 5
    text = stated("sec:s_scope", "mean correlation, five streams, five spaces, one seed")
    yield number("sec:s_scope", what, "rho, five spaces, one seed", text, with_midranks)


def _spacings() -> Iterator[Check]:
    """How far apart correlations of untied ranks are."""
    what = "smallest step between correlations"
    for n_spaces in (5, 8):
        printed = stated("sec:s_figures", f"{what}, n = {n_spaces}")
        values = _attainable(tuple(map(float, range(n_spaces))))
        steps = {round(b - a, 9) for a, b in itertools.pairwise(values)}
        yield number("sec:s_figures", what, f"n = {n_spaces}", printed, min(steps))
    six, what = _attainable(tuple(map(float, range(6)))), "nearest correlation of six streams"
    for measure in ("purity at 5", "anti-hub", "skewness"):
        printed = stated("sec:s_discarded", f"correlation of {measure} and gain, six streams")
        rho = _closest(six, float(printed))
        yield number("sec:s_discarded", what, printed.text, printed, rho)


def _correlations_over_seeds() -> Iterator[Check]:
    """Three seeds of the sixteen spaces, and a mean over streams that the text gives."""
    source = table("seeds16")
    seeds = [source.at(seed, "rho") for seed in "012"]
    first = judged(table("spaces16"), "purity A", "gain A").rank_correlation
    yield number(source.label, _RHO, "seed 0", seeds[0], first)
    yield from over_seeds(source.label, "rho", seeds, source.numbers("mean", "rho"))
    six = Reach.mean([table("five_elsewhere").at(stream, "rho") for stream in SIX])
    printed = stated("sec:s_transfer", "correlation, oracle and held-out, six streams")
    yield number("sec:s_transfer", "mean of six", "rho, five spaces, oracle", printed, six)


def _claims_about_ranks() -> Iterator[Check]:
    """What the text says about the correlations of its tables."""
    high = [s for s in SIX if float(table("three_elsewhere").at(s, "rho")) >= 0.8]
    yield claim(
        "sec:capacity",
        "cross-domain streams with rho of at least 0.80",
        "eight spaces",
        "five of six",
        f"two of six ({', '.join(high)})" if len(high) == 2 else f"{len(high)} of six",
        holds=len(high) == 5,
    )
    batches, intervals = table("batches"), table("rank_intervals")
    repeated = [
        (batches.rows[f"{stream}, 2000"][0], intervals.rows[f"purity, {stream}"][1])
        for stream in ("A", "V2")
    ]
    yield claim(
        intervals.label,
        "interval at 2,000 images as in tab:s_bootstrap_selection",
        "A and V2",
        "; ".join(second for _, second in repeated),
        "; ".join(first for first, _ in repeated),
        holds=all(numbers(a) == numbers(b.replace("+", "")) for a, b in repeated),
    )
    what, printed = "zero regret at every calibration size", "both streams"
    worst, fraction = min(batches.column("no regret").items(), key=lambda item: item[1].value)
    computed = f"in {fraction.text} of the batches ({worst})"
    yield claim("sec:s_ci", what, printed, "always", computed, holds=fraction.value == 1)


RANKS = Section(
    "Rank correlations",
    "Spearman's with midranks, from printed purities, anti-hubs and gains. Where purities are "
    "not printed: the nearest value that any purities can have with those gains.",
    (
        *(_sixteen_spaces, _subsets_of_sixteen, _near_matched_range, _five_and_eight_spaces),
        *(_transfer_ranks, _cross_domain_ranks, _spacings, _correlations_over_seeds),
        _claims_about_ranks,
    ),
    (_RHO, _NEAREST),
)
