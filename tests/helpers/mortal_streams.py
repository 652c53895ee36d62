"""Packs whose readers die: a type of source that kills the first worker to read a space."""

import os

from marc.sources import SOURCES

_MODULE = """
import os
import signal
from dataclasses import replace
from pathlib import Path

from marc.sources.pack import read_pack
from marc.stream.features import LazySpaces, digest


def open_mortal(name, on_progress=None, n_views=None):
    stream = read_pack(Path(name))
    spaces, mark = stream.features.spaces, Path(name).with_suffix(".died")

    def read(space):
        asks = os.environ["MARC_TEST_ASKS"] == str(os.getpid())
        if not asks and space == mark.read_text():
            mark.write_text("nobody")
            os.kill(os.getpid(), signal.SIGKILL)
        return spaces[space]

    readers = {space: lambda space=space: read(space) for space in spaces}
    dims = {space: keys.shape[1] for space, keys in spaces.items()}
    known = {f"spaces/{space}": digest(keys) for space, keys in spaces.items()}
    lazy = LazySpaces(readers, dims)
    return replace(stream, features=replace(stream.features, spaces=lazy, known=known))
"""


def install(folder, monkeypatch):
    """Make `mortal/FILE.npz` a type of source, here and in processes that are started from now."""
    about = folder / "mortal-1.dist-info"
    about.mkdir(parents=True)
    (folder / "mortal.py").write_text(_MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mortal\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[marc.sources]\nmortal = mortal:open_mortal\n")
    monkeypatch.syspath_prepend(folder)
    list(SOURCES)  # what is installed is looked up once, and now again
    monkeypatch.delitem(vars(SOURCES), "_points")
    paths = filter(None, (str(folder), os.environ.get("PYTHONPATH")))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("MARC_TEST_ASKS", str(os.getpid()))


def mortal(pack, space):
    """The source of a pack, whose first reader of a space in another process dies."""
    mark_of(pack).write_text(space)
    return f"mortal/{pack}"


def has_killed(pack):
    """Whether a reader of the pack has died."""
    return mark_of(pack).read_text() == "nobody"


def mark_of(pack):
    return pack.with_suffix(".died")
