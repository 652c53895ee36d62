"""The benchmark of a GPU runs to its end without one, and counts what is unequal."""

import sys

import pytest

from benchmarks import gpu
from marc.spaces import _gpu

pytest.importorskip("torch")


def cells(printed, start):
    """The cells of the one row whose first begins like this."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()]
    return next(row for row in rows if row and row[0].startswith(start))


@pytest.fixture
def printed(monkeypatch, capsys):
    def run():
        words = ["--device", "cpu", "--images", "400", "--dim", "16"]
        monkeypatch.setattr(sys, "argv", ["gpu", *words])
        gpu.main()
        return capsys.readouterr().out

    return run


def test_the_table_is_compared_with_that_of_the_cpu(printed):
    text = printed()
    assert cells(text, "float32 product")[2] == "1"
    assert float(cells(text, "table of 34 neighbours")[1]) > 0
    assert cells(text, "400 rows of it on the CPU")[1]
    assert cells(text, "rows of these")[1] == cells(text, "batches of these")[1] == "0"


def test_a_sweep_is_compared_with_that_of_the_cpu(printed):
    text = printed()
    assert cells(text, "400 images: the items")[1] == "yes"
    assert int(cells(text, "answers of the CPU's 144,000")[1]) <= 3
    assert float(cells(text, "one space")[1]) > 0


def test_unequal_rows_and_batches_are_counted(printed, monkeypatch):
    exact = _gpu.find

    def turned(*arguments):
        table, left = exact(*arguments)
        table[:7] = table[:7, ::-1]
        return table, left

    monkeypatch.setattr(_gpu, "find", turned)
    assert cells(printed(), "rows of these")[1] == "7"
