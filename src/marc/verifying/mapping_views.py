"""Where a study has the paper's values about views: gains, repairs and capacities under them."""

from __future__ import annotations

from marc.paper import systems
from marc.verifying.expected import MEAN, Expected, Place, declare
from marc.verifying.names import DATASETS, DEPLOYED, OWN, SIX, STRONG, A
from marc.verifying.tolerances import (
    BASE,
    CHANGE_OF_VIEWS,
    IMAGES,
    ORDER,
    RATIO,
    SEEN_IMAGES,
    SHARE,
    VIEWS,
)

ROLES = {"spaces.deployed": DEPLOYED}
STRONG_ROLE = {"spaces.strong": STRONG}
OWN_ROLE = {"spaces.own": OWN}
OWN_WEIGHT = (
    "The paper does not state the weight of its CLIP memory here; w = 1 is compared, as its value "
    "at one view cannot be that of w = 10."
)
SAME_RUN = "The paper prints 60.14 ± 0.38 under K = 8 and under K = 16; its views are of K = 16."
OWN_ARM, DEPLOYED_ARM, STRONG_ARM = "own memory, w = 1", "deployed memory", "strong memory"

BUDGET = Place(dataset=A, settings={"capacity": 16, "weight": 10.0}, plan=ROLES, tolerance=VIEWS)
"""Tables of the main stream at every view budget."""


def _grid() -> list[Expected]:
    own = Place(column=OWN_ARM, plan=OWN_ROLE, note=OWN_WEIGHT)
    one_view = {
        ("1", "none"): Place(tolerance=BASE),
        **{("1", column): Place(tolerance=ORDER) for column in ("CLIP", "DINOv2", "gain")},
    }
    quantities = {
        "none": "no memory",
        "CLIP": OWN_ARM,
        "DINOv2": DEPLOYED_ARM,
        "gain": "deployed gain",
    }
    changes = {("change", name): Place(row={"quantity": row}) for name, row in quantities.items()}
    changes["change", "gain"] = changes["change", "gain"].of(also=Place(tolerance=CHANGE_OF_VIEWS))
    return declare(
        systems.GRID,
        BUDGET.of(also=Place(table="view-budget")),
        {
            "none": Place(column="no memory"),
            "CLIP": own,
            "DINOv2": Place(column=DEPLOYED_ARM),
            "gain": Place(column="deployed gain, first order"),
        },
        {
            **{row: Place(row={"views": row}) for row in systems.GRID.rows if row != "change"},
            "change": Place(table="view-budget-change", column="first order"),
        },
        {**one_view, **changes},
    )


def _substitution() -> list[Expected]:
    def gain(quantity: str, views: str) -> Place:
        return Place(
            table="substitution", column="value", row={"quantity": quantity, "views": views}
        )

    def repairs(quantity: str) -> Place:
        return Place(
            table="substitution-repairs",
            column="images",
            row={"quantity": quantity},
            tolerance=SEEN_IMAGES,
        )

    change = Place(tolerance=CHANGE_OF_VIEWS)
    orders = {order: Place(row={"order": order}) for order in ("0", "1", "2")}
    return declare(
        systems.SUBSTITUTION,
        BUDGET,
        {**orders, "mean": Place(row={"order": "mean"}, settings={"orders": 3})},
        {
            "gain at 1": gain("gain", "1").of(also=Place(tolerance=ORDER)),
            "gain at 4": gain("gain", "4"),
            "gain at 64": gain("gain", "64"),
            "Sub(1, 4)": gain("Sub(1, M)", "4").of(also=change),
            "Sub(1, 64)": gain("Sub(1, M)", "64").of(also=change),
            "augmentation repairs": repairs("augmentation repairs"),
            "retrieval repairs": repairs("retrieval repairs").of(also=Place(tolerance=IMAGES)),
            "shared repairs": repairs("shared repairs"),
            "shared share": repairs("shared repairs").of(
                also=Place(column="share of augmentation", tolerance=SHARE)
            ),
        },
    )


def _repairs() -> list[Expected]:
    shared = Place(table="repairs-shared", row={"memory": DEPLOYED_ARM, "weight": "10"})
    return declare(
        systems.REPAIRS,
        Place(
            table="repairs",
            dataset=A,
            settings={"capacity": 16, "many_views": 64, "orders": 3},
            plan=ROLES,
            tolerance=SEEN_IMAGES,
        ),
        {
            "augmentation": Place(row={"source": "augmentation"}),
            "retrieval": Place(row={"source": DEPLOYED_ARM, "weight": "10"}, tolerance=IMAGES),
            "CLIP": Place(
                row={"source": OWN_ARM}, plan=OWN_ROLE, note=OWN_WEIGHT, tolerance=IMAGES
            ),
            "shared": shared,
        },
        {"repairs": Place(column="repairs"), "regressions": Place(column="regressions")},
        {
            ("repairs", "shared"): Place(column="shared repairs"),
            ("regressions", "shared"): Place(column="shared regressions"),
        },
    )


def _splits() -> list[Expected]:
    return declare(
        systems.SPLITS,
        Place(
            table="splits",
            row={"capacity": "16", "few views": "4"},
            settings={"weight": 10.0, "space": DEPLOYED},
        ),
        {
            "none 1": Place(column="no memory, one view", tolerance=BASE),
            "memory 1": Place(column="memory, one view", tolerance=ORDER),
            "none 4": Place(column="no memory, few views", tolerance=VIEWS),
            "memory 4": Place(column="memory, few views", tolerance=VIEWS),
            "gain 1": Place(column="gain, one view", tolerance=ORDER),
            "gain 4": Place(column="gain, few views", tolerance=VIEWS),
            "shrink": Place(column="shrink", tolerance=CHANGE_OF_VIEWS),
        },
        {row: Place(dataset=DATASETS[row]) for row in systems.SPLITS.rows},
    )


def _capacities() -> list[Expected]:
    return declare(
        systems.CAPACITIES_AT_64,
        Place(
            table="large-views",
            row={"views": "64"},
            settings={
                "capacity": 8,
                "benchmark_capacity": 16,
                "weight": 10.0,
                "space": DEPLOYED,
                "orders": 3,
            },
            tolerance=VIEWS,
        ),
        {
            "8": Place(column="at capacity"),
            "16": Place(column="at benchmark capacity"),
            "change": Place(column="change", tolerance=CHANGE_OF_VIEWS),
            "ratio": Place(column="ratio", tolerance=RATIO),
        },
        {
            **{
                row: Place(dataset=DATASETS[row])
                for row in systems.CAPACITIES_AT_64.rows
                if row != "mean"
            },
            "mean": Place(row={"stream": MEAN, "views": None}, datasets=SIX, groups=("domain",)),
        },
    )


EXPECTED: tuple[Expected, ...] = (
    *_grid(),
    *_substitution(),
    *_repairs(),
    *_splits(),
    *_capacities(),
)
