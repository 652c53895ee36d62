"""Where a study has values that only the paper's text prints: spaces and their ranks."""

from __future__ import annotations

from marc.paper.statements import STATEMENTS
from marc.verifying.expected import Expected, Place, unanswered
from marc.verifying.mapping_ranks import ALL_SIXTEEN, BATCH, SUBSET
from marc.verifying.mapping_spaces import ALL_WEIGHTS, BOTH_GRIDS, CONTROLLED, ONE_VIEW
from marc.verifying.mapping_statements import TIMED, at_budget, place_statements
from marc.verifying.mapping_views import DEPLOYED_ARM, SAME_RUN
from marc.verifying.names import DEPLOYED, FIVE, OWN, SPACES, STRONG, V2, A
from marc.verifying.tolerances import (
    BASE,
    CAPACITY,
    CAPACITY_RANKS,
    FEW_RANKS,
    GEOMETRY,
    ORACLE,
    ORDER,
    SHARE,
)

PROJECTION = "The paper does not say how it projects; principal components are compared."
QUERY = unanswered("the paper does not name the image that it draws")
KEYS = "The paper states no capacity here; stored labels at K = 8 are compared."
COUNTS = unanswered("a count over streams")


def ceiling(dataset: str, space: str, column: str) -> Place:
    """A space at its own best capacity in the first order."""
    tolerance = {"K*": CAPACITY, "anti-hubs@10": GEOMETRY}.get(column, ORACLE)
    return Place(
        table="controls-all",
        column=column,
        row={"space": space},
        dataset=dataset,
        settings=ONE_VIEW,
        plan=BOTH_GRIDS if column != "anti-hubs@10" else {},
        tolerance=tolerance,
    )


def control(space: str, column: str) -> Place:
    """A control space of ImageNet-A."""
    return ceiling(A, space, column).of(also=Place(table="controls"))


def gain(space: str) -> Place:
    """The oracle gain of a space at K = 8, three orders."""
    return Place(
        table="spaces",
        column="G*, all orders",
        row={"space": space},
        dataset=A,
        settings={**CONTROLLED, "orders": 3},
        plan=ALL_WEIGHTS,
        tolerance=ORACLE,
    )


def checked(dataset: str, part: str, column: str) -> Place:
    """A set of candidates of the sixteen."""
    return Place(
        table="correlations-checks",
        column=column,
        row={"set": part},
        dataset=dataset,
        settings=CONTROLLED,
        plan=ALL_SIXTEEN,
        tolerance=ORACLE,
    )


def batches(measure: str, outcome: str) -> Place:
    """A correlation over the five spaces on batches of 2,000 images."""
    return Place(
        table="correlations",
        column=f"with {outcome}, batches",
        row={"measure": measure, **BATCH},
        dataset=A,
        settings={**ONE_VIEW, "batches": 300},
        plan={**BOTH_GRIDS, "spaces.controls": FIVE},
        tolerance=CAPACITY_RANKS if outcome == "K*" else FEW_RANKS,
    )


def _main() -> list[Expected]:
    share = Place(
        table="joint-choice",
        column="share of oracle gain",
        row={"candidates": "all"},
        datasets=(A, V2),
        settings=ONE_VIEW,
        plan={**BOTH_GRIDS, **ALL_SIXTEEN},
        tolerance=SHARE,
        note=SUBSET,
    )
    transformed = Place(dataset=A, settings=CONTROLLED, plan=ALL_WEIGHTS, tolerance=ORACLE)
    purity, antihub = "purity@10", "antihub_fraction@10"
    no_memory = at_budget(DEPLOYED_ARM, 64, "no memory")
    return [
        *place_statements(
            "sec:intro",
            {
                "best spaces of five streams, sixteen spaces": COUNTS,
                "share of the oracle gain, A": share.of(also=Place(dataset=A)),
                "share of the oracle gain, V2": share.of(also=Place(dataset=V2)),
            },
        ),
        *place_statements(
            "sec:geometry", {"highest cost of transfer, A": unanswered("the highest cost")}
        ),
        *place_statements(
            "sec:swap",
            {
                "oracle gain, A, CLIP centred and whitened": transformed.of(
                    also=Place(
                        table="transformed",
                        column="G*, first order",
                        row={"space": f"{OWN}+whiten"},
                        plan={"spaces.own": OWN},
                    )
                )
            },
        ),
        *place_statements(
            "sec:capacity",
            {
                "correlation of purity and gain, A, 2,000 images": batches(purity, "ceiling"),
                "correlation of anti-hub and gain, A, 2,000 images": batches(antihub, "ceiling"),
                "correlation of anti-hub and capacity, A, 2,000 images": batches(antihub, "K*"),
                "correlation of purity and capacity, A, 2,000 images": batches(purity, "K*"),
                "streams elsewhere with a correlation of at least 0.80": COUNTS,
                "correlation of purity and gain, projections of DINOv2-B": transformed.of(
                    also=Place(
                        table="transformed-ranked",
                        column="correlation, first order",
                        row={"projection": "pca", "measure": purity},
                        plan={
                            "spaces.deployed": DEPLOYED,
                            "grids.dims": (32, 64, 128, 256, 512),
                        },
                        tolerance=FEW_RANKS,
                        note=PROJECTION,
                    )
                ),
                "gains of near-matched spaces, A": (
                    checked(A, "near-matched", "lowest G*"),
                    checked(A, "near-matched", "highest G*"),
                ),
                "accuracy, A, M = 1, DINOv2-B": at_budget(DEPLOYED_ARM, 1, "accuracy").of(
                    also=Place(note=SAME_RUN)
                ),
                "accuracy, A, M = 64, no memory": no_memory,
                "ensemble over MARC-B, M = 1, seconds": TIMED,
                "COSMIC over MARC-B, M = 8, seconds": TIMED,
            },
        ),
    ]


def _controls() -> list[Expected]:
    parallel = Place(
        table="controls-parallel",
        column="parallel memories",
        row={"space": OWN, "K": "2", "w": "1"},
        dataset=A,
        settings=ONE_VIEW,
        tolerance=ORDER,
        note="The paper states no weight for its parallel memories; w = 1 is compared.",
    )
    antihubs, small = "anti-hubs@10", SPACES["DINOv2-S"]
    return [
        *place_statements(
            "tab:swap",
            {
                "accuracy, A, M = 1, no memory": gain(OWN).of(
                    also=Place(column="no memory", tolerance=BASE)
                ),
                "oracle gain, A, DINOv2-B, second sweep": gain(DEPLOYED),
            },
        ),
        *place_statements(
            "sec:s_swap",
            {
                "accuracy, A, CLIP beside another memory, K = 2": parallel,
                "accuracy, A, random projection of DINOv2": unanswered("no space is read as text"),
            },
        ),
        *place_statements(
            "fig:s_geometry",
            {
                "anti-hub, CLIP": control(OWN, antihubs),
                "capacity, CLIP": control(OWN, "K*"),
                "anti-hub, DINOv2": (control(small, antihubs), control(STRONG, antihubs)),
                "capacity, DINOv2": (control(STRONG, "K*"), control(small, "K*")),
                "anti-hub, BEiT": ceiling(A, SPACES["BEiT"], antihubs),
                "capacity, BEiT": ceiling(A, SPACES["BEiT"], "K*"),
                "anti-hub, DINO v1": ceiling(A, SPACES["DINO v1"], antihubs),
                "anti-hub, Supervised": ceiling(A, SPACES["Supervised"], antihubs),
            },
        ),
        *place_statements(
            "sec:s_capacity",
            {"best weight, A, CLIP, K = 64": unanswered("weights at every capacity are a figure")},
        ),
        *place_statements("fig:s_kernel", dict.fromkeys(STATEMENTS["fig:s_kernel"].rows, QUERY)),
        *place_statements(
            "fig:s_flow",
            {
                f"strongest key has the true label, {name}": Place(
                    table="dominant-keys",
                    column="stored label true",
                    row={"space": SPACES[name], "K": "8"},
                    dataset=A,
                    settings=ONE_VIEW,
                    tolerance=SHARE,
                    note=KEYS,
                )
                for name in ("CLIP", "DINOv2-L")
            },
        ),
    ]


EXPECTED: tuple[Expected, ...] = (*_main(), *_controls())
