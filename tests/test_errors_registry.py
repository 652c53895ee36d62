"""Things by name: ours, registered, brought by packages, and typed as package.module:Name."""

from importlib.metadata import EntryPoint

import pytest

from marc.admission import POLICIES, Policy
from marc.errors import MarcError, Registry, is_reference
from marc.method import MARC
from marc.peers.cards import card_of
from marc.peers.registry import METHODS, register_method
from marc.sources import load_stream


def make(points=(), **own):
    registry = Registry("number", "marc.numbers", own, lambda name, thing: thing, "one, two")
    registry.__dict__["_points"] = {
        name: [EntryPoint(name, value, "marc.numbers") for value in values]
        for name, values in dict(points).items()
    }
    return registry


def test_nothing_is_imported_before_it_is_asked_for():
    registry = make({"two": ["no.such:two"]}, one="no.such:one", pi="math:pi")
    assert list(registry) == ["one", "pi", "two"]
    assert len(registry) == 3
    assert "two" in registry
    assert registry["pi"] == pytest.approx(3.14159, abs=1e-4)
    things, errors = registry.load_all()
    assert list(things) == ["pi"]
    assert "of marc" in errors["one"].problem
    assert "of the package ?" in errors["two"].problem
    assert "No module named 'no'" in errors["two"].got


def test_a_reference_is_imported_only_where_a_person_types_it():
    registry = make(pi="math:pi")
    for look_up in (registry.known, registry.__getitem__):
        with pytest.raises((MarcError, KeyError)):
            look_up("math:e")
    assert registry.resolve("math:e") == "math:e"
    assert registry["math:e"] == pytest.approx(2.718, abs=1e-3)
    assert registry.resolve("pi") == "pi"
    with pytest.raises(MarcError, match="unknown number"):
        registry.resolve("tau")


def test_a_name_has_one_owner():
    registry = make({"one": ["math:pi"], "two": ["math:pi", "math:e"]}, one=1)
    with pytest.raises(MarcError, match="one: that of marc and the package"):
        registry["one"]
    with pytest.raises(MarcError, match="two have the name"):
        registry["two"]
    registry.register("three", 3)
    for taken in ("one", "two", "three"):
        with pytest.raises(MarcError, match="there is a number of this name"):
            registry.register(taken, 4)
    registry.register("three", 5, replace=True)
    assert registry["three"] == 5
    with pytest.raises(MarcError, match="there is a number of this name"):
        registry.register("one", 5, replace=True)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("package.module:Name", True),
        ("module:Name.inner", True),
        *(
            (text, False)
            for text in ("marc", "C:/x", "timm:vit_b/16", "pca:64", ":x", "a:", "a b:c")
        ),
    ],
)
def test_what_is_written_as_a_reference(text, is_one):
    assert is_reference(text) is is_one


def test_a_policy_is_given_as_it_is_and_recorded_by_name():
    mine = Policy("newest", "the newest", lambda arrivals: arrivals.position.astype(float))
    method = MARC("good", policy=mine)
    assert method.config()["policy"] == "newest"
    assert method.admission is mine
    with pytest.raises(MarcError, match="unknown admission policy"):
        MARC(**{name: value for name, value in method.config().items() if name != "method"})
    assert "newest" not in POLICIES


def test_a_class_without_a_name_is_no_method():
    class Nameless:
        from_state = None

    with pytest.raises(MarcError, match="no name to be listed under"):
        register_method(Nameless)
    with pytest.raises(MarcError, match="is no method"):
        register_method(3)


def test_a_card_is_made_of_a_class():
    class Mine:
        """Does a thing.

        And more.
        """

        name, paper, reads_before_writes = "mine", "ours", False

        def __init__(self, space, tuned=3):
            pass

        def step_batch(self, queries):
            pass

    card = card_of(Mine)
    assert (card.name, card.summary, card.paper) == ("mine", "Does a thing", "ours")
    assert card.settings == {"space": "required", "tuned": 3}
    assert card.needs == ("space",)
    assert card.reads_before_writes is False
    assert card.sees == "stream"
    assert card.tuned == "nothing"
    assert "mine" not in METHODS


def test_a_source_named_in_a_file_imports_nothing():
    with pytest.raises(MarcError, match="register_source"):
        load_stream("no.such.module:opener/NAME")
