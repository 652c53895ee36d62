"""One memory that is served: it answers, learns, and writes down what changed before it says so.

One thread at a time uses it. What it holds in memory follows from its folder: configuration, last
snapshot, and the log since then. Where a step cannot be written, what was learned since is not
acknowledged, and the memory is opened again from its folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import orjson

from marc.errors import MarcError
from marc.files import locked
from marc.results.snapshot import damaged
from marc.serve.memory import snapshots
from marc.serve.memory.answers import Names, answer, without_memory
from marc.serve.memory.config import MODES, MemoryConfig, StepRequest
from marc.serve.memory.effects import REPLAYED, Learned, Learner
from marc.serve.memory.history import History
from marc.serve.memory.log import CANARY, Log, StepRow, new_head
from marc.serve.memory.samples import NEIGHBOURS, Samples
from marc.serve.memory.trial import Tally, Trial, verdict
from marc.serve.refused import Refused
from marc.types import Query

LOG = "log.sqlite"


class Unwritten(Exception):  # noqa: N818  (of the disk, not of the request)
    """What was learned could not be written: the memory is to be opened again from its folder."""


def as_refusal(error: BaseException) -> MarcError:
    """An error of a method, as one for a client."""
    if isinstance(error, MarcError):
        return error
    got = f"{type(error).__name__}: {error}"[:200]
    return Refused(500, "the method failed at this image; nothing was stored", got=got)


class Served:
    """A memory that is open."""

    learner: Learner
    history: History
    trial: Trial
    space_weights: Mapping[str, float]
    """Of the last step, where a method reads several."""
    _items: dict[int | None, tuple[int, str]]
    _most_items: int

    def __init__(self, folder: Path, durability: str = "process") -> None:
        """Open a folder that `create` made, and learn again what the log has since the snapshot."""
        self.folder, self.durability = folder, durability
        with ExitStack() as opened:
            opened.enter_context(
                locked(folder, "another server has this memory open", hint="stop that server")
            )
            self.config = MemoryConfig.load(folder)
            snapshots.finish_restore(folder, folder / LOG)
            self._log = Log(folder / LOG, durability)
            opened.callback(self._log.close)
            self.head = self._log.head()
            with damaged(folder):
                self._recover()
            self._opened = opened.pop_all()
        self.samples = Samples(self._log)
        self.commit_seconds = 0.0

    @staticmethod
    def create(folder: Path, config: MemoryConfig, mode: str, fraction: float | None) -> None:
        """Make the folder of a memory that saw nothing; all of it, or none."""
        with snapshots.whole_folder(folder) as new:
            config.save(new)
            fraction = CANARY if fraction is None else fraction
            Log.create(new / LOG, new_head(mode=mode, fraction=fraction))

    @property
    def log(self) -> Log:
        """What happened, on disk."""
        return self._log

    @property
    def seq(self) -> int:
        """The number of the last step."""
        return int(self.head["seq"])

    @property
    def verdict(self) -> str:
        """That of the labels which are written, for any thread."""
        return verdict(Tally(**self.head.get("labelled", {})))

    @property
    def snapshot_due(self) -> bool:
        """Whether enough happened since the last snapshot."""
        last = self.head["snapshot"]["seq"] if self.head["snapshot"] else 0
        every = self.config.limits.snapshot_every
        return self.seq - last >= (min(every, REPLAYED) if self.learner.record else every)

    @property
    def names(self) -> Names:
        """Words for numbers."""
        return Names(self.config.classes, self._items)

    def steps(self, requests: Sequence[StepRequest]) -> list[bytes | MarcError]:
        """Answers in order, each written down before it is given; or why there is none."""
        results: list[bytes | MarcError | None] = [None] * len(requests)
        known = self._log.known_many([each.id for each in requests if not each.dry_run])
        first: dict[str, int] = {}
        waiting: list[int] = []
        for index, request in enumerate(requests):
            if request.dry_run:
                self._learn(requests, waiting, results)
                waiting = []
                results[index] = self._dry(request)
            elif request.id in known:
                results[index] = known[request.id].answer
            elif request.id not in first:
                first[request.id] = index
                waiting.append(index)
            else:  # the same id again
                self._learn(requests, waiting, results)
                waiting, results[index] = [], results[first[request.id]]
                if isinstance(results[index], MarcError):  # and no step has it
                    first[request.id], waiting = index, [index]
        self._learn(requests, waiting, results)
        return cast("list[bytes | MarcError]", results)

    def _learn(
        self,
        requests: Sequence[StepRequest],
        waiting: Sequence[int],
        results: list[bytes | MarcError | None],
    ) -> None:
        """Step through some of the requests."""
        queries: list[tuple[int, Query]] = []
        for index in waiting:
            try:
                queries.append((index, self.config.query(requests[index], 0)))
            except MarcError as error:
                results[index] = error
        while queries:
            done = self._learn_some(requests, queries, results)
            queries = queries[done:]

    def _learn_some(
        self,
        requests: Sequence[StepRequest],
        queries: list[tuple[int, Query]],
        results: list[bytes | MarcError | None],
    ) -> int:
        """Answer the first of these, and as many more as go with it; how many are done with."""
        is_off, start = self.head["mode"] == "off", self.head["n_seen"]
        numbered = [
            dataclasses.replace(query, item=start + (0 if is_off else n))
            for n, (_, query) in enumerate(queries)
        ]
        neighbours = [requests[index].neighbours for index, _ in queries]
        if is_sampled := self.samples.is_due:
            neighbours[0] = max(neighbours[0], NEIGHBOURS)
        if is_off:
            learned = [without_memory(query) for query in numbered]
        else:
            try:
                learned = self.learner.learn(numbered, neighbours)
            except Exception as error:  # of another's method: whatever it is
                if self.learner.record is not None:  # half a step may have been taken
                    raise Unwritten from error
                results[queries[0][0]] = as_refusal(error)
                return 1
        places = [index for index, _ in queries[: len(learned)]]
        answers = self._write([requests[at] for at in places], learned, is_sampled=is_sampled)
        for index, body in zip(places, answers, strict=True):
            results[index] = body
        return len(learned)

    def _write(
        self, requests: Sequence[StepRequest], learned: Sequence[Learned], *, is_sampled: bool
    ) -> list[bytes]:
        """Write steps to the log; what the clients get."""
        head, now = dict(self.head), time.time()
        try:
            rows = [
                self._row(head, now, request, each, is_sampled=is_sampled and n == 0)
                for n, (request, each) in enumerate(zip(requests, learned, strict=True))
            ]
        except Exception as error:  # it is learned, and an answer of its kind cannot be written
            raise Unwritten from error
        self._forget_pushed_out()
        self.space_weights = learned[-1].step.space_weights
        pictures = [
            (row.seq, request.thumbnail)
            for row, request in zip(rows, requests, strict=True)
            if request.thumbnail is not None
        ]
        sums = self.learner.sums() if head["n_seen"] > self.head["n_seen"] else None
        self.commit(head, steps=rows, thumbnails=pictures, sums=sums)
        return [row.answer for row in rows]

    def _row(
        self,
        head: dict[str, Any],
        now: float,
        request: StepRequest,
        learned: Learned,
        *,
        is_sampled: bool,
    ) -> StepRow:
        """A step for the log, counted in `head`."""
        is_off = head["mode"] == "off"
        head["seq"] += 1
        if learned.admitted:
            self._items[head["n_seen"]] = (head["seq"], request.id)
        by_memory = not is_off and self._by_memory(request.id)
        body, more = answer(request, head["seq"], learned, by_memory, self.names, head["n_seen"])
        if is_sampled:
            self.samples.take(body, now, more, with_picture=request.thumbnail is not None)
        row = StepRow(
            head["seq"],
            request.id,
            now,
            body["base_prediction"],
            body["prediction"],
            not is_off,
            body["weight"],
            learned.admitted,
            orjson.dumps(body),
            learned.effect,
        )
        head["n_seen"] += not is_off
        head["steps"] += not is_off
        head["disagreements"] += row.disagrees and not is_off
        head["admitted"] += learned.admitted
        self._count(row)
        return row

    def commit(self, head: dict[str, Any], **rows: Any) -> None:
        """Write to the log; from then on it is true."""
        started = time.perf_counter()
        try:
            self._log.commit(head, **rows)
        except Exception as error:  # a full disk, a broken one, a file that was damaged
            raise Unwritten(f"{type(error).__name__}: {error}") from error
        self.commit_seconds = time.perf_counter() - started
        self.head = head

    def _dry(self, request: StepRequest) -> bytes | MarcError:
        is_off, n_seen = self.head["mode"] == "off", self.head["n_seen"]
        try:
            query = self.config.query(request, n_seen)
            learned = (
                without_memory(query) if is_off else self.learner.peek(query, request.neighbours)
            )
        except Exception as error:  # of another's method: whatever it is
            return as_refusal(error)
        by_memory = not is_off and self._by_memory(request.id)
        body, _ = answer(request, None, learned, by_memory, self.names, n_seen)
        return orjson.dumps({**body, "stored": {"admitted": False, "class": None, "evicted": None}})

    def _by_memory(self, name: str) -> bool:
        """Whether the memory's answer is the one to act on; of a canary, by the id alone."""
        mode = self.head["mode"]
        if mode == "canary":
            return zlib.crc32(name.encode("utf-8", "replace")) / 2**32 < self.head["fraction"]
        return mode == MODES[-1]

    def _count(self, row: StepRow) -> None:
        if row.judged:
            self.history.add(
                row.seq,
                disagrees=row.disagrees,
                admitted=row.admitted,
                weight=row.weight or 0.0,
            )

    def _forget_pushed_out(self) -> None:
        """Forget ids of images that are not remembered any more, once they are most of them."""
        if len(self._items) > self._most_items:
            held = self.held()
            self._items = {item: at for item, at in self._items.items() if item in held}
            self._most_items = 2 * len(self._items) + 1000

    def held(self) -> set[int]:
        """Items of the images that are remembered one by one."""
        return {item for items in self.learner.items.values() for item in items}

    def _recover(self) -> None:
        """What is remembered, from the last snapshot and the log since then."""
        state = snapshots.last(self.folder, self.head["snapshot"], self.config)
        seq, n_seen, self.learner, self._items, self.history = snapshots.remembered(
            self.config, state
        )
        self._most_items, before = 2 * len(self._items) + 1000, n_seen
        self.space_weights, self.differences = {}, 0
        for row in self._log.effects(after=seq):
            seq = row.seq
            if row.judged:
                assert row.effect is not None
                step = self.learner.apply(row.effect, n_seen)
                self.differences += step is not None and step.prediction != row.prediction
                if row.admitted:
                    self._items[n_seen] = (row.seq, row.id)
                n_seen += 1
            self._count(row)
            self._forget_pushed_out()
        at = n_seen
        if self.learner.learns_weight and n_seen > before:  # or the snapshot has the sums
            at, content = self._log.sums()
            self.learner.set_sums(content)
        if (seq, n_seen, at) != (self.seq, self.head["n_seen"], n_seen):
            raise MarcError(
                "the log of this memory is damaged: its last steps are missing",
                got=f"step {seq}, {n_seen} learned",
                allowed=f"step {self.seq}, {self.head['n_seen']} learned",
            )
        self.read_labels()

    def read_labels(self) -> None:
        """Begin the trial again from the labels as they are written."""
        results = (row.result for row in self._log.labels() if row.seq >= self.head["since"])
        self.trial = Trial(Tally(**self.head.get("labelled", {})), results)

    def snapshot(self) -> snapshots.Snapshot:
        """What is remembered now, to be written by whatever thread."""
        held = self.held()
        return snapshots.Snapshot.of(
            self.config,
            self.learner,
            self.head,
            [[item, *at] for item, at in self._items.items() if item in held],
            self.history.state(),
        )

    def start_from(self, snapshot: snapshots.Snapshot) -> None:
        """Let a snapshot that is written stand for the steps before it.

        Not an older one than stands there, nor one that was taken before a restore.
        """
        last = self.head["snapshot"]["seq"] if self.head["snapshot"] else 0
        if snapshot.timeline != self.head["timeline"] or snapshot.seq <= last:
            return
        start = {"seq": snapshot.seq, "file": snapshot.file, "at": time.time()}
        outside = min(snapshot.seq, self.seq - self.config.limits.window)  # the others are replayed
        self.commit({**self.head, "snapshot": start}, forget=(snapshot.seq, outside))
        snapshots.remove_old(self.folder, snapshot.file)
        with contextlib.suppress(Exception):  # pictures are to look at: what stays goes next time
            self._log.keep_thumbnails(self.seq - 5000, (seq for seq, _ in self._items.values()))

    def stored(self, name: str) -> StepRow:
        """The step of an id."""
        is_text = name.isprintable()  # as every id that was taken
        row = self._log.known([name]).get(name) if is_text else None
        if row is None:
            raise Refused(
                404,
                "there is no step with this id",
                got=ascii(name)[:80],
                allowed=f"one of the last {self.config.limits.window} steps",
            )
        return row

    def close(self) -> None:
        """Give the folder back."""
        self._opened.close()
