"""What a report is made from: a finished run, a finished sweep, and the stream they are of.

The page records them as they are, and is known by a digest of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from marc.errors import MarcError
from marc.files import flatten, read_json, versions
from marc.method import MARC
from marc.peers.registry import create_method
from marc.replay.sweep import Sweep
from marc.report.text import count
from marc.results.folder import Folder, Stored
from marc.sources import draws_views, load_stream
from marc.stream import Stream
from marc.types import Trajectory

_KINDS = ("run", "sweep")


@dataclass(frozen=True)
class Inputs:
    """A run, a sweep or both, of one stream that was opened again and found unchanged."""

    stream: Stream
    source: str
    run: Stored | None
    sweep_folder: Stored | None

    @classmethod
    def read(cls, folders: Sequence[Path]) -> Inputs:
        """Open a run and/or a sweep of the same stream, and that stream; refuse anything else."""
        stored = [_read_folder(Path(folder)) for folder in folders]
        kinds = [folder.config["kind"] for folder in stored]
        if not stored or len(set(kinds)) < len(kinds):
            raise MarcError(
                "a report is made from one run, one sweep, or one of each",
                got=", ".join(f"{f.path} ({kind})" for f, kind in zip(stored, kinds, strict=True))
                or "nothing",
                hint="marc report RUN [SWEEP] -o report.html",
            )
        by_kind = dict(zip(kinds, stored, strict=True))
        run, sweep = (by_kind.get(kind) for kind in _KINDS)
        if run is not None and sweep is not None:
            _check_pair(run, sweep)
        first = stored[0].config
        return cls(_open_again(stored[0]), first["source"], run, sweep)

    @property
    def at_one_weight(self) -> bool:
        """Whether this is a kernel memory at a fixed weight: other weights can then be shown."""
        return self.run is None or _at_one_weight(self.run)

    @property
    def folders(self) -> list[Stored]:
        """What was given, the run first."""
        return [folder for folder in (self.run, self.sweep_folder) if folder is not None]

    def run_method(self) -> MARC | None:
        """The method of the run, with the seed of its first order."""
        if self.run is None:
            return None
        settings = {k: v for k, v in self.run.config["method"].items() if k != "method"}
        method = create_method("marc", **settings, seed=self.run.config["seeds"][0] or 0)
        return cast(MARC, method)

    def run_trajectory(self) -> Trajectory | None:
        """What the memory of the run was offered in its first order."""
        if self.run is None:
            return None
        names = ("order", "pseudo_label", "priority")
        order, label, priority = (self.run.arrays[name][0] for name in names)
        return Trajectory(order, label[order], priority[order])

    def record(self) -> dict[str, Any]:
        """Everything that decided the numbers, flat, so that it can be read and searched."""
        stream, kind = self.stream, self.stream.ordering
        plain = "default_rng(seed).permutation(T)"
        drawn = plain if kind.kind == "shuffled" else f"{kind.name}, drawn by its seed"
        text = (
            f"The stream {stream.name} ({self.source}) has {count(len(stream), 'image')}, "
            f"{count(stream.n_classes, 'class', 'classes')} and "
            f"{count(stream.n_views, 'view')} an image. Its digests were compared with the "
            f"recorded ones before this page was made. An order is {drawn}, or for None the "
            "stored one."
        )
        folders = {}
        for folder in self.folders:
            settings = flatten(folder.config).items()
            folders[f"The {folder.config['kind']} in {folder.path}"] = {
                name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
                for name, value in settings
            }
        return {"text": text, "folders": {**folders, "Versions that made this page": versions()}}

    def digest(self, options: dict[str, Any], held_out: Sequence[Sweep]) -> str:
        """What a page is known by: the folders' contents, the options, and what made it."""
        parts = {
            "folders": [[folder.config, folder.metrics] for folder in self.folders],
            "options": {**options, "held_out": [_digest_of_sweep(sweep) for sweep in held_out]},
            "versions": versions(),
        }
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest_of_sweep(sweep: Sweep) -> str:
    """What a sweep is known by: its grid, its images and its intervals."""
    grid = [sweep.capacities, sweep.weights, sweep.seeds, sorted(sweep.images), sweep.settings]
    digest = hashlib.sha256(json.dumps(grid, sort_keys=True, default=str).encode())
    for space, ends in sweep.intervals.items():
        digest.update(space.encode())
        for end in ends:
            digest.update(np.ascontiguousarray(end).tobytes())
    return digest.hexdigest()[:16]


def _read_folder(path: Path) -> Stored:
    kind = read_json(path / Folder.CONFIG).get("kind") if (path / Folder.CONFIG).is_file() else None
    if kind not in _KINDS:
        raise MarcError(
            "there is no finished run or sweep here",
            got=f"{path}: {kind}" if kind else path,
            allowed="a folder that marc run or marc sweep wrote",
            hint=f"ls {path.parent}",
        )
    return Stored.read(path, kind)


def _at_one_weight(run: Stored) -> bool:
    method = run.config["method"]
    fixed = method.get("capacity") and method.get("weight", "auto") != "auto"
    return bool(method["method"] == "marc" and fixed)


def _check_pair(run: Stored, sweep: Stored) -> None:
    """A run and a sweep on one page must be of the same stream and the same memory."""
    if not _at_one_weight(run):
        raise MarcError(
            "a sweep is shown beside a run of marc at one of its weights and capacities",
            got=f"{run.path}: {', '.join(f'{k} {v}' for k, v in run.config['method'].items())}",
            hint="the run alone, or the sweep alone",
        )
    for name in ("ordering", "n_views", "fingerprint"):
        if run.config.get(name) != sweep.config.get(name):
            raise MarcError(
                "the run and the sweep are not of the same stream",
                got=f"{run.path} ({run.config['stream']}) and {sweep.path} "
                f"({sweep.config['stream']}) differ in {name}",
                hint="a sweep of the run's source, or the run alone",
            )
    method, settings = run.config["method"], sweep.config["settings"]
    other = [name for name, value in settings.items() if method.get(name) != value]
    if other:
        raise MarcError(
            "the run and the sweep are not of the same memory",
            got=", ".join(f"{name}: {method.get(name)} / {settings[name]}" for name in other),
            hint="a sweep with the run's settings, or the run alone",
        )
    needed = {
        "spaces": [method["space"]],
        "capacities": [method["capacity"]],
        "seeds": run.config["seeds"],
    }
    for name, values in needed.items():
        if not set(values) <= set(sweep.config[name]):
            raise MarcError(
                f"the sweep does not hold the run's {name}",
                got=", ".join(map(str, values)),
                allowed=", ".join(map(str, sweep.config[name])),
                hint="the run alone: what is missing is then computed",
            )


def _open_again(stored: Stored) -> Stream:
    """The stream of a result, if it is still the one the result was computed from."""
    config = stored.config
    # views that are no longer stored make another stream, and are reported as such below
    drawn = config["n_views"] if draws_views(config["source"]) else None
    try:
        stream = load_stream(config["source"], n_views=drawn)
    except MarcError as error:
        raise MarcError(
            "the source of this result cannot be opened again",
            got=f"{stored.path}: {config['source']} ({str(error).splitlines()[0]})",
            hint=f"the same command in the folder where marc {config['kind']} was called",
        ) from error
    if len(stream) < 2:
        raise MarcError("a report needs a stream with neighbours", got=f"{len(stream)} image")
    stream = stream.ordered(config.get("ordering", "shuffled")).in_order(None)
    if config["n_views"] <= stream.n_views:
        stream = stream.with_views(config["n_views"])
    now, then = stream.fingerprint, config["fingerprint"]
    changed = [name for name, value in then.items() if now.get(name) != value]
    if changed:
        raise MarcError(
            "the source has changed since this result was computed",
            got=f"{config['source']}: other {', '.join(changed)}",
            hint=f"marc {config['kind']} {config['source']} again, into another folder",
        )
    if "ids" in stored.arrays and not np.array_equal(stored.arrays["ids"], stream.features.ids):
        raise MarcError("the folder's arrays are of other images", got=stored.path)
    return stream
