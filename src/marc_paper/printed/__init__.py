"""What the paper prints, as data: its tables cell by cell, and the values of its text.

A printed table is a file `NAME.toml` here: its cells as text, whose digits say how they were
rounded, and the address of each in a study. `sheets.py` reads them, `marc_paper.verify` resolves
the addresses.
"""

from __future__ import annotations

from marc_paper.printed.numbers import Printed, Table, numbers, table
from marc_paper.printed.sheets import PRINTED, sheet, statement_sheets, table_sheets

__all__ = ["PRINTED", "STATEMENTS", "TABLES", "Printed", "Table", "numbers", "stated", "table"]

N_IMAGES = 7500  # of ImageNet-A
BASE_A, BASE_V2 = "50.84", "63.66"  # without memory, one view, in percent
TRAINING_FREE = ("TDA", "BoostAdapter", "TaTa", "ETTA")  # of the other methods in CROSS_DOMAIN
FRONTIER = ("CLIP", "MARC-B, M = 1", "MARC-B, M = 4", "MARC-L, M = 1", "MARC-L, M = 4")  # of PARETO

SPACES16 = sheet("spaces16").table
SPACES16_RANKS = sheet("spaces16_ranks").table
OOD = sheet("ood").table
SWAP = sheet("swap").table
ALONE = sheet("alone").table
GRID = sheet("grid").table
SUBSTITUTION = sheet("substitution").table
REPAIRS = sheet("repairs").table
SPLITS = sheet("splits").table
BATCHES = sheet("batches").table
JOINT = sheet("joint").table
TRANSFER = sheet("transfer").table
COMPONENTS = sheet("components").table
CONTROLS = sheet("controls").table
ADMISSION = sheet("admission").table
CORRELATIONS = sheet("correlations").table
SEEDS16 = sheet("seeds16").table
RANK_CHECKS = sheet("rank_checks").table
CROSS_DOMAIN = sheet("cross_domain").table
TWO_MORE = sheet("two_more").table
EXTRA = sheet("extra").table
SIXTEEN_ELSEWHERE = sheet("sixteen_elsewhere").table
FIVE_ELSEWHERE = sheet("five_elsewhere").table
THREE_ELSEWHERE = sheet("three_elsewhere").table
CAPACITIES_AT_64 = sheet("capacities_at_64").table
EIGHT = sheet("eight").table
SELECTION = sheet("selection").table
PAIRED16 = sheet("paired16").table
COSMIC = sheet("cosmic").table
RANK_INTERVALS = sheet("rank_intervals").table
PARETO = sheet("pareto").table
TIMING = sheet("timing").table
MATCHED = sheet("matched").table

TABLES: tuple[Table, ...] = tuple(each.table for each in table_sheets())
"""All tables of results, in the order in which the paper prints them."""

STATEMENTS: dict[str, Table] = {each.table.label: each.table for each in statement_sheets()}
"""Values that only the text and the captions print, by the label of their place."""


def stated(label: str, row: str) -> Printed:
    """The first number of a statement.

    >>> stated("fig:s_flow", "strongest key has the true label, DINOv2-L").text
    '33'
    """
    return STATEMENTS[label].at(row, PRINTED)
