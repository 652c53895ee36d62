import json
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.method import MARC
from marc.peers.cards import Need
from marc.peers.contract import CHECKS, BrokenRuleError, _stream, check_method
from marc.peers.registry import METHODS, absent_methods, create_method, list_methods
from marc.peers.zero_shot import NoMemory
from marc.pictures import NAMED_SETS
from marc.scores import softmax
from marc.sources.pack import write_pack

PEERS = set(METHODS) - {"marc", "class-means", "no-memory"}
_NETWORKS = {"text-tower", "image-tower"}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("ma*", ["marc"]),
        ("*memory", ["no-memory"]),
        ("marc", ["marc"]),
        ("[mn][ao]*", ["marc", "no-memory"]),
        ("t?a", ["tda"]),
        ("mar", []),
    ],
)
def test_methods_are_listed_by_pattern(pattern, names):
    assert list_methods(pattern) == names


def test_all_methods_are_listed_without_a_pattern():
    assert list_methods() == list(METHODS)
    assert list(METHODS)[:3] == ["class-means", "marc", "no-memory"]
    assert {"tda", "cosmic", "etta", "lame"} <= PEERS


def test_a_method_is_made_by_name_with_its_settings():
    method = create_method("marc", space="good", capacity=8, policy="fifo")
    assert isinstance(method, MARC)
    assert method.config() == MARC("good", capacity=8, policy="fifo").config()
    assert create_method("no-memory") == NoMemory()


@pytest.fixture(scope="module")
def shots(tmp_path_factory):
    path = tmp_path_factory.mktemp("shots") / "shots.npz"
    write_pack(make_stream(3, n_images=15), path)
    return str(path)


def required(name, files):
    """The settings that a method must be given; `files` is a pack of images."""
    given = {"space": "good", "shots": files, "unlabelled": files}
    settings = METHODS[name].settings.items()
    return {setting: given[setting] for setting, value in settings if value == "required"}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_keeps_the_contract(name, shots):
    n_images = 70
    if _NETWORKS & {*METHODS[name].needs}:
        pytest.importorskip("torch")
        n_images = 40  # each costs steps through a network
    settings = required(name, shots)
    assert create_method(name, **settings).name == METHODS[name].name == name
    check_method(lambda: create_method(name, **settings), n_images=n_images)


@pytest.mark.parametrize("name", METHODS)
def test_numbers_of_numpy_become_plain_ones(name, shots):
    plain = {s: value for s, value in METHODS[name].settings.items() if type(value) in (int, float)}
    given = {s: (np.int64 if type(v) is int else np.float32)(v) for s, v in plain.items()}
    config = create_method(name, **required(name, shots), **given).config()
    assert json.loads(json.dumps(config)) == config
    assert {setting: config[setting] for setting in plain} == pytest.approx(plain)


@pytest.mark.parametrize("card", METHODS.values(), ids=lambda card: card.name)
def test_every_card_says_what_must_be_known(card):
    assert card.summary
    assert card.paper
    assert set(card.needs) <= set(get_args(Need))
    if card.name in PEERS:
        assert all((card.paper_says, card.released_code, card.ours, card.tuned))
    for published in card.published.values():
        assert set(published) <= set(card.settings)
    assert set(card.searched) <= set(card.settings)
    assert ("space" in card.needs) == (card.settings.get("space") == "required")
    for files in ("shots", "unlabelled"):
        assert (files in card.needs) == (files in card.settings)
    known = [*NAMED_SETS, "imagenet-val"]
    assert set(card.published) <= set(known)


def test_an_absent_method_is_refused_with_the_fact_that_keeps_it_out():
    absent = absent_methods()
    assert "tata" in absent
    assert not set(absent) & set(METHODS)
    assert all(each.summary and each.paper and each.reason for each in absent.values())
    with pytest.raises(MarcError, match="tata does not run here: its abstract is public"):
        create_method("tata")


def test_the_card_shows_settings_with_their_defaults():
    assert METHODS["marc"].settings["capacity"] == 16
    assert {"method": "marc", **METHODS["marc"].settings} == MARC("required").config()
    assert METHODS["no-memory"].settings == {}


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(MarcError) as refused:
        create_method("mark", space="good")
    assert str(refused.value) == (
        f"unknown method.\n  got:  'mark'\n  allowed:  {', '.join(sorted(METHODS))}\n"
        "  try:  marc list methods"
    )


def test_an_unknown_setting_is_refused_with_the_known_ones():
    with pytest.raises(MarcError) as refused:
        create_method("marc", space="good", k=8)
    names = ", ".join(sorted(METHODS["marc"].settings))
    assert str(refused.value) == f"unknown setting of marc.\n  got:  'k'\n  allowed:  {names}"


@pytest.mark.parametrize("setting", ["_memory", "method"])
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
    with pytest.raises(MarcError, match="capacity must be an integer >= 0"):
        create_method("marc", space="good", capacity=-1)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda scores: 2 * softmax(scores), "add up to 1"),
        (lambda scores: softmax(-scores), "most probable class"),
    ],
)
def test_probabilities_that_are_none_are_found(wrong, problem):
    class Odd(NoMemory):
        def step(self, query):
            return replace(super().step(query), to_probabilities=wrong)

    with pytest.raises(BrokenRuleError, match=problem):
        CHECKS["its probabilities are those of its answers"](Odd, _stream(3, 20, 1))
