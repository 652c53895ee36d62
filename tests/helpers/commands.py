"""The command line called as a person calls it, and small packs to call it on."""

import contextlib
import io
import json
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from unittest import mock

import numpy as np

from marc.cli import app
from marc.files import file_digest, sealed, write_json
from marc.sources.pack import write_pack
from marc.sources.synthetic import synthetic_stream

MARC = Path(sys.executable).with_name("marc")
Outcome = namedtuple("Outcome", "status out err")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # some build servers make typer colour its errors
PAPER = ("--method", "marc", "--space", "classes")
"""Options of `marc run`: the paper's system in the space that the packs of the tests have."""


def call(*words):
    """`marc WORDS` in this process."""
    out, err = io.StringIO(), io.StringIO()
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    argv = mock.patch.object(sys, "argv", ["marc", *map(str, words)])
    status = None
    with streams[0], streams[1], argv:
        try:
            app.main()
        except SystemExit as stop:
            status = stop.code
    plain = (COLOUR.sub("", text.getvalue()) for text in (out, err))
    return Outcome(status, *plain)


def call_json(*words):
    """What `marc WORDS --json` prints, as data."""
    outcome = call(*words, "--json")
    assert outcome.status == 0, outcome.err
    data = json.loads(outcome.out)
    assert data.pop("schema") == 1
    assert isinstance(data.pop("kind"), str)
    return data


def call_outside(*words, **options):
    """`marc WORDS` in a process of its own."""
    done = subprocess.run([MARC, *map(str, words)], capture_output=True, text=True, **options)
    return Outcome(done.returncode, done.stdout, done.stderr)


def make_sources(folder):
    """Write four small packs; their sources by name."""
    stream = synthetic_stream(n_images=200, n_classes=5, n_views=2)
    write_pack(stream, folder / "labelled.npz")
    write_pack(synthetic_stream(200, 5, 2, seed=7), folder / "other.npz")
    arrays = arrays_in(folder / "labelled.npz")
    np.savez(folder / "unlabelled.npz", **{k: v for k, v in arrays.items() if k != "labels"})
    several = [name for name in arrays if name.startswith("spaces/") and name != "spaces/classes"]
    np.savez(folder / "single.npz", **{k: v for k, v in arrays.items() if k not in several})
    names = ("labelled", "other", "unlabelled", "single")
    return {name: f"arrays/{folder / name}.npz" for name in names}


def reseal(folder, **config):
    """Make a result whose files were edited whole again, with other settings if given."""
    if config:
        write_json(folder / "config.json", {**json_in(folder / "config.json"), **config})
    files = json_in(folder / "digests.json").keys() - {"seal"}
    write_json(folder / "digests.json", sealed({n: file_digest(folder / n) for n in files}))


def tree(folder):
    """Everything below a folder: bytes of files, None for folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def arrays_in(path):
    """The arrays of a file, which hold no pickled objects."""
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def json_in(path):
    """A JSON object that standard readers accept: no NaN."""

    def refuse(constant):
        raise AssertionError(f"{path} holds {constant}")

    return json.loads(path.read_text(), parse_constant=refuse)


def events(folder):
    """The events of a log, a part with its name."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [" ".join(filter(None, [line["event"], line.get("name")])) for line in lines]
