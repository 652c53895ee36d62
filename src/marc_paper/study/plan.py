"""A plan: the streams, the predictor, the spaces, the grids and the seeds of a study.

Every value that decides a number of the study stands here, with the paper's value as the default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from marc.spaces.calibration import REPLICATES, SIZES
from marc.types import CAPACITIES, WEIGHTS

GROUPS = {
    "main": "retrieval spaces are compared here; the first is the stream of most tables",
    "shift": "further shifts of the same classes",
    "domain": "streams of other classes",
    "extra": "more of them, which enter no average over domains",
    "predictor": "images of a main stream, seen by another predictor",
}


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
class Spaces:
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
class Grids:
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
class Seeds:
    """Orders and draws."""

    orders: tuple[int, ...] = (0, 1, 2)
    draws: int = 0
    """Of calibration batches and of bootstraps."""


@final
@dataclass(frozen=True)
class Draws:
    """How often something is drawn again for an interval."""

    batches: int = REPLICATES
    sizes: tuple[int, ...] = SIZES
    """Images of a calibration batch."""
    bootstraps: int = 2000


@final
@dataclass(frozen=True)
class Benchmark:
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

    title: str
    predictor: str
    streams: Mapping[str, StreamEntry]
    spaces: Spaces
    prompts: str = ""
    grids: Grids = field(default_factory=Grids)
    seeds: Seeds = field(default_factory=Seeds)
    draws: Draws = field(default_factory=Draws)
    benchmark: Benchmark = field(default_factory=Benchmark)
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

    def graph_views(self, stream: str) -> int:
        """The views of the comparison with COSMIC, or as many as a stream has."""
        return min(self.grids.graph_views, self.most_views(stream))

    def usual_views(self, stream: str) -> int:
        """M of comparisons of spaces: few for streams of other classes, one for all others."""
        return self.few_views(stream) if self.streams[stream].group in ("domain", "extra") else 1

    def as_data(self) -> dict[str, Any]:
        """The plan with all its defaults, for a record."""
        return dataclasses.asdict(self)
