"""The answers of a run, with their pictures, for the tools that people already use."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marc.errors import MarcError, instance, integer, one_of
from marc.files import (
    LOCK,
    PARTIAL,
    json_digest,
    locked,
    sync_folder,
    user_path,
    versions,
    write_whole,
)
from marc.report.exchange import FORMATS, MARK, Content
from marc.report.inputs import Inputs
from marc.report.thumbnails import Pictures, pictures_of
from marc.results.folder import called
from marc.results.run import load_run, named_spaces
from marc.spaces.trust import ALL, trust
from marc.stream import Stream, digest
from marc.types import Run

_MARK = f".{MARK.decode()}"  # in a folder: what was exported


@dataclass(frozen=True)
class Exported:
    """What was written, and how it is opened."""

    PIXELS = 256
    """The longer side of a picture, unless one asks for another."""

    path: Path
    to: str
    order: int | None
    """The seed of the order whose answers these are; None is the stored one."""
    others: tuple[int | None, ...]
    """Further orders that the run has."""
    n_images: int
    n_pictures: int | None
    """Pictures that went into it; None where it was there already."""
    commands: tuple[str, ...]
    """What one types to open it."""
    was_there: bool = False


def export(
    run: str | Path | Run,
    to: str,
    output: str | os.PathLike[str] = "",
    *,
    order: int | None = None,
    spaces: Sequence[str] = (),
    pixels: int = Exported.PIXELS,
    stream: Stream | None = None,
    pictures: Pictures | None = None,
    force: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> Exported:
    """Write a run for another tool: what `marc export` does.

    Args:
        run: a run folder, or a run and its `stream`.
        to: `atlas`, Embedding Atlas; `fiftyone`, FiftyOne; `hf`, a data set of Hugging Face; or the
            answers alone, as `parquet` or `csv`.
        output: the file or folder to write; in `exports/` by default.
        order: the seed of the order whose answers are written; by default the first.
        spaces: what is drawn for Embedding Atlas, and where the nearest earlier pictures are looked
            for, the first; by default those that the run reads.
        pixels: the longer side of a picture; 0, as large as it is.
        stream: what a run was over; that of a folder is opened again.
        pictures: the picture of a stored row; by default found by the type of the source.
        force: replace what lies there.
        progress: called with what is being done.
    """
    one_of("format", to, FORMATS, "--to atlas")
    integer("pixels", pixels, 0)
    progress("opening the stream again")
    chosen, others, stream, name = _opened(run, order, stream)
    drawn = _spaces_of(chosen, stream, spaces) if to == "atlas" else ()
    find = pictures or pictures_of(stream, stream.source or "", pixels or None)
    made_from = [chosen.method, chosen.seed, chosen.ordering, digest(chosen.predictions)]
    identity = json_digest(*made_from, stream.fingerprint, to, drawn, pixels, versions())
    content = Content(
        f"{stream.name}, {chosen.method['method']}",
        chosen,
        stream,
        drawn,
        lambda row: _sized(find(row), pixels),
        identity,
    )
    kind = FORMATS[to]
    ending = kind.suffix if kind.suffix == f".{to}" else f"-{to}{kind.suffix}"
    path = user_path(output) if output else Path("exports") / f"{name}{ending}"
    is_there = _is_there(path, content, to, force=force)
    n_pictures = None
    if not is_there:
        progress(f"writing {path.name}")
        if kind.suffix:
            n_pictures = kind.write(content, path)
        else:
            with _whole_folder(path, identity) as work:
                n_pictures = kind.write(content, work)
    about = path, to, chosen.seed, others, len(stream), n_pictures
    return Exported(*about, tuple(kind.opened(content, path)), is_there)


def _opened(
    run: str | Path | Run, order: int | None, stream: Stream | None
) -> tuple[Run, tuple[int | None, ...], Stream, str]:
    """One order of a run, the other orders, the stream in that order, and a name for a file."""
    instance("run", run, str, Path, Run)
    if isinstance(run, Run):
        if not isinstance(stream, Stream):
            raise MarcError("a run is exported with its stream", got="no stream", hint="stream=...")
        runs, name = [run], str(run.method["method"])
    else:
        runs = load_run(run)
        stream = Inputs.read([Path(run)]).stream
        name = called(Path(run))
    seeds = [each.seed for each in runs]
    if order is not None and order not in seeds:
        known = ", ".join(map(str, seeds))
        raise MarcError("the run does not have this order", got=order, allowed=known)
    chosen = runs[0 if order is None else seeds.index(order)]
    others = tuple(seed for seed in seeds if seed != chosen.seed)
    if len(chosen.order) != len(stream.features.ids):
        raise MarcError("this run is of another stream", got=f"{len(chosen.order)} answers")
    return chosen, others, stream.reordered(chosen.order), name


def _spaces_of(run: Run, stream: Stream, asked: Sequence[str]) -> tuple[str, ...]:
    """Spaces to draw; unless one is asked for, the one that is trusted most comes first."""
    for space in asked:
        stream.features.dim(space)  # refuse a name that there is not
    if asked:
        return tuple(dict.fromkeys(asked))
    named = named_spaces(run.method)
    spaces = list(stream.spaces) if not named or ALL in named else named
    if len(spaces) > 1:
        spaces.sort(key=lambda space: trust(stream.features, [space]), reverse=True)
    return tuple(spaces)


def _sized(picture: Any, pixels: int) -> Any:
    """A picture of PIL from an array, at most so large; None of None."""
    from PIL import Image

    if picture is None:
        return None
    image = Image.fromarray(np.asarray(picture, dtype=np.uint8)).convert("RGB")
    if pixels:
        image.thumbnail((pixels, pixels))
    return image


def _is_there(path: Path, content: Content, to: str, *, force: bool) -> bool:
    """Whether this very export is there already; refuses to replace anything else unasked."""
    is_folder = not FORMATS[to].suffix
    if not path.exists() or (is_folder and path.is_dir() and not any(path.iterdir())):
        return False
    marked = _digest_of(path)
    if path.is_dir() != is_folder or (is_folder and marked is None):
        kind = "a folder of its own" if is_folder else "a file"
        problem = f"an export to {to} is {kind}, and this is something else, so it is left alone"
        raise MarcError(problem, got=path, hint="-o ANOTHER")
    same = path.read_bytes() == content.table.csv() if to == "csv" else marked == content.digest
    if not same and not force:
        hint = "another -o, or --force to replace it"
        raise MarcError("something else lies there", got=path, hint=hint)
    return same and not force


def _digest_of(path: Path) -> str | None:
    """Of what an export was made; None where nothing says so."""
    if path.is_dir():
        mark = path / _MARK
        return mark.read_text(encoding="utf-8").strip() if mark.is_file() else None
    with suppress(Exception):  # no parquet file, or no library that reads it
        from pyarrow.parquet import read_schema

        return (read_schema(path).metadata or {})[MARK].decode()
    return None


@contextmanager
def _whole_folder(path: Path, identity: str) -> Iterator[Path]:
    """A folder to fill, which takes its name, and the place of another export, when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    work, old, lock = (path.with_name(f".{path.name}{end}") for end in (PARTIAL, ".old", LOCK))
    with locked(path, "another marc export is writing here", beside=lock):
        try:
            for each in (work, old):  # of a writer that was killed
                shutil.rmtree(each, ignore_errors=True)
            work.mkdir()
            yield work
            write_whole(work / _MARK, f"{identity}\n".encode())
            if path.exists():
                path.rename(old)
            work.rename(path)
            sync_folder(path.parent)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(work, ignore_errors=True)
