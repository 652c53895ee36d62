"""Results on disk: a folder appears under its name only when it is whole.

Work goes on in `NAME.partial`, which keeps finished parts: killed at any moment, the next call with
the same configuration takes them up. When all is there the folder is renamed to `NAME`.
"""

from __future__ import annotations

import json
import platform
import shutil
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from marc.arrays import Arrays, read_arrays, write_arrays
from marc.errors import MarcError

CONFIG, METRICS, LOG = "config.json", "metrics.json", "log.jsonl"


def versions() -> dict[str, str]:
    """What computed a result."""
    names = ("marc-clip", "numpy", "numba", "scipy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


class Folder:
    """One result in the making: finished parts, a log, and at the end the result itself."""

    def __init__(self, path: Path, config: Mapping[str, Any], *, force: bool = False) -> None:
        self.path = path
        self.work = path.with_name(path.name + ".partial")
        self.config = json.loads(json.dumps(config))
        self.done = path.exists() and not force and self._holds_this(path)
        if self.done:
            return
        if path.exists():
            _refuse_foreign(path)
        if self.work.exists():
            _refuse_foreign(self.work)
            if force or not _same(self.work, self.config):
                shutil.rmtree(self.work)
        self.work.mkdir(parents=True, exist_ok=True)
        write_json(self.work / CONFIG, {**self.config, "versions": versions()})
        self.log("started")

    @staticmethod
    def parts_done(path: Path) -> list[str]:
        """Names of the parts that an unfinished result already has."""
        work = path.with_name(path.name + ".partial")
        return sorted(part.name.removesuffix(".part.npz") for part in work.glob("*.part.npz"))

    def part(self, name: str) -> dict[str, NDArray[Any]] | None:
        """A part that an earlier call finished, if there is one."""
        path = self.work / f"{name}.part.npz"
        return read_arrays(path, "a finished part") if path.exists() else None

    def keep_part(self, name: str, arrays: Arrays) -> None:
        """Keep a finished part, so that it is never computed again."""
        write_arrays(self.work / f"{name}.part.npz", arrays)
        self.log("part", name=name)

    def log(self, event: str, **details: Any) -> None:
        """Add a line to the log."""
        line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "event": event, **details}
        with (self.work / LOG).open("a") as file:
            file.write(json.dumps(line) + "\n")

    def finish(self, metrics: Mapping[str, Any], files: Mapping[str, Arrays]) -> None:
        """Write the result, drop the parts and put the folder in its place."""
        for name, arrays in files.items():
            write_arrays(self.work / name, arrays, compressed=True)
        write_json(self.work / METRICS, metrics)
        self.log("finished")
        old = self.path.with_name(self.path.name + ".old")
        shutil.rmtree(old, ignore_errors=True)
        if self.path.exists():
            self.path.rename(old)
        self.work.rename(self.path)
        shutil.rmtree(old, ignore_errors=True)
        for part in self.path.glob("*.part.npz"):
            part.unlink()

    def _holds_this(self, path: Path) -> bool:
        _refuse_foreign(path)
        if _same(path, self.config) and (path / METRICS).is_file():
            return True
        raise MarcError(
            "this folder holds another result",
            got=f"{path}: {_difference(read_json(path / CONFIG), self.config)}",
            hint="another -o FOLDER, or --force to replace it",
        )


def _same(path: Path, config: Mapping[str, Any]) -> bool:
    return _without_versions(read_json(path / CONFIG)) == _without_versions(config)


def _without_versions(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != "versions"}


def _difference(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    names = [n for n in {**stored, **wanted} if stored.get(n) != wanted.get(n) and n != "versions"]
    return "it differs in " + ", ".join(names)


def _refuse_foreign(path: Path) -> None:
    """Never touch a folder that is not a result: it is somebody's."""
    ours = path.is_dir() and (
        (path / CONFIG).is_file() or all(file.suffix == ".new" for file in path.iterdir())
    )
    if not ours:
        raise MarcError(
            "this path is not a result of marc, so it is left alone", got=path, hint="-o FOLDER"
        )


def read_result(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Configuration and metrics of a finished result of one kind (`run` or `sweep`)."""
    if not (path / CONFIG).is_file() or not (path / METRICS).is_file():
        partial = path.name.endswith(".partial") or path.with_name(path.name + ".partial").exists()
        raise MarcError(
            f"there is no finished {kind} here",
            got=path,
            hint=f"call marc {kind} again to finish it"
            if partial
            else f"marc {kind} ... -o {path}",
        )
    config = read_json(path / CONFIG)
    if config.get("kind") != kind:
        raise MarcError(f"this folder is not a {kind}", got=f"{path}: {config.get('kind')}")
    return config, read_json(path / METRICS)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file; an empty one if the file is not there."""
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text()))
    except ValueError as error:
        raise MarcError("this file is not JSON", got=f"{path}: {error}") from error


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object in one piece."""
    partial = path.with_name(path.name + ".new")
    partial.write_text(json.dumps(value, indent=2, allow_nan=False) + "\n")
    partial.replace(path)
