"""Snapshots of MARC, and snapshots put together again with a digest that fits, as forged ones."""

import json

from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from helpers.making import make_stream
from marc.method import MARC
from marc.results.snapshot import _digest, save_snapshot

STREAM = make_stream(n_images=90, n_views=2, logit_scale=5.0)


def make_method(**settings):
    return MARC(**{"space": "good", "capacity": 3, "admission_capacity": 4, **settings})


def steps(method, items):
    return [method.step(STREAM.query(item)) for item in items]


def saved(path, n_seen=40, **settings):
    method = make_method(**settings)
    steps(method, range(n_seen))
    save_snapshot(method, path)
    return path


def header_of(path):
    with safe_open(path, framework="numpy") as file:
        return json.loads(file.metadata()["marc"])


def rewritten(path, *, state=None, arrays=None, **header):
    """The snapshot with another state, other arrays, or more in its header, sealed again."""
    header = {**header_of(path), **header}
    header["state"] = header["state"] if state is None else state
    arrays = load_file(path) if arrays is None else arrays
    seal = _digest({name: value for name, value in header.items() if name != "digest"}, arrays)
    header = {**header, "digest": seal}
    save_file(arrays, path, metadata={"marc": json.dumps(header)})
    return path
