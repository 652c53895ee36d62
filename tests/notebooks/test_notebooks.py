"""Every notebook runs from its first cell to its last and prints what is stored in it."""

import nbformat
import pytest
from helpers.repository import ROOT

from docs.notebooks.execute import executed

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def printed(notebook):
    return [
        (number, each.get("text") or each["data"]["text/plain"])
        for number, cell in enumerate(notebook.cells)
        for each in cell.get("outputs", ())
    ]


def test_there_is_one_for_each_way_in():
    names = {"compare-methods", "your-own-method", "your-own-pictures"}
    assert {path.stem for path in NOTEBOOKS} == names


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored_in_it(path, tmp_path):
    stored = nbformat.read(path, as_version=4)
    assert printed(executed(path, tmp_path)) == printed(stored)  # else: make notebooks


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_free_of_what_a_run_leaves_behind(path):
    stored = nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    assert path.stat().st_size < 40_000
    assert stored.metadata == {"language_info": {"name": "python"}}
    assert all(cell.metadata == {} for cell in stored.cells)
    outputs = [each for cell in stored.cells for each in cell.get("outputs", ())]
    assert all({*each.get("data", {})} <= {"text/plain"} for each in outputs)
