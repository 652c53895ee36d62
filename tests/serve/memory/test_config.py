"""What a memory may be made of, and what a step may ask."""

import json

import numpy as np
import pytest
from helpers.serving import DIM, MARC, N_CLASSES, SPACE_DIM, body, features, request
from hypothesis import given
from hypothesis import strategies as st

from marc.errors import MarcError
from marc.loop import Method
from marc.peers.registry import METHODS
from marc.serve.memory.config import Limits, MemoryConfig, StepRequest, check_name, config_of
from marc.serve.refused import Refused

_BEYOND = {"shots", "unlabelled", "prompts", "text-tower", "image-tower"}
_SERVABLE = [
    name
    for name in METHODS.own
    if not _BEYOND & {*METHODS[name].needs}
    and METHODS[name].sees == "image"
    and not METHODS[name].grows
]


def _settings(name):
    return {"name": name, "space": "s"} if "space" in METHODS[name].needs else {"name": name}


@pytest.mark.parametrize("name", _SERVABLE)
def test_a_configuration_is_the_same_after_a_restart(tmp_path, name):
    config, mode, fraction = config_of(body(_settings(name)))
    assert (mode, fraction) == ("shadow", None)
    config.save(tmp_path)
    loaded = MemoryConfig.load(tmp_path)
    assert loaded.identity() == config.identity()
    assert json.dumps(loaded.identity(), sort_keys=True) == json.dumps(
        config.identity(), sort_keys=True
    )
    assert loaded.limits == config.limits
    assert loaded.created == config.created
    assert isinstance(loaded.new_method(), Method)


def test_every_setting_of_the_method_is_kept_for_later_releases():
    config, _, _ = config_of(body(MARC))
    assert config.method["beta"] == 5.0
    assert config.method["name"] == "marc"
    assert "method" not in config.method


def test_limits_do_not_decide_whether_two_answer_alike():
    one, _, _ = config_of(body(limits={"window": 5}))
    other, _, _ = config_of(body(limits={"window": 6}))
    assert one.identity() == other.identity()
    assert one.limits != other.limits
    third, _, _ = config_of(body({**MARC, "weight": 31.0}))
    assert third.identity() != one.identity()


_REFUSED = ["oga", "lame", "shot-pl", "etta", "tip-adapter", "tpt", "ecalp", "x:Y", "", 3]


@pytest.mark.parametrize("name", _REFUSED)
def test_methods_that_cannot_be_served_are_refused(name):
    with pytest.raises(MarcError):
        config_of(body({"name": name}))


@pytest.mark.parametrize(
    "change",
    [
        {"mode": "on"},
        {"fraction": -0.1},
        {"fraction": 1.5},
        {"fraction": float("nan")},
        {"fraction": "0.5"},
        {"limits": {"window": 0}},
        {"limits": {"queue": 0}},
        {"limits": {"snapshot_every": 0}},
        {"limits": {"steps_per_second": 0}},
        {"limits": {"colour": 1}},
        {"limits": {"window": 2.5}},
        {"classes": ["a", "b"]},
        {"classes": ["a", "a", "b", "c"]},
        {"classes": ["a", " ", "b", "c"]},
        {"classes": ["a", "\ud800", "b", "c"]},
        {"classes": ["a", "b" * 600, "b", "c"]},
        {"spaces": {"s": 0}},
        {"spaces": {"s": 10**6}},
        {"spaces": {"predictor": 4}},
        {"spaces": {"a+b": 4}},
        {"spaces": {"s": True}},
        {"spaces": {}},
        {"predictor": None},
        {"predictor": {"prototypes": [[1.0, 0.0]], "logit_scale": 1.0}},
        {"predictor": {"prototypes": [], "logit_scale": 1.0}},
        {"predictor": {"prototypes": [[], []], "logit_scale": 1.0}},
        {"predictor": {"prototypes": [[1.0, 0.0], [1.0]], "logit_scale": 1.0}},
        {"predictor": {"prototypes": [[1.0, 0.0], [0.0, 0.0]], "logit_scale": 1.0}},
        {"predictor": {"prototypes": [[1.0, 0.0], [1e39, 0.0]], "logit_scale": 1.0}},
        {"predictor": {"prototypes": [[1.0, 0.0], [1e30, 0.0]], "logit_scale": 1.0}},
        {"predictor": {"prototypes": [[1.0, 0.0], [float("nan"), 0.0]], "logit_scale": 1.0}},
        {"predictor": {"prototypes": [[1.0, 0.0], [0.0, 1.0]], "logit_scale": 0}},
        {"predictor": {"prototypes": [[1.0, 0.0], [0.0, 1.0]], "logit_scale": float("inf")}},
        {"method": {"name": "marc", "space": "other"}},
        {"method": {"name": "marc", "space": "s", "weight": float("nan")}},
        {"method": {"name": "marc", "space": "s", "weight": -1}},
        {"method": {"name": "marc", "space": "s", "colour": 1}},
        {"method": {"name": "marc", "space": ["s"]}},
        {"method": {"space": "s"}},
        {"method": {}},
        {"colour": "red"},
    ],
)
def test_what_is_no_configuration_is_refused(change):
    with pytest.raises(MarcError):
        config_of({**body(), **change})


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_whatever_else_comes_is_refused(value):
    for given_body in (value, {"method": value}, {**body(), "predictor": value}):
        with pytest.raises(MarcError):
            config_of(given_body)


def test_prototypes_may_be_of_other_lengths_than_one():
    config, _, _ = config_of(body())
    assert np.allclose(np.linalg.norm(config.predictor.prototypes, axis=1), 1)
    assert (config.dim, len(config.classes)) == (DIM, N_CLASSES)


@pytest.mark.parametrize(
    "views",
    [
        np.float32(1),
        np.empty((0, DIM), np.float32),
        np.ones(DIM + 1, np.float32),
        np.ones((2, DIM + 1), np.float32),
        np.ones((1, 1, DIM), np.float32),
        np.ones((257, DIM), np.float32),
        np.ones(DIM, np.int64),
        np.zeros(DIM, np.float32),
        np.full(DIM, 1e30, np.float32),
        np.full(DIM, np.nan, np.float32),
        np.array([np.inf, *[0] * (DIM - 1)], np.float32),
        np.array(["x"] * DIM),
        None,
    ],
)
def test_features_that_do_not_fit_are_refused(views):
    config, _, _ = config_of(body())
    _, keys = features(1)
    with pytest.raises(MarcError):
        config.query(StepRequest("1", None if views is None else np.asarray(views), keys), 0)


@pytest.mark.parametrize(
    "keys",
    [{}, {"t": np.ones(SPACE_DIM)}, {"s": np.ones(SPACE_DIM + 1)}, {"s": np.zeros(SPACE_DIM)},
     {"s": np.ones((1, SPACE_DIM))}, {"s": np.float32(1)},
     {"s": np.ones(SPACE_DIM), "t": np.ones(2)}],
)  # fmt: skip
def test_keys_that_do_not_fit_are_refused(keys):
    config, _, _ = config_of(body())
    views, _ = features(1)
    with pytest.raises(MarcError):
        config.query(StepRequest("1", views, keys), 0)


def test_one_view_may_come_without_its_axis():
    config, _, _ = config_of(body())
    views, keys = features(1)
    one = config.query(StepRequest("1", views[0], keys), 3)
    two = config.query(StepRequest("1", views, keys), 3)
    assert one.views.tobytes() == two.views.tobytes()
    assert one.item == 3


@pytest.mark.parametrize(
    "name", ["", "a\n", "\ud800", "x" * 513, "\x00", 17, None, b"17", "a\u2028b"]
)
def test_odd_ids_are_refused(name):
    with pytest.raises(MarcError):
        StepRequest(name, *features(1)).check()


@pytest.mark.parametrize("name", ["17", "x" * 512, "日本", "😀", "a/b?c=d#e", "' or 1=1 --", "-1"])
def test_ids_of_any_text_are_taken(name):
    request(1, name).check()


@pytest.mark.parametrize("neighbours", [-1, 33, 1.5, True, "2", None])
def test_neighbours_have_bounds(neighbours):
    with pytest.raises(MarcError):
        request(1, neighbours=neighbours).check()


def test_labels_are_names_or_numbers_of_classes():
    config, _, _ = config_of(body(classes=["cat", "dog", "1", "cow"]))
    assert [config.class_of(each) for each in ("cat", "1", 1, 3)] == [0, 2, 1, 3]
    assert config.class_of("neither") == -1
    for unknown in (4, -1, "Cat", True, 1.0, None, ["cat"], {"cat": 1}):
        assert config.class_of(unknown) is None
    config, _, _ = config_of(body(classes=["cat", "neither", "1", "cow"]))
    assert config.class_of("neither") == 1


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "a\\b", "a b", "con", "NUL.txt", "x" * 64, "a.", "é"]
)
def test_names_that_are_none_of_a_folder_are_refused(name):
    with pytest.raises(Refused):
        check_name(name)


@pytest.mark.parametrize("name", ["cam-1", "A", "0.1_b", "x" * 63, "console"])
def test_names_of_memories(name):
    assert check_name(name) == name


def test_limits_have_defaults():
    assert Limits() == Limits(100_000, 1024, 10_000, None)
    Limits().check()


class _Pictures:
    spaces = {"dino": 3}  # noqa: RUF012

    def prototypes(self, classes):
        return np.eye(len(classes), 5, dtype=np.float32), 50.0

    def describe(self):
        return {"predictor": "clip"}


def test_encoders_of_the_server_make_what_is_not_given():
    given_body = {"method": {"name": "marc", "space": "dino"}, "classes": ["a", "b"]}
    with pytest.raises(MarcError):
        config_of(given_body)
    config, _, _ = config_of(given_body, _Pictures())
    assert (config.dim, dict(config.spaces)) == (5, {"dino": 3})
    config.check_pictures(_Pictures())
    with pytest.raises(Refused):
        config.check_pictures(None)
    with pytest.raises(Refused):
        config_of(body())[0].check_pictures(_Pictures())
