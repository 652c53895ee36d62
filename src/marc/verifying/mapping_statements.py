"""Where a study has values that only the paper's text prints: systems, views and the benchmark."""

from __future__ import annotations

from collections.abc import Mapping

from marc.paper.statements import PRINTED, STATEMENTS
from marc.verifying.expected import (
    ARITHMETIC,
    COPIED,
    TIME,
    Expected,
    Place,
    Places,
    declare,
    unanswered,
)
from marc.verifying.mapping_benchmarks import on_domains, second
from marc.verifying.mapping_spaces import ALL_WEIGHTS
from marc.verifying.mapping_systems import BENCHMARK, CAPACITY_OF_LARGE
from marc.verifying.mapping_views import (
    BUDGET,
    DEPLOYED_ARM,
    OWN_ARM,
    OWN_ROLE,
    OWN_WEIGHT,
    ROLES,
    STRONG_ARM,
    STRONG_ROLE,
)
from marc.verifying.names import DATASETS, DEPLOYED, STRONG, A
from marc.verifying.tolerances import BASE, CHANGE, ORDER, SEEN_IMAGES, TENTHS, VIEWS

FOUR_VIEWS = (
    "The text gives 71.48 to four views and the table to one view; that of one view is compared."
)
TWO_CAPACITIES = (
    "18.15 is the gain at K = 8 (68.99 less 50.84); 13.24, whose capacity is not stated, is "
    "compared at K = 16."
)
SINGLE_RUN = "The paper prints a single run here; the mean over orders is compared."
WIDE = unanswered("an interval of three orders, which three others make several times as wide")
DIFFERENCE = unanswered("the difference of two of its values")
OVER_SEEDS = unanswered("the lowest and the highest of single orders")
TIMED, OTHERS, COMPUTED = Place(never=TIME), Place(never=COPIED), Place(never=ARITHMETIC)

THREE = {"orders": 3}
ORDERS = Place(table="view-budget-orders", dataset=A, settings={"capacity": 16}, tolerance=VIEWS)


def place_statements(label: str, rows: Mapping[str, Places]) -> list[Expected]:
    """The statements under a label."""
    return declare(STATEMENTS[label], Place(), {PRINTED: Place()}, rows)


def at_budget(arm: str, views: int, column: str) -> Place:
    """A mean over three orders of one memory at a view budget."""
    role = {DEPLOYED_ARM: ROLES, STRONG_ARM: STRONG_ROLE}[arm]
    tolerance = ORDER if views == 1 else VIEWS
    return ORDERS.of(
        also=Place(
            row={"memory": arm, "views": str(views), "weight": "10"},
            column=column,
            settings=THREE,
            plan=role,
            tolerance=tolerance,
        )
    )


def component(name: str) -> Place:
    """The accuracy of a step at 64 views."""
    return Place(
        table="components",
        column="accuracy",
        row={"component": name, "views": "64"},
        dataset=A,
        settings={**BENCHMARK, **THREE, "space": DEPLOYED},
        tolerance=VIEWS,
    )


def coverage(column: str, arm: str) -> Place:
    """What 64 views and a memory reach together."""
    own = Place(plan=OWN_ROLE, note=OWN_WEIGHT) if arm == OWN_ARM else Place(plan=ROLES)
    return Place(
        table="repairs-coverage",
        column=column,
        row={"memory": arm, "weight": "1" if arm == OWN_ARM else "10"},
        dataset=A,
        settings={"capacity": 16, "many_views": 64},
        tolerance=VIEWS,
    ).of(also=own)


def shared(column: str) -> Place:
    """A part of what 64 views and the deployed memory repair."""
    return Place(
        table="repairs-shared",
        column=column,
        row={"memory": DEPLOYED_ARM, "weight": "10"},
        dataset=A,
        settings={"capacity": 16, "many_views": 64, **THREE},
        plan=ROLES,
        tolerance=SEEN_IMAGES,
    )


def second_on_a(column: str, views: int) -> Place:
    """A value of the second predictor on ImageNet-A."""
    return second(views).of(also=Place(column=column, dataset=A))


def four_views(dataset: str) -> Place:
    """A paired gain over three orders at four views on a stream of other classes."""
    return on_domains(4, "gain").of(also=Place(dataset=DATASETS[dataset]))


def first_order_gain(dataset: str) -> Place:
    """A paired gain of the first order at four views on a stream of other classes."""
    return Place(
        table="splits",
        column="gain, few views",
        row={"capacity": "8", "few views": "4"},
        dataset=DATASETS[dataset],
        settings={"weight": 10.0, "space": DEPLOYED},
        tolerance=VIEWS,
    )


def _views() -> list[Expected]:
    budget = BUDGET.of(also=Place(table="view-budget"))
    climbs = Place(
        table="warm-up-climb",
        row={"views": "1"},
        dataset=A,
        settings={**BENCHMARK, "parts": 10},
        plan=ROLES,
        tolerance=TENTHS,
    )
    one_large = Place(
        table="paired",
        column="accuracy at K, w",
        row={"space": STRONG},
        dataset=A,
        settings={"capacity": 8, "weight": 10.0, "views": 1},
        tolerance=ORDER,
        note=CAPACITY_OF_LARGE,
    )
    return [
        *place_statements(
            "sec:s_substitution",
            {
                "repaired by views alone": shared("augmentation only"),
                "repaired by the memory alone": shared("memory only"),
                "accuracy, A, RN50, M = 1, no memory": second_on_a("no memory", 1).of(
                    also=Place(tolerance=BASE)
                ),
                "accuracy, A, RN50, M = 64, no memory": second_on_a("no memory", 64),
                "gain of 64 views, A, RN50": second_on_a("from views alone", 64),
                "accuracy, A, RN50, M = 1, DINOv2-B": second_on_a("accuracy", 1).of(
                    also=Place(note=SINGLE_RUN)
                ),
                "gain of the memory, A, RN50, M = 1": second_on_a("gain", 1).of(
                    also=Place(note=SINGLE_RUN)
                ),
                "accuracy, A, RN50, M = 64, DINOv2-B": second_on_a("accuracy", 64),
                "span over seeds, A, M = 64, DINOv2-B": OVER_SEEDS,
                "span over seeds, A, M = 1, DINOv2-B": OVER_SEEDS,
                "span over seeds, A, M = 1, with refinement": OVER_SEEDS,
                "coverage of 64 views and DINOv2-B": coverage(
                    "coverage with reference", DEPLOYED_ARM
                ),
                "accuracy of 64 views and DINOv2-B": coverage("combination", DEPLOYED_ARM),
                "coverage of 64 views and CLIP": coverage("coverage with reference", OWN_ARM),
                "accuracy of 64 views and CLIP": coverage("combination", OWN_ARM),
            },
        ),
        *place_statements(
            "fig:s_substitution",
            {
                "accuracy, M = 1, DINOv2-L": one_large,
                "accuracy, M = 64, DINOv2-B": at_budget(DEPLOYED_ARM, 64, "accuracy"),
                "accuracy, M = 64, no memory": budget.of(
                    also=Place(row={"views": "64"}, column="no memory")
                ),
                "gain with one view and with 64, DINOv2-B": (
                    at_budget(DEPLOYED_ARM, 1, "gain"),
                    at_budget(DEPLOYED_ARM, 64, "gain"),
                ),
                "gain with one view and with 64, DINOv2-L": (
                    one_large.of(also=Place(column="gain at K, w")),
                    at_budget(STRONG_ARM, 64, "gain").of(also=Place(note=TWO_CAPACITIES)),
                ),
                "climb from first to last tenth, M = 1, DINOv2-B": climbs.of(
                    also=Place(column="deployed memory")
                ),
                "climb from first to last tenth, M = 1, no memory": climbs.of(
                    also=Place(column="no memory")
                ),
            },
        ),
        *place_statements(
            "sec:protocol",
            {
                "accuracy, A, M = 64, reduced": component("reduced system"),
                "accuracy, A, M = 64, with refinement": component("refinement"),
                "accuracy, A, M = 64, with negative memory as well": component("negative memory"),
                "accuracy, A, M = 64, with adaptive fusion as well": component("adaptive fusion"),
            },
        ),
    ]


def _systems() -> list[Expected]:
    policies = Place(
        table="policies", dataset=A, settings={**BENCHMARK, "views": 1, **THREE}, tolerance=ORDER
    )
    fifo = policies.of(also=Place(row={"policy": "fifo"}))
    return [
        *place_statements(
            "sec:benchmark",
            {
                "gains of the memory, six streams": tuple(
                    on_domains(64, "gain").of(also=Place(dataset=DATASETS[name]))
                    for name in ("Caltech101", "EuroSAT")
                ),
                "OOD average, RN50, M = 64 less M = 1": DIFFERENCE,
                "accuracy, ImageNet, RN50, M = 4": unanswered("four views of this predictor").of(
                    also=Place(note=FOUR_VIEWS)
                ),
                "OOD average, MARC less SCAP": OTHERS,
            },
        ),
        *place_statements(
            "sec:s_components",
            {
                "difference of entropies, at most": unanswered("the size of a difference"),
                "gap of DINOv2-L and DINOv2-B": policies.of(
                    also=Place(
                        row={"policy": "mean of the policies"},
                        column="gap",
                        plan={**ROLES, **STRONG_ROLE},
                        tolerance=CHANGE,
                    )
                ),
                "least gain without priority, DINOv2-B": fifo.of(
                    also=Place(column="gain, deployed", plan=ROLES)
                ),
                "least gain without priority, DINOv2-L": fifo.of(
                    also=Place(column="gain, strong", plan=STRONG_ROLE)
                ),
            },
        ),
        *place_statements(
            "sec:s_benchmark",
            {
                **{f"lead, {name}": OTHERS for name in ("DTD", "Flowers102", "Pets")},
                "cost of four views, average": DIFFERENCE,
                "cost of four views, EuroSAT": DIFFERENCE,
                "streams better with four views": unanswered("a count of differences"),
                "average, ZERO+Ens": OTHERS,
                **{
                    f"oracle gain, {name}": Place(
                        table="hazard-weights",
                        column="G*",
                        row={"views": "4"},
                        dataset=DATASETS[name],
                        settings={"capacity": 8, "space": DEPLOYED},
                        plan=ALL_WEIGHTS,
                        tolerance=VIEWS,
                    )
                    for name in ("Aircraft", "Food101")
                },
                "OOD average, DINOv2-L less DINOv2-B": DIFFERENCE,
            },
        ),
        *place_statements("sec:s_timing", dict.fromkeys(STATEMENTS["sec:s_timing"].rows, TIMED)),
    ]


EXPECTED: tuple[Expected, ...] = (*_views(), *_systems())
