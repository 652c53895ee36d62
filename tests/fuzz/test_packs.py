"""Packs that were changed: the same numbers, those of another stream, or a clear refusal."""

import json

import pytest
from helpers.commands import PAPER, call
from helpers.fuzzing import Tries
from helpers.mutations import damage, edit_arrays, swap

import marc


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    path = tmp_path_factory.mktemp("pack") / "whole.npz"
    marc.write_pack(marc.synthetic_stream(n_images=24, n_classes=4, n_views=2), path)
    return path


def outcome_of(path, out):
    return call("run", f"arrays/{path}", *PAPER, "--seed", "0", "-o", out, "--json")


def numbers(outcome):
    """What a run says of accuracy; refuses what is no number."""
    data = json.loads(outcome.out, parse_constant=pytest.fail)
    return {name: value for name, value in data.items() if "accuracy" in name or name == "gain"}


def test_damaged_packs(pack, tmp_path, record_property):
    whole = outcome_of(pack, tmp_path / "whole")
    tries = Tries("damaged packs", record_property)
    for draw in tries(300):
        path, out = tmp_path / "a.npz", tmp_path / f"{tries.seed}"
        changed, words = damage(pack.read_bytes(), draw)
        path.write_bytes(changed)
        with tries.one(words):
            outcome = outcome_of(path, out)
            if tries.refused(outcome):
                assert not out.exists()
            else:
                assert numbers(outcome) == numbers(whole)
                tries.counts["same"] += 1


def test_edited_packs(pack, tmp_path, record_property):
    tries = Tries("edited packs", record_property)
    for draw in tries(300):
        path, out = tmp_path / f"{tries.seed}.npz", tmp_path / f"{tries.seed}"
        changed, words = edit_arrays(pack.read_bytes(), draw)
        path.write_bytes(changed)
        if draw.random() < 0.1:
            words = swap(path, draw)
        with tries.one(words):
            outcome = outcome_of(path, out)
            if tries.refused(outcome):
                assert not out.exists()
            else:
                numbers(outcome)
                tries.counts["other"] += 1
