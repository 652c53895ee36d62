"""Statements of the text about streams, anti-hubs and weights, held against the tables."""

from __future__ import annotations

from fractions import Fraction

from benchmarks.paper.checks import Check, claim, number
from benchmarks.paper.ranks import FIVE, SIX, eight_gains, judged
from benchmarks.paper.reaches import exact, reach_of, whole_counts
from marc_paper.printed import (
    EIGHT,
    FIVE_ELSEWHERE,
    N_IMAGES,
    PAIRED16,
    PRINTED,
    SIXTEEN_ELSEWHERE,
    SPACES16,
    STATEMENTS,
    SWAP,
    THREE_ELSEWHERE,
    stated,
)


def about_eurosat() -> list[Check]:
    """The stream on which the rule fails."""
    ranges = {stream: FIVE_ELSEWHERE.at(stream, "range").value for stream in SIX}
    narrow = ranges.pop("EuroSAT")
    gains = eight_gains("EuroSAT")
    large = gains[FIVE.index("DINOv2-L")]
    place = 1 + sum(gain > large for gain in gains)
    below = reach_of(FIVE_ELSEWHERE.at("EuroSAT", "DINOv2-S")) - reach_of(
        FIVE_ELSEWHERE.at("EuroSAT", "DINOv2-L")
    )
    said_place = stated("sec:s_scope", "place of DINOv2-L on EuroSAT, eight spaces")
    said_below = stated("sec:s_eurosat", "oracle gain, DINOv2-L below DINOv2-S")
    clip = {stream: FIVE_ELSEWHERE.at(stream, "CLIP") for stream in SIX}
    return [
        claim(
            "sec:s_scope",
            "next-narrowest purity range over that of EuroSAT",
            "five spaces",
            "over three times",
            f"{float(min(ranges.values()) / narrow):.2f}",
            holds=min(ranges.values()) > 3 * narrow,
        ),
        number("sec:s_scope", "place of DINOv2-L on EuroSAT", "of eight", said_place, place),
        number("sec:s_eurosat", "DINOv2-L below DINOv2-S", "EuroSAT", said_below, below),
        claim(
            "sec:s_transfer",
            "CLIP memory contributes over one point",
            "EuroSAT",
            "there alone",
            f"{clip['EuroSAT'].text} there, {clip['UCF101'].text} on UCF101",
            holds=[stream for stream in SIX if clip[stream].value > 1] == ["EuroSAT"],
        ),
    ]


def about_streams() -> list[Check]:
    """Best spaces, ties and ranges."""
    on_imagenet = [judged(SPACES16, f"purity {s}", f"gain {s}").best for s in ("A", "V2")]
    column = SIXTEEN_ELSEWHERE.columns.index("best")
    best = {*on_imagenet, *(cells[column] for cells in SIXTEEN_ELSEWHERE.rows.values())}
    zeros = {stream: eight_gains(stream).count(0) for stream in SIX}
    ties, ranges = (SIXTEEN_ELSEWHERE.column(name) for name in ("ties", "range"))
    said_none = stated("sec:s_scope", "streams of five without gain, DINO v1")
    none = [THREE_ELSEWHERE.at(stream, "DINO v1").value for stream in SIX[:5]].count(Fraction())
    return [
        claim(
            "sec:intro",
            "different best spaces over five streams",
            "sixteen spaces",
            "four",
            f"three ({', '.join(sorted(best))})" if len(best) == 3 else str(len(best)),
            holds=len(best) == 4,
        ),
        claim(
            SIXTEEN_ELSEWHERE.label,
            "no fewer ties and no narrower ranges than among eight or five spaces",
            "three streams",
            "sixteen contain them",
            "so it is",
            holds=all(n.value >= zeros[s] for s, n in ties.items())
            and all(n.value >= FIVE_ELSEWHERE.at(s, "range").value for s, n in ranges.items()),
        ),
        number("sec:s_scope", "streams without gain for DINO v1", "of five", said_none, none),
    ]


def anti_hubs() -> list[Check]:
    """The same fractions printed twice, with two digits and with one, and what is said of them."""
    source = SPACES16.column("anti-hub A")
    checks = [
        number(other.label, "anti-hubs as in tab:spaces16", space, printed, reach_of(source[space]))
        for other in (SWAP, EIGHT)
        for space, printed in other.column("anti-hub").items()
    ]
    family = sorted(source[f"DINOv2-{size}"].value for size in "SBL")
    span = f"{float(family[0]):.2f} to {float(family[-1]):.2f}"
    [v1] = whole_counts(source["DINO v1"], N_IMAGES)
    figure, supervised = "fig:s_geometry", source["Supervised"]
    of_v1 = exact(Fraction(100 * v1, N_IMAGES))
    return [
        *checks,
        number(figure, "anti-hubs", "DINO v1", stated(figure, "anti-hub, DINO v1"), of_v1),
        claim(
            figure,
            "anti-hubs between those of CLIP and of DINOv2",
            "supervised ViT",
            stated(figure, "anti-hub, Supervised").text,
            f"{supervised.text}, while DINOv2 has {span}",
            holds=family[-1] < supervised.value < source["CLIP"].value,
        ),
    ]


def capacities() -> list[Check]:
    """Best capacities that figures name, and the room of a memory."""
    best = {space: int(n.value) for space, n in EIGHT.column("capacity").items()}
    family = sorted(best[f"DINOv2-{size}"] for size in "SBL")
    found = f"{family[0]} to {family[-1]}, {best['CLIP']}, {best['BEiT']}"
    figure = STATEMENTS["fig:s_geometry"]
    said = ", ".join(figure.cell(f"capacity, {s}", PRINTED) for s in ("DINOv2", "CLIP", "BEiT"))
    keys = STATEMENTS["fig:s_kernel"].numbers("active keys of all, CLIP", PRINTED)[1]
    return [
        claim(
            figure.label,
            "best capacities",
            "DINOv2, CLIP, BEiT",
            said,
            found,
            holds=found == said,
        ),
        claim(
            "fig:s_kernel",
            "keys in a memory of eight for each of 200 classes",
            "A",
            keys.text,
            f"at most {8 * 200:,}",
            holds=keys.value <= 8 * 200,
        ),
    ]


def oracles_and_fixed() -> list[Check]:
    """Weight 10 is on the grid, so that no oracle gain lies below the gain at weight 10."""
    checks = [
        claim(
            source.label,
            "oracle gain, at least the gain at w = 10",
            space,
            source.at(space, "oracle").text,
            f"{source.at(space, 'gain at 10').text} at w = 10",
            holds=source.at(space, "oracle").value >= source.at(space, "gain at 10").value,
        )
        for source, rows in ((PAIRED16, PAIRED16.rows), (SWAP, FIVE))
        for space in rows
    ]
    same = [PAIRED16.at(s, "oracle").text == SPACES16.at(s, "gain A").text for s in PAIRED16.rows]
    gains = [float(gain) for gain in EIGHT.column("oracle").values()]
    return [
        *checks,
        number(PAIRED16.label, "oracle gains as in tab:spaces16", "rows", "16", sum(same)),
        claim(
            EIGHT.label,
            "rows in the order of their gains",
            "eight",
            "ascending",
            "ascending",
            holds=gains == sorted(gains),
        ),
    ]


def statement_checks() -> list[Check]:
    """All of them."""
    return [
        *about_eurosat(),
        *about_streams(),
        *anti_hubs(),
        *capacities(),
        *oracles_and_fixed(),
    ]
