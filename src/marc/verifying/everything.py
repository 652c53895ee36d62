"""Every number that the paper prints, in the order of its tables and then of its text."""

from __future__ import annotations

from itertools import chain

from marc.paper.statements import STATEMENTS
from marc.paper.tables import TABLES
from marc.verifying import (
    mapping_benchmarks,
    mapping_ranks,
    mapping_spaces,
    mapping_stated_choices,
    mapping_stated_spaces,
    mapping_stated_tests,
    mapping_statements,
    mapping_systems,
    mapping_views,
)
from marc.verifying.expected import Expected

_MAPPINGS = (
    mapping_spaces.EXPECTED,
    mapping_ranks.EXPECTED,
    mapping_views.EXPECTED,
    mapping_systems.EXPECTED,
    mapping_benchmarks.EXPECTED,
    mapping_statements.EXPECTED,
    mapping_stated_spaces.EXPECTED,
    mapping_stated_choices.EXPECTED,
    mapping_stated_tests.EXPECTED,
)


def _ordered() -> list[Expected]:
    tables = (*TABLES, *STATEMENTS.values())
    places = {
        (table.label, row): (number, line)
        for number, table in enumerate(tables)
        for line, row in enumerate(table.rows)
    }
    # numbers of a row keep the order in which they are declared
    return sorted(chain(*_MAPPINGS), key=lambda each: places[each.label, each.row])


EXPECTED: tuple[Expected, ...] = tuple(_ordered())
"""Each printed number once."""
