"""Where a study has the paper's own rows of its benchmark tables; the others are copied."""

from __future__ import annotations

from marc.paper import benchmarks
from marc.paper.numbers import Table
from marc.verifying.expected import COPIED, MEAN, Expected, Place, declare, unanswered
from marc.verifying.mapping_systems import MATCHED_ORDERS, OVER_ORDERS
from marc.verifying.names import (
    CROSS_DOMAIN,
    DATASETS,
    DEPLOYED,
    FAMILY,
    RN50,
    SHIFTS,
    SIX,
    STRONG,
)
from marc.verifying.tolerances import ORDER, VIEWS

COSMIC_ELSEWHERE = unanswered(
    "COSMIC runs at eight views, with weights chosen on labels, on the first main stream alone"
)
FAMILY_COLUMNS = {
    **{name: Place(dataset=DATASETS[name]) for name in ("ImageNet", "A", "V2", "R", "Sketch")},
    "average": Place(row={"stream": MEAN}, datasets=FAMILY),
    "OOD average": Place(row={"stream": MEAN}, datasets=SHIFTS),
}
OTHERS = Place(never=COPIED)


def benchmark(space: str, views: int) -> Place:
    """A row of MARC on ImageNet and its shifts."""
    return Place(
        table="benchmark",
        column="accuracy",
        row={"method": "marc", "space": space, "views": str(views)},
        groups=("main", "shift"),
        settings={"capacity": 16, "weight": 10.0},
        tolerance=VIEWS,
    )


def on_domains(views: int, column: str) -> Place:
    """A value of MARC on streams of other classes."""
    return Place(
        table="benchmark-domains",
        column=column,
        row={"method": "marc", "space": DEPLOYED, "views": str(views)},
        groups=("domain", "extra"),
        settings={"capacity": 8, "weight": 10.0, "orders": 3},
        tolerance=VIEWS,
    )


def second(views: int) -> Place:
    """A row of MARC with the second predictor."""
    return Place(
        table="second-predictor",
        column="accuracy",
        row={"views": str(views)},
        groups=("predictor",),
        predictor=RN50,
        settings={"capacity": 16, "weight": 10.0, "space": DEPLOYED, "orders": 3},
        tolerance=ORDER if views == 1 else VIEWS,
    )


def _others(table: Table, own: dict[str, Place]) -> dict[str, Place]:
    """The paper's own rows, and all others as copied."""
    return {row: own.get(row, OTHERS) for row in table.rows}


def _ood() -> list[Expected]:
    orders = Place(settings={"orders": 3})
    own = {
        "RN50 MARC, M = 1": second(1),
        "RN50 MARC, M = 64": second(64),
        "ViT COSMIC, M = 8": Place(),
        "ViT MARC, M = 4": benchmark(DEPLOYED, 4).of(also=orders),
        "ViT MARC, M = 64": benchmark(DEPLOYED, 64).of(also=orders),
    }
    cosmic = {("ViT COSMIC, M = 8", name): COSMIC_ELSEWHERE for name in FAMILY_COLUMNS}
    cosmic["ViT COSMIC, M = 8", "A"] = MATCHED_ORDERS.of(also=OVER_ORDERS).of(
        also=Place(column="COSMIC")
    )
    rows = _others(benchmarks.OOD, own)
    return declare(benchmarks.OOD, Place(), FAMILY_COLUMNS, rows, cosmic)


def _extra() -> list[Expected]:
    own = {"ViT MARC-L": benchmark(STRONG, 64)}
    return declare(benchmarks.EXTRA, Place(), FAMILY_COLUMNS, _others(benchmarks.EXTRA, own))


def _cross_domain() -> list[Expected]:
    own = {
        "MARC, M = 4": on_domains(4, "accuracy"),
        "MARC, M = 64": on_domains(64, "accuracy"),
        "ensemble, M = 4": on_domains(4, "no memory"),
        "ensemble, M = 64": on_domains(64, "no memory"),
        "gain, M = 64": on_domains(64, "gain"),
    }
    columns = {
        column: Place(row={"stream": MEAN}, datasets=SIX)
        if column == "average"
        else Place(dataset=DATASETS[column])
        for column in benchmarks.CROSS_DOMAIN.columns
    }
    return declare(benchmarks.CROSS_DOMAIN, Place(), columns, _others(benchmarks.CROSS_DOMAIN, own))


def _two_more() -> list[Expected]:
    return declare(
        benchmarks.TWO_MORE,
        on_domains(4, "accuracy"),
        {
            "MARC": Place(),
            "ensemble": Place(column="no memory"),
            "gain": Place(column="gain"),
        },
        {
            "Aircraft": Place(dataset=DATASETS["Aircraft"]),
            "Food101": Place(dataset=DATASETS["Food101"]),
            "six streams": Place(row={"stream": MEAN}, datasets=SIX),
            "eight streams": Place(row={"stream": MEAN}, datasets=CROSS_DOMAIN),
        },
    )


EXPECTED: tuple[Expected, ...] = (*_ood(), *_extra(), *_cross_domain(), *_two_more())
