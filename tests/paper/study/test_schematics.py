"""The schematics: what the study writes is whole, well-formed, and text stays text."""

import re
from xml.etree import ElementTree

import pytest
from helpers.studies import tiny_work

from marc.report.style import INK, MUTED, Look
from marc_paper.study.figures.schematics import _EXPERIMENT
from marc_paper.study.formats import files_of

SVG = "{http://www.w3.org/2000/svg}"
SYMBOLS = {
    "workflow": ("frozen", "πt", "ŷt", "ỹt", "ktC", "Lts", "gs", "qt", "bt"),
    "intervention": ("frozen", "πt", "ŷt", "Lts", "ki = gs(xi)", "nearest: 5, 6, 7"),
}


@pytest.fixture(scope="module")
def written():
    return {figure.name: files_of(figure, {}) for figure in _EXPERIMENT.make(tiny_work())}


@pytest.mark.parametrize("name", SYMBOLS)
def test_a_schematic_is_written_whole_and_well_formed(written, name):
    assert set(written[name]) == {f"figures/{name}.{end}" for end in ("json", "svg")}
    content = written[name][f"figures/{name}.svg"]
    drawing = ElementTree.fromstring(content)
    assert drawing.tag == f"{SVG}svg"
    assert drawing.get("width") == "518.4pt"  # as wide as every other figure
    assert drawing.find(f"{SVG}title").text
    words = " | ".join("".join(text.itertext()) for text in drawing.iter(f"{SVG}text"))
    assert all(symbol in words for symbol in SYMBOLS[name])
    used = set(re.findall(rb"url\(#(\w+)\)", content))
    assert used == set(re.findall(rb'id="(\w+)"', content))
    assert b"href" not in content  # nothing is fetched


@pytest.mark.parametrize("name", SYMBOLS)
def test_a_schematic_has_the_colours_of_every_figure(written, name):
    content = written[name][f"figures/{name}.svg"].decode()
    assert set(re.findall("#[0-9a-f]{6}", content)) <= {INK, MUTED, *Look.PALETTE, "#ffffff"}
