"""Where a study has the paper's rank correlations, and what choosing a space by them loses."""

from __future__ import annotations

from marc.paper import spaces
from marc.paper.numbers import Table
from marc.verifying.expected import Expected, Part, Place, declare, unanswered
from marc.verifying.mapping_spaces import ALL_WEIGHTS, BOTH_GRIDS, CONTROLLED
from marc.verifying.names import DATASETS, EIGHT, FIVE, RN50, SIX, SIXTEEN, SPACES, V2, A
from marc.verifying.tolerances import (
    CAPACITY,
    CAPACITY_RANKS,
    COUNT,
    EXACT,
    FEW_RANKS,
    FRACTION,
    GEOMETRY,
    ORACLE,
    ORDER,
    RANKS,
    REGRET,
    VIEWS,
    WEIGHT,
)

ALL_SIXTEEN = {**ALL_WEIGHTS, "spaces.all": SIXTEEN}
ALL_EIGHT = {**ALL_WEIGHTS, "spaces.all": EIGHT}
THE_FIVE = {**ALL_WEIGHTS, "spaces.controls": FIVE}
BATCH = {"images of a batch": 2000}
ENDS: tuple[Part, ...] = ("low", "high")
MEASURES = {"purity": "purity@10", "anti-hub": "antihub_fraction@10"}
SUBSET = (
    "The paper's oracle is over 58 and 56 configurations that it does not list; a study's is over "
    "its whole grid."
)
MATCHED = (
    "The paper's near-matched spaces gain 4.4 to 10.0 points; a study takes shares of the best."
)
TWO_SEEDS = "The paper averages two orders here, and one order for the other spaces."
MEAN_OF_FIVE = unanswered("a mean over five of six streams")


def _with_measure(table: Table) -> dict[str, Place]:
    """Rows such as `anti-hub, V2`."""
    found = {}
    for row in table.rows:
        measure, _, stream = row.partition(", ")
        found[row] = Place(row={"measure": MEASURES[measure]}, dataset=DATASETS[stream])
    return found


def _ranked() -> list[Expected]:
    gain = Place(column="correlation, first order")
    return declare(
        spaces.SPACES16_RANKS,
        Place(table="spaces-ranked", settings=CONTROLLED, plan=ALL_SIXTEEN, tolerance=RANKS),
        {
            "gain A": gain.of(also=Place(dataset=A)),
            "gain V2": gain.of(also=Place(dataset=V2)),
        },
        {
            "purity": Place(row={"measure": MEASURES["purity"]}),
            "anti-hub": Place(row={"measure": MEASURES["anti-hub"]}),
            "regret": Place(row={"measure": MEASURES["purity"]}, column="regret", tolerance=REGRET),
        },
    )


def _seeds() -> list[Expected]:
    rows = {row: Place(row={"order": row}) for row in spaces.SEEDS16.rows}
    rows["mean"] = rows["mean"].of(also=Place(settings={"orders": 3}))
    return declare(
        spaces.SEEDS16,
        Place(table="correlations-orders", dataset=A, settings=CONTROLLED, plan=ALL_SIXTEEN),
        {
            "rho": Place(column="correlation", tolerance=RANKS),
            "gain": Place(column="G* of leader", tolerance=ORACLE),
            "regret": Place(column="regret", tolerance=REGRET),
        },
        rows,
    )


def _checks() -> list[Expected]:
    return declare(
        spaces.RANK_CHECKS,
        Place(table="correlations-checks", settings=CONTROLLED, plan=ALL_SIXTEEN),
        {
            "n": Place(column="spaces", tolerance=COUNT),
            "rho": Place(column="correlation", tolerance=RANKS),
            "regret": Place(column="regret", tolerance=REGRET),
        },
        {
            "A, all": Place(row={"set": "all"}, dataset=A),
            "A, positive": Place(row={"set": "positive gain"}, dataset=A),
            "V2, all": Place(row={"set": "all"}, dataset=V2),
            "V2, positive": Place(row={"set": "positive gain"}, dataset=V2),
            "A, near-matched": Place(row={"set": "near-matched"}, dataset=A, note=MATCHED),
            "A, ResNet-50": Place(row={"set": "all"}, dataset=A, predictor=RN50),
        },
    )


def _five() -> list[Expected]:
    def outcome(name: str) -> tuple[Place, ...]:
        kind = CAPACITY_RANKS if name == "K*" else FEW_RANKS
        whole = Place(column=f"with {name}, all images", tolerance=kind)
        batches = whole.of(
            also=Place(column=f"with {name}, batches", row=BATCH, settings={"batches": 300})
        )
        return (whole, *(batches.of(also=Place(part=part)) for part in ENDS))

    return declare(
        spaces.CORRELATIONS,
        Place(
            table="correlations",
            settings={"views": 1},
            plan={**BOTH_GRIDS, "spaces.controls": FIVE},
        ),
        {"oracle": outcome("ceiling"), "capacity": outcome("K*")},
        _with_measure(spaces.CORRELATIONS),
    )


def _intervals() -> list[Expected]:
    return declare(
        spaces.RANK_INTERVALS,
        Place(table="correlations-batches", settings=CONTROLLED, plan=ALL_SIXTEEN, tolerance=RANKS),
        {
            "full": Place(column="all images"),
            "at 2000": Place(column="batches", row=BATCH, settings={"batches": 300}),
        },
        _with_measure(spaces.RANK_INTERVALS),
    )


def _batches() -> list[Expected]:
    rows = {}
    for row in spaces.BATCHES.rows:
        stream, _, size = row.partition(", ")
        rows[row] = Place(row={"n": size}, dataset=DATASETS[stream])
    return declare(
        spaces.BATCHES,
        Place(
            table="batches",
            row={"measure": "purity@10"},
            settings={**CONTROLLED, "draws": 300},
            plan=ALL_SIXTEEN,
        ),
        {
            "rho": Place(column="correlation", tolerance=RANKS),
            "no regret": Place(column="zero regret", tolerance=FRACTION),
        },
        rows,
    )


def _joint() -> list[Expected]:
    return declare(
        spaces.JOINT,
        Place(
            table="joint-choice",
            datasets=(A, V2),
            row={"candidates": "all"},
            settings={"views": 1},
            plan={**BOTH_GRIDS, "spaces.all": SIXTEEN},
            tolerance=ORDER,
        ),
        {
            "capacity, weight": (
                Place(column="K", tolerance=CAPACITY),
                Place(column="w", tolerance=WEIGHT),
            ),
            "accuracy": Place(column="accuracy, first order"),
            "gain": Place(column="gain, first order"),
            "oracle": Place(column="oracle, first order", note=SUBSET),
            "regret": Place(column="regret, first order", note=SUBSET, tolerance=REGRET),
        },
        {"A": Place(dataset=A), "V2": Place(dataset=V2)},
    )


def _rules() -> list[Expected]:
    rules = {
        "purity at 5": "purity@5",
        "purity at 10": "purity@10",
        "lowest skewness": "hub_skewness@10",
        "lowest anti-hub": "antihub_fraction@10",
    }
    return declare(
        spaces.SELECTION,
        Place(
            table="selection-rules",
            datasets=(A, V2, *SIX),
            groups=("main", "domain"),
            row={"candidates": "all"},
            settings={"capacity": 8},
            plan=ALL_EIGHT,
            tolerance=REGRET,
        ),
        {
            "hits": (
                Place(column="hits", tolerance=COUNT),
                Place(column="streams", tolerance=EXACT),
            ),
            "mean": Place(column="mean regret"),
            "worst": Place(column="worst regret"),
        },
        {name: Place(row={"rule": rule}) for name, rule in rules.items()},
    )


def _elsewhere() -> list[Expected]:
    """Streams of other classes, four views, candidates of sixteen, five and eight spaces."""
    base = Place(table="selection-streams", row={"views": "4"}, settings={"capacity": 8})
    all_spaces, controls = {"candidates": "all"}, {"candidates": "controls"}
    streams = {
        name: Place(dataset=DATASETS[name])
        for name in spaces.FIVE_ELSEWHERE.rows
        if name in DATASETS
    } | {"mean": MEAN_OF_FIVE}
    ceiling = Place(
        table="selection-streams-ceilings",
        column="G*, first order",
        plan=ALL_WEIGHTS,
        tolerance=VIEWS,
    )

    def ceilings(*names: str) -> dict[str, Place]:
        return {name: ceiling.of(also=Place(row={"space": SPACES[name]})) for name in names}

    five = ceilings("MAE", "CLIP", "DINOv2-S", "DINOv2-B", "DINOv2-L")
    five["DINOv2-B"] = five["DINOv2-B"].of(also=Place(column="G*, all orders", note=TWO_SEEDS))
    return [
        *declare(
            spaces.SIXTEEN_ELSEWHERE,
            base.of(also=Place(row=all_spaces, plan=ALL_SIXTEEN)),
            {
                "range": Place(column="purity range", tolerance=GEOMETRY),
                "ties": Place(column="ties", tolerance=COUNT),
                "rho": Place(column="correlation", tolerance=RANKS),
                "regret": Place(column="regret", tolerance=REGRET),
            },
            streams,
        ),
        *declare(
            spaces.FIVE_ELSEWHERE,
            base,
            {
                **five,
                "rho": Place(
                    column="correlation", row=controls, plan=THE_FIVE, tolerance=FEW_RANKS
                ),
                "range": Place(
                    column="purity range", row=controls, plan=THE_FIVE, tolerance=GEOMETRY
                ),
            },
            streams,
        ),
        *declare(
            spaces.THREE_ELSEWHERE,
            base,
            {
                **ceilings("Supervised", "DINO v1", "BEiT"),
                "rho": Place(
                    column="correlation, first order",
                    row=all_spaces,
                    plan=ALL_EIGHT,
                    tolerance=RANKS,
                ),
            },
            streams,
        ),
    ]


EXPECTED: tuple[Expected, ...] = (
    *_ranked(),
    *_seeds(),
    *_checks(),
    *_five(),
    *_intervals(),
    *_batches(),
    *_joint(),
    *_rules(),
    *_elsewhere(),
)
