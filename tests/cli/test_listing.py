"""`marc list` with packages whose encoders or sources cannot be listed."""

import pytest
from helpers.commands import call, call_json

import marc.encoders as encoders
from marc.encoders import Library, encoder_card
from marc.errors import MarcError
from marc.sources import SOURCES, SourceKind


def fail():
    raise KeyError("their own mistake")


@pytest.fixture
def broken(monkeypatch):
    """A library and a type of source of others, both of which fail when they are asked."""
    for registry, thing in (
        (encoders._LIBRARIES, Library("theirs:NAME", fail, cards=fail)),
        (SOURCES, SourceKind("theirs/NAME", fail, names=fail)),
        (encoders._LIBRARIES, Library("odd:NAME", fail, cards=lambda: {"odd:a": 3})),
        (SOURCES, SourceKind("odd/NAME", fail, names=lambda: {"a": 3})),
    ):
        name = thing.spelling.removesuffix("NAME")[:-1]
        monkeypatch.setitem(registry._things, name, thing)


def test_a_library_that_fails_is_listed_with_its_reason(broken):
    outcome = call("list", "encoders")
    assert outcome.status == 0, outcome.err
    assert "dinov2-b" in outcome.out
    lines = [line for line in outcome.out.splitlines() if line.startswith(("theirs:", "odd:"))]
    assert "KeyError: 'their own mistake'" in lines[0] + lines[1]
    assert "mini:pixels" in call_json("list", "encoders")
    with pytest.raises(MarcError, match="'theirs' cannot be read"):
        encoder_card("theirs:a")
    with pytest.raises(MarcError, match="unknown encoder"):
        encoder_card("mini:nothing")


def test_a_type_of_source_that_fails_is_listed_with_its_reason(broken):
    outcome = call("list", "datasets")
    assert outcome.status == 0, outcome.err
    assert "lab/sketch-12" in outcome.out
    assert "KeyError: 'their own mistake'" in outcome.out
    assert "odd/" in outcome.out
