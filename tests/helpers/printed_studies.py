"""Shared by tests of verify and others."""

from marc_paper.printed import SPACES16
from marc_paper.study.artifacts import Table
from marc_paper.study.tables import spaces
from marc_paper.verify.names import _A, _SPACES, _V2

SETTINGS = {"capacity": 8, "weight": 10.0, "views": 1, "seeds": (0, 1, 2)}


def printed_spaces(changes=None, settings=SETTINGS):
    """The table of spaces with the paper's own values, some changed: (stream, space, column)."""
    columns = {
        _A: {"purity@10": "purity A", "anti-hubs@10": "anti-hub A", "G*, first order": "gain A"},
        _V2: {"purity@10": "purity V2", "G*, first order": "gain V2"},
    }
    names = [column.name for column in spaces.COLUMNS]
    rows = []
    for stream, by_column in columns.items():
        for name, space in _SPACES.items():
            row = dict.fromkeys(names)
            row |= {"stream": stream, "space": space}
            for column, heading in by_column.items():
                row[column] = float(SPACES16.at(name, heading)) / 100
            for (where, which, column), value in (changes or {}).items():
                if (where, which) == (stream, space):
                    row[column] = value
            rows.append(tuple(row.values()))
    return Table("spaces", "", "", spaces.COLUMNS, tuple(rows), (), settings)
