"""What happened to one memory, in SQLite: nothing that was acknowledged is lost.

One connection writes, reads and checkpoints: releases of SQLite before 3.51.3 can damage a log that
two connections write at once. A row has a seal, a checksum of all that it says, and the steps since
the last snapshot follow each other without a gap; so a file that was damaged is found out.

- `head`: the last step, the mode, the snapshot to start from, the counts of the trial
- `steps`: the last answers, by id; `effects`: what each step since the snapshot changed
- `labels`: what people said, `thumbnails`: small pictures of some steps
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from marc.errors import MarcError

_SCHEMA = """
create table head (at integer primary key, told text not null, seal integer not null);
create table steps (seq integer primary key, id text not null unique, time real not null,
    base integer not null, prediction integer not null, judged integer not null, weight real,
    admitted integer not null, answer blob not null, seal integer not null);
create table effects (seq integer primary key, effect blob not null, seal integer not null);
create table labels (number integer primary key, id text not null unique, seq integer not null,
    label integer not null, result integer, seal integer not null);
create table thumbnails (seq integer primary key, picture blob not null);
"""
_VERSION = 1
CANARY = 0.1
"""The fraction of the steps that a canary answers, unless another is asked for."""
_LEVELS = {"process": "normal", "power": "full"}
"""What is promised of an acknowledged step: it outlives the process, or a loss of power."""


def new_head(**told: Any) -> dict[str, Any]:
    """What is known of a memory beside its steps; of one that saw nothing, unless told otherwise.

    `since` is the first step of the trial, which counts `steps` and `disagreements`.
    """
    counts = {"seq": 0, "n_seen": 0, "steps": 0, "disagreements": 0, "admitted": 0}
    state = {"mode": "shadow", "fraction": CANARY, "fell_back": None, "snapshot": None}
    head = {**counts, **state, **told}
    return {"since": head["seq"] + 1, **head}


class StepRow(NamedTuple):
    """One step as the log has it."""

    seq: int
    id: str
    time: float
    base: int
    prediction: int
    judged: bool
    """Whether the trial counts it: not where the memory was off."""
    weight: float | None
    admitted: bool
    answer: bytes
    effect: bytes | None = None

    @property
    def disagrees(self) -> bool:
        """Whether the memory's answer is another than the base's."""
        return self.prediction != self.base


class LabelRow(NamedTuple):
    """What a person said of one step."""

    number: int
    id: str
    seq: int
    label: int
    """The class; -1 is none of those there are."""
    result: int | None
    """Of a disagreement: won 1, lost -1, neither 0; none where both answers were the same."""


class Log:
    """The file of one memory; a second one that opens it finds it locked by the folder."""

    def __init__(self, path: Path, durability: str = "process", *, new: bool = False) -> None:
        if new == path.exists():
            raise _damaged(path, "it is missing" if not new else "there is one already")
        self.path = path
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            # held as long as it is open: then WAL needs no memory that only processes of one
            # machine can have in common, so the file may lie on network storage
            self._db.execute("pragma locking_mode = exclusive")
            self._db.execute("pragma journal_mode = wal")
            self._db.execute(f"pragma synchronous = {_LEVELS[durability]}")
            if new:
                self._db.executescript(f"begin; {_SCHEMA} pragma user_version = {_VERSION}; commit")
            else:
                self._check()
        except sqlite3.OperationalError as error:  # of the system: it may pass
            self._db.close()
            raise OSError(f"the log cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise _damaged(path, str(error)) from error
        except BaseException:
            self._db.close()
            raise

    def _check(self) -> None:
        version = self._db.execute("pragma user_version").fetchone()[0]
        if version != _VERSION:
            raise _damaged(self.path, f"version {version} of the format, not {_VERSION}")
        problem = self._db.execute("pragma integrity_check(1)").fetchone()[0]
        if problem != "ok":
            raise _damaged(self.path, str(problem)[:200])

    def head(self) -> dict[str, Any]:
        """What `commit` wrote last."""
        row = self._db.execute("select told, seal from head where at = 0").fetchone()
        if row is None or row[1] != _seal(row[0]):
            raise _damaged(self.path, "its head is not what was written")
        return dict(json.loads(row[0]))

    def commit(
        self,
        head: dict[str, Any],
        steps: Sequence[StepRow] = (),
        labels: Sequence[LabelRow] = (),
        thumbnails: Iterable[tuple[int, bytes]] = (),
        forget: tuple[int, int] | None = None,
    ) -> None:
        """Write all of it, or nothing; `forget` effects up to a step, and steps up to another."""
        told = json.dumps(head)
        self._db.execute("begin immediate")
        try:
            self._db.executemany(
                "insert into steps values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                ((*row[:-1], _seal(*row[:-1])) for row in steps),
            )
            self._db.executemany(
                "insert into effects values (?, ?, ?)",
                ((r.seq, r.effect, _seal(r.seq, r.id, r.effect)) for r in steps),
            )
            self._db.executemany(
                "insert or replace into labels values (?, ?, ?, ?, ?, ?)",
                ((*row, _seal(*row)) for row in labels),
            )
            self._db.executemany("insert or replace into thumbnails values (?, ?)", thumbnails)
            if forget is not None:
                self._db.execute("delete from effects where seq <= ?", forget[:1])
                self._db.execute("delete from steps where seq <= ?", forget[1:])
            self._db.execute("insert or replace into head values (0, ?, ?)", (told, _seal(told)))
            self._db.execute("commit")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("rollback")
            raise

    def keep_thumbnails(self, since: int, also: Iterable[int]) -> None:
        """Forget the pictures of steps before `since`, but of some."""
        self._db.execute("create temp table if not exists also (seq integer primary key)")
        self._db.execute("begin immediate")
        self._db.execute("delete from also")
        self._db.executemany("insert or ignore into also values (?)", ((seq,) for seq in also))
        self._db.execute(
            "delete from thumbnails where seq < ? and seq not in (select seq from also)", (since,)
        )
        self._db.execute("commit")

    def effects(self, after: int) -> Iterator[StepRow]:
        """The steps after one, in order, with what each changed; refused where one is missing."""
        rows = self._db.execute(
            "select s.*, e.effect, e.seal from effects e left join steps s on s.seq = e.seq "
            "where e.seq > ? order by e.seq",
            (after,),
        )
        for row in rows:
            after += 1
            if row[0] != after:
                raise _damaged(self.path, f"step {after} is missing")
            step = self._row(row[:-2])._replace(effect=row[-2])
            if row[-1] != _seal(step.seq, step.id, step.effect):
                raise _damaged(self.path, f"the effect of step {after} is not what was written")
            yield step

    def known(self, ids: Sequence[str]) -> dict[str, StepRow]:
        """Steps by id, of those that are kept."""
        marks = ",".join("?" * len(ids))
        rows = self._db.execute(f"select * from steps where id in ({marks})", tuple(ids))
        return {step.id: step for step in map(self._row, rows)}

    def known_many(self, ids: Sequence[str]) -> dict[str, StepRow]:
        """The same of any number of ids."""
        parts = (ids[start : start + 500] for start in range(0, len(ids), 500))
        return {name: step for part in parts for name, step in self.known(part).items()}

    def step(self, seq: int) -> StepRow | None:
        """One step by its number."""
        rows = self._db.execute("select * from steps where seq = ?", (seq,)).fetchall()
        return self._row(rows[0]) if rows else None

    def unlabelled(self, since: int, most: int) -> list[int]:
        """Numbers of the newest disagreements from a step on that nobody labelled."""
        rows = self._db.execute(
            "select s.seq from steps s left join labels l on l.id = s.id "
            "where l.id is null and s.base <> s.prediction and s.judged and s.seq >= ? "
            "order by s.seq desc limit ?",
            (since, most),
        )
        return [seq for (seq,) in rows]

    def labels(self) -> Iterator[LabelRow]:
        """In the order in which they came."""
        for row in self._db.execute("select * from labels order by number"):
            label = LabelRow(*row[:-1])
            if row[-1] != _seal(*label):
                raise _damaged(self.path, f"the label of {label.id!r:.80} is not what was written")
            yield label

    def n_labels(self) -> int:
        """How many there are, which is the number of the last one."""
        return int(self._db.execute("select count(*) from labels").fetchone()[0])

    def label(self, name: str) -> LabelRow | None:
        """That of one step."""
        row = self._db.execute("select * from labels where id = ?", (name,)).fetchone()
        return None if row is None else LabelRow(*row[:-1])

    def thumbnail(self, seq: int) -> bytes | None:
        """The small picture of a step."""
        row = self._db.execute("select picture from thumbnails where seq = ?", (seq,)).fetchone()
        return None if row is None else bytes(row[0])

    def thumbnails(self, of: Sequence[int]) -> set[int]:
        """Which of some steps have one."""
        marks = ",".join("?" * len(of))
        rows = self._db.execute(f"select seq from thumbnails where seq in ({marks})", tuple(of))
        return {seq for (seq,) in rows}

    def last(self) -> int:
        """The number of the last step; 0 where there is none."""
        return int(self._db.execute("select coalesce(max(seq), 0) from steps").fetchone()[0])

    def close(self) -> None:
        """Give the file back, in one piece where that can be done."""
        self._db.close()

    def _row(self, row: Sequence[Any]) -> StepRow:
        if row[-1] != _seal(*row[:-1]):
            raise _damaged(self.path, f"step {row[0]} is not what was written")
        seq, name, at, base, prediction, judged, weight, admitted, answer, _ = row
        truths = bool(judged), weight, bool(admitted)
        return StepRow(seq, name, at, base, prediction, *truths, answer)


def _seal(*parts: Any) -> int:
    """A checksum of a row: of texts and bytes as they are, of numbers as Python spells them."""
    known = 0
    for part in parts:
        raw = part if isinstance(part, bytes) else repr(_plain(part)).encode("utf-8", "replace")
        known = zlib.crc32(raw, known) ^ len(raw)
    return known


def _plain(part: Any) -> Any:
    """As SQLite gives it back: a truth is a number there."""
    return int(part) if isinstance(part, bool) else part


def _damaged(path: Path, problem: str) -> MarcError:
    return MarcError(
        "the log of this memory is damaged",
        got=f"{path}: {problem}",
        hint="restore it from a snapshot: POST /v1/memories/NAME/restore",
    )
