"""Seconds an image of whole systems: encoding, scoring the views, and the memory, apart.

All systems are timed in each session, one image at a time as in a live stream. Encoding is timed
where a stream's pictures and encoders can be had: pictures are decoded before the clock starts,
making the views is counted, and nothing is downloaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from marc.embed.store import FeatureStore
from marc.encoders import Encoder, create_encoder
from marc.errors import MarcError
from marc.files import user_path
from marc.pictures import reopen_images
from marc.pictures.decoding import Unreadable, read_picture
from marc.pictures.views import make_views
from marc.sources import is_pictures
from marc.stream import Stream
from marc_lab.embedding import RECIPE, VIEW_SEED
from marc_lab.encoders import PREDICTOR, PREFIX
from marc_lab.streams import plan_stream

if TYPE_CHECKING:
    from PIL.Image import Image
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from marc.loop import AnyMethod, iter_steps
from marc.peers.registry import create_method
from marc.scores import score_views
from marc_paper.study.plan import Plan, Timing
from marc_paper.study.work import Work

_N_WARM = 8
"""Of these, so many are encoded once before, to warm up."""


@final
@dataclass(frozen=True)
class _Drawing:
    """What turns pictures of a source into features: encoders by name, and the views."""

    predictor: str
    spaces: Mapping[str, str]
    """Encoders by space."""
    recipe: str
    seed: int
    pictures: Callable[[Sequence[int]], list[Image]]
    """Decoded pictures of some rows."""


@final
@dataclass(frozen=True)
class _Bench:
    """Loaded encoders and decoded pictures."""

    predictor: Encoder
    encoders: Mapping[str, Encoder]
    """By space."""
    pictures: Sequence[Image]
    recipe: str
    seed: int

    def predictor_seconds(self, n_views: int) -> float:
        """Seconds a picture to make its views and embed them with the predictor."""
        crop = self.predictor.card.crop

        def embed(picture: Image, key: str) -> None:
            views = make_views(picture, crop, self.recipe, n_views, key=key, seed=self.seed)
            self.predictor.encode(views)

        return self._seconds(embed)

    def space_seconds(self, space: str) -> float:
        """Seconds a picture to crop it and embed it with a retrieval encoder."""
        encoder = self.encoders[space]

        def embed(picture: Image, key: str) -> None:
            encoder.encode(make_views(picture, encoder.card.crop, "V0", 1, key=key, seed=0))

        return self._seconds(embed)

    def _seconds(self, embed: Callable[[Image, str], None]) -> float:
        for picture in self.pictures[:_N_WARM]:
            embed(picture, "warm-up")
        started = time.perf_counter()
        for number, picture in enumerate(self.pictures):
            embed(picture, str(number))
        return (time.perf_counter() - started) / len(self.pictures)


def _open_bench(
    stream: Stream, source: str, spaces: Sequence[str], n_pictures: int
) -> _Bench | str:
    """Encoders of some spaces and a few pictures of a source, or why they cannot be had."""
    try:
        drawing = _drawing(stream, source)
        unknown = [space for space in spaces if space not in drawing.spaces]
        if unknown:
            return f"no encoder is known for {', '.join(unknown)}"
        pictures = drawing.pictures(range(min(n_pictures, len(stream.features.ids))))
        if not pictures:
            return "the pictures are not where they were embedded from"
        return _Bench(
            create_encoder(drawing.predictor, offline=True),
            {space: create_encoder(drawing.spaces[space], offline=True) for space in spaces},
            pictures,
            drawing.recipe,
            drawing.seed,
        )
    except MarcError as error:
        return error.problem.rstrip(".")


def _drawing(stream: Stream, source: str) -> _Drawing:
    if is_pictures(source):
        return _of_store(stream, FeatureStore.default_path(source))
    kind, _, name = source.partition("/")
    if kind == "store":
        return _of_store(stream, user_path(name))
    if kind == "lab":
        return _of_lab(stream, name)
    raise MarcError("this source does not say which encoders made its features")


def _of_lab(stream: Stream, name: str) -> _Drawing:
    from PIL import Image

    plan = plan_stream(name)
    return _Drawing(
        PREFIX + PREDICTOR,
        {space: PREFIX + space for space in stream.spaces},
        RECIPE,
        VIEW_SEED,
        lambda rows: [Image.fromarray(plan.picture(row)) for row in rows],
    )


def _of_store(stream: Stream, path: Path) -> _Drawing:
    store = FeatureStore(path)
    about: dict[str, Any] = store.about
    views = store.attributes(store.VIEWS)

    def pictures(rows: Sequence[int]) -> list[Image]:
        images = reopen_images(about)
        places = dict(zip(images.ids, images.locations, strict=True))
        wanted = [
            places[stream.features.ids[row]] for row in rows if stream.features.ids[row] in places
        ]
        try:
            return [read_picture(place, upright=about["upright"]) for place in wanted]
        except Unreadable:
            return []

    return _Drawing(
        views["card"]["name"],
        {
            space: store.attributes(f"{store.SPACES}/{space}")["card"]["name"]
            for space in store.names(store.SPACES)
        },
        views["made"]["views"]["id"],
        views["made"]["views"]["seed"],
        pictures,
    )


_Seconds = NDArray[np.float64]
"""(sessions,) each."""


@final
@dataclass(frozen=True)
class Configuration:
    """A system that is timed."""

    DEPLOYED, STRONG = "MARC, deployed", "MARC, strong"

    label: str
    method: str
    space: str
    """Of the retrieval encoder; empty if there is none."""
    views: int
    settings: Mapping[str, Any]

    @property
    def reads_base(self) -> bool:
        """Whether it takes the base scores of its views, rather than score them in its own way."""
        return self.method in ("marc", "no-memory") or (self.method, self.views) == ("tda", 1)

    @classmethod
    def all_of(cls, plan: Plan) -> list[Configuration]:
        """The systems of the table."""
        main, spaces, capacity = plan.main, plan.spaces, plan.grids.benchmark_capacity
        few, graph, many = plan.few_views(main), plan.graph_views(main), plan.most_views(main)
        found = [Configuration("no memory", "no-memory", "", views, {}) for views in (1, many)]
        for name in ("tda", "cosmic"):
            settings = plan.peer_settings(name)
            views = plan.method_views(main, name)
            found.append(
                Configuration(name.upper(), name, settings.get("space", ""), views, settings)
            )
        for label, space, budgets in (
            (Configuration.DEPLOYED, spaces.deployed, sorted({1, few, graph, many})),
            (Configuration.STRONG, spaces.strong, sorted({1, few})),
        ):
            settings = plan.marc_settings(space, capacity)
            found += [Configuration(label, "marc", space, views, settings) for views in budgets]
        return list({(each.label, each.views): each for each in found}.values())


@final
@dataclass(frozen=True)
class Times:
    """Seconds an image of one system, session by session."""

    N_PICTURES: ClassVar = 32
    """Pictures that are encoded for one time."""

    encoding: _Seconds | None
    """None where encoders or pictures are not at hand."""
    scoring: _Seconds
    """Zero for a system that scores views in its own way: that is in its memory's time."""
    memory: _Seconds

    @property
    def total(self) -> _Seconds:
        """All that was measured."""
        known = self.scoring + self.memory
        return known if self.encoding is None else known + self.encoding

    @classmethod
    def measure(cls, work: Work, systems: Sequence[Configuration]) -> tuple[list[Times], str]:
        """Time all systems in each session; also why encoding was not timed, if it was not."""
        plan = work.plan
        own = {
            "",
            "predictor",
            plan.spaces.own,
        }  # the predictor's feature is the key: nothing to embed
        spaces = sorted({each.space.partition("+")[0] for each in systems} - own)
        entry = plan.streams[plan.main]
        n_pictures = min(Times.N_PICTURES, plan.timing.images)
        bench = _open_bench(work.entry(plan.main), entry.source, spaces, n_pictures)
        parts = {
            views: Part.beginning(
                work.stream(plan.main, views).in_order(plan.seeds.orders[0]), plan.timing
            )
            for views in sorted({each.views for each in systems})
        }
        sessions = [_session(systems, parts, bench) for _ in range(plan.timing.sessions)]
        times = []
        for each in zip(*sessions, strict=True):
            encoding, scoring, memory = zip(*each, strict=True)
            known = None if encoding[0] is None else np.array(encoding)
            times.append(Times(known, np.array(scoring), np.array(memory)))
        return times, bench if isinstance(bench, str) else ""


@final
@dataclass(frozen=True)
class Part:
    """The beginning of a stream: some images to warm up, then those that are timed."""

    stream: Stream
    n_warm: int

    @property
    def n_timed(self) -> int:
        """How many images are timed."""
        return len(self.stream) - self.n_warm

    @classmethod
    def beginning(cls, stream: Stream, timing: Timing) -> Part:
        """The part of a stream that is timed; of a short one, at most half is warm-up."""
        n_warm = min(timing.warm_up, len(stream) // 2)
        order = stream.order[: n_warm + timing.images]
        part = replace(stream, order=order, seed=None)
        _ = part.features.base  # shared by all methods; its time is that of `_scoring_seconds`
        return Part(part, n_warm)


def _memory_seconds(method: AnyMethod, part: Part) -> float:
    """Seconds an image to look at its features, answer it and learn from it."""
    method.reset()
    steps = iter_steps(method, part.stream)
    for step in islice(steps, part.n_warm):
        _ = step.prediction
    started = time.perf_counter()
    for step in steps:
        _ = step.prediction
    return (time.perf_counter() - started) / part.n_timed


def _scoring_seconds(part: Part) -> float:
    """Seconds an image for the base scores: logits of every view, equation 1 and e_t."""
    seconds = 0.0
    for position, query in enumerate(part.stream):
        started = time.perf_counter()
        score_views(query.view_logits)
        if position >= part.n_warm:
            seconds += time.perf_counter() - started
    return seconds / part.n_timed


def _session(
    systems: Sequence[Configuration], parts: Mapping[int, Part], bench: _Bench | str
) -> list[tuple[float | None, float, float]]:
    """Encoding, scoring and memory of each system, one after the other."""
    scoring = {views: _scoring_seconds(part) for views, part in parts.items()}
    viewing: dict[int, float] = {}
    embedding: dict[str, float] = {}
    if isinstance(bench, _Bench):
        viewing = {views: bench.predictor_seconds(views) for views in parts}
        embedding = {space: bench.space_seconds(space) for space in bench.encoders}
    found = []
    for each in systems:
        second = embedding.get(each.space.partition("+")[0], 0.0)
        encoding = viewing[each.views] + second if viewing else None
        method = create_method(each.method, **each.settings)
        seconds = _memory_seconds(method, parts[each.views])
        found.append((encoding, scoring[each.views] if each.reads_base else 0.0, seconds))
    return found
