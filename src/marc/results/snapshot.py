"""Memory snapshots: a state in one safetensors file with a versioned, sealed header."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.files import arrays_digest, json_digest, parse_json, refuse_odd_file, write_whole
from marc.loop import AnyMethod
from marc.peers.cards import MethodCard
from marc.peers.registry import METHODS

_FORMAT, _VERSION = "marc-memory", 2
_Arrays = Mapping[str, NDArray[Any]]


def save_snapshot(method: AnyMethod, path: str | Path) -> None:
    """Write what a method remembers; a killed write leaves the old file as it was."""
    if not callable(getattr(method, "state", None)):
        raise MarcError("a method remembers, and this does not", got=type(method).__name__)
    write_state(Path(path), method.state(), _FORMAT)


def write_state(path: Path, state: Mapping[str, Any], form: str) -> None:
    """Write plain data and `arrays` as a file of a format, or leave the old file as it was."""
    write_whole(path, _sealed(state, form))


def _sealed(state: Mapping[str, Any], form: str) -> bytes:
    """The file of a state, refused where it could not be read again."""
    from safetensors.numpy import save

    told = {name: value for name, value in state.items() if name != "arrays"}
    header = {"format": form, "version": _VERSION, "state": told}
    try:
        arrays = {name: _in_a_row(array) for name, array in state["arrays"].items()}
        text = json.dumps({**header, "digest": _digest(header, arrays)})
        _header(text)  # or MarcError: some text can be written, but not read
        return bytes(save(arrays, metadata={"marc": text}))
    except Exception as error:  # a method of another's may hold whatever there is
        raise MarcError(
            "the state of this method cannot be written",
            got=_told(error),
            allowed="settings of plain data, as JSON has them, and arrays of numbers",
            hint="marc check --method NAME",
        ) from error


def _in_a_row(array: Any) -> Any:
    """A copy of a view into a larger array: the library writes memory as it lies."""
    is_view = isinstance(array, np.ndarray) and not array.flags.c_contiguous
    return np.ascontiguousarray(array) if is_view else array


def _digest(header: Mapping[str, Any], arrays: _Arrays) -> str:
    """Of everything in a file."""
    return json_digest(header, arrays_digest(arrays))


def load_snapshot(path: str | Path) -> Any:
    """A method that goes on from a snapshot as if it had never stopped."""
    state = read_state(Path(path), _FORMAT)
    with damaged(Path(path)):
        return method_of(state)


def method_of(state: Mapping[str, Any]) -> Any:
    """The method that gave a state."""
    return _known(state["config"]["method"]).factory.from_state(state)  # type: ignore[attr-defined]


def read_state(path: Path, form: str) -> dict[str, Any]:
    """What `write_state` wrote, or an error."""
    header, arrays = _read(path)
    if not isinstance(header, dict) or header.get("format") != form:
        raise MarcError(
            "this file is not a memory snapshot",
            got=f"{path}: header {str(header)[:80]}",
            allowed=f"a header with format {form}",
        )
    if header.get("version") != _VERSION:
        raise MarcError(
            "this memory snapshot was written by another version of marc",
            got=f"{path}: version {str(header.get('version'))[:80]} of the format",
            allowed=f"version {_VERSION}",
            hint="that version of marc, or start again with an empty memory",
        )
    with damaged(path):
        seal = header.pop("digest", None)
        if seal != _digest(header, arrays):
            raise MarcError(
                "this memory snapshot is damaged: it is not what was written",
                got=path,
                hint="an earlier snapshot, or start again with an empty memory",
            )
        return {**header["state"], "arrays": arrays}


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Turn whatever comes of a forged state into one error."""
    try:
        yield
    except (MarcError, PermissionError):  # PermissionError: of shots that a method reads
        raise
    except Exception as error:  # a forged state fails in every way there is
        raise MarcError("this memory snapshot is damaged", got=f"{path}: {_told(error)}") from error


def _read(path: Path) -> tuple[Any, dict[str, NDArray[Any]]]:
    """The header and the arrays of a plain safetensors file."""
    from safetensors import safe_open

    refuse_odd_file(path, "snapshot")
    try:
        with safe_open(path, framework="numpy") as file:
            header = _header((file.metadata() or {}).get("marc", "{}"))
            return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except OSError:
        raise
    except Exception as error:  # bad bytes fail in every way there is
        problem = f"{path}: {_told(error)}"
        raise MarcError("this file is not a memory snapshot", got=problem) from error


def _header(text: str) -> Any:
    return parse_json(text, "its header", infinite=True)  # a setting may be


def _told(error: Exception) -> str:
    """What was wrong, in one line."""
    problem = error.got if isinstance(error, MarcError) else error
    return f"{type(error).__name__}: {problem}"[:200]


def _known(name: str) -> MethodCard:
    """The card of a method that a file names. The file never decides what code is imported."""
    if name not in METHODS:
        raise MarcError(
            "this memory snapshot is of a method that is not known here",
            got=repr(name)[:80],
            allowed=", ".join(METHODS),
            hint="marc.register_method(...) first, or install the package that brings it",
        )
    return METHODS[name]
