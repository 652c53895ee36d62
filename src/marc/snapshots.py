"""Memory snapshots: a method's state in one safetensors file with a versioned header."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.method_cards import AnyMethod
from marc.methods import METHODS

_FORMAT = "marc-memory"


def save_snapshot(method: AnyMethod, path: str | Path) -> None:
    """Write what a method remembers; a killed write leaves the old file as it was."""
    from safetensors.numpy import save_file

    path = Path(path)
    state = method.state()
    header = {"format": _FORMAT, **{k: v for k, v in state.items() if k != "arrays"}}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    save_file(state["arrays"], partial, metadata={"marc": json.dumps(header)})
    partial.replace(path)


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
    try:
        card = METHODS[header["config"]["method"]]
        return card.factory.from_state({**header, "arrays": arrays})  # type: ignore[union-attr]
    except (KeyError, TypeError, AttributeError) as error:
        raise MarcError("this memory snapshot is damaged", got=f"{path}: {error!r}") from error
