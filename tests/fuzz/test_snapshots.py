"""Snapshots that were changed: the method goes on as if never stopped, or the file is refused."""

import pytest
from helpers.fuzzing import Tries
from helpers.mutations import mutate

import marc

SETTINGS = {
    "marc": {"space": "classes", "capacity": 3},
    "class-means": {},
    "tda": {"fraction": 0.5},
    "dmn-zs": {"fraction": 0.5},
}


@pytest.fixture(scope="module")
def stream():
    return marc.synthetic_stream(n_images=30, n_classes=4, n_views=2)


def answers(method, queries):
    return [method.step(query).prediction for query in queries]


@pytest.mark.parametrize("name", SETTINGS)
def test_changed_snapshots(stream, tmp_path, record_property, name):
    queries = list(stream)
    method = marc.create_method(name, **SETTINGS[name])
    answers(method, queries[:20])
    marc.save_snapshot(method, tmp_path / "whole")
    whole = answers(method, queries[20:])
    tries = Tries(f"snapshots of {name}", record_property)
    for draw in tries(300):
        path = tmp_path / f"{tries.seed}"
        path.write_bytes((tmp_path / "whole").read_bytes())
        with tries.one(mutate(path, draw)):
            try:
                restored = marc.load_snapshot(path)
            except marc.MarcError:
                tries.counts["refused"] += 1
            else:
                assert answers(restored, queries[20:]) == whole
                tries.counts["same"] += 1
