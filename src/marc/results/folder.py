"""Results on disk: a folder appears under its name only when it is whole.

Work goes on in `NAME.partial`, which keeps finished parts: killed at any moment, the next call with
the same configuration takes them up. When all is there the folder is renamed to `NAME`. A folder
that is not a result of ours is never touched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from marc.errors import MarcError
from marc.replay.sweep import Sweep
from marc.results.files import (
    Arrays,
    add_to_log,
    read_arrays,
    read_json,
    versions,
    write_arrays,
    write_json,
)

CONFIG, _METRICS, LOG, _TIMING = "config.json", "metrics.json", "log.jsonl", "timing.json"
PREDICTIONS, INTERVALS = "predictions.npz", "intervals.npz"  # of a run, of a sweep
_PART = ".part.npz"
_NOT_IDENTITY = ("versions", "source")  # a pack is known by its digests, not by its path


class Folder:
    """One result in the making: finished parts, a log, and at the end the result itself."""

    def __init__(
        self, path: Path, config: Mapping[str, Any], *, force: bool = False, begin: bool = True
    ) -> None:
        if not path.name:
            raise MarcError("a result needs a folder of its own", got=path, hint="-o FOLDER")
        self.path = path
        self.config = json.loads(json.dumps(config))
        self.work, self._old = (path.with_name(path.name + end) for end in (".partial", ".old"))
        for place in (path, self.work, self._old):
            _refuse_foreign(place)
        refuse_inside_another(path)
        self.done = not force and (path / CONFIG).exists() and self._holds_this()
        if force:
            _refuse_strangers(path)
        if self.done or not begin:
            return
        if force or not self._same(self.work) or self._made_with(self.work) != versions():
            _remove(self.work)  # parts of one result are computed by one set of libraries
        self.work.mkdir(parents=True, exist_ok=True)
        write_json(self.work / CONFIG, {**self.config, "versions": versions()})
        self.log("started")

    @staticmethod
    def parts_done(path: Path) -> list[str]:
        """Names of the parts that an unfinished result already has."""
        work = path.with_name(path.name + ".partial")
        return sorted(part.name.removesuffix(_PART) for part in work.glob(f"*{_PART}"))

    def part(self, name: str) -> dict[str, NDArray[Any]] | None:
        """A part that an earlier call finished, if there is one."""
        path = self.work / f"{name}{_PART}"
        return read_arrays(path, "a finished part") if path.exists() else None

    def keep_part(self, name: str, arrays: Arrays) -> None:
        """Keep a finished part, so that it is never computed again."""
        write_arrays(self.work / f"{name}{_PART}", arrays)
        self.log("part", name=name)

    def log(self, event: str, **details: Any) -> None:
        """Add a line to the log."""
        add_to_log(self.work / LOG, event, **details)

    def finish(
        self,
        metrics: Mapping[str, Any],
        files: Mapping[str, Arrays],
        timing: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the result, put the folder in its place and drop the parts."""
        for name, arrays in files.items():
            write_arrays(self.work / name, arrays, compressed=True)
        write_json(self.work / _METRICS, metrics)
        if timing is not None:  # apart: metrics are the same whenever they are computed again
            write_json(self.work / _TIMING, timing)
        self.log("finished")
        _remove(self._old)
        if self.path.exists():
            self.path.rename(self._old)
        self.work.rename(self.path)
        _remove(self._old)
        for part in self.path.glob(f"*{_PART}"):
            part.unlink()

    def _holds_this(self) -> bool:
        if self._same(self.path) and (self.path / _METRICS).is_file():
            return True
        stored = read_json(self.path / CONFIG)
        names = [n for n in {**stored, **self.config} if stored.get(n) != self.config.get(n)]
        names = [name for name in names if name not in _NOT_IDENTITY]
        raise MarcError(
            "this folder holds another result",
            got=f"{self.path}: it differs in {', '.join(names)}",
            hint="another -o FOLDER, or --force to replace it",
        )

    def _same(self, place: Path) -> bool:
        stored = read_json(place / CONFIG) if (place / CONFIG).is_file() else {}
        return all(
            stored.get(name) == self.config.get(name)
            for name in {**stored, **self.config}
            if name not in _NOT_IDENTITY
        )

    @staticmethod
    def _made_with(place: Path) -> object:
        return read_json(place / CONFIG).get("versions") if (place / CONFIG).is_file() else None


def _refuse_foreign(path: Path) -> None:
    """Never touch what is not ours: a result has a configuration that says its kind.

    An empty folder may be filled, and so may one in which only the writing of the configuration
    was begun.
    """
    if not path.exists():
        return
    if path.is_dir():
        if {file.name for file in path.iterdir()} <= {f"{CONFIG}.new"}:
            return
        if (path / CONFIG).is_file() and "kind" in read_json(path / CONFIG):
            return
    raise MarcError(
        "this path is not a result of marc, so it is left alone", got=path, hint="-o FOLDER"
    )


def refuse_inside_another(path: Path) -> None:
    """A result of its own cannot lie in the folder of another."""
    for parent in path.parents:
        if (parent / CONFIG).is_file() and (parent / LOG).is_file():
            raise MarcError(
                "a result cannot lie inside another", got=path, hint=f"-o {parent}-{path.name}"
            )


def _refuse_strangers(path: Path) -> None:
    """Never replace a folder into which somebody has put files of their own."""
    files = sorted(path.iterdir()) if path.is_dir() else []
    written = (".json", ".jsonl", ".npz", ".new")
    others = [file.name for file in files if file.is_dir() or file.suffix not in written]
    if others:
        raise MarcError(
            "this folder also holds files that marc did not write, so it is not replaced",
            got=f"{path}: {', '.join(others[:5])}",
            hint="move them elsewhere, or another -o FOLDER",
        )


def _remove(path: Path) -> None:
    """Delete one of our folders, its configuration last: half deleted, it still says it is ours."""
    if not path.exists():
        return
    for file in sorted(path.iterdir(), key=lambda file: file.name == CONFIG):
        file.unlink()
    path.rmdir()


def read_result(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configuration and metrics of a finished result of one kind (`run` or `sweep`)."""
    partial = path.name.endswith(".partial")
    if partial or not (path / CONFIG).is_file() or not (path / _METRICS).is_file():
        begun = partial or path.with_name(path.name + ".partial").exists()
        raise MarcError(
            f"there is no finished {kind} here",
            got=path,
            hint=f"call marc {kind} again to finish it" if begun else f"marc {kind} ... -o {path}",
        )
    config = read_json(path / CONFIG)
    if config.get("kind") != kind:
        raise MarcError(f"this folder is not a {kind}", got=f"{path}: {config.get('kind')}")
    return config, read_json(path / _METRICS)


@dataclass(frozen=True)
class Stored:
    """A finished result as it lies on disk."""

    path: Path
    config: dict[str, Any]
    metrics: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    timing: dict[str, Any] = field(default_factory=dict)
    """How long it took; empty where that was not measured."""


def read_stored(path: Path, kind: str) -> Stored:
    """Everything about a finished result of one kind."""
    config, metrics = read_result(path, kind)
    name = {"run": PREDICTIONS, "sweep": INTERVALS}[kind]
    arrays = read_arrays(path / name, f"the arrays of a {kind}")
    return Stored(path, config, metrics, arrays, _read_timing(path / _TIMING))


def _read_timing(path: Path) -> dict[str, Any]:
    """How long a result took; a damaged file is as none, since no number depends on it."""
    try:
        return read_json(path) if path.is_file() else {}
    except MarcError:
        return {}


def read_sweep(path: Path) -> Sweep:
    """The sweep of a finished folder."""
    return sweep_of(read_stored(path, "sweep"))


def sweep_of(stored: Stored) -> Sweep:
    """A sweep from its configuration and its intervals."""
    config, arrays = stored.config, stored.arrays
    return Sweep(
        capacities=tuple(config["capacities"]),
        weights=tuple(float(weight) for weight in config["weights"]),
        seeds=tuple(config["seeds"]),
        intervals={
            name: (arrays[f"lower/{name}"], arrays[f"upper/{name}"]) for name in config["spaces"]
        },
        base_correct=arrays["base_correct"],
        stream=config["stream"],
        images=frozenset(config["images"]),
        settings=config["settings"],
    )
