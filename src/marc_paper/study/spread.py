"""`marc study --ray`: workers compute the shared work before experiments ask for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import final

from marc.embed.cluster import spread
from marc.errors import MarcError
from marc.files import Arrays
from marc.types import OnProgress
from marc_paper.study.folder import StudyFolder
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_Named = tuple[str, Piece]


@final
@dataclass(frozen=True)
class _Worker:
    """What begins a worker; it opens the streams of the plan when a piece asks for them."""

    plan: Plan

    def __call__(self) -> Callable[[_Named], Arrays | None]:
        """What computes a piece here; None where it cannot be: its experiment then says why."""
        work = Work(self.plan, None, {})

        def compute(named: _Named) -> Arrays | None:
            name, piece = named
            if work.file(piece) != name:
                raise MarcError(
                    "a worker finds other features under the name of this stream",
                    got=f"streams.{piece.stream}: {self.plan.streams[piece.stream].source}",
                    hint="the same files under the same paths on every machine",
                )
            try:
                return work.compute(piece)
            except MarcError:
                return None

        return compute


def fill_shelf(
    work: Work,
    folder: StudyFolder,
    experiments: Sequence[Experiment],
    n_workers: int,
    on_progress: OnProgress,
) -> None:
    """Keep every piece that some experiments will ask for and that is not there yet."""
    plan = work.plan
    streams = list(plan.streams)
    pieces = {piece for each in experiments for piece in each.pieces(plan)}
    # those of one stream together, so that a worker seldom opens another
    in_turn = sorted(pieces, key=lambda p: (streams.index(p.stream), p.views, repr(p)))
    wanted = {work.file(piece): piece for piece in in_turn}
    missing = [(name, piece) for name, piece in wanted.items() if folder.get(name) is None]
    if not missing:
        return
    on_progress("shared work", 0, len(missing))
    with closing(spread(_Worker(plan), missing, n_workers)) as computed:
        for done, ((name, _), arrays) in enumerate(computed, start=1):
            if arrays is not None:
                folder.put(name, arrays)
            on_progress("shared work", done, len(missing))
