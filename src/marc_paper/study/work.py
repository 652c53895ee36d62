"""Shared work, each piece computed once, and the experiments that ask for it.

Streams, sweeps, geometry, calibration batches and runs are shared. A piece of work is known by
everything that decides it: the digests of the features it reads, the grids, the seeds, the settings
and the versions of the libraries. So a piece on disk is right wherever it is found again, whichever
plan asked for it first. An experiment declares its pieces, so that the cost of a study is known
before it is made; a test holds every experiment to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, Protocol, final

import numpy as np

from marc.files import Arrays, versions
from marc.replay.sweep import Sweep
from marc.replay.sweep_job import SweepJob
from marc.results.metrics import certainty_arrays, certainty_of
from marc.results.run import RunPlan
from marc.scores import Int
from marc.spaces.calibration import Calibration
from marc.spaces.geometry import Geometry, Hub, Measures, measure
from marc.stats import Interval
from marc.stream import Stream
from marc.types import Answers, OnProgress
from marc_paper.analysis.regrets import BatchValues, Rule
from marc_paper.study.artifacts import Artifact, captions
from marc_paper.study.plan import Plan
from marc_paper.study.streams import OpenStreams

_RULES = ("purity@5", "purity@10", "pseudo_purity@10", "antihub_fraction@10", "hub_skewness@10")
"""Measures that are taken on calibration batches."""

_HELD = 2  # streams and sweeps whose views and base scores are held at a time


_Kind = Literal["sweep", "geometry", "batches", "run"]


@final
@dataclass(frozen=True)
class Piece:
    """One piece of shared work over one stream; a sweep of several spaces is several pieces."""

    kind: _Kind
    stream: str
    space: str = ""
    views: int = 1
    settings: tuple[tuple[str, Any], ...] = ()
    """Of a sweep those that are not the usual ones; of a run the method, the seed and the rest."""

    @property
    def label(self) -> str:
        """What is being done, for a progress bar."""
        method = dict(self.settings).get("method", "")
        what = f"{self.kind} {method}".strip()
        views = f", {self.views} views" if self.views > 1 else ""
        return f"{self.stream}: {what} {self.space}".rstrip() + views

    @classmethod
    def sweeps(
        cls,
        streams: Iterable[str],
        spaces: Iterable[str],
        views: int | Callable[[str], int] = 1,
        *,
        also: Sequence[_Kind] = (),
        **settings: Any,
    ) -> list[Piece]:
        """Those of `Work.sweep` over some streams, and `also` other kinds of the same spaces."""
        names, found = tuple(spaces), []
        for stream in streams:
            seen = views(stream) if callable(views) else views
            for space in names:
                found.append(cls("sweep", stream, space, seen, _ordered(settings)))
                found += [cls(kind, stream, space) for kind in also]
        return found

    @classmethod
    def main(cls, plan: Plan) -> list[Piece]:
        """A sweep and a geometry of every space on every main stream: what most share."""
        return cls.sweeps(plan.group("main"), plan.spaces.all, also=("geometry",))

    @classmethod
    def runs(
        cls, seeds: Iterable[int], asked: Iterable[tuple[str, str, int, Mapping[str, Any]]]
    ) -> list[Piece]:
        """Those of `Work.run` over some orders: a stream, a method, views and settings each."""
        return [
            cls("run", stream, "", views, _ordered({"method": method, "seed": seed, **settings}))
            for stream, method, views, settings in asked
            for seed in seeds
        ]


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
        shelf: _Shelf | None,
        streams: OpenStreams | Mapping[str, Stream],
        on_progress: OnProgress | None = None,
    ) -> None:
        self.plan = plan
        self.used: list[Piece] = []
        """Pieces in the order in which they were asked for."""
        self._shelf = _Held() if shelf is None else shelf
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
        job: SweepJob = self._jobs(name, views, _ordered(settings))
        intervals = {}
        for space in spaces:
            found = self._piece(Piece("sweep", name, space, views, _ordered(settings)))
            intervals[space] = (found["lower"], found["upper"])
        return job.result(intervals)

    def geometry(self, name: str, spaces: Sequence[str]) -> dict[str, Geometry]:
        """The geometry of some spaces of a stream at every kappa of the plan, with intervals."""
        found = {}
        for space in spaces:
            found[space] = _geometry_from(space, self._piece(Piece("geometry", name, space)))
        return found

    def batches(self, name: str, spaces: Sequence[str]) -> BatchValues:
        """The measures `_RULES` of some spaces, on all images and on calibration batches."""
        parts = []
        for space in spaces:
            found = self._piece(Piece("batches", name, space))
            parts.append(BatchValues.from_arrays(found, (space,), _RULES))
        return BatchValues.joined(parts)

    def run(self, name: str, method: str, seed: int, views: int = 1, **settings: Any) -> Answers:
        """The answers of a method over one order; see `_answer`."""
        chosen = _ordered({"method": method, "seed": seed, **settings})
        return _answers_from(self._piece(Piece("run", name, "", views, chosen)), self.labels(name))

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

    def compute(self, piece: Piece) -> Arrays:
        """The arrays of a piece, wherever they are kept."""
        name, space = piece.stream, piece.space
        if piece.kind == "geometry":
            return self._measure(name, space)
        if piece.kind == "batches":
            return self._draw(name, space)
        if piece.kind == "sweep":
            lower, upper = self._jobs(name, piece.views, piece.settings).space(space)
            return {"lower": lower, "upper": upper}
        given = dict(piece.settings)
        method, seed = given.pop("method"), given.pop("seed")
        return _answers_to(_answer(self.stream(name, piece.views), method, seed, given))

    def _piece(self, piece: Piece) -> Mapping[str, Any]:
        self.used.append(piece)
        name = self.file(piece)
        kept = self._shelf.get(name)
        if kept is None:
            self._tell(piece.label, 0, 1)
            kept = self.compute(piece)
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
        plan, kind = self.plan, self.plan.seeds.kind
        orders = {} if kind == "shuffled" else {"ordering": kind}
        if piece.kind == "sweep":
            return {"grids": [plan.grids.capacities, plan.seeds.orders], **orders}
        if piece.kind == "geometry":
            return {"grids": [plan.grids.neighbors, plan.draws.batches, plan.seeds.draws]}
        if piece.kind == "batches":
            return {"grids": [plan.draws.sizes, plan.draws.batches, plan.seeds.draws, _RULES]}
        return orders

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
        return _geometry_to(found)

    def _draw(self, name: str, space: str) -> Arrays:
        draws, stream = self.plan.draws, self.stream(name)
        widest = max(Rule.parse(rule)[1] for rule in _RULES)
        usable = Calibration(len(stream), widest).usable_sizes(draws.sizes)
        return BatchValues.measure(
            *(stream, [space], _RULES),
            sizes=usable or [len(stream) // 2],  # a small stream has batches of half of it
            n_replicates=draws.batches,
            seed=self.plan.seeds.draws,
        ).as_arrays()

    def _plan_sweep(self, name: str, views: int, settings: tuple[tuple[str, Any], ...]) -> SweepJob:
        grids = self.plan.grids
        return SweepJob.plan(
            self.stream(name, views),
            grids.capacities,
            grids.weights,
            self.plan.seeds.orders,
            **dict(settings),
        )


def _answer(stream: Stream, method: str, seed: int, settings: Mapping[str, Any]) -> Answers:
    """Run a method over the order that a seed draws; whole streams at once where that is exact.

    Beside the method's own settings there may be `published`, a data set, and `oracle`, which
    chooses the weights that the authors chose on labels, on the labels of this stream.
    """
    given = dict(settings)
    published, oracle = given.pop("published", None), given.pop("oracle", False)
    plan = RunPlan(stream, [seed], method, given, published, oracle)
    return plan.run(seed, at_once=True).by_image()


def _geometry_to(geometry: Geometry) -> Arrays:
    measures = list(geometry.measures.values())
    return {
        "kappas": np.array(list(geometry.measures)),
        "purity": np.array([each.purity for each in measures]),
        "pseudo_purity": np.array([each.pseudo_purity for each in measures]),
        "antihub_fraction": np.array([each.antihub_fraction for each in measures]),
        "hub_skewness": np.array([each.hub_skewness for each in measures]),
        "per_class_purity": np.array(geometry.per_class_purity),
        "hubs": np.array(geometry.hubs),
        "counts": np.array([geometry.n_images, geometry.n_duplicates]),
        "recall": np.array(geometry.recall),
    }


def _geometry_from(space: str, arrays: Mapping[str, Any]) -> Geometry:
    n_images, n_duplicates = arrays["counts"].tolist()
    return Geometry(
        space=space,
        n_images=n_images,
        n_duplicates=n_duplicates,
        recall=float(arrays["recall"]),
        measures={
            kappa: Measures(
                n_neighbors=kappa,
                purity=Interval(*arrays["purity"][index].tolist()),
                pseudo_purity=Interval(*arrays["pseudo_purity"][index].tolist()),
                antihub_fraction=float(arrays["antihub_fraction"][index]),
                hub_skewness=float(arrays["hub_skewness"][index]),
            )
            for index, kappa in enumerate(arrays["kappas"].tolist())
        },
        per_class_purity=arrays["per_class_purity"],
        hubs=tuple(Hub(*hub) for hub in arrays["hubs"].tolist()),
    )


def _ordered(settings: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Settings by name, so that equal ones are one piece."""
    return tuple(sorted(settings.items()))


@final
@dataclass(frozen=True)
class Experiment:
    """One question of the paper."""

    name: str
    """In file names and after --only."""
    title: str
    answers: tuple[str, ...]
    """LaTeX labels of the paper's tables and figures."""
    make: Callable[[Work], Sequence[Artifact]]
    pieces: Callable[[Plan], Sequence[Piece]]
    missing: Callable[[Plan], str] = lambda plan: ""
    """Why this plan cannot answer it; empty if it can."""

    @classmethod
    def of(
        cls,
        name: str,
        make: Callable[[Work], Sequence[Artifact]],
        pieces: Callable[[Plan], Sequence[Piece]],
        missing: Callable[[Plan], str] = lambda plan: "",
    ) -> Experiment:
        """The experiment of this name in `captions.toml`."""
        words = captions()["experiments"][name]
        return cls(name, words["title"], tuple(words["answers"]), make, pieces, missing)


def _answers_to(answers: Answers) -> Arrays:
    """Arrays of the answers of one run; labels belong to the stream."""
    return {
        "predictions": answers.predictions,
        "base_predictions": answers.base_predictions,
        "order": answers.order,
        "chosen_names": np.array(list(answers.chosen), dtype=str),
        "chosen": np.array(list(answers.chosen.values()), dtype=np.float64),
        **certainty_arrays(answers.certainty),
        **certainty_arrays(answers.base_certainty, "base_"),
    }


def _answers_from(arrays: Mapping[str, Any], labels: Int) -> Answers:
    names, values = arrays["chosen_names"].tolist(), arrays["chosen"].tolist()
    chosen = dict(zip(names, values, strict=True))
    answers = arrays["predictions"], arrays["base_predictions"]
    sure = certainty_of(arrays), certainty_of(arrays, "base_")  # pieces of older versions: None
    return Answers(*answers, labels, arrays["order"], chosen, *sure)
