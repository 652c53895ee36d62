"""Memory snapshots: a method's state in one safetensors file with a versioned header."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from marc.errors import MarcError
from marc.files import write_whole
from marc.loop import AnyMethod
from marc.peers.cards import MethodCard
from marc.peers.registry import METHODS
from marc.stream import digest, end_digest

_FORMAT = "marc-memory"


def save_snapshot(method: AnyMethod, path: str | Path) -> None:
    """Write what a method remembers; a killed write leaves the old file as it was."""
    from safetensors.numpy import save

    path = Path(path)
    state = method.state()
    told = {name: value for name, value in state.items() if name != "arrays"}
    header = {"format": _FORMAT, "digest": _digest(state["arrays"]), **told}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, save(state["arrays"], metadata={"marc": json.dumps(header)}))


def _digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    names = sorted(arrays)
    return end_digest(hashlib.sha256("".join(n + digest(arrays[n]) for n in names).encode()))


def load_snapshot(path: str | Path) -> Any:
    """A method that goes on from a snapshot as if it had never stopped."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise MarcError("there is no such snapshot", got=path, hint=f"ls {path.parent}")
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("marc", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError) as error:
        raise MarcError("this file is not a memory snapshot", got=f"{path}: {error}") from error
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise MarcError(
            "this file is not a memory snapshot",
            got=f"{path}: header {str(header)[:80]}",
            allowed=f"a header with format {_FORMAT}",
        )
    if header.get("digest", whole := _digest(arrays)) != whole:  # older ones have none
        raise MarcError(
            "this memory snapshot is damaged: its arrays are not those that were written",
            got=path,
            hint="an earlier snapshot, or start again with an empty memory",
        )
    try:
        card = _known(header["config"]["method"])
        return card.factory.from_state({**header, "arrays": arrays})  # type: ignore[attr-defined]
    except MarcError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise MarcError("this memory snapshot is damaged", got=f"{path}: {error!r}") from error


def _known(name: str) -> MethodCard:
    """The card of a method that a file names. The file never decides what code is imported."""
    if name not in METHODS:
        raise MarcError(
            "this memory snapshot is of a method that is not known here",
            got=repr(name),
            allowed=", ".join(METHODS),
            hint="marc.register_method(...) first, or install the package that brings it",
        )
    return METHODS[name]
