"""What `marc check` finds in pictures and in features."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, Literal

import numpy as np

from marc.cli import console
from marc.cli._label_order import check_label_order
from marc.cli._options import open_stream
from marc.embed.store import FeatureStore
from marc.errors import MarcError
from marc.files import user_path
from marc.pictures import NAMED_SETS, ImageSet, open_images
from marc.pictures.decoding import Unreadable, read_picture
from marc.pictures.image_set import Location
from marc.sources import is_pictures
from marc.stream import Stream
from marc.types import OnProgress

Level = Literal["ok", "note", "wrong"]
_Labels = Sequence[int] | np.ndarray | None
_SHOWN = 3  # examples in a line


@dataclass(frozen=True)
class Finding:
    """One line of a check."""

    section: str
    level: Level
    text: str
    fix: str = ""
    """What to do about it."""
    data: dict[str, Any] = field(default_factory=dict)
    """The whole of it, for JSON."""


_of_data = partial(Finding, "data")


def open_data(source: str, root: Path | None) -> ImageSet | Stream:
    """The pictures of a source, or its features as seen through one view."""
    if is_pictures(source):
        return open_images(source, root)
    if root is not None:
        got = f"{source} --root {root}"
        raise MarcError("only sources of pictures have a root folder", got=got)
    return open_stream(source, 1)


def check_data(source: str, data: ImageSet | Stream) -> Iterator[Finding]:
    if isinstance(data, ImageSet):
        with console.progress() as bar:
            yield from _check_pictures(data, bar.report)
        return
    if source.startswith("store/"):
        yield from _store(user_path(source.removeprefix("store/")))
    yield from _check_features(data)


def _check_pictures(images: ImageSet, report: OnProgress) -> Iterator[Finding]:
    """Counts, what was passed over, pictures that cannot be read, and copies."""
    yield _of_data(
        "ok", f"{len(images):,} pictures in {images.name}", data={"n_images": len(images)}
    )
    yield from _classes(images.labels, images.class_names)
    published = NAMED_SETS.get(images.name)
    if published is not None:
        whole = len(images) == published.images
        text = f"the published set has {published.images:,} pictures, this one {len(images):,}"
        fix = "" if whole else "unpack the published archive again; results will not be comparable"
        yield _of_data("ok" if whole else "wrong", text, fix)
    for note in images.notes:
        if "the published set has" not in note or "classes" in note:
            yield _of_data("note", note)
    if images.passed_over:
        reasons = console.tally([reason for _, reason in images.passed_over])
        text = f"{console.count(len(images.passed_over), 'other file')} passed over ({reasons})"
        examples = _examples([path for path, _ in images.passed_over])
        data = {"passed_over": [list(each) for each in images.passed_over]}
        yield _of_data("note", f"{text}: {examples}", data=data)
    yield _readable(images, report)
    yield from _copies(images, report)


def _check_features(stream: Stream) -> Iterator[Finding]:
    """Counts, equal vectors, and whether labels and predictor count the classes alike."""
    spaces = ", ".join(stream.spaces)
    text = f"{len(stream):,} images, {stream.n_classes:,} classes; spaces: {spaces}"
    yield _of_data("ok", text, data={"n_images": len(stream), "spaces": [*stream.spaces]})
    labels = stream.row_labels
    yield from _classes(labels, stream.features.class_names)
    yield from _equal_vectors(stream)
    if labels is None:
        return
    answers = stream.features.base.label
    found = check_label_order(
        answers, labels, stream.n_classes, stream.features.class_names, stream.features.ids
    )
    levels: dict[str, Level] = {"fine": "ok", "permuted": "wrong", "cannot tell": "note"}
    level = "note" if found.moved else levels[found.status]
    yield _of_data(level, found.message, found.fix, {"label_order": dataclasses.asdict(found)})


def _classes(labels: _Labels, names: Sequence[str]) -> Iterator[Finding]:
    if labels is None:
        yield _of_data("note", "no labels: spaces can be chosen, accuracy cannot be measured")
        return
    seen = Counter(int(each) for each in labels)
    known = dict(enumerate(names)) or {label: f"class {label}" for label in sorted(seen)}
    few, many = (pick(seen, key=lambda label: seen[label]) for pick in (min, max))
    text = f"{len(seen):,} classes with {seen[few]:,}"
    if seen[few] < seen[many]:
        text += f" ({known[few]}) to {seen[many]:,} ({known[many]})"
    counts = [[name, seen[label]] for label, name in known.items()]
    yield _of_data("ok", f"{text} images each", data={"per_class": counts})
    empty = [name for label, name in known.items() if label not in seen]
    if empty:
        yield _of_data("note", f"{len(empty)} classes without images: {_examples(empty)}")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        fix = "other names: the predictor cannot tell classes of one name apart"
        text = f"{len(twice)} names are given to several classes: {_examples(twice)}"
        yield _of_data("note", text, fix)


def _readable(images: ImageSet, report: OnProgress) -> Finding:
    """Whether all pictures can be decoded. Threads will do: decoders let others run."""
    bad: dict[str, str] = {}
    with ThreadPoolExecutor() as pool:
        problems = pool.map(partial(_problem, upright=images.upright), images.locations)
        for done, (name, problem) in enumerate(zip(images.ids, problems, strict=True), 1):
            report("reading pictures", done, len(images))
            if problem is not None:
                bad[name] = problem
    if not bad:
        return _of_data("ok", "all pictures can be read")
    reasons = console.tally([*bad.values()])
    text = f"not readable: {console.count(len(bad), 'picture')} ({reasons}): {_examples([*bad])}"
    fix = "replace or delete them; marc embed leaves them out and says so"
    return _of_data("wrong", text, fix, {"unreadable": bad})


def _problem(location: Location, *, upright: bool) -> str | None:
    try:
        read_picture(location, upright=upright)
    except Unreadable as error:
        return error.reason
    return None


def _copies(images: ImageSet, report: OnProgress) -> Iterator[Finding]:
    row = {name: index for index, name in enumerate(images.ids)}
    rows = [[row[name] for name in group] for group in images.duplicates(report)]
    yield from _copied(rows, images.ids, images.labels, "pictures have the same bytes")


def _equal_vectors(stream: Stream) -> Iterator[Finding]:
    seen: dict[bytes, list[int]] = {}
    for index, key in enumerate(stream.features.clip_keys):
        seen.setdefault(hashlib.sha256(key.tobytes()).digest(), []).append(index)
    groups = [group for group in seen.values() if len(group) > 1]
    what = "images have equal features in the predictor's space"
    yield from _copied(groups, stream.features.ids, stream.row_labels, what)


def _copied(
    groups: list[list[int]],
    ids: Sequence[str],
    labels: _Labels,
    what: str,
) -> Iterator[Finding]:
    """Groups of copies: within one label they waste room, under two labels one is wrong."""
    if not groups:
        yield _of_data("ok", f"no two {what}")
        return
    torn = [g for g in groups if labels is not None and len({int(labels[row]) for row in g}) > 1]
    rest = [group for group in groups if group not in torn]
    for level, some, more, fix in (
        ("wrong", torn, " but different labels", "keep each once, under its true label"),
        ("note", rest, "", "keep one of each, unless the published set has them too"),
    ):
        if some:
            named = [[ids[row] for row in group] for group in some]
            # one of each label, so that the conflict can be seen; of one label the first two
            by_label = (
                {int(labels[row]): ids[row] for row in reversed(some[0])}
                if torn is some and labels is not None
                else {}
            )
            shown = [*reversed(by_label.values())] if by_label else named[0]
            n_images = sum(map(len, some))
            text = f"{n_images} {what}{more}, in {len(some)} groups: {' = '.join(shown[:2])}"
            yield Finding("data", level, text, fix, {"copies": named})  # type: ignore[arg-type]


def _store(path: Path) -> Iterator[Finding]:
    store = FeatureStore(path)
    codes = [int(code) for code in store.get(store.STATUS) if code]
    if codes:
        reasons = console.tally([Unreadable.REASONS.get(code, f"code {code}") for code in codes])
        text = f"in quarantine: {len(codes)} of {store.n_images:,} pictures ({reasons})"
        yield _of_data("note", text, f"marc check {quote(store.about['source'])} names them")
    whole = [name for name in store.feature_arrays() if store.is_complete(name)]
    broken = sorted(name for name in whole if not store.is_sound(name))
    if broken:
        text = f"not what was written: {', '.join(broken)}"
        yield _of_data(
            "wrong", text, "the marc embed that made it, with --force", {"broken": broken}
        )
    else:
        yield _of_data("ok", f"{console.count(len(whole), 'array')} as they were written")


def _examples(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
