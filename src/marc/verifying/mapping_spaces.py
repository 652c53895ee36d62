"""Where a study has the paper's values about spaces: gains, their tests and their ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marc.paper import spaces, systems
from marc.types import CAPACITIES, WEIGHTS
from marc.verifying.expected import ARITHMETIC, Expected, Place, declare
from marc.verifying.names import FIVE, OWN, SPACES, STRONG, V2, A
from marc.verifying.tolerances import (
    BASE,
    CAPACITY,
    FEW_RANKS,
    GEOMETRY,
    IMAGES,
    LOG10_P,
    ORACLE,
    ORDER,
    WEIGHT,
)

ONE_VIEW: Mapping[str, Any] = {"views": 1}
CONTROLLED: Mapping[str, Any] = {"views": 1, "capacity": 8}
ALL_WEIGHTS: Mapping[str, Any] = {"grids.weights": WEIGHTS}
BOTH_GRIDS: Mapping[str, Any] = {**ALL_WEIGHTS, "grids.capacities": CAPACITIES}
CLIP_GAINS = (
    "The paper prints three oracle gains of CLIP on ImageNet-A, +0.44, +0.56 and +0.62: they "
    "differ in capacity and orders."
)
FIXED_GAINS = (
    "At w = 10 the paper prints -4.00 for CLIP at K = 2 and -10.28 at K = 8, and for MAE -17.91 "
    "at K = 1 and -43.68 at K = 8."
)
TWO_OR_THREE = "The caption of this table says two orders, the text three."


def rows_of_spaces(*names: str) -> dict[str, Place]:
    """Rows of some spaces of the paper; of all by default."""
    return {name: Place(row={"space": SPACES[name]}) for name in names or SPACES}


def _sixteen() -> list[Expected]:
    gain = Place(column="G*, first order", settings=CONTROLLED, plan=ALL_WEIGHTS, tolerance=ORACLE)
    purity = Place(column="purity@10", tolerance=GEOMETRY)
    antihub = Place(column="anti-hubs@10", tolerance=GEOMETRY)
    return declare(
        spaces.SPACES16,
        Place(table="spaces"),
        {
            "purity A": purity.of(also=Place(dataset=A)),
            "purity V2": purity.of(also=Place(dataset=V2)),
            "anti-hub A": antihub.of(also=Place(dataset=A)),
            "gain A": gain.of(also=Place(dataset=A)),
            "gain V2": gain.of(also=Place(dataset=V2)),
        },
        rows_of_spaces(),
        {("CLIP", "gain A"): Place(note=CLIP_GAINS)},
    )


def _paired() -> list[Expected]:
    fixed = {**CONTROLLED, "weight": 10.0}
    contradiction = Place(note=FIXED_GAINS)
    return declare(
        spaces.PAIRED16,
        Place(table="paired", dataset=A, settings=fixed),
        {
            "gain at 10": Place(column="gain at K, w", tolerance=ORDER),
            "discordant": Place(column="discordant", tolerance=IMAGES),
            "p": Place(column="McNemar p", tolerance=LOG10_P),
            "oracle": Place(column="G*", plan=ALL_WEIGHTS, tolerance=ORACLE),
        },
        rows_of_spaces(),
        {
            ("CLIP", "gain at 10"): contradiction,
            ("MAE", "gain at 10"): contradiction,
            ("CLIP", "oracle"): Place(note=CLIP_GAINS),
        },
    )


def _swap() -> list[Expected]:
    span = {"space": "span"}
    return declare(
        spaces.SWAP,
        Place(table="controls", dataset=A, settings=ONE_VIEW, tolerance=ORDER),
        {
            "purity": Place(column="purity@10", tolerance=GEOMETRY),
            "anti-hub": Place(column="anti-hubs@10", tolerance=GEOMETRY),
            "capacity": Place(column="K*", plan=BOTH_GRIDS, tolerance=CAPACITY),
            "weight": Place(column="w*", plan=BOTH_GRIDS, tolerance=WEIGHT),
            "accuracy": Place(column="accuracy at K*, w", settings={"weight": 10.0}),
            "gain at 10": Place(column="gain at K*, w", settings={"weight": 10.0}),
            "oracle": Place(
                column="G* at K*", settings={"orders": 3}, plan=BOTH_GRIDS, tolerance=ORACLE
            ),
            "held-out": Place(
                column="G^tr at K",
                settings={"capacity": 8, "orders": 3},
                plan=ALL_WEIGHTS,
                tolerance=ORACLE,
            ),
        },
        {
            **rows_of_spaces("MAE", "CLIP", "DINOv2-S", "DINOv2-B", "DINOv2-L"),
            "span": Place(row=span, plan={"spaces.controls": FIVE}),
        },
        {
            ("CLIP", "oracle"): Place(note=CLIP_GAINS),
            ("CLIP", "gain at 10"): Place(note=FIXED_GAINS),
            ("MAE", "gain at 10"): Place(note=FIXED_GAINS),
        },
    )


def _eight() -> list[Expected]:
    names = tuple(spaces.EIGHT.rows)
    return declare(
        spaces.EIGHT,
        Place(table="controls-all", dataset=A, settings=ONE_VIEW),
        {
            "purity": Place(column="purity@10", tolerance=GEOMETRY),
            "anti-hub": Place(column="anti-hubs@10", tolerance=GEOMETRY),
            "capacity": Place(column="K*", plan=BOTH_GRIDS, tolerance=CAPACITY),
            "oracle": Place(column="G* ceiling", plan=BOTH_GRIDS, tolerance=ORACLE),
        },
        rows_of_spaces(*names),
        {("CLIP", "oracle"): Place(note=CLIP_GAINS)},
    )


def _transfer() -> list[Expected]:
    ranked = Place(table="transfer-ranked", plan={"spaces.controls": FIVE})
    span = {
        ("span", "oracle"): Place(column="span of G*"),
        ("span", "held-out"): Place(column="span"),
        ("span", "cost"): Place(column="cost of span"),
        ("correlation", "oracle"): Place(column="correlation of G*", tolerance=FEW_RANKS),
        ("correlation", "held-out"): Place(column="correlation", tolerance=FEW_RANKS),
        ("correlation", "cost"): Place(never=ARITHMETIC),
    }
    return declare(
        spaces.TRANSFER,
        Place(
            table="transfer-pairs",
            dataset=A,
            datasets=(A, V2),
            row={"chosen on": f"@{V2}", "views": "1"},
            settings={"capacity": 8},
            plan=ALL_WEIGHTS,
            tolerance=ORACLE,
            note=TWO_OR_THREE,
        ),
        {
            "oracle": Place(column="G*"),
            "held-out": Place(column="gain"),
            "cost": Place(column="cost"),
        },
        {
            **rows_of_spaces("MAE", "CLIP", "DINOv2-S", "DINOv2-B", "DINOv2-L"),
            "span": ranked,
            "correlation": ranked,
        },
        {**span, ("CLIP", "oracle"): Place(note=f"{CLIP_GAINS} {TWO_OR_THREE}")},
    )


def _alone() -> list[Expected]:
    return declare(
        systems.ALONE,
        Place(table="memory-alone", dataset=A, settings=CONTROLLED, tolerance=ORDER),
        {"accuracy": Place(column="accuracy"), "difference": Place(column="difference")},
        {
            "no memory": Place(row={"space": "no memory"}, tolerance=BASE),
            "CLIP": Place(row={"space": OWN}),
            "DINOv2-B": Place(row={"space": SPACES["DINOv2-B"]}),
            "DINOv2-L": Place(row={"space": STRONG}),
        },
    )


EXPECTED: tuple[Expected, ...] = (
    *_sixteen(),
    *_paired(),
    *_swap(),
    *_eight(),
    *_transfer(),
    *_alone(),
)
