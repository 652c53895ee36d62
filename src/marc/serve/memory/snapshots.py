"""Snapshots: a memory as one file, restores, and folders that exist as a whole or not at all."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from marc.errors import MarcError, integer
from marc.files import json_digest, remove_left, sync_folder, write_whole
from marc.memory import check_stored
from marc.method import MARC
from marc.results.snapshot import damaged, method_of, read_state, write_state
from marc.serve.memory.config import MemoryConfig, StepRequest
from marc.serve.memory.effects import Learner
from marc.serve.memory.history import History
from marc.serve.memory.log import CANARY, Log, new_head
from marc.session.record import Record

FOLDER = "snapshots"
"""Where the snapshots of a memory lie, in its folder."""
_FORMAT = "marc-served-snapshot"
_KEPT = 3  # files; an older one is there for a person who wants to go back
_NAME = re.compile(r"\d{12}(-[0-9a-f]{8})?\.safetensors")
_RESTORED = "restored.sqlite"
_UPLOAD = ".upload-"
_PASSING = (".new-", ".gone-")
"""How the names of folders begin that are being created or removed."""


@dataclass(frozen=True)
class Snapshot:
    """A copy of what is remembered, which can be written while the memory goes on."""

    seq: int
    timeline: str
    state: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        config: MemoryConfig,
        learner: Learner,
        head: Mapping[str, Any],
        items: Sequence[Sequence[Any]],
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
        state = {
            "config": json_digest(config.identity()),
            "method": method,
            "record": record,
            "seq": head["seq"],
            "n_seen": head["n_seen"],
            "items": items,
            "history": history,
            "arrays": arrays,
        }
        return cls(head["seq"], head["timeline"], state)

    @property
    def file(self) -> str:
        """Its name, which no snapshot of before a restore has: those may still be needed."""
        return _name(self.seq, self.timeline)

    def write(self, folder: Path) -> Path:
        """Write it to the folder of a memory, where the older ones stay."""
        path = folder / FOLDER / self.file
        write_state(path, self.state, _FORMAT)
        return path


class Remembered(NamedTuple):
    """What a memory goes on from."""

    seq: int
    n_seen: int
    learner: Learner
    items: dict[int | None, tuple[int, str]]
    """Step and id of the images that are remembered one by one."""
    history: History


def remembered(config: MemoryConfig, state: Mapping[str, Any] | None) -> Remembered:
    """What a snapshot holds, or an empty memory; a forged snapshot raises any kind of error.

    The method is the one of the configuration: a snapshot never decides which code is run.
    """
    method, record = config.new_method(), None
    if state is None:
        return Remembered(0, 0, Learner(config, method), {}, History())
    seq, n_seen = (integer(name, state[name], 0) for name in ("seq", "n_seen"))
    check_stored(seq >= n_seen and bool(n_seen) == bool(state["method"]), "its counts do not fit")
    if state["method"] is not None:
        if json_digest(state["method"]["config"]) != json_digest(method.config()):
            raise MarcError("this snapshot is of another method", got=state["method"]["config"])
        method = method_of(state["method"])
    is_marc = isinstance(method, MARC)
    check_stored(is_marc == (state["record"] is None), "its record does not fit")
    check_stored(not is_marc or state["method"] is None or state["method"]["n_seen"] == n_seen,
                 "its counts do not fit")  # fmt: skip
    if state["record"] is not None:
        record = Record.from_state(config.classes, state["record"], state["arrays"])
    return Remembered(
        seq,
        n_seen,
        Learner(config, method, record),
        {integer("item", item, 0): (int(seq), str(name)) for item, seq, name in state["items"]},
        History(**state["history"]),
    )


def last(
    folder: Path, entry: Mapping[str, Any] | None, config: MemoryConfig
) -> dict[str, Any] | None:
    """The state that the log goes on from; None where it begins with nothing."""
    if entry is None:
        return None
    state = read(path_of(folder, entry["file"]), config)
    if state["seq"] != entry["seq"]:
        raise MarcError("this is another snapshot than the log goes on from", got=entry["file"])
    return state


def read(path: Path, config: MemoryConfig) -> dict[str, Any]:
    """A snapshot of this memory, or of another with the same configuration."""
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
    path = folder / FOLDER / str(name)
    if not _NAME.fullmatch(str(name)) or not path.is_file():
        raise MarcError(
            "there is no such snapshot",
            got=ascii(name)[:80],
            allowed=", ".join(each.name for each in _paths(folder)) or "none was made",
        )
    return path


def kept(folder: Path) -> list[dict[str, Any]]:
    """Every snapshot of a memory, the newest last."""
    rows = [(path, path.stat()) for path in _paths(folder)]
    return [
        {"file": path.name, "seq": int(path.name[:12]), "bytes": facts.st_size,
         "at": facts.st_mtime}
        for path, facts in rows
    ]  # fmt: skip


def remove_old(folder: Path, current: str) -> None:
    """Keep the last few that were written, and the one that the log goes on from."""
    with contextlib.suppress(OSError):  # what stays is removed after the next snapshot
        for path in _paths(folder)[:-_KEPT]:
            if path.name != current:
                path.unlink(missing_ok=True)


def _paths(folder: Path) -> list[Path]:
    """Snapshots in the order in which they were written."""
    paths = [each for each in (folder / FOLDER).glob("*") if _NAME.fullmatch(each.name)]
    return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))


class Restorable(NamedTuple):
    """A snapshot that was found good to go back to."""

    path: Path
    seq: int
    n_seen: int
    timeline: str
    """Of the memory from then on."""
    is_new: bool
    """Whether it was sent, and is not yet what any log goes on from."""


def restorable(folder: Path, name: str | None, content: bytes | None) -> Restorable:
    """Look at a snapshot of the memory's own, or keep one that was sent; refused if it is none."""
    config, timeline = MemoryConfig.load(folder), uuid.uuid4().hex[:8]
    if content is None:
        path = path_of(folder, str(name))
        state = _usable(path, config)
    else:
        path = folder / FOLDER / f"{_UPLOAD}{timeline}"
        try:
            write_whole(path, content)
            state = _usable(path, config)
            path = path.replace(path.with_name(_name(state["seq"], timeline)))
        except MarcError as error:
            got = "" if error.got is None else f": {error.got}"
            got = f"{error.problem}{got}".replace(str(path), "it").replace(path.name, "it")
            raise MarcError("what was sent cannot be restored", got=got, allowed=error.allowed,
                            hint=error.hint) from error  # fmt: skip
        finally:
            path.with_name(f"{_UPLOAD}{timeline}").unlink(missing_ok=True)
        sync_folder(path.parent)
    return Restorable(path, int(state["seq"]), state["n_seen"], timeline, content is not None)


def restore(
    folder: Path, snapshot: Restorable, *, mode: str = "shadow", fraction: float = CANARY
) -> None:
    """Create a log that begins with a snapshot, to replace the present one.

    What was there before stays until the new log is complete: from then on it is what counts, and
    `finish_restore` goes on from any moment.
    """
    part = folder / f"{_RESTORED}.part"
    path, seq, n_seen, timeline, is_new = snapshot
    entry = {"seq": seq, "file": path.name, "at": time.time()}
    state = {"snapshot": entry, "timeline": timeline, "mode": mode, "fraction": fraction}
    try:
        Log.remove(part)
        Log.create(part, new_head(seq=seq, n_seen=n_seen, **state))
        part.replace(folder / _RESTORED)
    except BaseException:
        with contextlib.suppress(OSError):
            Log.remove(part)
            if is_new:
                path.unlink(missing_ok=True)
        raise
    sync_folder(folder)


def _usable(path: Path, config: MemoryConfig) -> dict[str, Any]:
    """A snapshot that can answer an image: only for such a one is the present log given up."""
    state = read(path, config)
    with damaged(path):
        learner = remembered(config, state).learner
        keys = {space: [1.0] + [0.0] * (dim - 1) for space, dim in config.spaces.items()}
        request = StepRequest("first", config.predictor.prototypes[:1].copy(), keys)  # type: ignore[arg-type]
        learner.peek(config.query(request, state["n_seen"]), 1)
    return state


def finish_restore(folder: Path, log: Path) -> None:
    """Put the log of a restore in its place, if there is one, and clear what a kill left."""
    for left in (folder / FOLDER).glob(f"{_UPLOAD}*"):
        left.unlink(missing_ok=True)
    remove_left(folder / FOLDER)
    restored = folder / _RESTORED
    if restored.exists():
        Log.remove(log)
        restored.replace(log)
        sync_folder(folder)


def _name(seq: int, timeline: str) -> str:
    return f"{seq:012d}{timeline and '-'}{timeline}.safetensors"


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name when it is full."""
    new = folder.with_name(f"{_PASSING[0]}{uuid.uuid4().hex}")
    new.mkdir(parents=True)
    try:
        (new / FOLDER).mkdir()
        yield new
        sync_folder(new)
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
