"""Pieces of shared work, by what decides them: known before they are computed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, final

from marc_paper.study.plan import Plan

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


def sweep_pieces(
    streams: Iterable[str], spaces: Iterable[str], views: int = 1, **settings: Any
) -> list[Piece]:
    """The pieces of `Work.sweep` over some streams."""
    names = tuple(spaces)
    return [
        Piece("sweep", stream, space, views, ordered(settings))
        for stream in streams
        for space in names
    ]


def geometry_pieces(streams: Iterable[str], spaces: Iterable[str]) -> list[Piece]:
    """The pieces of `Work.geometry` over some streams."""
    names = tuple(spaces)
    return [Piece("geometry", stream, space) for stream in streams for space in names]


def batch_pieces(streams: Iterable[str], spaces: Iterable[str]) -> list[Piece]:
    """The pieces of `Work.batches` over some streams."""
    names = tuple(spaces)
    return [Piece("batches", stream, space) for stream in streams for space in names]


def run_pieces(
    plan: Plan, streams: Iterable[str], method: str, views: int = 1, **settings: Any
) -> list[Piece]:
    """The pieces of `Work.run` over some streams, one for each order of the plan."""
    return [
        Piece("run", stream, "", views, ordered({"method": method, "seed": seed, **settings}))
        for stream in streams
        for seed in plan.seeds.orders
    ]


def ordered(settings: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Settings by name, so that equal ones are one piece."""
    return tuple(sorted(settings.items()))
