"""A plan: the streams, the predictor, the spaces, the grids and the seeds of a study.

Every value that decides a number of the study is here, with the paper's value as the default. A
TOML file gives the others: known keys, right types, and nothing that cannot be studied.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, final

from marc.errors import MarcError, integer, one_of
from marc.files import read_toml
from marc.peers.cards import MethodCard
from marc.peers.registry import METHODS
from marc.pictures import NAMED_SETS
from marc.pictures.views import MOST_VIEWS
from marc.replay.lifetimes import check_capacities
from marc.replay.weights import check_weights
from marc.spaces.calibration import Calibration
from marc.stream.orders import Ordering
from marc.types import CAPACITIES, WEIGHTS
from marc_paper.study.toml_tables import build, table

_GROUPS = {
    "main": "retrieval spaces are compared here; the first is the stream of most tables",
    "shift": "further shifts of the same classes",
    "domain": "streams of other classes",
    "extra": "more of them, which enter no average over domains",
    "predictor": "images of a main stream, seen by another predictor",
}

_FEWEST_VIEWS = {"tda": 10, "boostadapter": 10, "dmn-zs": 10, "dota": 10, "etta": 10, "zero": 4}
"""Fewest views, beside one, of methods that refuse a share of the views which is none of them."""

_IN_DISTRIBUTION = frozenset({"imagenet-val"})


@final
@dataclass(frozen=True)
class StreamEntry:
    """One stream of a plan."""

    source: str
    group: str
    views: int = 1
    """M: how many of the source's views are used at most."""
    dataset: str = ""
    """What these images are, in the words of `marc list datasets`; `marc verify` asks for it."""
    predictor: str = ""
    """The encoder behind the base logits; the plan's if there is none here."""
    prompts: str = ""
    """The prompt sets behind the prototypes, joined by +; the plan's if there are none here."""


@final
@dataclass(frozen=True)
class _Spaces:
    """The retrieval spaces, and the part that some of them play."""

    all: tuple[str, ...]
    controls: tuple[str, ...]
    """The few that are compared in every detail; among `all`."""
    own: str
    """The predictor's own image space."""
    deployed: str
    """The space that the method would be used with."""
    strong: str
    """A space of higher purity, to set against the predictor's own."""


@final
@dataclass(frozen=True)
class _Grids:
    """Values that are tried, and those at which other things are varied."""

    capacities: tuple[int, ...] = CAPACITIES
    weights: tuple[float, ...] = WEIGHTS
    views: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    neighbors: tuple[int, ...] = (1, 2, 5, 10, 20, 50)
    """kappa of the purity curves; 5 and 10 are among them."""
    alphas: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    betas: tuple[float, ...] = (1.0, 2.0, 3.5, 5.0, 7.0, 10.0, 14.0)
    dims: tuple[int, ...] = (32, 64, 128, 256, 512)
    """To which the deployed space is projected; those below its own count."""
    capacity: int = 8
    """K of controlled comparisons."""
    benchmark_capacity: int = 16
    """K of benchmarks, view budgets and admission policies."""
    weight: float = 10.0
    few_views: int = 4
    graph_views: int = 8
    """M of the comparison with COSMIC."""


@final
@dataclass(frozen=True)
class _Seeds:
    """Orders and draws."""

    orders: tuple[int, ...] = (0, 1, 2)
    kind: str = "shuffled"
    """Of the orders, as `marc run --order` takes it."""
    draws: int = 0
    """Of calibration batches and of bootstraps."""


@final
@dataclass(frozen=True)
class Draws:
    """How often something is drawn again for an interval."""

    batches: int = Calibration.REPLICATES
    sizes: tuple[int, ...] = Calibration.SIZES
    """Images of a calibration batch."""
    bootstraps: int = 2000


@final
@dataclass(frozen=True)
class _Benchmark:
    """Methods that are compared, each at its own defaults or at those of one published table."""

    methods: tuple[str, ...] = ("zero-shot", "zero", "tda", "boostadapter", "dmn-zs", "cosmic")
    published: str = ""
    """The data set whose published settings are taken where a method has them."""


@final
@dataclass(frozen=True)
class Timing:
    """What the cost table times."""

    images: int = 3000
    warm_up: int = 100
    sessions: int = 3


@final
@dataclass(frozen=True)
class Plan:
    """A study before it is made."""

    SHIPPED: ClassVar = Path(__file__).with_name("plans")
    """Where the plans are that come with the package."""

    title: str
    predictor: str
    streams: Mapping[str, StreamEntry]
    spaces: _Spaces
    prompts: str = ""
    grids: _Grids = field(default_factory=_Grids)
    seeds: _Seeds = field(default_factory=_Seeds)
    draws: Draws = field(default_factory=Draws)
    benchmark: _Benchmark = field(default_factory=_Benchmark)
    timing: Timing = field(default_factory=Timing)

    def group(self, *names: str) -> tuple[str, ...]:
        """Streams of some groups, in the order of the plan."""
        return tuple(name for name, entry in self.streams.items() if entry.group in names)

    @property
    def main(self) -> str:
        """The stream of most tables."""
        return self.group("main")[0]

    def budgets(self, stream: str) -> tuple[int, ...]:
        """View budgets of the grid that a stream has the views for."""
        return tuple(m for m in self.grids.views if m <= self.streams[stream].views)

    def most_views(self, stream: str) -> int:
        """The largest budget of the grid that a stream has the views for."""
        return self.budgets(stream)[-1]

    def few_views(self, stream: str) -> int:
        """Few views, or as many as a stream has."""
        return min(self.grids.few_views, self.most_views(stream))

    def anchors(self, stream: str) -> tuple[int, ...]:
        """One view, few and many, each once."""
        return tuple(sorted({1, self.few_views(stream), self.most_views(stream)}))

    def graph_views(self, stream: str) -> int:
        """The views of the comparison with COSMIC, or as many as a stream has."""
        return min(self.grids.graph_views, self.most_views(stream))

    def usual_views(self, stream: str) -> int:
        """M of comparisons of spaces: few for streams of other classes, one for all others."""
        return self.few_views(stream) if self.streams[stream].group in ("domain", "extra") else 1

    def protocol(self, names: str, **more: Any) -> dict[str, Any]:
        """Settings of a controlled comparison by name; `more` adds some or replaces them."""
        known = {
            "stream": self.main,
            "space": self.spaces.deployed,
            "capacity": self.grids.capacity,
            "weight": self.grids.weight,
            "views": 1,
            "seeds": self.seeds.orders,
        }
        return {name: known[name] for name in names.split()} | more

    def as_data(self) -> dict[str, Any]:
        """The plan with all its defaults, for a record; that orders are shuffled is not said."""
        data = dataclasses.asdict(self)
        if self.seeds.kind == "shuffled":
            del data["seeds"]["kind"]
        return data

    @classmethod
    def read(cls, path: Path) -> Plan:
        """A plan from a TOML file."""
        if not path.exists():
            raise MarcError(
                "there is no such plan", got=path, hint="marc study --lab, or marc study PLAN.toml"
            )
        return cls.of(read_toml(path, "plan"))

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Plan:
        """A plan from the tables of a TOML file; unknown keys are errors."""
        given = dict(data)
        streams = table("streams", given.pop("streams", {}))
        given["streams"] = {
            name: build(StreamEntry, f"streams.{name}", table(f"streams.{name}", entry))
            for name, entry in streams.items()
        }
        for kind in (_Spaces, _Grids, _Seeds, Draws, _Benchmark, Timing):
            name = kind.__name__.strip("_").lower()
            if name in given:
                given[name] = build(kind, name, table(name, given[name]))
        plan: Plan = build(cls, "the plan", given)
        _check(plan)
        return plan

    def marc_settings(self, space: str, capacity: int) -> dict[str, Any]:
        """The settings of MARC in tables of systems."""
        return {"space": space, "capacity": capacity, "weight": self.grids.weight}

    def peer_settings(self, method: str) -> dict[str, Any]:
        """The settings of another method: its own, or published ones that the plan names."""
        card, settings = METHODS[one_of("method", method, METHODS, "marc list methods")], {}
        if "space" in card.needs:
            settings["space"] = self.spaces.deployed
        if self.benchmark.published in card.published:
            settings["published"] = self.benchmark.published
        return settings

    def method_views(self, stream: str, method: str) -> int:
        """The views at which a method is compared: few if it takes them, else many, else one.

        COSMIC has a view budget of its own.
        """
        if METHODS.known(method).views == MethodCard.views:
            return 1
        fewest = _FEWEST_VIEWS.get(method, 1)
        few = self.graph_views if method == "cosmic" else self.few_views
        asked = (few(stream), self.most_views(stream))
        return next((views for views in asked if views >= fewest), 1)

    def averages(self, streams: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Streams by the average that they enter; none where there is one stream only."""
        entries = self.streams
        parts = {
            "mean, shifts": tuple(s for s in streams if entries[s].dataset not in _IN_DISTRIBUTION),
            "mean, without extra": tuple(s for s in streams if entries[s].group != "extra"),
        }
        smaller = {name: part for name, part in parts.items() if len(part) < len(streams)}
        found = {"mean": tuple(streams), **smaller}
        return {name: several for name, several in found.items() if len(several) > 1}

    def candidate_sets(self) -> dict[str, tuple[str, ...]]:
        """All spaces, and the few that are compared in every detail, where these are fewer."""
        few, every = self.spaces.controls, self.spaces.all
        return {"all": every} if set(few) == set(every) else {"all": every, "controls": few}

    def describe(self) -> dict[str, dict[str, str]]:
        """What the plan says of each stream, for whoever compares a table with another."""
        return {
            name: {
                **{"source": entry.source, "group": entry.group, "dataset": entry.dataset},
                "predictor": entry.predictor or self.predictor,
                "prompts": entry.prompts or self.prompts,
            }
            for name, entry in self.streams.items()
        }

    def needs_views(self) -> str:
        """What is missing where the main stream has one view only."""
        has_several = len(self.budgets(self.main)) > 1
        return "" if has_several else f"the stream {self.main} has one view in this plan"


def _check(plan: Plan) -> None:
    """Refuse what cannot be studied before anything is opened."""
    if not plan.streams:
        raise MarcError("a plan needs streams", hint='[streams.NAME] source = "..." group = "main"')
    for name, entry in plan.streams.items():
        one_of(f"group of streams.{name}", entry.group, _GROUPS)
        integer(f"streams.{name}: views", entry.views, 1, MOST_VIEWS)
        if not re.fullmatch("[A-Za-z0-9_-]+", name):
            raise MarcError("a stream's name is ASCII letters, digits, - and _", got=repr(name))
        if entry.dataset:
            one_of(f"dataset of streams.{name}", entry.dataset, NAMED_SETS, "marc list datasets")
    _distinct("streams", tuple(name.lower() for name in plan.streams))  # they name files
    if not plan.group("main"):
        raise MarcError("a plan needs a stream of group main", got=", ".join(plan.streams))
    spaces = plan.spaces
    _distinct("spaces.all", spaces.all)
    _distinct("spaces.controls", spaces.controls)
    for key in ("own", "deployed", "strong"):
        one_of(f"space in spaces.{key}", getattr(spaces, key), spaces.all, "one of spaces.all")
    for name in spaces.controls:
        one_of("space in spaces.controls", name, spaces.all, "some of spaces.all")
    _check_grids(plan.grids)
    _check_seeds(plan.seeds)
    _distinct("benchmark.methods", plan.benchmark.methods)
    for name in plan.benchmark.methods:
        one_of("method in benchmark.methods", name, METHODS, "marc list methods")
    # upper bounds are far above what is useful, and below what never ends
    integer("draws.batches", plan.draws.batches, 2, 100_000)
    integer("draws.bootstraps", plan.draws.bootstraps, 1, 1_000_000)
    integer("timing.sessions", plan.timing.sessions, 2, 1000)
    integer("timing.images", plan.timing.images, 1, 10**9)
    integer("timing.warm_up", plan.timing.warm_up, 0, 10**9)
    for size in plan.draws.sizes:
        integer("draws.sizes", size, 11, 10**9)  # more than ten neighbours


def _check_seeds(seeds: _Seeds) -> None:
    _distinct("seeds.orders", seeds.orders)
    if Ordering.parse(seeds.kind).kind == "stored":
        raise MarcError("a study draws its orders by seeds", got="stored", hint='kind = "sorted"')


def _check_grids(grids: _Grids) -> None:
    check_capacities(grids.capacities)
    check_weights(grids.weights)
    bounds = {"views": MOST_VIEWS, "neighbors": 10**6, "alphas": 1e6, "betas": 1e6, "dims": 10**6}
    for name, most in bounds.items():
        values = getattr(grids, name)
        if list(values) != sorted(set(values)) or not 0 < values[0] <= values[-1] <= most:
            raise MarcError(
                f"grids.{name} must be ascending numbers above 0 and up to {most:,.0f}",
                got=list(values),
            )
    of_grid = {"capacity": grids.capacities, "benchmark_capacity": grids.capacities}
    for name, allowed in {**of_grid, "weight": grids.weights}.items():
        value = getattr(grids, name)
        if value not in allowed:
            raise MarcError(f"grids.{name} must be on its grid", got=value, allowed=allowed)
    for name in ("few_views", "graph_views"):
        integer(f"grids.{name}", getattr(grids, name), 1, MOST_VIEWS)
    if grids.weights[0] != 0:
        raise MarcError(
            "grids.weights begins with 0: an oracle may leave the memory unused",
            got=list(grids.weights),
        )
    if grids.views[0] != 1 or not {5, 10} <= set(grids.neighbors):
        raise MarcError(
            "the grid of views begins with 1, and that of neighbours has 5 and 10",
            got=f"views {list(grids.views)}, neighbors {list(grids.neighbors)}",
        )


def _distinct(name: str, values: tuple[Any, ...]) -> None:
    if len(set(values)) < len(values):
        raise MarcError(f"{name} names something twice", got=", ".join(map(str, values)))
