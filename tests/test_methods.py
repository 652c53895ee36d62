import pytest
from making import make_stream

from marc.errors import MarcError
from marc.loop import run
from marc.method import MARC
from marc.methods import METHODS, create_method, list_methods
from marc.no_memory import NoMemory


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*", ["marc", "no-memory"]),
        ("m*", ["marc"]),
        ("*memory", ["no-memory"]),
        ("marc", ["marc"]),
        ("[mn]*", ["marc", "no-memory"]),
        ("mar", []),
    ],
)
def test_methods_are_listed_by_pattern(pattern, names):
    assert list_methods(pattern) == names


def test_all_methods_are_listed_without_a_pattern():
    assert list_methods() == list(METHODS)


def test_a_method_is_made_by_name_with_its_settings():
    method = create_method("marc", space="good", capacity=8, policy="fifo")
    assert isinstance(method, MARC)
    assert method.config() == MARC("good", capacity=8, policy="fifo").config()
    assert create_method("no-memory") == NoMemory()


def test_every_method_bears_its_listed_name_and_can_be_run():
    stream = make_stream(n_images=10)
    for name, card in METHODS.items():
        needed = {"space": "good"} if card.settings.get("space") == "required" else {}
        result = run(create_method(name, **needed), stream)
        assert card.name == name == result.method["method"]
        assert len(result.predictions) == 10


def test_the_card_shows_settings_with_their_defaults():
    assert METHODS["marc"].settings["capacity"] == 16
    assert {"method": "marc", **METHODS["marc"].settings} == MARC("required").config()
    assert METHODS["no-memory"].settings == {}


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(MarcError) as refused:
        create_method("mark", space="good")
    assert str(refused.value) == (
        "unknown method.\n  got:  'mark'\n  allowed:  marc, no-memory\n  try:  marc list methods"
    )


def test_an_unknown_setting_is_refused_with_the_known_ones():
    with pytest.raises(MarcError) as refused:
        create_method("marc", space="good", k=8)
    names = ", ".join(sorted(METHODS["marc"].settings))
    assert str(refused.value) == f"unknown setting of marc.\n  got:  'k'\n  allowed:  {names}"


@pytest.mark.parametrize("setting", ["_state", "method"])
def test_what_is_no_setting_cannot_be_set(setting):
    with pytest.raises(MarcError, match="unknown setting of marc"):
        create_method("marc", **{"space": "good", setting: None})


def test_a_method_without_settings_takes_none():
    with pytest.raises(MarcError, match="unknown setting of no-memory"):
        create_method("no-memory", space="good")


def test_a_missing_setting_is_named():
    with pytest.raises(MarcError) as refused:
        create_method("marc", capacity=8)
    assert str(refused.value) == "marc needs space.\n  try:  space=..."


def test_a_bad_value_is_refused_by_the_method():
    with pytest.raises(MarcError, match="capacity must be a whole number >= 0"):
        create_method("marc", space="good", capacity=-1)
