"""Features of images beside the stream, from a pack or a store that a setting leads to.

The settings name their content by a digest, so that a record of a run says what was read, and a
changed file is refused.
"""

from __future__ import annotations

import os

import numpy as np

from marc.embed.store import FeatureStore
from marc.errors import MarcError
from marc.files import user_path
from marc.pictures import IMAGE_KINDS
from marc.scores import Float
from marc.sources import SOURCES, is_pictures, load_stream
from marc.sources.pack import read_pack
from marc.stream import Stream


def check_path(setting: str, value: object) -> str:
    """The path of a pack or store, refused if it is none."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        hint = f'{setting}="train.npz"'
        raise MarcError(f"{setting} must be a path", got=repr(value), hint=hint)
    return str(os.fspath(value))


def read_images(path: str) -> Stream:
    """The images of a feature pack or store, or of any source that is written type/name."""
    found = user_path(path)
    if FeatureStore.exists(found):
        return FeatureStore(found).stream()
    kind, slash, _ = path.partition("/")
    if slash and not found.exists() and (kind in SOURCES or kind in IMAGE_KINDS):
        return load_stream(path)
    return load_stream(path) if is_pictures(path) and found.is_dir() else read_pack(found)


def check_digest(what: str, path: str, named: str, found: str) -> str:
    """The digest of what was read, refused if the settings name another."""
    if named and named != found:
        raise MarcError(
            f"the {what} are not those that the digest names: the file was changed, or the digest "
            "is of another",
            got=f"{path}: {found}",
            allowed=named,
            hint="leave digest out to take what is there now",
        )
    return found


def n_shared(plain: Float, stream: Stream) -> int:
    """How many unit features of plain images (N, D) are those of images of a stream, bit by bit."""
    known = {row.tobytes() for row in np.ascontiguousarray(stream.features.clip_keys)}
    return sum(row.tobytes() in known for row in plain)
