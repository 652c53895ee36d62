"""How a page was made: settings, seeds, versions and digests, as they are recorded."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from marc.replay.sweep import Sweep
from marc.report.inputs import Inputs
from marc.report.tables import count
from marc.results.files import flatten, versions
from marc.results.folder import Stored


@dataclass(frozen=True)
class _Made:
    """A sentence, and the settings of each folder by name."""

    text: str
    folders: tuple[_FolderNotes, ...]


@dataclass(frozen=True)
class _FolderNotes:
    """The record of one folder."""

    title: str
    settings: tuple[tuple[str, str], ...]


def how_made(inputs: Inputs) -> _Made:
    """Everything that decided the numbers, flat, so that it can be read and searched."""
    stream = inputs.stream
    text = (
        f"The stream {stream.name} ({inputs.source}) has {count(len(stream), 'image')}, "
        f"{count(stream.n_classes, 'class', 'classes')} and "
        f"{count(stream.n_views, 'view')} an image. Its digests were compared with the recorded "
        "ones before this page was made. An order is default_rng(seed).permutation(T), or for None "
        "the stored one."
    )
    notes = [_notes(folder) for folder in inputs.folders]
    now = _FolderNotes("Versions that made this page", tuple(versions().items()))
    return _Made(text, (*notes, now))


def _notes(folder: Stored) -> _FolderNotes:
    title = f"The {folder.config['kind']} in {folder.path}"
    settings = [(name, _text(value)) for name, value in flatten(folder.config).items()]
    return _FolderNotes(title, tuple(settings))


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def digest_of_sweep(sweep: Sweep) -> str:
    """What a sweep is known by: its grid, its images and its intervals."""
    grid = [sweep.capacities, sweep.weights, sweep.seeds, sorted(sweep.images), sweep.settings]
    digest = hashlib.sha256(json.dumps(grid, sort_keys=True, default=str).encode())
    for space, ends in sweep.intervals.items():
        digest.update(space.encode())
        for end in ends:
            digest.update(np.ascontiguousarray(end).tobytes())
    return digest.hexdigest()[:16]


def digest_of(inputs: Inputs, options: dict[str, Any]) -> str:
    """What a page is known by: the folders' contents, the options, and what made it."""
    parts = {
        "folders": [[folder.config, folder.metrics] for folder in inputs.folders],
        "options": options,
        "versions": versions(),
    }
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
