"""Where a study has the paper's values about components, other systems and time."""

from __future__ import annotations

from marc.paper import systems
from marc.verifying.expected import (
    COPIED,
    MEAN,
    SETTING,
    TIME,
    Expected,
    Place,
    declare,
)
from marc.verifying.mapping_views import DEPLOYED_ARM, ROLES, SAME_RUN, STRONG_ROLE
from marc.verifying.names import DATASETS, DEPLOYED, SHIFTS, STRONG, A
from marc.verifying.tolerances import (
    ADVANTAGE,
    CHANGE,
    CHANGE_OF_VIEWS,
    IMAGES,
    LOG10_P,
    ORDER,
    VIEWS,
)

BENCHMARK = {"capacity": 16, "weight": 10.0}
WEIGHTS_OF_COSMIC = (
    "The weights of COSMIC are chosen on the labels of the stream, which only the paper's appendix "
    "says; its deviation over orders is printed as 0.15 and as 0.86."
)
CAPACITY_OF_LARGE = "The paper's DINOv2-L rows beside seconds are those of K = 8, the others of 16."

MATCHED_ORDERS = Place(
    table="matched-orders-oracle",
    dataset=A,
    settings={**BENCHMARK, "views": 8, "space": DEPLOYED},
    tolerance=VIEWS,
    note=WEIGHTS_OF_COSMIC,
)
"""MARC and COSMIC over the same orders, eight views."""
OVER_ORDERS = Place(row={"order": "mean over orders"}, settings={"orders": 3})


def _components() -> list[Expected]:
    return declare(
        systems.COMPONENTS,
        Place(
            table="components",
            column="change",
            row={"views": "1"},
            settings={**BENCHMARK, "space": DEPLOYED},
            tolerance=CHANGE,
        ),
        {
            **{
                column: Place(dataset=DATASETS[column])
                for column in systems.COMPONENTS.columns
                if column != "mean"
            },
            "mean": Place(row={"stream": MEAN}, datasets=SHIFTS, groups=("main", "shift")),
        },
        {row: Place(row={"component": row}) for row in systems.COMPONENTS.rows},
    )


def _controls() -> list[Expected]:
    entropy = {"control": "view entropy", "variant is": "posterior", "K": "8", "space": DEPLOYED}
    priority = {"control": "priority", "variant is": "retrieval_aware", "K": "16"}
    return declare(
        systems.CONTROLS,
        Place(
            table="protocol-controls",
            dataset=A,
            settings={"views": 1, "weight": 10.0, "orders": 3},
            tolerance=ORDER,
        ),
        {
            "reference": Place(column="reference"),
            "variant": Place(column="variant"),
            "difference": Place(column="change", tolerance=CHANGE),
        },
        {
            "entropy, DINOv2-B": Place(row=entropy, note=SAME_RUN),
            "priority, DINOv2-B": Place(row={**priority, "space": DEPLOYED}, note=SAME_RUN),
            "priority, DINOv2-L": Place(row={**priority, "space": STRONG}),
        },
    )


def _policies() -> list[Expected]:
    names = {
        "entropy": "entropy",
        "confidence": "confidence",
        "reservoir": "reservoir",
        "FIFO": "fifo",
        "retrieval-aware": "retrieval_aware",
    }
    return declare(
        systems.ADMISSION,
        Place(
            table="policies",
            dataset=A,
            settings={**BENCHMARK, "views": 1, "orders": 3},
            tolerance=ORDER,
        ),
        {
            "DINOv2-B": Place(column="deployed", plan=ROLES),
            "DINOv2-L": Place(column="strong", plan=STRONG_ROLE),
        },
        {name: Place(row={"policy": policy}) for name, policy in names.items()},
        {("entropy", "DINOv2-B"): Place(note=SAME_RUN)},
    )


def _cosmic() -> list[Expected]:
    return declare(
        systems.COSMIC,
        MATCHED_ORDERS,
        {
            "MARC": Place(column="MARC"),
            "COSMIC": Place(column="COSMIC"),
            "advantage": Place(column="advantage", tolerance=ADVANTAGE),
            "discordant": Place(column="discordant", tolerance=IMAGES),
            "p": Place(column="p", tolerance=LOG10_P),
        },
        {
            **{order: Place(row={"order": order}) for order in ("0", "1", "2")},
            "pooled": Place(row={"order": "pooled, clustered by image"}, settings={"orders": 3}),
        },
        {("pooled", "advantage"): Place(tolerance=CHANGE_OF_VIEWS)},
    )


def _matched() -> list[Expected]:
    return declare(
        systems.MATCHED,
        MATCHED_ORDERS,
        {
            **{order: Place(row={"order": order}) for order in ("0", "1", "2")},
            "mean": OVER_ORDERS,
        },
        {
            "COSMIC": Place(column="COSMIC"),
            "MARC": Place(column="MARC"),
            "advantage": Place(column="advantage", tolerance=CHANGE_OF_VIEWS),
        },
    )


def _pareto() -> list[Expected]:
    def timed(configuration: str, views: int) -> Place:
        row = {"configuration": configuration, "views": str(views)}
        return Place(row=row, settings=BENCHMARK)

    def deployed(views: int) -> Place:
        return timed("MARC, deployed", views).of(also=Place(plan=ROLES))

    mean = Place(
        table="view-budget-orders",
        column="accuracy",
        row={"memory": DEPLOYED_ARM, "views": "8", "weight": "10"},
        settings={"capacity": 16, "orders": 3},
        plan=ROLES,
    )
    accuracies = {
        "CLIP": Place(never=COPIED),
        "ensemble": timed("no memory", 64),
        "TDA": Place(never=COPIED),
        "COSMIC": MATCHED_ORDERS.of(also=OVER_ORDERS).of(also=Place(column="COSMIC")),
        "MARC-B, M = 1": deployed(1).of(also=Place(tolerance=ORDER)),
        "MARC-B, M = 4": deployed(4),
        "MARC-B, M = 8": mean,
        "MARC-B, M = 64": deployed(64),
        "MARC-L, M = 1": Place(
            table="paired",
            column="accuracy at K, w",
            row={"space": STRONG},
            settings={"capacity": 8, "views": 1, "weight": 10.0},
            tolerance=ORDER,
            note=CAPACITY_OF_LARGE,
        ),
        "MARC-L, M = 4": timed("MARC, strong", 4).of(
            also=Place(plan=STRONG_ROLE, note=CAPACITY_OF_LARGE)
        ),
        "MARC-L against ensemble": Place(
            table="cost-ratios",
            column="accuracy of MARC over it",
            row={"comparison": "many views without memory over MARC, strong, one view"},
            settings=BENCHMARK,
            plan={**STRONG_ROLE, "grids.views": (1, 2, 4, 8, 16, 32, 64)},
            note=CAPACITY_OF_LARGE,
        ),
    }
    return declare(
        systems.PARETO,
        Place(table="cost", column="accuracy", dataset=A, tolerance=VIEWS),
        {
            "views": Place(never=SETTING),
            "seconds": Place(never=TIME),
            "accuracy": Place(),
        },
        {row: Place() for row in systems.PARETO.rows},
        {(row, "accuracy"): place for row, place in accuracies.items()},
    )


def _timing() -> list[Expected]:
    columns = {column: Place(never=TIME) for column in systems.TIMING.columns}
    return declare(systems.TIMING, Place(), columns, {row: Place() for row in systems.TIMING.rows})


EXPECTED: tuple[Expected, ...] = (
    *_components(),
    *_controls(),
    *_policies(),
    *_cosmic(),
    *_matched(),
    *_pareto(),
    *_timing(),
)
