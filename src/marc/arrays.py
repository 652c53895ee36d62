"""Arrays in `.npz` files: read without pickle, written in one piece."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError

Arrays = Mapping[str, NDArray[Any]]

# what NumPy raises on a file that is truncated, damaged, of another kind, or pickled
_UNREADABLE = (
    OSError,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_arrays(path: Path, what: str, allowed: str | None = None) -> dict[str, NDArray[Any]]:
    """All arrays of a file; `what` names the file in the error, `allowed` says what it may be."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except _UNREADABLE as error:
        raise MarcError(
            f"this file is not {what}", got=f"{path}: {error}", allowed=allowed
        ) from error


def write_arrays(path: Path, arrays: Arrays, *, compressed: bool = False) -> None:
    """Write arrays; a killed or failed write leaves the old file, or none, under this name."""
    partial = path.with_name(path.name + ".new")
    save = np.savez_compressed if compressed else np.savez
    with partial.open("wb") as file:
        save(file, allow_pickle=False, **arrays)
    partial.replace(path)
