"""The folder of a study: shared work, tables, figures and a record of each finished experiment.

Every file is written in one piece, and the record of an experiment after all of its files: killed
at any moment, the next call loses at most the experiment in hand. A record counts only for the plan
and the features it was made of, and while its files are what they were. A folder that is not a
study of ours is never touched.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypedDict, final

import msgspec

from marc.errors import MarcError
from marc.files import (
    LOCK,
    PARTIAL,
    Arrays,
    add_to_log,
    flatten,
    keep_arrays,
    kept_arrays,
    locked,
    read_bytes,
    read_json,
    sealed,
    unsealed,
    versions,
    write_json,
    write_whole,
)
from marc.results.folder import Folder
from marc_paper.study.formats import Files

_STREAMS = "streams.json"
_RECORDS, _WORK = "records", "work"
_PARTS = ("tables", "figures", _RECORDS, _WORK)
_Place = Annotated[str, msgspec.Meta(pattern=r"^(tables|figures)/[A-Za-z0-9_-]+$")]
_File = Annotated[str, msgspec.Meta(pattern=r"^(tables|figures)/[A-Za-z0-9_-]+\.[a-z]+$")]
"""Paths that a record may name: no other file is ever read or removed for its sake."""


class _Config(TypedDict):
    kind: str
    plan: dict[str, Any]


class _Stream(TypedDict):
    source: str
    images: int
    classes: int
    views: int
    digest: str


class _Record(TypedDict):
    """What is kept of a finished experiment."""

    plan: str
    streams: dict[str, str]
    files: dict[_File, str]
    artifacts: list[_Place]
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e12)]


class _StoredColumn(TypedDict):
    name: str
    unit: str


class _StoredTable(TypedDict):
    name: str
    title: str
    caption: str
    settings: dict[str, Any]
    columns: list[_StoredColumn]
    rows: list[list[Any]]


@final
@dataclass(frozen=True)
class StudyFolder:
    """A study on disk, finished or not. Nothing is written before `begin`."""

    INDEX: ClassVar = "index.html"

    path: Path
    plan: dict[str, Any]
    force: bool = False

    @classmethod
    def open(cls, path: Path, plan: Mapping[str, Any], *, force: bool = False) -> StudyFolder:
        """Look at a path, and refuse it where it holds something else; nothing is written."""
        Folder.refuse_foreign(path, ("study",), {LOCK, *_PARTS}, _STREAMS)
        data = json.loads(json.dumps(plan))
        # a damaged configuration differs in nothing
        stored = (_read(path / Folder.CONFIG, _Config) or {}).get("plan", data)
        names = Folder.differing(flatten(stored), flatten(data))
        if names and not force:
            raise MarcError(
                "this folder holds the study of another plan",
                got=f"{path}: it differs in {', '.join(names[:6])}",
                hint="another -o FOLDER, or --force to make it again; work that holds is kept",
            )
        return cls(path, data, force)

    @contextmanager
    def begin(self, streams: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
        """Be the only one who writes here; what is known of the plan's streams is recorded.

        Streams that are not those of the records are refused unless the study was forced.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path, "another marc study is writing into this folder"):
            for left in self.path.rglob(f"*{PARTIAL}"):  # of a writer that was killed
                left.unlink()
            known = self.streams
            other = [n for n, s in streams.items() if known.get(n, s)["digest"] != s["digest"]]
            if other and not self.force:
                raise MarcError(
                    "the study in this folder was made of other features",
                    got=f"{self.path}: changed since: {', '.join(f'streams.{n}' for n in other)}",
                    hint="another -o FOLDER, or --force to make it again",
                )
            for part in _PARTS:
                (self.path / part).mkdir(exist_ok=True)
            config = {"kind": "study", "plan": self.plan, "versions": versions("matplotlib")}
            write_json(self.path / Folder.CONFIG, config)
            facts = {name: sealed(each) for name, each in {**known, **streams}.items()}
            write_json(self.path / _STREAMS, facts)
            yield

    @property
    def streams(self) -> dict[str, Any]:
        """What is known of each stream that was opened."""
        return _read_streams(self.path)

    def get(self, name: str) -> Mapping[str, Any] | None:
        """The arrays of a finished piece of work; a damaged file is as none."""
        return kept_arrays(self._piece(name), name)

    def put(self, name: str, arrays: Arrays) -> None:
        """Keep a finished piece of work."""
        keep_arrays(self._piece(name), arrays, name)
        self.log("piece", name=name)

    def record(self, experiment: str) -> dict[str, Any] | None:
        """What is recorded of an experiment that this plan has finished, if it still counts."""
        return _record(self.path, experiment, _plan_digest(self.plan), self.streams)

    def finish(
        self, experiment: str, files: Files, streams: Sequence[str], record: Mapping[str, Any]
    ) -> None:
        """Write the files of an experiment over some streams, then its record."""
        path = self.path / _RECORDS / f"{experiment}.json"
        before = unsealed(_read(path, _Record)) or {}
        for name, content in files.items():
            write_whole(self.path / name, content)
        known = self.streams
        of = {
            "plan": _plan_digest(self.plan),
            "streams": {name: known[name]["digest"] for name in streams},
            "files": {name: _digest(content) for name, content in sorted(files.items())},
        }
        write_json(path, sealed({**record, **of}))
        for name in set(before.get("files", ())) - set(files):  # an older plan had other tables
            (self.path / name).unlink(missing_ok=True)
        self.log("experiment", name=experiment)

    def log(self, event: str, **details: Any) -> None:
        """Add a line to the log."""
        add_to_log(self.path / Folder.LOG, event, **details)

    def _piece(self, name: str) -> Path:
        return self.path / _WORK / f"{name}.npz"


def _plan_digest(plan: Mapping[str, Any]) -> str:
    """By which a record knows the plan it was made for."""
    decisive = {name: value for name, value in plan.items() if name not in Folder.NOT_IDENTITY}
    return _digest(json.dumps(decisive, sort_keys=True).encode())


@final
@dataclass(frozen=True)
class StoredStudy:
    """A study as it lies on disk: what counts for its plan."""

    path: Path
    config: Mapping[str, Any]
    records: Mapping[str, Mapping[str, Any]]
    tables: Mapping[str, Mapping[str, Any]]
    streams: Mapping[str, Mapping[str, Any]]
    """What is known of each stream: source, images, classes, views and a digest."""

    @classmethod
    def read(cls, path: Path, experiments: Sequence[str]) -> StoredStudy:
        """The finished experiments of a study, with their tables."""
        config = _read(path / Folder.CONFIG, _Config) or {}
        if config.get("kind") != "study":
            raise MarcError(
                "there is no study here", got=path, hint=f"marc study PLAN.toml -o {path}"
            )
        plan, streams = _plan_digest(config["plan"]), _read_streams(path)
        found = {name: _record(path, name, plan, streams) for name in experiments}
        records = {name: record for name, record in found.items() if record is not None}
        tables = {
            Path(file).stem: read_json(path / file, _StoredTable)
            for record in records.values()
            for file in record["files"]
            if file.startswith("tables/") and file.endswith(".json")
        }
        return StoredStudy(path, config, records, tables, streams)


def _read_streams(path: Path) -> dict[str, Any]:
    found = _read(path / _STREAMS, dict[str, _Stream]) or {}
    return {name: facts for name, each in found.items() if (facts := unsealed(each))}


def _record(
    path: Path, experiment: str, plan: str, streams: Mapping[str, Any]
) -> dict[str, Any] | None:
    record = unsealed(_read(path / _RECORDS / f"{experiment}.json", _Record))
    if record is None or record.get("plan") != plan:
        return None
    if any(streams.get(n, {}).get("digest") != each for n, each in record["streams"].items()):
        return None
    whole = all(
        (path / name).is_file() and _digest(read_bytes(path / name)) == digest
        for name, digest in record["files"].items()
    )
    return record if whole else None


def _read(path: Path, shape: Any) -> dict[str, Any] | None:
    """A JSON object of a shape; None where there is none, or it is damaged."""
    try:
        return read_json(path, shape) if path.is_file() else None
    except MarcError:
        return None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
