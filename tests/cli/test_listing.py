"""`marc list` with packages whose encoders or sources cannot be listed."""

import pytest
from helpers.commands import call, call_json

import marc.encoders as encoders
from marc.cli import console
from marc.encoders import Library, encoder_card
from marc.errors import MarcError
from marc.peers.registry import METHODS
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


def test_methods_stand_below_what_they_need():
    out = call("list", "methods").out
    parts = out.split("\nfrom ")
    group = {part.partition("\n")[0]: part for part in parts}
    alone = group["the features of the predictor alone"]
    assert "\ntda " in alone
    assert "\nmarc " in group["the space of a second encoder"]
    assert "\ntpt " in group["the predictor's text encoder, in torch"]
    assert "\ntent " in group["the predictor's image encoder and the pictures, in torch"]
    assert "\ntent " not in alone
    shown = [line.split()[0] for line in out.splitlines() if line]
    assert all(shown.count(name) == 1 for name in METHODS)


def test_methods_that_do_not_run_here_are_listed_with_the_reason():
    out = call("list", "methods").out
    assert "tata" in out.partition("do not run here")[2]
    assert call_json("list", "methods", "t*")["tda"]["resets"] == "never"
    card = call("list", "methods", "--card", "tata")
    assert card.status == 0
    assert "does not run here: its abstract is public" in card.out
    assert call_json("list", "methods", "--card", "tata")["absent"]["tata"]["paper"]


def test_a_card_says_what_a_method_learns_and_forgets():
    assert (
        "forgets what it learned: after each image" in call("list", "methods", "--card", "tps").out
    )
    assert "learns by gradients: yes" in call("list", "methods", "--card", "tps").out
    assert "grows: with every image" in call("list", "methods", "--card", "ecalp").out
    assert "gradients" not in call("list", "methods", "--card", "no-memory").out


def test_a_narrow_terminal_is_told_where_the_other_columns_are(monkeypatch):
    columns = "order, gradients and needs: "
    assert columns not in call("list", "methods").out
    monkeypatch.setattr(console, "is_narrow", lambda: True)
    out = call("list", "methods").out
    assert "gradients  needs" not in out
    assert "--card NAME" in out.partition(columns)[2]


def test_a_card_says_that_nobody_need_give_a_digest():
    rows = call("list", "methods", "--card", "coop").out.splitlines()
    assert [" ".join(row.split()) for row in rows].count("digest that of the file") == 1


def test_what_sees_the_whole_stream_forgets_after_it():
    for card in METHODS.values():
        assert card.sees != "stream" or card.resets == "stream", card.name
    card = call("list", "methods", "--card", "transclip").out
    assert "forgets what it learned: after the stream" in card
