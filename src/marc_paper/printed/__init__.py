"""What the paper prints, as data: its tables cell by cell, and the values of its text.

A printed table is a file `NAME.toml` here: its cells as text, whose digits say how they were
rounded, and the address of each in a study. `sheets.py` reads them, `marc_paper.verify` resolves
the addresses.
"""

from __future__ import annotations

from marc.errors import one_of
from marc_paper.printed.numbers import Printed, Table, numbers
from marc_paper.printed.sheets import PRINTED, statement_sheets, table_sheets

__all__ = ["PRINTED", "STATEMENTS", "TABLES", "Printed", "Table", "numbers", "stated", "table"]

TABLES: dict[str, Table] = {name: sheet.table for name, sheet in table_sheets().items()}
"""All tables of results by the names of their files, in the order of the paper."""

STATEMENTS: dict[str, Table] = {each.table.label: each.table for each in statement_sheets()}
"""Values that only the text and the captions print, by the label of their section or figure."""


def table(name: str) -> Table:
    """A table of results by the name of its file.

    >>> table("spaces16").at("DINOv2-L", "purity A").text
    '67.3'
    """
    return TABLES[one_of("printed table", name, TABLES)]


def stated(label: str, row: str) -> Printed:
    """The first number of a statement.

    >>> stated("fig:s_flow", "strongest key has the true label, DINOv2-L").text
    '33'
    """
    return STATEMENTS[label].at(row, PRINTED)
