"""A worker of `marc sweep --ray`: it opens the stream by itself, and computes pieces of spaces.

The trajectories come from the process that asks: computed once, they are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, final

import numpy as np

from marc.errors import MarcError
from marc.files import Arrays
from marc.replay.lifetimes import History
from marc.replay.sweep_job import SweepJob
from marc.results.folder import Folder
from marc.sources import load_stream, resolve_source
from marc.stream import Stream

_Part = tuple[int, int]
"""The number of a space, and of a piece of it."""


@final
@dataclass(frozen=True)
class SweepWorker:
    """What begins a worker; sent to each."""

    stream: Stream | None
    """None where `source` says how to open it: features then need not travel."""
    source: tuple[str, int, str]
    """The stream's own source, its views and the kind of its orders."""
    fingerprint: Mapping[str, Any]
    grid: tuple[Any, ...]
    """What `SweepJob` takes after the stream."""
    histories: Sequence[History]
    spaces: Sequence[str]

    @classmethod
    def of(cls, job: SweepJob, spaces: Sequence[str]) -> SweepWorker:
        """Of a job and the spaces that its pieces count by."""
        stream = job.stream
        return cls(
            stream=None if stream.source else stream,
            source=(stream.source or "", stream.n_views, stream.ordering.name),
            fingerprint=_features(stream) if stream.source else {},
            grid=(job.method, job.capacities, job.weights, job.seeds),
            histories=job.histories,
            spaces=spaces,
        )

    def __call__(self) -> Callable[[_Part], Arrays]:
        """What computes a piece in this process."""
        job = SweepJob(self.stream or self._open(), *self.grid)
        # copies: what comes from another process is read-only, and compiled code would differ
        vars(job)["histories"] = [
            History(*(np.array(getattr(each, field.name)) for field in fields(History)))
            for each in self.histories
        ]
        return lambda part: job.piece(self.spaces[part[0]], part[1])

    def _open(self) -> Stream:
        source, n_views, kind = self.source
        stream = load_stream(resolve_source(source), n_views=n_views)
        if kind != "shuffled":
            stream = stream.ordered(kind).in_order(None)
        if names := Folder.differing(self.fingerprint, _features(stream)):
            raise MarcError(
                "a worker finds other features under the name of this stream",
                got=f"{source}: it differs in {', '.join(names)}",
                hint="the same files under the same paths on every machine",
            )
        return stream


def _features(stream: Stream) -> dict[str, Any]:
    """Digests of what pieces are computed of; no piece depends on the order of the stream."""
    return {name: digest for name, digest in stream.fingerprint.items() if name != "order"}
