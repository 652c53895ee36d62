"""A folder of pictures in, answers and a page out: embed, choose, run, and show what was seen.

OUT/answers.csv   one row per picture     OUT/report.html   the page
OUT/features/     the feature store       OUT/run/          the run, for every other command
OUT/adapt.json    what was asked for: written first, and marked as finished last
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from marc.embed.estimate import Estimate
from marc.embed.opening import IN_ANSWERS
from marc.embed.plan import EmbeddingPlan
from marc.embed.store import FeatureStore
from marc.embed.verb import embed_pictures
from marc.encoders import Encoder, TextEncoder
from marc.errors import MarcError, one_of
from marc.files import (
    LOCK,
    PARTIAL,
    differences,
    json_digest,
    locked,
    read_json,
    user_path,
    write_json,
    write_whole,
)
from marc.pictures import FileBytes, ImageSet, Location, open_images, with_class_names
from marc.report.build import report
from marc.results.answers import answers_of
from marc.results.folder import Folder, Stored
from marc.results.remembered import Remembered
from marc.results.run import RunPlan, load_run
from marc.spaces.trust import LEAST_TRUST, is_own, trust
from marc.stream import Stream
from marc.types import OnProgress, Run, Step

_RECORD, _RUN = "adapt.json", "run"
_FEWEST = 2  # pictures that a page can compare
_NEAREST = 3  # remembered pictures that are named beside an answer


@dataclass(frozen=True)
class Adapted:
    """Answers to the pictures of a folder, and where they were written."""

    ORDERS = ("stored", "time")
    """As the pictures are listed, or by the time of their files."""

    folder: Path
    run: Run = field(repr=False)
    class_names: tuple[str, ...] = field(repr=False)
    unreadable: int
    """Pictures that could not be read; `features/quarantine.csv` says why."""
    trust: Mapping[str, float]
    """By space, how far the unlabelled pictures show that it can be trusted, 0 to 1."""
    notes: tuple[str, ...] = ()
    was_there: bool = False
    """Whether all of it had been done before."""

    @property
    def answers(self) -> Path:
        """The table: `file,base_answer,answer,base_confidence,confidence,changed,...`."""
        return self.folder / "answers.csv"

    @property
    def page(self) -> Path:
        """The page that shows what the memory saw."""
        return self.folder / "report.html"

    @property
    def n_changed(self) -> int:
        """How many answers the memory changed."""
        return int((self.run.predictions != self.run.base_predictions).sum())


def adapt(
    source: str | os.PathLike[str],
    classes: Sequence[str] | os.PathLike[str] = (),
    *,
    predictor: str | TextEncoder = "",
    encoders: str | Sequence[str | Encoder] = ("dinov2-b",),
    prompts: Sequence[str] = (),
    root: str | os.PathLike[str] = "",
    weights: Sequence[str] = (),
    offline: bool = False,
    device: str = "auto",
    order: str = "stored",
    output: str | os.PathLike[str] = "",
    force: bool = False,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
    on_estimate: Callable[[Estimate], None] | None = None,
) -> Adapted:
    """Answer every picture of a folder, with no labels: what `marc adapt` does.

    Killed at any moment, the same call goes on; when all is there, it only reads it. With
    `dry_run` it gives the estimate instead.

    Args:
        source: the folder, or any other source of pictures.
        classes: what may be on a picture: a list of names, or a file with one per line.
            Sub-folders that are called so are labels, for evaluation alone; without `classes` the
            sub-folders are the classes.
        predictor: the zero-shot classifier; `clip-b16-text` by default.
        encoders: whose spaces the memory is read in: names, or encoders.
        prompts: prompt sets by name or file; by default those that the predictor knows.
        root: the folder of a named data set.
        weights: weights on disk: a file, a folder with NAME.safetensors, or NAME=PATH.
        offline: never touch the network.
        device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
        order: `stored`, the pictures come as they are listed, or by the `time` of their files.
        output: the folder to write; `adapted/NAME` by default.
        force: replace answers of other settings; where nothing differs, do all of it again.
        dry_run: estimate what embedding would take, write nothing, and stop.
        on_progress: called with how far the work has come.
        on_estimate: called with what embedding will take, before it starts.
    """
    if predictor == "none":
        hint = f"--predictor {EmbeddingPlan.PREDICTOR}"
        raise MarcError("answers need a predictor", got="none", hint=hint)
    encoders = [encoders] if isinstance(encoders, str) else encoders
    images, notes = _listed(source, classes, order, user_path(root) if root else None)
    out = user_path(output) if output else _default_folder(images.name)
    asked = {
        **_pictures_asked(images, order),
        "predictor": _identity(predictor),
        "encoders": [_identity(each) for each in encoders],
        "prompts": [*prompts],
        "weights": [*weights],
        "files": _named_files([*prompts, *weights]),
    }
    if _is_finished(out, asked, force=force):
        return _read(out, was_there=True)
    embed = functools.partial(
        embed_pictures,
        images,
        encoders,
        predictor=predictor or EmbeddingPlan.PREDICTOR,
        prompts=prompts,
        weights=weights,
        offline=offline,
        device=device,
        output=out / IN_ANSWERS,
        force=force,
        on_progress=on_progress,
    )
    if dry_run:  # who asks for an estimate knows what comes
        return cast(Adapted, embed(dry_run=True).estimate)
    out.mkdir(parents=True, exist_ok=True)
    with locked(out, "another marc adapt is writing here"):
        write_json(out / _RECORD, {"asked": asked, "finished": False})
        embedding = embed(on_estimate=on_estimate)
        stream = replace(cast(Stream, embedding.outcome), source=f"store/{out / IN_ANSWERS}")
        if len(stream) < _FEWEST:
            problem = "a memory needs two pictures at least, one to answer and one from before"
            hint = "marc.Session answers one picture"
            raise MarcError(problem, got=f"{len(stream)} that could be read", hint=hint)
        trusted = _trusts(stream)
        run = _run(stream, out / _RUN, trusted, on_progress, force=force)
        _write_answers(out, run, stream, trusted)
        report(out / _RUN, output=out / "report.html", force=True)
        said = [*notes, *images.notes, *(embedding.done.notes if embedding.done else ())]
        done = {"asked": asked, "finished": True, "trust": trusted, "notes": said}
        write_json(out / _RECORD, done)
    return _read(out, was_there=False)


def _pictures_asked(images: ImageSet, order: str) -> dict[str, Any]:
    """What of the pictures decides the answers; what differs is named to a person."""
    return {
        "pictures": {
            "number": len(images),
            "names": images.digest[:12],
            "sizes and times": _files_digest(images)[:12],
        },
        "classes": list(images.class_names),
        "order": order,
    }


def _identity(encoder: str | Encoder) -> str:
    return encoder if isinstance(encoder, str) else f"{encoder.card.name} {encoder.card.digest}"


def _trusts(stream: Stream) -> dict[str, float]:
    """How far each space can be trusted, without labels; the predictor's own is left out."""
    features = stream.features
    others = [space for space in features.spaces if not is_own(features, space)]
    return {space: trust(features, [space]) for space in others}


def _run(
    stream: Stream,
    path: Path,
    trusted: Mapping[str, float],
    on_progress: OnProgress | None,
    *,
    force: bool,
) -> Run:
    """Class means in every space; where no space can be trusted, the predictor alone."""
    none = all(each <= LEAST_TRUST for each in trusted.values())
    plan = RunPlan(stream, [None], "zero-shot" if none else "class-means", {})
    folder = Folder.open(path, plan.config(), force=force)

    def watch(name: str, stream: Stream, done: int) -> Callable[[Step], None] | None:
        if on_progress is None:
            return None
        numbers = iter(range(done + 1, len(stream) + 1))
        return lambda step: on_progress("answering", next(numbers), len(stream))

    if not folder.done:
        plan.write(folder, watch)
    return load_run(path)[0]


def _write_answers(out: Path, run: Run, stream: Stream, trusted: Mapping[str, float]) -> None:
    """The table, with the remembered pictures that were nearest in the most trusted space."""
    more = {}
    if trusted:
        space, ids = max(trusted, key=trusted.__getitem__), stream.features.ids
        near, _ = Remembered.of(stream).nearest(space, count=_NEAREST)
        more["nearest"] = ["; ".join(ids[row] for row in rows if row >= 0) for rows in near]
    table = answers_of(run, stream, more)
    write_whole(out / "answers.csv", table.csv())
    if importlib.util.find_spec("pyarrow"):
        write_whole(out / "answers.parquet", table.parquet())


def _listed(
    source: str | os.PathLike[str],
    classes: Sequence[str] | os.PathLike[str],
    order: str,
    root: Path | None,
) -> tuple[ImageSet, list[str]]:
    """The pictures in their order with what may be on them, and what a person should know."""
    one_of("order", order, Adapted.ORDERS, "--order time")
    images, notes = open_images(os.fspath(source), root), list[str]()
    if classes:
        is_file = isinstance(classes, str | os.PathLike)
        given = user_path(cast(str, classes)) if is_file else cast(Sequence[str], classes)
        bare = replace(images, labels=None, class_names=())
        images, notes = _labelled_as(images, with_class_names(bare, given).class_names)
    if not images.class_names:
        raise MarcError(
            "it is not known what may be on these pictures",
            got=f"{images.name}: no sub-folders and no class names",
            hint='--classes "cat,dog,coffee cup", or --class-names FILE with one per line',
        )
    return (images if order == "stored" else _in_time_order(images)), notes


def _labelled_as(images: ImageSet, names: tuple[str, ...]) -> tuple[ImageSet, list[str]]:
    """Pictures with these class names: sub-folders are labels if they are called so."""
    label = {_folded(name): number for number, name in reversed([*enumerate(names)])}
    if images.labels is None:
        return replace(images, class_names=names), []
    if other := [name for name in images.class_names if _folded(name) not in label]:
        note = f"sub-folders are not taken for labels: {other[0]!r} is none of the classes"
        return replace(images, labels=None, class_names=names), [note]
    numbers = [label[_folded(name)] for name in images.class_names]
    return replace(images, labels=tuple(numbers[n] for n in images.labels), class_names=names), []


def _folded(name: str) -> str:
    """As folders and people write a class: case and underscores are no difference."""
    return name.replace("_", " ").casefold()


def _in_time_order(images: ImageSet) -> ImageSet:
    """The oldest file first; files of one time as they are listed."""
    times = [_stat(location)[1] for location in images.locations]
    order = sorted(range(len(images)), key=times.__getitem__)
    labels = images.labels
    return replace(
        images,
        ids=tuple(images.ids[row] for row in order),
        locations=tuple(images.locations[row] for row in order),
        labels=None if labels is None else tuple(labels[row] for row in order),
    )


def _files_digest(images: ImageSet) -> str:
    """Of the sizes and times of files: a picture that was replaced is noticed without reading."""
    return json_digest([_stat(location) for location in images.locations])


def _named_files(texts: Sequence[str]) -> dict[str, list[int]]:
    """Sizes and times of the prompt sets and weights that are files: one may be replaced too."""
    paths = {text: user_path(text.partition("=")[2] or text) for text in texts}
    return {text: [*_stat(FileBytes(str(path)))] for text, path in paths.items() if path.is_file()}


def _stat(location: Location) -> tuple[int, int]:
    """Bytes and time of a file; 0 for what is none of its own."""
    with suppress(OSError):
        if isinstance(location, FileBytes):
            found = Path(location.path).stat()
            return found.st_size, found.st_mtime_ns
    return 0, 0


def _default_folder(name: str) -> Path:
    """Under the last part of the name of a source.

    >>> _default_folder("folder/holiday/my photos").as_posix()
    'adapted/my-photos'
    """
    last = name.rstrip("/").rpartition("/")[2]
    return Path("adapted") / (re.sub(r"[^\w.-]+", "-", last).strip("-.") or "pictures")


def _is_finished(out: Path, asked: Mapping[str, Any], *, force: bool) -> bool:
    """Whether all of this was done already; refuses a folder of other settings, or of others."""
    if not out.exists() or (out.is_dir() and all(map(_is_begun, out.iterdir()))):
        return False
    if not out.is_dir() or not (out / _RECORD).is_file():
        problem = "this folder was not made by marc adapt, so it is left alone"
        raise MarcError(problem, got=out, hint="-o ANOTHER")
    record = read_json(out / _RECORD)
    other = differences(record.get("asked") or {}, asked)
    if other and not force:
        raise MarcError(
            "this folder holds answers to another question",
            got=f"{out}: {'; '.join(other)[:400]}",
            hint="another -o FOLDER, or --force: features that are still right are kept",
        )
    whole = all((out / name).exists() for name in ("answers.csv", "report.html", _RUN))
    return bool(record.get("finished")) and whole and not force


def _is_begun(path: Path) -> bool:
    """Whether it is there before anything is: a request that was refused answers no question."""
    return path.name in (LOCK, _RECORD) or (
        path.name.startswith(f"{_RECORD}.") and path.name.endswith(PARTIAL)
    )


def _read(out: Path, *, was_there: bool) -> Adapted:
    """What a finished folder holds."""
    record, stored = read_json(out / _RECORD), Stored.read(out / _RUN, "run")
    listed = FeatureStore(out / IN_ANSWERS).n_images
    return Adapted(
        folder=out,
        run=load_run(out / _RUN)[0],
        class_names=tuple(stored.arrays["class_names"].tolist()),
        unreadable=listed - stored.config["n_images"],
        trust=record["trust"],
        notes=tuple(record["notes"]),
        was_there=was_there,
    )
