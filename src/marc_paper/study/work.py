"""Shared work: streams, sweeps, geometry, calibration batches and runs, each computed once.

A piece of work is known by everything that decides it: the digests of the features it reads, the
grids, the seeds, the settings and the versions of the libraries. So a piece that is kept on disk is
right wherever it is found again, whichever plan asked for it first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, Protocol

from marc.replay.sweep import Sweep, SweepJob, plan_sweep
from marc.results.files import Arrays, versions
from marc.results.run_plan import RunPlan
from marc.scores import Int
from marc.spaces.calibration import usable_sizes
from marc.spaces.geometry import Geometry, measure
from marc.stream import Stream
from marc.types import Answers, OnProgress
from marc_paper.analysis.regrets import BatchValues, batch_values, parse_rule
from marc_paper.study.pieces import Piece, ordered
from marc_paper.study.plan import Plan
from marc_paper.study.shelf import answers_from, answers_to, geometry_from, geometry_to
from marc_paper.study.streams import OpenStreams

_RULES = (
    "purity@5",
    "purity@10",
    "pseudo_purity@10",
    "antihub_fraction@10",
    "hub_skewness@10",
)
"""Measures that are taken on calibration batches."""

_HELD = 2  # streams and sweeps whose views and base scores are held at a time


class _Shelf(Protocol):
    """Where finished pieces are kept."""

    def get(self, name: str) -> Mapping[str, Any] | None:
        """The arrays of a piece, if it was finished."""
        ...

    def put(self, name: str, arrays: Arrays) -> None:
        """Keep the arrays of a piece."""
        ...


class _Held(dict[str, Any]):
    """A shelf in memory, for studies that are not written anywhere."""

    def put(self, name: str, arrays: Arrays) -> None:
        """Keep the arrays of a piece."""
        self[name] = arrays


class Work:
    """What the experiments of one plan share."""

    def __init__(
        self,
        plan: Plan,
        shelf: _Shelf,
        streams: OpenStreams | Mapping[str, Stream],
        on_progress: OnProgress | None = None,
    ) -> None:
        self.plan = plan
        self.used: list[Piece] = []
        """Pieces in the order in which they were asked for."""
        self._shelf = shelf
        if not isinstance(streams, OpenStreams):
            streams = OpenStreams(plan, streams, on_progress)
        self._streams = streams
        self._tell = on_progress or (lambda *_: None)
        self._with_views = lru_cache(_HELD)(lambda name, views: self.entry(name).with_views(views))
        self._jobs = lru_cache(_HELD)(self._plan_sweep)

    def entry(self, name: str) -> Stream:
        """A stream with all the views that the plan gives it."""
        return self._streams.get(name)

    def stream(self, name: str, views: int = 1) -> Stream:
        """A stream in the order in which it is stored, seen through its first views."""
        stream: Stream = self._with_views(name, views)
        return stream

    def sweep(self, name: str, spaces: Sequence[str], views: int = 1, **settings: Any) -> Sweep:
        """Every capacity, weight and order of the plan, in some spaces of a stream.

        `settings` are those of `marc.sweep` beside the grids: policy, alpha, beta, ...
        """
        job: SweepJob = self._jobs(name, views, ordered(settings))
        intervals = {}
        for space in spaces:
            piece = Piece("sweep", name, space, views, ordered(settings))
            found = self._piece(piece, partial(_ends, job, space))
            intervals[space] = (found["lower"], found["upper"])
        return job.result(intervals)

    def geometry(self, name: str, spaces: Sequence[str]) -> dict[str, Geometry]:
        """The geometry of some spaces of a stream at every kappa of the plan, with intervals."""
        found = {}
        for space in spaces:
            piece = Piece("geometry", name, space)
            arrays = self._piece(piece, partial(self._measure, name, space))
            found[space] = geometry_from(space, arrays)
        return found

    def batches(self, name: str, spaces: Sequence[str]) -> BatchValues:
        """The measures `_RULES` of some spaces, on all images and on calibration batches."""
        parts = []
        for space in spaces:
            found = self._piece(Piece("batches", name, space), partial(self._draw, name, space))
            parts.append(BatchValues.from_arrays(found, (space,), _RULES))
        return BatchValues.joined(parts)

    def run(self, name: str, method: str, seed: int, views: int = 1, **settings: Any) -> Answers:
        """The answers of a method over one order, see `answer`."""
        chosen = ordered({"method": method, "seed": seed, **settings})
        stream = self.stream(name, views)
        found = self._piece(
            Piece("run", name, "", views, chosen),
            lambda: answers_to(answer(stream, method, seed, settings)),
        )
        return answers_from(found, self.labels(name))

    def labels(self, name: str) -> Int:
        """True labels by stored row, (N,)."""
        return self._streams.labels(name)

    def fingerprint(self, name: str) -> dict[str, Any]:
        """Digests of everything that an answer on a stream depends on."""
        return self._streams.fingerprint(name)

    def file(self, piece: Piece) -> str:
        """The name of a piece on the shelf: readable, and distinct by all that decides it."""
        decided = {"piece": [piece.kind, piece.views, piece.space, piece.settings]}
        decided |= self._features(piece) | self._grids(piece) | {"versions": self._versions}
        text = json.dumps(decided, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{piece.kind}-{piece.stream}-{digest}"

    def _piece(self, piece: Piece, compute: Callable[[], Arrays]) -> Mapping[str, Any]:
        self.used.append(piece)
        name = self.file(piece)
        kept = self._shelf.get(name)
        if kept is None:
            self._tell(piece.label, 0, 1)
            kept = compute()
            self._shelf.put(name, kept)
        return kept

    def _features(self, piece: Piece) -> dict[str, Any]:
        """Digests of what a piece reads."""
        known = dict(self.fingerprint(piece.stream))
        spaces = known.pop("spaces")
        for name in ("order", "ids", "class_names"):
            del known[name]
        named = piece.space or dict(piece.settings).get("space", "")
        return {**known, "space": spaces.get(named.partition("+")[0])}

    def _grids(self, piece: Piece) -> dict[str, Any]:
        """What of the plan a piece depends on."""
        plan = self.plan
        if piece.kind == "sweep":
            return {"grids": [plan.grids.capacities, plan.seeds.orders]}
        if piece.kind == "geometry":
            return {"grids": [plan.grids.neighbors, plan.draws.batches, plan.seeds.draws]}
        if piece.kind == "batches":
            return {"grids": [plan.draws.sizes, plan.draws.batches, plan.seeds.draws, _RULES]}
        return {}

    @cached_property
    def _versions(self) -> dict[str, str]:
        return versions()

    def _measure(self, name: str, space: str) -> Arrays:
        plan, stream = self.plan, self.stream(name)
        most = len(stream) - 1
        kappas = [kappa for kappa in plan.grids.neighbors if kappa <= most]
        found = measure(
            *(stream, space, kappas), n_replicates=plan.draws.batches, seed=plan.seeds.draws
        )
        return geometry_to(found)

    def _draw(self, name: str, space: str) -> Arrays:
        draws, stream = self.plan.draws, self.stream(name)
        widest = max(parse_rule(rule)[1] for rule in _RULES)
        usable = usable_sizes(draws.sizes, widest, len(stream))
        return batch_values(
            *(stream, [space], _RULES),
            sizes=usable or [len(stream) // 2],  # a small stream has batches of half of it
            n_replicates=draws.batches,
            seed=self.plan.seeds.draws,
        ).as_arrays()

    def _plan_sweep(self, name: str, views: int, settings: tuple[tuple[str, Any], ...]) -> SweepJob:
        grids = self.plan.grids
        return plan_sweep(
            self.stream(name, views),
            grids.capacities,
            grids.weights,
            self.plan.seeds.orders,
            **dict(settings),
        )


def answer(stream: Stream, method: str, seed: int, settings: Mapping[str, Any]) -> Answers:
    """Run a method over the order that a seed draws; whole streams at once where that is exact.

    Beside the method's own settings there may be `published`, a data set, and `oracle`, which
    chooses the weights that the authors chose on labels, on the labels of this stream.
    """
    given = dict(settings)
    published, oracle = given.pop("published", None), given.pop("oracle", False)
    plan = RunPlan(stream, [seed], method, given, published, oracle)
    return plan.run(seed, at_once=True).by_image()


def _ends(job: SweepJob, space: str) -> Arrays:
    lower, upper = job.space(space)
    return {"lower": lower, "upper": upper}
