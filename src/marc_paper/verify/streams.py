"""Which streams of a study are the paper's: data set, predictor and prompts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import final

from marc.pictures import NAMED_SETS
from marc_paper.printed.sheets import common
from marc_paper.study.make import describe
from marc_paper.study.plan import Plan
from marc_paper.study.tables.over_orders import averages
from marc_paper.verify.expected import MEAN, STREAM, Expected, Place

_About = Mapping[str, str]
"""What a table says of a stream: its data set, predictor, prompts and group."""


class NoMatch(Exception):  # noqa: N818  (it is a finding about a study, not a failure of ours)
    """Why a printed value cannot be compared."""


@final
@dataclass(frozen=True)
class Streams:
    """The streams of a plan."""

    plan: Plan
    about: Mapping[str, _About]
    """What each stream is."""
    sizes: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """How many images and classes each has."""

    @classmethod
    def of(cls, plan: Plan, sizes: Mapping[str, Mapping[str, object]] | None = None) -> Streams:
        """The streams as a plan describes them, and their sizes."""
        return cls(plan, describe(plan), sizes or {})

    def named(self, dataset: str, predictor: str) -> str:
        """The stream of a data set under a predictor and the paper's prompts."""
        there = [name for name, about in self.about.items() if about["dataset"] == dataset]
        if not there:
            raise NoMatch(f"the study has no stream of {dataset}")
        predictors = {name: self.about[name]["predictor"] for name in there}
        # a predictor is compared by the name of its image encoder
        same = [name for name in there if predictors[name].removesuffix("-text") == predictor]
        if not same:
            other = predictors[there[0]]
            raise NoMatch(f"the stream {there[0]} is predicted by {other}, not {predictor}")
        prompts = _prompts_of(dataset)
        for name in same:
            if _plain_prompts(self.about[name]["prompts"]) == _plain_prompts(prompts):
                self._check_size(name, dataset)
                return name
        other = self.about[same[0]]["prompts"] or "not stated"
        raise NoMatch(f"the prompts of the stream {same[0]} are {other}, not {prompts}")

    def _check_size(self, name: str, dataset: str) -> None:
        """Refuse a part of a data set, or something else under its name."""
        size, published = self.sizes.get(name), NAMED_SETS[dataset]
        if not size:
            return
        images, classes = int(str(size["images"])), size["classes"]
        # a few pictures may be unreadable
        if abs(images - published.images) > published.images // 100 or classes != published.classes:
            raise NoMatch(
                f"the stream {name} has {images:,} images of {classes} classes, not the "
                f"{published.images:,} of {published.classes} of {dataset}"
            )

    def check(self, expected: Expected) -> None:
        """All streams behind a value are there."""
        place = expected.place
        for dataset in dict.fromkeys((place.dataset, *place.datasets)):
            if dataset:
                self.named(dataset, place.predictor)

    def row(self, place: Place) -> dict[str, object]:
        """The cells that tell a row, with the names that the study gives its streams."""
        return {name: self._cell(place, cell) for name, cell in place.row.items()}

    def _cell(self, place: Place, cell: object) -> object:
        if cell == MEAN:
            return self.mean(place)
        if isinstance(cell, str) and cell.startswith(STREAM):
            return self.named(cell.removeprefix(STREAM), place.predictor)
        return cell

    def mean(self, place: Place) -> str:
        """The name of the average over exactly the data sets of a place."""
        streams = self.plan.group(*place.groups)
        for name, several in averages(self.plan, streams).items():
            if self._are(several, place.datasets):
                return name
        raise NoMatch(
            f"the study has no average over exactly {len(place.datasets)} streams: "
            f"{', '.join(place.datasets)}"
        )

    def cover(self, place: Place) -> None:
        """A value over all streams of some groups is over the paper's."""
        streams = self.plan.group(*place.groups)
        if not self._are(streams, place.datasets):
            raise NoMatch(
                f"the protocol differs: it is over {len(streams)} streams of the study, not over "
                f"the paper's {len(place.datasets)}"
            )

    def _are(self, streams: Iterable[str], datasets: tuple[str, ...]) -> bool:
        return sorted(self.plan.streams[name].dataset for name in streams) == sorted(datasets)


def _prompts_of(dataset: str) -> str:
    """The prompt sets of a data set, joined by +.

    The paper does not list its prompts. These give its one-view accuracies without memory.

    >>> _prompts_of("imagenet-a"), _prompts_of("dtd")
    ('tip-7+cupl', 'dtd+cupl')
    """
    return f"{common()['templates'].get(dataset, 'tip-7')}+cupl"


def _plain_prompts(text: str) -> frozenset[str]:
    """Prompt sets as they are compared: in any order, files by their name.

    >>> sorted(_plain_prompts("texts/CuPL.json + tip-7"))
    ['cupl', 'tip-7']
    """
    parts = (part.strip().replace("\\", "/").rpartition("/")[2] for part in text.split("+"))
    return frozenset(part.lower().removesuffix(".json") for part in parts if part)
