"""What happened to one memory, in SQLite: nothing that was acknowledged is lost.

One connection has the file to itself: releases of SQLite before 3.51.3 can damage a log that two
connections write at once. Damage does not go unnoticed:

- a row has a seal, a checksum of its content, which is compared whenever the row is read
- the head counts what the tables hold, so no row can be missing from them
- a file next to the log has the number of acknowledged commits, so none of them can be missing

The tables:

- `head`: the last step, the mode, the snapshot to start from, the counts of the trial
- `steps`: the last answers, by id; `effects`: what each step since the snapshot changed
- `sums`: the sums of a learned weight after the last step
- `labels`: the labels that came late, `thumbnails`: small pictures of some steps
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from marc.errors import MarcError
from marc.files import refuse_odd_file
from marc.serve.memory.acknowledged import Acknowledged
from marc.serve.memory.rows import LabelRow as LabelRow
from marc.serve.memory.rows import StepRow as StepRow
from marc.serve.memory.rows import seal_of

_TABLES = (
    "create table head (at integer primary key, state text not null, counts text not null, "
    "seal integer not null)",
    "create table steps (seq integer primary key, id text not null unique, time real not null, "
    "base integer not null, prediction integer not null, judged integer not null, weight real, "
    "admitted integer not null, answer blob not null, seal integer not null)",
    "create table effects (seq integer primary key, effect blob not null, seal integer not null)",
    "create table sums (at integer primary key, n_seen integer not null, content blob not null, "
    "seal integer not null)",
    "create table labels (number integer primary key, id text not null unique, "
    "seq integer not null, label integer not null, result integer, seal integer not null)",
    "create table thumbnails (seq integer primary key, picture blob not null, "
    "seal integer not null)",
)
_VERSION = 1
CANARY = 0.1
"""The fraction of the steps that a canary answers, unless another is asked for."""
_LEVELS = {"process": "normal", "power": "full"}
"""What is promised of an acknowledged step: it outlives the process, or a loss of power."""
_LARGEST_WAL = 2**24  # bytes that the file of SQLite's own log keeps after a large commit
_BESIDE = ("-wal", "-shm", "-journal")
_PASSING = frozenset(
    (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY,
     sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM)
)  # fmt: skip
"""Errors of the system, which may pass; every other is of the file."""


def new_head(**given: Any) -> dict[str, Any]:
    """The state of a memory apart from its steps: of an empty one, except for what is given.

    `since` is the first step of the trial, which counts `steps` and `disagreements`; `timeline`
    tells the snapshots after a restore from those before it.
    """
    counts = {"seq": 0, "n_seen": 0, "steps": 0, "disagreements": 0, "admitted": 0}
    state = {"mode": "shadow", "fraction": CANARY, "fell_back": None, "snapshot": None}
    head = {**counts, **state, "timeline": "", **given}
    return {"since": head["seq"] + 1, **head}


class Log:
    """The open log of one memory; while it is open, nobody else can open it."""

    def __init__(self, path: Path, durability: str = "process") -> None:
        """Open what `create` made; refused where it is damaged."""
        for each in (path, *(path.with_name(path.name + suffix) for suffix in _BESIDE)):
            if each == path or each.exists() or each.is_symlink():
                refuse_odd_file(each, "log of a memory")
        self.path = path
        self._level = _LEVELS[durability]
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._acknowledged: Acknowledged | None = None
        try:
            with self._errors():
                self._db.executescript(
                    # exclusive: the index of the write-ahead log needs no file, and no room
                    "pragma locking_mode = exclusive; pragma cell_size_check = on;"
                    "pragma journal_mode = wal; pragma temp_store = memory;"
                    f"pragma synchronous = {self._level}; pragma fullfsync = on;"
                    f"pragma journal_size_limit = {_LARGEST_WAL}"
                )
                self._check_file()
                _, self._counts = self._read_head()
                self._check_counts()
            self._acknowledged = Acknowledged(_acknowledged(path), durability)
            if missing := self._acknowledged.missing(self._counts["commits"]):
                raise self._damaged(f"its last {missing} commits are missing")
            self._acknowledged.write(self._counts["commits"])
        except BaseException:
            self.close()
            raise

    @staticmethod
    def create(path: Path, head: dict[str, Any]) -> None:
        """Create a log that begins with a head, synced and in one file."""
        if path.exists():
            raise MarcError("there is a log already", got=path)
        counts = {"commits": 1, "forgotten": head["seq"], "labels": 0, "labels_sum": 0}
        row = _text(head), _text(counts)
        db = sqlite3.connect(path, isolation_level=None)  # no WAL: there is no second file to move
        with contextlib.closing(db), _errors(path):
            db.execute("pragma synchronous = full")
            db.execute("begin immediate")
            for table in _TABLES:
                db.execute(table)
            db.execute("insert into head values (0, ?, ?, ?)", (*row, seal_of(*row)))
            db.execute(f"pragma user_version = {_VERSION}")
            db.execute("commit")

    @staticmethod
    def remove(path: Path) -> None:
        """Remove a log that nobody has open, and the files that belong to it."""
        for suffix in ("", *_BESIDE):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        _acknowledged(path).unlink(missing_ok=True)

    def _check_file(self) -> None:
        version = self._db.execute("pragma user_version").fetchone()[0]
        if version != _VERSION:
            raise self._damaged(f"version {version} of the format, not {_VERSION}")
        problem = self._db.execute("pragma integrity_check(1)").fetchone()[0]
        if problem != "ok":
            raise self._damaged(str(problem)[:200])
        tables = self._db.execute("select sql from sqlite_master where sql is not null")
        if {sql.replace("CREATE TABLE", "create table") for (sql,) in tables} != {*_TABLES}:
            raise self._damaged("its tables are not those of a log")

    def _check_counts(self) -> None:
        """Refuse a log in which rows are missing."""
        counts, seq = self._counts, self.head()["seq"]
        kept = self._rows("select count(*), min(seq), max(seq) from steps")[0]
        first = counts["forgotten"] + 1
        if kept != ((seq - first + 1, first, seq) if first <= seq else (0, None, None)):
            raise self._damaged(f"it has {kept[0]} answers, not those of steps {first} to {seq}")
        labels = self._rows("select count(*), coalesce(sum(seal), 0) from labels")[0]
        if labels != (counts["labels"], counts["labels_sum"]):
            raise self._damaged(f"it has {labels[0]} labels, not the {counts['labels']} that came")

    def _read_head(self) -> tuple[dict[str, Any], dict[str, int]]:
        rows = self._rows("select state, counts, seal from head where at = 0")
        if not rows or rows[0][2] != seal_of(*rows[0][:2]):
            raise self._damaged("its head is not what was written")
        return orjson.loads(rows[0][0]), orjson.loads(rows[0][1])

    def head(self) -> dict[str, Any]:
        """What `commit` wrote last."""
        return self._read_head()[0]

    def commit(
        self,
        head: dict[str, Any],
        steps: Sequence[StepRow] = (),
        labels: Sequence[LabelRow] = (),
        thumbnails: Iterable[tuple[int, bytes]] = (),
        forget: tuple[int, int] | None = None,
        sums: bytes | None = None,
    ) -> None:
        """Write all of it, or nothing; `forget` effects up to a step, and steps up to another.

        To forget is synced: what it makes superfluous, older snapshots, is removed from the disk.
        """
        counts = {**self._counts, "commits": self._counts["commits"] + 1}
        with self._transaction(is_synced=forget is not None) as db:
            rows = [row.stored() for row in steps]
            db.executemany(
                "insert into steps values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                ((*row, seal_of(*row)) for row in rows),
            )
            db.executemany(
                "insert into effects values (?, ?, ?)",
                ((r.seq, r.effect, seal_of(r.seq, r.id, r.effect)) for r in steps),
            )
            if sums is not None:
                row = (0, head["n_seen"], sums)
                db.execute("insert or replace into sums values (?, ?, ?, ?)", (*row, seal_of(*row)))
            for label in labels:
                old = db.execute("select seal from labels where number = ?", label[:1]).fetchall()
                counts["labels"] += not old
                counts["labels_sum"] += seal_of(*label) - (old[0][0] if old else 0)
                db.execute(
                    "insert or replace into labels values (?, ?, ?, ?, ?, ?)",
                    (*label, seal_of(*label)),
                )
            db.executemany(
                "insert or replace into thumbnails values (?, ?, ?)",
                ((*row, seal_of(*row)) for row in thumbnails),
            )
            if forget is not None:
                db.execute("delete from effects where seq <= ?", forget[:1])
                db.execute("delete from steps where seq <= ?", forget[1:])
                counts["forgotten"] = max(counts["forgotten"], forget[1])
            texts = _text(head), _text(counts)
            db.execute("update head set state = ?, counts = ?, seal = ?", (*texts, seal_of(*texts)))
        self._counts = counts
        assert self._acknowledged is not None
        self._acknowledged.write(counts["commits"])

    @contextlib.contextmanager
    def _transaction(self, *, is_synced: bool = False) -> Iterator[sqlite3.Connection]:
        with self._errors():
            if is_synced:
                self._db.execute("pragma synchronous = full")
            self._db.execute("begin immediate")
            try:
                yield self._db
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise
            finally:
                if is_synced:
                    self._db.execute(f"pragma synchronous = {self._level}")

    def keep_thumbnails(self, since: int, also: Iterable[int]) -> None:
        """Remove the pictures of steps before `since`, except for some."""
        kept = {*also}
        numbers = self._rows("select seq from thumbnails where seq < ?", since)
        with self._transaction() as db:
            db.executemany(
                "delete from thumbnails where seq = ?", (n for n in numbers if n[0] not in kept)
            )

    def effects(self, after: int) -> Iterator[StepRow]:
        """The steps after one, in order, with what each changed; refused where one is missing."""
        rows = self._each(
            "select s.*, e.effect, e.seal from effects e left join steps s on s.seq = e.seq "
            "where e.seq > ? order by e.seq",
            after,
        )
        for row in rows:
            after += 1
            if row[0] != after:
                raise self._damaged(f"step {after} is missing")
            step = self._step(row[:-2], row[-2])
            if row[-1] != seal_of(step.seq, step.id, step.effect):
                raise self._damaged(f"the effect of step {after} is not what was written")
            yield step

    def sums(self) -> tuple[int, bytes]:
        """How many images the sums of a learned weight are of, and the sums."""
        rows = self._rows("select * from sums where at = 0")
        if not rows or rows[0][-1] != seal_of(*rows[0][:-1]):
            raise self._damaged("the sums of its weight are not what was written")
        return rows[0][1], rows[0][2]

    def known(self, ids: Sequence[str]) -> dict[str, StepRow]:
        """Steps by id, of those that are kept."""
        marks = ",".join("?" * len(ids))
        rows = self._rows(f"select * from steps where id in ({marks})", *ids)
        return {step.id: step for step in map(self._step, rows)}

    def known_many(self, ids: Sequence[str]) -> dict[str, StepRow]:
        """The same of any number of ids."""
        parts = (ids[start : start + 500] for start in range(0, len(ids), 500))
        return {name: step for part in parts for name, step in self.known(part).items()}

    def step(self, seq: int) -> StepRow | None:
        """One step by its number."""
        rows = self._rows("select * from steps where seq = ?", seq)
        return self._step(rows[0]) if rows else None

    def unlabelled(self, since: int, most: int) -> list[int]:
        """Numbers of the newest disagreements from a step on that have no label."""
        rows = self._rows(
            "select s.seq from steps s left join labels l on l.id = s.id and l.seq = s.seq "
            "where l.id is null and s.base <> s.prediction and s.judged and s.seq >= ? "
            "order by s.seq desc limit ?",
            since,
            most,
        )
        return [seq for (seq,) in rows]

    def labels(self) -> Iterator[LabelRow]:
        """In the order in which they came."""
        return map(self._label, self._each("select * from labels order by number"))

    def n_labels(self) -> int:
        """How many there are, which is the number of the last one."""
        return self._counts["labels"]

    def label(self, name: str) -> LabelRow | None:
        """The label of one step."""
        rows = self._rows("select * from labels where id = ?", name)
        return self._label(rows[0]) if rows else None

    def thumbnail(self, seq: int) -> bytes | None:
        """The small picture of a step."""
        for row in self._rows("select * from thumbnails where seq = ?", seq):
            if row[-1] != seal_of(*row[:-1]):
                raise self._damaged(f"the picture of step {seq} is not what was written")
            return bytes(row[1])
        return None

    def thumbnails(self, of: Sequence[int]) -> set[int]:
        """Which of some steps have one."""
        marks = ",".join("?" * len(of))
        return {seq for (seq,) in self._rows(
            f"select seq from thumbnails where seq in ({marks})", *of)}  # fmt: skip

    def verify(self) -> None:
        """Read every row that a recovery does not read; refused where one is damaged."""
        for row in self._each("select * from steps"):
            self._step(row)
        for (seq,) in self._each("select seq from thumbnails"):
            self.thumbnail(seq)

    def close(self) -> None:
        """Give the file back, in one piece where that can be done."""
        self._db.close()
        if self._acknowledged is not None:
            self._acknowledged.close()

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with self._errors():
            return self._db.execute(query, values).fetchall()

    def _each(self, query: str, *values: Any) -> Iterator[Any]:
        with self._errors():
            cursor = self._db.execute(query, values)
            while rows := cursor.fetchmany(100):
                yield from rows

    def _step(self, row: Sequence[Any], effect: bytes | None = None) -> StepRow:
        if row[-1] != seal_of(*row[:-1]):
            raise self._damaged(f"step {row[0]} is not what was written")
        return StepRow.of_stored(row[:-1], effect)

    def _label(self, row: Sequence[Any]) -> LabelRow:
        if row[-1] != seal_of(*row[:-1]):
            raise self._damaged(f"the label of {row[1]!r:.80} is not what was written")
        return LabelRow(*row[:-1])

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return _errors(self.path)

    def _damaged(self, problem: str) -> MarcError:
        return _damaged(self.path, problem)


def _text(state: dict[str, Any]) -> str:
    return orjson.dumps(state).decode()


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    """An error of SQLite as one of the system, which may pass, or of the file, which is damaged."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING:
            raise OSError(f"the log {path.name}: {error}") from error
        raise _damaged(path, str(error)[:200]) from error


def _acknowledged(log: Path) -> Path:
    """The file with the number of commits of a log."""
    return log.with_name(f"{log.name}-acknowledged")


def _damaged(path: Path, problem: str) -> MarcError:
    return MarcError(
        "the log of this memory is damaged",
        got=f"{path}: {problem}",
        hint="restore a snapshot: POST /v1/memories/NAME/restore; or, to go on with the steps that "
        f"are left where only the last commits are missing: remove {_acknowledged(path).name}",
    )
