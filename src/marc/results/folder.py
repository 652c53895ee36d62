"""Results on disk: a folder appears under its name only when it is whole.

Work goes on in `NAME.partial`, which keeps finished parts: killed at any moment, the next call with
the same configuration takes them up. When all is there the folder is renamed to `NAME`. A folder
that is not a result of ours is never touched. A result carries the digests of its files, and is
read as it was written or not at all.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from marc.errors import MarcError
from marc.files import (
    LOCK,
    PARTIAL,
    Arrays,
    add_to_log,
    file_digest,
    follow,
    keep_arrays,
    kept_arrays,
    locked,
    read_arrays,
    read_json,
    sealed,
    sync_folder,
    unsealed,
    versions,
    write_arrays,
    write_json,
)
from marc.results.shapes import CONFIGS, Timing, check_arrays, check_lengths, metrics_shape
from marc.stream import Stream

_METRICS, _TIMING, _DIGESTS = "metrics.json", "timing.json", "digests.json"
_ARRAYS = {"run": "predictions.npz", "sweep": "intervals.npz"}
_PART = ".part.npz"
_BEGUN = ".begun"  # ends the name of what is kept of a part before it is finished
_ANSWERS = "answers.csv"
_OWN = {"config.json", "log.jsonl", _ANSWERS, _METRICS, _TIMING, _DIGESTS, *_ARRAYS.values()}
"""Files of a result, beside parts and files that are being written."""
_KINDS = ("run", "sweep", "study")


@dataclass(frozen=True)
class Folder:
    """One result in the making: finished parts, a log, and at the end the result itself."""

    CONFIG: ClassVar = "config.json"
    LOG: ClassVar = "log.jsonl"
    ANSWERS: ClassVar = _ANSWERS
    """The answers of a run over one order, for people; nothing of ours reads it."""
    NOT_IDENTITY: ClassVar = ("versions", "source", "title")
    """Settings that do not decide a result: a pack is known by its digests, not by its path."""

    path: Path
    config: dict[str, Any]
    done: bool
    """Whether the result is there already."""
    force: bool = False
    """Whether everything is computed again."""

    @classmethod
    def open(cls, path: Path, config: Mapping[str, Any], *, force: bool = False) -> Folder:
        """Look at a path, and refuse it where it holds something else; nothing is written."""
        path = follow(path)
        Folder.refuse_foreign(path)
        for beside in _beside(path):
            Folder.refuse_foreign(beside)
            _refuse_strangers(beside)
        if force:
            _refuse_strangers(path)
        data = json.loads(json.dumps(config))
        return cls(path, data, not force and _holds(path, data), force)

    @contextmanager
    def begin(self) -> Iterator[bool]:
        """Be the only writer: start, or go on with the parts that are there.

        Gives False where another has finished this very result since it was opened. One set of
        libraries computes all parts.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(f".{self.path.name}{LOCK}")
        with locked(self.path, f"another marc {self.config['kind']} is writing here", beside):
            if Folder.open(self.path, self.config, force=self.force).done:
                yield False
                return
            config = self.work / self.CONFIG
            stored = Folder.damaged_is_none(config) or {}
            same = not Folder.differing(stored, self.config)
            if self.force or not same or stored.get("versions") != versions():
                _remove(self.work)
            self.work.mkdir(exist_ok=True)
            write_json(config, {**self.config, "versions": versions()})
            self.log("started")
            yield True

    @property
    def work(self) -> Path:
        """Where the parts are kept."""
        return _beside(self.path)[0]

    @staticmethod
    def parts_done(path: Path) -> list[str]:
        """Names of the parts that an unfinished result already has."""
        parts = _beside(path)[0].glob(f"*{_PART}")
        names = (part.name.removesuffix(_PART) for part in parts)
        return sorted(name for name in names if not name.endswith(_BEGUN))

    def part(self, name: str) -> dict[str, NDArray[Any]] | None:
        """A part that an earlier call finished; None if there is none, or it is damaged."""
        return kept_arrays(self.work / f"{name}{_PART}", self._identity, name)

    def keep_part(self, name: str, arrays: Arrays) -> None:
        """Keep a finished part, so that it is never computed again."""
        keep_arrays(self.work / f"{name}{_PART}", arrays, self._identity, name)
        self.log("part", name=name)

    def begun(self, name: str) -> dict[str, NDArray[Any]] | None:
        """How far an earlier call came with a part that it did not finish."""
        return self.part(name + _BEGUN)

    def keep_begun(self, name: str, arrays: Arrays) -> None:
        """Keep how far a part has come, in place of what was kept before."""
        self.keep_part(name + _BEGUN, arrays)

    def drop_begun(self, name: str) -> None:
        """Of a part that is finished nothing else need be kept."""
        (self.work / f"{name}{_BEGUN}{_PART}").unlink(missing_ok=True)

    @property
    def _identity(self) -> dict[str, Any]:
        return {k: v for k, v in self.config.items() if k not in self.NOT_IDENTITY}

    def log(self, event: str, **details: Any) -> None:
        """Add a line to the log."""
        add_to_log(self.work / Folder.LOG, event, **details)

    def finish(
        self,
        metrics: Mapping[str, Any],
        arrays: Arrays,
        timing: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the result, put the folder in its place and drop the parts."""
        write_arrays(self.work / _ARRAYS[self.config["kind"]], arrays, compressed=True)
        write_json(self.work / _METRICS, metrics)
        if timing is not None:  # apart: metrics are the same whenever they are computed again
            write_json(self.work / _TIMING, timing)
        files = [Folder.CONFIG, _METRICS, _ARRAYS[self.config["kind"]]]
        files += [_TIMING] if timing is not None else []
        digests = {name: file_digest(self.work / name) for name in files}
        write_json(self.work / _DIGESTS, sealed(digests))
        self.log("finished")
        work, old = _beside(self.path)
        _remove(old)
        if self.path.exists():
            self.path.rename(old)
        work.rename(self.path)
        sync_folder(self.path.parent)
        _remove(old)
        for left in (*self.path.glob(f"*{_PART}"), *self.path.glob(f"*{PARTIAL}")):
            left.unlink()

    @staticmethod
    def describe(kind: str, source: str, stream: Stream) -> dict[str, Any]:
        """What a configuration says of the stream; orders are recorded by kind and seeds.

        That they are shuffled, as usual, is not said.
        """
        fingerprint, ordering = stream.fingerprint, stream.ordering.name
        del fingerprint["order"]
        return {
            "kind": kind,
            "source": source,
            "stream": stream.name,
            "n_images": len(stream),
            "n_classes": stream.n_classes,
            "n_views": stream.n_views,
            "fingerprint": fingerprint,
            **({"ordering": ordering} if ordering != "shuffled" else {}),
        }

    @staticmethod
    def differing(stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
        """Names of what decides a result and is not the same in two configurations."""
        names = [name for name in {**stored, **now} if stored.get(name) != now.get(name)]
        return [name for name in names if name not in Folder.NOT_IDENTITY]

    @staticmethod
    def refuse_foreign(
        path: Path,
        kinds: Collection[str] = _KINDS,
        own: Collection[str] = (),
        mark: str = CONFIG,
    ) -> None:
        """Never touch what is not ours: a result has a configuration that names its kind.

        A folder may be filled that holds nothing but what is in `own`, or a configuration that was
        begun to be written. A result cannot be inside the folder of another.

        Args:
            path: where the result is to be.
            kinds: kinds of results that may be there.
            own: names of files that are there before the configuration.
            mark: a file by which a folder is known even where its configuration is damaged.
        """
        noun = "result" if len(kinds) > 1 else next(iter(kinds))
        if not path.name:
            raise MarcError(f"a {noun} needs a folder of its own", got=path, hint="-o FOLDER")
        for parent in path.parents:
            if (parent / Folder.CONFIG).is_file() and (parent / Folder.LOG).is_file():
                raise MarcError(
                    "a result cannot lie inside another", got=path, hint=f"-o {parent}-{path.name}"
                )
        if not path.exists():
            return
        if path.is_dir():
            names = {file.name for file in path.iterdir()}
            begun = {n for n in names if n.startswith(Folder.CONFIG) and n.endswith(PARTIAL)}
            if names <= {*own, *begun} or (mark != Folder.CONFIG and mark in names):
                return
            if (Folder.damaged_is_none(path / Folder.CONFIG) or {}).get("kind") in kinds:
                return
            if mark == Folder.CONFIG and Folder.LOG in names and not _strangers(path):
                return  # it lost its configuration
        raise MarcError(
            f"this path is not a {noun} of marc, so it is left alone", got=path, hint="-o FOLDER"
        )

    @staticmethod
    def damaged_is_none(path: Path) -> dict[str, Any] | None:
        """A JSON object; None where there is none, or it is damaged."""
        try:
            return read_json(path) if path.is_file() else None
        except MarcError:
            return None


def _beside(path: Path) -> tuple[Path, Path]:
    """Where a folder is made, and where the one before it goes."""
    return path.parent / f"{path.name}.partial", path.parent / f".{path.name}.old"


def _holds(path: Path, config: Mapping[str, Any]) -> bool:
    """Whether a folder is the result of this configuration; that of another is refused."""
    if not any((path / name).exists() for name in (Folder.CONFIG, Folder.LOG)):
        return False
    stored, _ = Stored.numbers(path, config["kind"])
    if names := Folder.differing(stored, config):
        raise MarcError(
            "this folder holds another result",
            got=f"{path}: it differs in {', '.join(names)}",
            hint="another -o FOLDER, or --force to replace it",
        )
    return True


def _refuse_strangers(path: Path) -> None:
    """Never replace a folder into which somebody has put files of their own."""
    if others := _strangers(path):
        raise MarcError(
            "this folder also holds files that marc did not write, so it is not replaced",
            got=f"{path}: {', '.join(others[:5])}",
            hint="move them elsewhere, or another -o FOLDER",
        )


def _strangers(path: Path) -> list[str]:
    """Names of what is in a folder and no file of a result; a link leads elsewhere."""
    if path.is_symlink():
        return ["it is a link"]
    files = sorted(path.iterdir()) if path.is_dir() else []
    return [file.name for file in files if _is_strange(file)]


def _is_strange(file: Path) -> bool:
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:  # a writer's own, which has its last name by now
        return False
    is_ours = file.name in _OWN or file.name.endswith((_PART, PARTIAL))
    return not (is_ours and stat.S_ISREG(mode))


def _remove(path: Path) -> None:
    """Delete one of our folders, its configuration last: half deleted, it still says it is ours."""
    if not path.exists():
        return
    for file in sorted(path.iterdir(), key=lambda file: file.name == Folder.CONFIG):
        file.unlink()
    path.rmdir()


@dataclass(frozen=True)
class Stored:
    """A finished result as it is on disk."""

    path: Path
    config: dict[str, Any]
    metrics: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    timing: dict[str, Any] = field(default_factory=dict)
    """How long it took; empty where that was not measured."""

    @classmethod
    def read(cls, path: Path, kind: str) -> Stored:
        """Everything about a finished result of one kind, if it is what was written."""
        with _as_written(path, kind) as digests:
            config, metrics = _numbers(path, kind, digests)
            name = _ARRAYS[kind]
            arrays = read_arrays(path / name, f"the arrays of a {kind}", digest=digests[name])
            check_arrays(kind, config, arrays)
            timing = {}
            if _TIMING in digests:
                timing = read_json(path / _TIMING, Timing, digest=digests[_TIMING])
            check_lengths(config, metrics, timing)
        return cls(path, config, metrics, arrays, timing)

    @staticmethod
    def numbers(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Configuration and metrics of a finished result of one kind (`run` or `sweep`)."""
        with _as_written(path, kind) as digests:
            return _numbers(path, kind, digests)


def _numbers(
    path: Path, kind: str, digests: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    config = read_json(path / Folder.CONFIG, CONFIGS[kind], digest=digests[Folder.CONFIG])
    metrics = read_json(path / _METRICS, metrics_shape(config), digest=digests[_METRICS])
    return config, metrics


@contextmanager
def _as_written(path: Path, kind: str) -> Iterator[dict[str, str]]:
    """The digests of a finished result's files; what is wrong inside is a damaged result."""
    partial = path.name.endswith(".partial")
    if partial or not any((path / name).exists() for name in (Folder.CONFIG, Folder.LOG)):
        begun = partial or _beside(path)[0].exists()
        again, anywhere = f"call marc {kind} again to finish it", f"marc {kind} ... -o {path}"
        hint = again if begun else anywhere
        raise MarcError(f"there is no finished {kind} here", got=path, hint=hint)
    found = (Folder.damaged_is_none(path / Folder.CONFIG) or {}).get("kind", kind)
    if found != kind:
        raise MarcError(f"this folder is not a {kind}", got=f"{path}: {str(found)[:80]}")
    try:
        digests = unsealed(read_json(path / _DIGESTS, dict[str, str]))
        needed = {Folder.CONFIG, _METRICS, _ARRAYS[kind]}
        if digests is None or set(digests) - {_TIMING} != needed:
            raise MarcError("this file is not what was written", got=path / _DIGESTS)
        yield digests
    except MarcError as error:
        raise MarcError(
            f"this {kind} is damaged, or of another version of marc",
            got=f"{error.problem}: {error.got}",
            hint=f"marc {kind} ... -o {path} --force computes it again",
        ) from error


def called(folder: Path) -> str:
    """What a result is called: as its folder is, or the folder of answers that it is a part of."""
    folder = folder.resolve()
    is_part = folder.name == "run" and (folder.parent / "answers.csv").is_file()
    return (is_part and folder.parent.name) or folder.name
