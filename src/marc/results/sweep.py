"""Sweeps on disk: one folder for every space, capacity, weight and order of a stream."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marc.embed.cluster import spread
from marc.errors import MarcError, instance
from marc.files import Arrays
from marc.peers.registry import create_method
from marc.replay.lifetimes import check_capacities
from marc.replay.sweep import Sweep
from marc.replay.sweep_job import SweepJob
from marc.replay.weights import check_weights
from marc.results.folder import Folder, Stored
from marc.results.sweep_worker import SweepWorker
from marc.scores import Float
from marc.stats import envelope_bootstrap
from marc.stream import Stream
from marc.types import CAPACITIES, WEIGHTS, OnProgress, Trajectory

_Part = tuple[int, int]
"""The number of a space, and of a piece of it."""

_TRAJECTORIES = "trajectories"  # what the part of a folder is called that all spaces share
_REPLICATES = 2000  # draws of the images for the interval of an oracle gain


def save_sweep(sweep: Sweep, path: str | Path, stream: Stream, *, force: bool = False) -> Path:
    """Write the folder that `marc sweep` writes.

    Args:
        sweep: what `marc.sweep` gave.
        path: the folder; one that holds this sweep already is left as it is.
        stream: what was swept.
        force: replace another sweep that is there.
    """
    instance("sweep", sweep, Sweep)
    instance("stream", stream, Stream)
    if stream.ordering.name != sweep.ordering:
        stream = stream.ordered(sweep.ordering).in_order(None)
    same = np.array_equal(sweep.base_correct, stream.features.base.label == stream.row_labels)
    if sweep.images != stream.features.images or not same:
        raise MarcError("this sweep is of another stream", got=f"{sweep.stream}, {stream.name}")
    _refuse_unrecorded(sweep.seeds, stream)
    folder = Folder.open(Path(path), _config(sweep, sweep.spaces, stream), force=force)
    if not folder.done:
        with folder.begin() as wanted:
            if wanted:
                for number, ends in enumerate(sweep.intervals.values()):
                    folder.keep_part(_name((number, 0)), _as_piece(*ends))
                _finish(folder, sweep, stream)
    return folder.path


def load_sweep(folder: str | Path | Stored) -> Sweep:
    """The sweep of a finished folder."""
    instance("a sweep folder", folder, str, Path, Stored)
    stored = folder if isinstance(folder, Stored) else Stored.read(Path(folder), "sweep")
    config, arrays = stored.config, stored.arrays
    create_method("marc", **{**config["settings"], "space": "predictor"})  # or they are none
    return Sweep(
        capacities=check_capacities(config["capacities"]),
        weights=check_weights(config["weights"]),
        seeds=tuple(config["seeds"]),
        intervals={
            name: (arrays[f"lower/{name}"], arrays[f"upper/{name}"]) for name in config["spaces"]
        },
        base_correct=arrays["base_correct"],
        stream=config["stream"],
        images=frozenset(config["images"]),
        settings=config["settings"],
        ordering=config.get("ordering", "shuffled"),
        device=config.get("device", "cpu"),
    )


def _config(sweep: Sweep | SweepJob, spaces: Sequence[str], stream: Stream) -> dict[str, Any]:
    return {
        **Folder.describe("sweep", stream.source or stream.name, stream),
        "images": sorted(stream.features.images),
        "spaces": list(spaces),
        "capacities": list(sweep.capacities),
        "weights": list(sweep.weights),
        "seeds": list(sweep.seeds),
        "settings": dict(sweep.settings),
        "transductive": [space for space in spaces if "+" in space],
        **({"device": sweep.device} if sweep.device != "cpu" else {}),
    }


@dataclass(frozen=True)
class SweepPlan:
    """One stream in some spaces, over the grid and the orders of a job."""

    job: SweepJob
    spaces: Sequence[str]
    ray: int | None = None
    """How many Ray workers compute it; None: this process."""

    def __post_init__(self) -> None:
        if not self.spaces or len(set(self.spaces)) < len(self.spaces):
            allowed = self.job.stream.spaces
            raise MarcError("a sweep needs distinct spaces", got=self.spaces, allowed=allowed)
        if self.ray is not None and self.job.gpu is not None:
            raise MarcError(
                "Ray workers compute on processors, as bytes differ from card to card",
                got=f"--ray --device {self.job.gpu}",
                hint="--device cpu, or no --ray",
            )

    def config(self) -> dict[str, Any]:
        """Everything that decides the result, as data."""
        return _config(self.job, self.spaces, self.job.stream)

    def made(
        self, output: str | os.PathLike[str], on_progress: OnProgress, *, force: bool
    ) -> Sweep:
        """The sweep, from its folder or, where none is named, from memory alone."""
        if not output:
            return self.result(lambda name: None, lambda name, arrays: None, on_progress)
        _refuse_unrecorded(self.job.seeds, self.job.stream)
        folder = Folder.open(Path(output), self.config(), force=force)
        if not folder.done:
            self.write(folder, on_progress)
        return load_sweep(folder.path)

    def write(self, folder: Folder, on_progress: OnProgress) -> None:
        """Compute the pieces that are not done yet, then write the result."""
        with folder.begin() as wanted:
            if wanted:
                sweep = self.result(folder.part, folder.keep_part, on_progress)
                on_progress("interval of each oracle gain", 0, 1)
                _finish(folder, sweep, self.job.stream)

    def result(
        self,
        find: Callable[[str], Arrays | None],
        keep: Callable[[str, Arrays], None],
        on_progress: OnProgress,
    ) -> Sweep:
        """The sweep of pieces that are found, and of others that are computed and kept."""
        job, spaces = self.job, self.spaces
        on_progress("trajectories", 0, len(spaces))
        self._take_up_trajectories(find, keep)
        intervals = {space: job.room() for space in spaces}
        counts = [job.n_pieces(space) for space in spaces]
        parts = [(number, piece) for number, n in enumerate(counts) for piece in range(n)]
        missing = []
        for part in parts:
            if (kept := find(_name(part))) is None:
                missing.append(part)
            else:
                job.put(intervals[spaces[part[0]]], kept)
        n_done = len(parts) - len(missing)
        if missing:
            on_progress(spaces[missing[0][0]], n_done, len(parts))
        with closing(self._computed(missing)) as computed:
            for following, (part, arrays) in zip([*missing, None][1:], computed, strict=True):
                keep(_name(part), arrays)
                job.put(intervals[spaces[part[0]]], arrays)
                n_done += 1
                on_progress(spaces[(following or part)[0]], n_done, len(parts))
        return job.result(intervals)

    def _take_up_trajectories(
        self, find: Callable[[str], Arrays | None], keep: Callable[[str, Arrays], None]
    ) -> None:
        """Those that are found, or that are computed; they are kept where they take long."""
        names, job = ("order", "label", "priority"), self.job
        if (kept := find(_TRAJECTORIES)) is not None:
            columns = zip(*(kept[name] for name in names), strict=True)
            vars(job)["trajectories"] = [Trajectory(*each) for each in columns]
        elif any(job.n_pieces(space) > 1 for space in self.spaces):
            shared = {n: np.stack([getattr(each, n) for each in job.trajectories]) for n in names}
            keep(_TRAJECTORIES, shared)

    def _computed(self, parts: Sequence[_Part]) -> Generator[tuple[_Part, Arrays]]:
        if self.ray is not None and parts:
            yield from spread(SweepWorker.of(self.job, self.spaces), parts, self.ray)
            return
        for part in parts:
            yield part, self.job.piece(self.spaces[part[0]], part[1])

    def default_folder(self) -> str:
        """The stream's name, with a digest of the settings where they are not the usual ones."""
        stream, config = self.job.stream, self.config()
        usual = {
            "spaces": list(stream.spaces),
            "capacities": list(CAPACITIES),
            "weights": list(WEIGHTS),
            "seeds": [0, 1, 2],
            "settings": SweepJob.plan(stream).settings,
        }
        chosen = {name: config[name] for name in usual}
        digest = hashlib.sha256(repr(chosen).encode()).hexdigest()[:8]
        parts = [stream.name, f"m{stream.n_views}"]
        parts += [stream.ordering.file_name] if "ordering" in config else []
        parts += [config["device"]] if "device" in config else []
        return f"sweeps/{'-'.join(parts)}" + ("" if chosen == usual else f"-{digest}")

    @staticmethod
    def envelope(sweep: Sweep) -> dict[str, Any]:
        """The oracle gain of each space over the grid, with its interval over images.

        The capacity is the one that is best on all images; the weight is chosen again in each draw.
        """
        spaces = {}
        for space in sweep.spaces:
            best = sweep.oracle(space)
            index = sweep.capacities.index(best.capacity)
            lower, upper = (ends[:, index] for ends in sweep.intervals[space])
            gain, low, high = envelope_bootstrap(
                lower, upper, sweep.base_correct, weights=sweep.weights, n_replicates=_REPLICATES
            )
            spaces[space] = {"capacity": best.capacity, "gain": gain, "gain_interval": [low, high]}
        return {"selection": "oracle", "n_replicates": _REPLICATES, "seed": 0, "spaces": spaces}


def _name(part: _Part) -> str:
    """What a piece of a space is called in a folder."""
    return "space-{}-{}".format(*part)


def _as_piece(lower: Float, upper: Float) -> Arrays:
    """A whole space as `SweepJob.piece` gives it, from ends (orders, capacities, N)."""
    ends = {"lower": np.concatenate(lower, axis=-1), "upper": np.concatenate(upper, axis=-1)}
    return {"cells": np.arange(ends["lower"].shape[-1]), **ends}


def _refuse_unrecorded(seeds: Sequence[int | None], stream: Stream) -> None:
    if None in seeds and np.any(np.diff(stream.order) != 1):
        raise MarcError(
            "a folder records an order by its seed, or the stored one",
            got="an order of another kind",
            hint="marc.sweep(stream, seeds=(0, 1, 2))",
        )


def _finish(folder: Folder, sweep: Sweep, stream: Stream) -> None:
    arrays = {
        "ids": np.array(stream.features.ids),
        "base_correct": sweep.base_correct,
        **{f"lower/{name}": ends[0] for name, ends in sweep.intervals.items()},
        **{f"upper/{name}": ends[1] for name, ends in sweep.intervals.items()},
    }
    metrics = {
        "selection": "fixed",
        "axes": ["space", "capacity", "weight", "seed"],
        "accuracy": sweep.accuracy.tolist(),
        "base_accuracy": sweep.base_accuracy.tolist(),
        "envelope": SweepPlan.envelope(sweep),
    }
    folder.finish(metrics, arrays)
