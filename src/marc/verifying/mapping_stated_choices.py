"""Where a study has values that only the paper's text prints: choices, their limits and losses."""

from __future__ import annotations

from marc.paper.statements import STATEMENTS
from marc.verifying.expected import Expected, Place, unanswered
from marc.verifying.mapping_ranks import ALL_EIGHT, ALL_SIXTEEN, SUBSET, THE_FIVE
from marc.verifying.mapping_spaces import CONTROLLED
from marc.verifying.mapping_stated_spaces import ceiling, checked, gain
from marc.verifying.mapping_statements import (
    COMPUTED,
    DIFFERENCE,
    WIDE,
    first_order_gain,
    place_statements,
)
from marc.verifying.names import DATASETS, RN50, SIX, SPACES, V2, A
from marc.verifying.tolerances import (
    BASE,
    COUNT,
    EXACT,
    FEW_RANKS,
    GEOMETRY,
    RANGE,
    RANKS,
    REGRET,
    VIEWS,
)

SIX_STREAMS = unanswered("the paper does not name these streams")
SEVERAL = unanswered("a summary over some of its streams")
ONE_EACH = unanswered("the correlation of two measures on one stream")


def rule(name: str, column: str, candidates: str) -> Place:
    """A rule over eight streams."""
    plan = ALL_EIGHT if candidates == "all" else THE_FIVE
    return Place(
        table="selection-rules",
        column=column,
        row={"rule": name, "candidates": candidates},
        datasets=(A, V2, *SIX),
        groups=("main", "domain"),
        settings={"capacity": 8},
        plan=plan,
        tolerance=REGRET,
    )


def five_elsewhere(name: str, column: str) -> Place:
    """The five spaces on a stream of other classes."""
    return Place(
        table="selection-streams",
        column=column,
        row={"candidates": "controls", "views": "4"},
        dataset=DATASETS[name],
        settings={"capacity": 8},
        plan=THE_FIVE,
        tolerance=GEOMETRY,
    )


def transferred(column: str) -> Place:
    """Weights that were chosen on the other streams, over six streams and five spaces."""
    return Place(
        table="transfer-summary",
        column=column,
        row={"chosen on": "other domain streams"},
        datasets=SIX,
        groups=("domain",),
        settings={"capacity": 8},
        plan=THE_FIVE,
        tolerance=VIEWS,
    )


def lowest_and_highest(dataset: str, space: str) -> tuple[Place, Place]:
    """The lowest and the highest gain of three orders at four views."""
    base = Place(
        table="seed-spread-ranges",
        row={"space": SPACES[space], "views": "4"},
        dataset=DATASETS[dataset],
        settings={"capacity": 8, "weight": 10.0, "orders": 3},
        tolerance=RANGE,
    )
    lowest, highest = (base.of(also=Place(column=f"{end} gain")) for end in ("lowest", "highest"))
    return lowest, highest


def composite(dataset: str) -> Place:
    """The fitted measure among five spaces."""
    return Place(
        table="composite",
        column="correlation of composite",
        row={"candidates": "controls"},
        dataset=dataset,
        datasets=(A, V2),
        settings=CONTROLLED,
        plan=THE_FIVE,
        tolerance=FEW_RANKS,
    )


def among_eight(dataset: str) -> Place:
    """How purity ranks eight spaces."""
    return Place(
        table="selection-streams",
        column="correlation",
        row={"candidates": "all", "views": "1"},
        dataset=dataset,
        settings={"capacity": 8},
        plan=ALL_EIGHT,
        tolerance=RANKS,
    )


def _limits() -> list[Expected]:
    purity = Place(
        table="selection-streams-ceilings",
        column="purity@10",
        row={"space": SPACES["MAE"], "views": "4"},
        dataset=DATASETS["EuroSAT"],
        tolerance=GEOMETRY,
    )
    return [
        *place_statements(
            "sec:s_discarded",
            {
                "correlation of composite and gain, A, five spaces": composite(A),
                "correlation of composite and gain, V2, five spaces": composite(V2),
                "rankings of five spaces, at most": COMPUTED,
                "correlation of purity at 5 and gain, six streams": SIX_STREAMS,
                "purity at 5, DINOv2-B, five streams": SIX_STREAMS,
                "purity at 5, DINOv2-B, A and V2": unanswered(
                    "the lower and higher of two streams"
                ),
                "correlation of anti-hub and gain, six streams": SIX_STREAMS,
                "correlation of skewness and gain, six streams": SIX_STREAMS,
            },
        ),
        *place_statements(
            "tab:s_joint_selection",
            dict.fromkeys(
                STATEMENTS["tab:s_joint_selection"].rows,
                unanswered("the paper does not list its configurations").of(
                    also=Place(note=SUBSET)
                ),
            ),
        ),
        *place_statements(
            "sec:s_eurosat",
            {
                "gains over seeds, DINOv2-S, M = 4": lowest_and_highest("EuroSAT", "DINOv2-S"),
                "gains over seeds, DINOv2-L, M = 4": lowest_and_highest("EuroSAT", "DINOv2-L"),
                "gains over seeds, DTD, DINOv2-B, M = 4": lowest_and_highest("DTD", "DINOv2-B"),
                "interval over seeds, DINOv2-L, M = 4": WIDE,
                "span of that interval, DINOv2-L, M = 4": WIDE,
                "span of that interval, DINOv2-B, M = 64": WIDE,
                "gain of the memory, M = 4": first_order_gain("EuroSAT"),
                "purity range": five_elsewhere("EuroSAT", "purity range"),
                "purity ranges elsewhere": (
                    five_elsewhere("DTD", "purity range"),
                    five_elsewhere("Flowers102", "purity range"),
                ),
                "purity range of four spaces": unanswered("the range of four of its spaces"),
                "purity, MAE": purity,
                "oracle gain, DINOv2-L below DINOv2-S": DIFFERENCE,
            },
        ),
        *place_statements(
            "sec:s_transfer",
            {
                "cells of space and stream": transferred("cells").of(also=Place(tolerance=EXACT)),
                "mean cost, six streams": transferred("mean cost").of(also=Place(tolerance=REGRET)),
                "correlation, oracle and held-out, six streams": tuple(
                    transferred(column).of(also=Place(tolerance=FEW_RANKS))
                    for column in ("mean correlation of G*", "mean correlation")
                ),
                "largest loss, CLIP on EuroSAT": transferred("lowest gain"),
            },
        ),
    ]


def _choices() -> list[Expected]:
    second = Place(predictor=RN50)
    candidates = checked(V2, "all", "spaces").of(also=Place(tolerance=EXACT))
    without_gain = candidates.of(also=Place(less={"set": "positive gain"}, tolerance=COUNT))
    ranked = Place(
        table="spaces-ranked",
        column="correlation, first order",
        row={"measure": "antihub_fraction@10"},
        dataset=V2,
        settings=CONTROLLED,
        plan=ALL_SIXTEEN,
        tolerance=RANKS,
    )
    pseudo = "pseudo_purity@10"
    return [
        *place_statements(
            "sec:s_figures",
            {
                "smallest step between correlations, n = 5": COMPUTED,
                "smallest step between correlations, n = 8": COMPUTED,
                "spaces without gain, V2": (without_gain, candidates),
                "correlation of anti-hub and gain, V2, ties in order": (
                    ranked,
                    unanswered("ties count as ties in every table"),
                ),
                "accuracy, A, RN50, no memory": checked(A, "all", "no memory")
                .of(also=second)
                .of(also=Place(tolerance=BASE)),
                "oracle gains, A, RN50": (
                    checked(A, "all", "lowest G*").of(also=second),
                    checked(A, "all", "highest G*").of(also=second),
                ),
            },
        ),
        *place_statements("sec:s_scope", dict.fromkeys(STATEMENTS["sec:s_scope"].rows, SEVERAL)),
        *place_statements(
            "tab:s_scope8", dict.fromkeys(STATEMENTS["tab:s_scope8"].rows, DIFFERENCE)
        ),
        *place_statements(
            "sec:s_newspaces",
            {
                "oracle gain, A, K = 8, DINO v1, three seeds": gain(SPACES["DINO v1"]),
                "oracle gain, A, K = 8, Supervised, three seeds": gain(SPACES["Supervised"]),
                "oracle gain, V2, Supervised": ceiling(V2, SPACES["Supervised"], "G* ceiling"),
                "oracle gain, V2, DINO v1": ceiling(V2, SPACES["DINO v1"], "G* ceiling"),
                "correlation of purity and gain, A, eight spaces": among_eight(A),
                "correlation of purity and gain, V2, eight spaces": among_eight(V2),
                "mean regret of purity, five and eight spaces": (
                    rule("purity@10", "mean regret", "controls"),
                    rule("purity@10", "mean regret", "all"),
                ),
                "worst regret of purity, five and eight spaces": (
                    rule("purity@10", "worst regret", "controls"),
                    rule("purity@10", "worst regret", "all"),
                ),
                "correlation of pseudo-purity and purity, A": ONE_EACH,
                "correlation of pseudo-purity and purity, V2": ONE_EACH,
                "correlation of pseudo-purity and purity, eight streams": rule(
                    pseudo, "mean correlation with purity@10", "all"
                ).of(also=Place(tolerance=RANKS)),
                "hits of pseudo-purity": (
                    rule(pseudo, "hits", "all").of(also=Place(tolerance=COUNT)),
                    rule(pseudo, "streams", "all").of(also=Place(tolerance=EXACT)),
                ),
                "mean regret of pseudo-purity": rule(pseudo, "mean regret", "all"),
            },
        ),
    ]


EXPECTED: tuple[Expected, ...] = (*_limits(), *_choices())
