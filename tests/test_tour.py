"""The tour of the code leads to files and names that are there."""

import ast
import re

import pytest
from helpers.repository import ROOT

TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
HOPS = re.findall(r"\| `(src/[\w/]+\.py)` \| `(\w+)` \|", TOUR)


def names_in(file):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


@pytest.mark.parametrize(("file", "name"), HOPS)
def test_every_hop_of_a_walk_is_there(file, name):
    assert name in names_in(file)


def test_there_are_four_walks_and_the_picture_shows_three():
    assert TOUR.count("| hop | file | name |") == 4
    assert len(HOPS) == 28
    picture = (ROOT / "docs" / "images" / "rooms.svg").read_text(encoding="utf-8")
    for file, name in HOPS[:20]:
        assert file.removeprefix("src/marc/").removeprefix("src/marc_paper/") in picture
        assert f">{name}<" in picture


def test_every_folder_of_the_product_has_a_line():
    for folder in (ROOT / "src" / "marc").iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            assert f"| `{folder.name}/` |" in TOUR
