"""What a memory remembers as one file, and folders that are there whole or not at all."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.files import json_digest, sync_folder, write_whole
from marc.results.snapshot import damaged, read_state, write_state
from marc.serve.config import MemoryConfig
from marc.serve.effects import Learner
from marc.serve.log import Log, new_head

_FOLDER, _FORMAT = "snapshots", "marc-served-snapshot"
_KEPT = 3  # files; an older one is there for a person who wants to go back
_NAME = re.compile(r"\d{12}\.safetensors")
_RESTORED = "restored.sqlite"
_PASSING = (".new-", ".gone-")
"""How folders begin that are not there yet, or not any more."""


@dataclass(frozen=True)
class Snapshot:
    """A copy of what is remembered, which can be written while the memory goes on."""

    seq: int
    state: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        config: MemoryConfig,
        learner: Learner,
        head: Mapping[str, int],
        items: list[list[Any]],
        history: Mapping[str, Any],
    ) -> Snapshot:
        """A copy of everything, taken between two steps."""
        method, arrays, record = None, {}, None
        if head["n_seen"]:
            method = learner.method.state()
            arrays = {f"method/{name}": array for name, array in method.pop("arrays").items()}
        if learner.record is not None:
            record, more = learner.record.state()
            arrays |= more
        told = {"config": json_digest(config.identity()), "method": method, "record": record}
        return cls(head["seq"], {**told, **head, "items": items, "history": history,
                                 "arrays": arrays})  # fmt: skip

    @property
    def file(self) -> str:
        """Its name."""
        return f"{self.seq:012d}.safetensors"

    def write(self, folder: Path) -> Path:
        """Write it beside the older ones of a memory."""
        path = folder / _FOLDER / self.file
        write_state(path, self.state, _FORMAT)
        return path


def last(
    folder: Path, told: Mapping[str, Any] | None, config: MemoryConfig
) -> dict[str, Any] | None:
    """The state that the log goes on from; None where it begins with nothing."""
    if told is None:
        return None
    state = read(path_of(folder, told["file"]), config)
    if state["seq"] != told["seq"]:
        raise MarcError("this is another snapshot than the log goes on from", got=told["file"])
    return state


def read(path: Path, config: MemoryConfig) -> dict[str, Any]:
    """A snapshot of this very memory, or of one that was made alike."""
    state = read_state(path, _FORMAT)
    with damaged(path):
        if state["config"] != json_digest(config.identity()):
            raise MarcError(
                "this snapshot is of a memory with another configuration",
                got=path.name,
                hint="PUT a memory with that configuration, and restore it there",
            )
        if state["method"] is not None:
            arrays = state["arrays"].items()
            own = {n.removeprefix("method/"): a for n, a in arrays if n.startswith("method/")}
            state["method"] = {**state["method"], "arrays": own}
        return state


def path_of(folder: Path, name: str) -> Path:
    """Where a snapshot of this name is; a name never leads anywhere else."""
    path = folder / _FOLDER / str(name)
    if not _NAME.fullmatch(str(name)) or not path.is_file():
        known = sorted(each.name for each in (folder / _FOLDER).glob("*.safetensors"))
        raise MarcError(
            "there is no such snapshot",
            got=ascii(name)[:80],
            allowed=", ".join(known) or "none was made",
        )
    return path


def remove_old(folder: Path, current: str) -> None:
    """Keep the last few, and the one that the log goes on from."""
    names = sorted(each.name for each in (folder / _FOLDER).glob("*.safetensors"))
    for name in names[:-_KEPT]:
        if name != current:
            (folder / _FOLDER / name).unlink(missing_ok=True)


def restore(folder: Path, name: str | None, content: bytes | None) -> int:
    """Make a log that begins with a snapshot, instead of the one that is there; the step it is of.

    What was there before stays until the new log is complete: from then on it is what counts, and
    `finish_restore` goes on from any moment.
    """
    config = MemoryConfig.load(folder)
    if content is not None:
        path = folder / _FOLDER / f".upload-{uuid.uuid4().hex}"
        try:
            write_whole(path, content)
            state = read(path, config)
            name = f"{state['seq']:012d}.safetensors"
            path.replace(folder / _FOLDER / name)
        finally:
            path.unlink(missing_ok=True)
    else:
        state = read(path_of(folder, str(name)), config)
    told = {"seq": state["seq"], "file": name, "at": time.time()}
    part = folder / f"{_RESTORED}.part"
    _remove_log(part)
    log = Log(part, "power", new=True)
    log.commit(new_head(seq=state["seq"], n_seen=state["n_seen"], snapshot=told))
    log.close()
    part.replace(folder / _RESTORED)
    sync_folder(folder)
    return int(state["seq"])


def finish_restore(folder: Path, log: Path) -> None:
    """Put the log of a restore in its place, if there is one."""
    restored = folder / _RESTORED
    if not restored.exists():
        return
    _remove_log(log)
    restored.replace(log)
    sync_folder(folder)


def _remove_log(log: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        log.with_name(log.name + suffix).unlink(missing_ok=True)


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name when it is full."""
    new = folder.with_name(f"{_PASSING[0]}{uuid.uuid4().hex}")
    new.mkdir(parents=True)
    try:
        (new / _FOLDER).mkdir()
        yield new
        new.rename(folder)
        sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def remove_folder(folder: Path) -> None:
    """Take a folder away: at once by its name, then what is in it."""
    gone = folder.with_name(f"{_PASSING[1]}{uuid.uuid4().hex}")
    folder.rename(gone)
    sync_folder(folder.parent)
    shutil.rmtree(gone, ignore_errors=True)


def remove_passing(folder: Path) -> None:
    """Remove what a killed server left of folders that were made or removed."""
    for each in folder.iterdir():
        if each.name.startswith(_PASSING):
            shutil.rmtree(each, ignore_errors=True)
