"""Snapshots whose digest fits, but whose content no method wrote: refused, or without effect."""

import functools
import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.mutations import WORDS
from helpers.snapshots import header_of, rewritten
from safetensors.numpy import load_file

from marc.errors import MarcError
from marc.loop import iter_steps
from marc.peers.contract import _stream_for, maker
from marc.peers.registry import METHODS
from marc.results.snapshot import load_snapshot, save_snapshot

MORE = {
    "marc, all memories": ("marc", {"negative_weight": 0.117, "clip_weight": 1.0}),
    "marc, learned weight": ("marc", {"weight": "auto"}),
    "dota, with images that wait": ("dota", {"refresh": 7}),
}
CASES = {**{name: (name, {}) for name in METHODS}, **MORE}


@functools.cache
def parts(name):
    """The images that a method sees, and those that follow."""
    stream = _stream_for(METHODS[name], 11, 40, 10).shuffled(3)
    return [replace(stream, order=order) for order in (stream.order[:25], stream.order[25:33])]


def written(name, settings, folder):
    """A snapshot of a method that saw some images."""
    card = METHODS[name]
    config = {**maker(card, folder)().config(), **settings}
    method = card.factory(**{key: value for key, value in config.items() if key != "method"})
    list(iter_steps(method, parts(name)[0]))
    save_snapshot(method, folder / "memory")
    return folder / "memory"


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    """A snapshot, and the answers that follow."""
    if {"text-tower", "image-tower"} & {*METHODS[CASES[request.param][0]].needs}:
        pytest.importorskip("torch")
    path = written(*CASES[request.param], tmp_path)
    return path, answers(load_snapshot(path))


def answers(method):
    return [step.logits.tolist() for step in iter_steps(method, parts(method.name)[1])]


def outcome(path):
    """The answers that follow; none where the file, or the first image after it, is refused."""
    try:
        return answers(load_snapshot(path))
    except MarcError:
        return None


def _filled(value):
    return lambda array: np.full_like(array, value)


def _one(value):
    def edit(array):
        array = array.copy()
        array.reshape(-1)[-1:] = value
        return array

    return edit


FLOATS = {
    "nan": _one(np.nan),
    "infinite": _one(np.inf),
    "all infinite": _filled(np.inf),
    "double": lambda array: array.astype(np.float64 if array.dtype != "f8" else np.float32),
    "integers": lambda array: np.where(np.isfinite(array), array, 0).astype(np.int64),
}
INTEGERS = {
    "minus": _one(-1),
    "all minus": _filled(-1),
    "huge": _one(2**62),
    "largest": _filled(2**63 - 1),
    "short": lambda array: array.astype(np.int32),
    "float": lambda array: array.astype(np.float64),
}
BOOLS = {"bytes": lambda array: array.astype(np.uint8) * 7}
SHAPES = {
    "none": lambda array: array[:0],
    "shorter": lambda array: array[:-1],
    "longer": lambda array: np.concatenate([array, array[-1:]]),
    "narrower": lambda array: array[..., :-1],
    "wider": lambda array: np.concatenate([array, array[..., -1:]], axis=-1),
    "deeper": lambda array: array[..., np.newaxis],
    "flat": lambda array: array.reshape(-1),
    "one": lambda array: array.reshape(-1)[:1],
    "hollow": lambda array: np.empty((10**9, *array.shape[1:], 0), array.dtype),
    "long and hollow": lambda array: np.empty((0, 10**12), array.dtype),
}


def edits_of(array):
    return {**{"f": FLOATS, "i": INTEGERS, "b": BOOLS}[array.dtype.kind], **SHAPES}


def test_a_snapshot_that_is_only_sealed_again_goes_on(case):
    path, expected = case
    assert expected
    assert outcome(rewritten(path)) == expected


ANOTHER_MEMORY = {
    "priorities": {"infinite", "all infinite"},  # what a policy that lets nothing go would store
}
"""Edits by the end of an array's name that leave what a method could have written."""


def test_an_array_that_no_method_wrote_is_refused_or_changes_no_answer(case):
    path, expected = case
    arrays, wrong = load_file(path), []
    for name, array in arrays.items():
        legitimate = ANOTHER_MEMORY.get(name.split("/")[-1], ())
        for kind, edit in edits_of(array).items():
            rewritten(path, arrays={**arrays, name: np.ascontiguousarray(edit(array))})
            if outcome(path) not in (None, expected) and kind not in legitimate:
                wrong.append((name, kind))
    assert wrong == []


def test_arrays_that_are_missing_or_too_many_are_refused(case):
    path, _ = case
    arrays = load_file(path)
    others = [{**arrays, "more": np.zeros(3)}, {**arrays, "a/b/c": np.zeros(3)}]
    for missing in arrays:
        others.append({name: array for name, array in arrays.items() if name != missing})
    for changed in others:
        with pytest.raises(MarcError):
            load_snapshot(rewritten(path, arrays=changed))


NUMBERS = [-1, 6, 10**9, 2**62, 2**63, 10**30, True, 5.0, 25.0, "5", float("nan")]
NAMES = [["good"], ["good"] * 3, ["good", "bad", 3], ["good", "bad", ["predictor"]]]


def test_a_header_that_no_method_wrote_is_refused_or_changes_no_answer(case):
    path, expected = case
    state, wrong = header_of(path)["state"], []
    for name in state:
        for value in [*NUMBERS, *NAMES, *WORDS]:
            rewritten(path, state={**state, name: value})
            if outcome(path) not in (None, expected):
                wrong.append((name, value))
    assert wrong == []


@pytest.mark.parametrize("value", [-1, True, 25.0, "25", None, 2**63])
def test_a_number_of_seen_images_is_a_whole_number(tmp_path, value):
    path = written("marc", {}, tmp_path)
    with pytest.raises(MarcError):
        load_snapshot(rewritten(path, state={**header_of(path)["state"], "n_seen": value}))


def test_other_settings_make_another_method_or_are_refused(case):
    path, _ = case
    state = header_of(path)["state"]
    for name in state["config"]:
        for value in [*NUMBERS, *WORDS]:
            rewritten(path, state={**state, "config": {**state["config"], name: value}})
            try:
                method = load_snapshot(path)
            except MarcError:
                continue
            assert json.dumps(method.config()[name]) == json.dumps(value)
