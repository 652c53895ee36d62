"""All tables of results, in the order in which the paper prints them."""

from __future__ import annotations

from marc.paper import benchmarks, spaces, systems
from marc.paper.numbers import Table

TABLES: tuple[Table, ...] = (
    spaces.SPACES16,
    spaces.SPACES16_RANKS,
    benchmarks.OOD,
    spaces.SWAP,
    systems.ALONE,
    systems.GRID,
    systems.SUBSTITUTION,
    systems.REPAIRS,
    systems.SPLITS,
    spaces.BATCHES,
    spaces.JOINT,
    spaces.TRANSFER,
    systems.COMPONENTS,
    systems.CONTROLS,
    systems.ADMISSION,
    spaces.CORRELATIONS,
    spaces.SEEDS16,
    spaces.RANK_CHECKS,
    benchmarks.CROSS_DOMAIN,
    benchmarks.TWO_MORE,
    benchmarks.EXTRA,
    spaces.SIXTEEN_ELSEWHERE,
    spaces.FIVE_ELSEWHERE,
    spaces.THREE_ELSEWHERE,
    systems.CAPACITIES_AT_64,
    spaces.EIGHT,
    spaces.SELECTION,
    spaces.PAIRED16,
    systems.COSMIC,
    spaces.RANK_INTERVALS,
    systems.PARETO,
    systems.TIMING,
    systems.MATCHED,
)
