"""Where a study has values that only the paper's text prints: paired tests and their family."""

from __future__ import annotations

from marc.verifying.expected import Expected, Place, unanswered
from marc.verifying.mapping_statements import (
    COMPUTED,
    OTHERS,
    THREE,
    TIMED,
    WIDE,
    first_order_gain,
    four_views,
    place_statements,
)
from marc.verifying.mapping_systems import MATCHED_ORDERS, OVER_ORDERS
from marc.verifying.names import SPACES, A
from marc.verifying.tolerances import CHANGE_OF_VIEWS, LOG10_P

FAMILY_OF_TESTS = unanswered("the paper does not list its family of 378 tests")


def _tests() -> list[Expected]:
    pooled = Place(row={"order": "pooled, clustered by image"}, settings=THREE)
    deviation = MATCHED_ORDERS.of(also=pooled).of(also=Place(part="sd"))
    advantage = MATCHED_ORDERS.of(also=OVER_ORDERS).of(
        also=Place(column="advantage", tolerance=CHANGE_OF_VIEWS)
    )
    small = Place(
        table="paired",
        column="McNemar p",
        row={"space": SPACES["DINOv2-S"]},
        dataset=A,
        settings={"capacity": 8, "weight": 10.0, "views": 1},
    )
    other_p = unanswered("tests at four views on streams of other classes")
    return place_statements(
        "sec:s_ci",
        {
            "half-width over deviation, three orders": COMPUTED,
            "spaces that lose at w = 10, A": unanswered("a count of losses"),
            "tests": FAMILY_OF_TESTS,
            "intervals with zero inside": FAMILY_OF_TESTS,
            "p, A, DINOv2-S": small.of(also=Place(tolerance=LOG10_P)),
            "gain, Caltech101": first_order_gain("Caltech101"),
            "p, Caltech101": other_p,
            "gain, DTD": first_order_gain("DTD"),
            "p, DTD": other_p,
            "gain, Aircraft": four_views("Aircraft"),
            "gain, Food101": four_views("Food101"),
            "rejected at q = 0.05": FAMILY_OF_TESTS,
            "false discoveries allowed at q = 0.05": FAMILY_OF_TESTS,
            "rejected at q = 0.01": FAMILY_OF_TESTS,
            "Bonferroni threshold": FAMILY_OF_TESTS,
            "rejected by Bonferroni": FAMILY_OF_TESTS,
            "advantage over COSMIC, three orders": (advantage, WIDE, WIDE),
            "critical value of t, three orders": COMPUTED,
            "deviation over orders, COSMIC": deviation.of(also=Place(column="COSMIC")),
            "deviation over orders, MARC": deviation.of(also=Place(column="MARC")),
            "COSMIC over MARC-B, M = 8, seconds": TIMED,
            "ensemble over MARC-L, M = 1, seconds": TIMED,
            "values of other papers": OTHERS,
            "critical value of t, two orders": COMPUTED,
            "half-width over deviation, two orders": COMPUTED,
        },
    )


EXPECTED: tuple[Expected, ...] = tuple(_tests())
