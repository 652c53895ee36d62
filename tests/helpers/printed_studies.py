"""Shared by tests of verify and others."""

from helpers.paper_names import SPACES, V2, A
from marc_paper.printed import table
from marc_paper.study.artifacts import Table
from marc_paper.study.tables import spaces

SETTINGS = {"capacity": 8, "weight": 10.0, "views": 1, "seeds": (0, 1, 2)}


def printed_spaces(changes=None, settings=SETTINGS):
    """The table of spaces with the paper's own values, some changed: (stream, space, column)."""
    columns = {
        A: {"purity@10": "purity A", "anti-hubs@10": "anti-hub A", "G*, first order": "gain A"},
        V2: {"purity@10": "purity V2", "G*, first order": "gain V2"},
    }
    names = [column.name for column in spaces._COLUMNS]
    rows = []
    for stream, by_column in columns.items():
        for name, space in SPACES.items():
            row = dict.fromkeys(names)
            row |= {"stream": stream, "space": space}
            for column, heading in by_column.items():
                row[column] = float(table("spaces16").at(name, heading)) / 100
            for (where, which, column), value in (changes or {}).items():
                if (where, which) == (stream, space):
                    row[column] = value
            rows.append(tuple(row.values()))
    return Table("spaces", "", "", spaces._COLUMNS, tuple(rows), (), settings)
