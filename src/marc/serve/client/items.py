"""What a source has to send: a name and a step for each image, its classes and its labels."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.files import user_path
from marc.pictures import ImageSet, open_images, with_class_names
from marc.sources import is_pictures, load_stream, resolve_source
from marc.stream import Stream
from marc.types import OnProgress

_LONGEST_ID = 512  # of a server


@dataclass(frozen=True)
class Items:
    """What there is to send."""

    ids: Sequence[str]
    body: Callable[[int], dict[str, Any]]
    """The arguments of a step, by place."""
    classes: tuple[str, ...]
    labels: Sequence[int] | None
    stream: Stream | None = None
    """Where the items are features."""
    unnamed: ImageSet | None = None
    """Where the items are pictures, and nobody said what may be on them but their sub-folders."""
    notes: tuple[str, ...] = ()


def open_items(
    source: str | os.PathLike[str] | Stream,
    classes: Sequence[str] | os.PathLike[str],
    root: Path | None,
    on_progress: OnProgress | None,
) -> Items:
    """The images of a source, none of them read yet."""
    if isinstance(source, Stream):
        return _of_stream(source)
    text = resolve_source(os.fspath(source))
    if is_pictures(text):
        return _of_pictures(open_images(text, root), classes)
    if classes:
        raise MarcError("a stream has classes of its own", got=text, hint="leave out --classes")
    return _of_stream(load_stream(text, on_progress))


def _of_stream(stream: Stream) -> Items:
    features, order = stream.features, stream.order

    def body(at: int) -> dict[str, Any]:
        row = int(order[at])
        keys = {space: keys[row] for space, keys in features.spaces.items()}
        return {"features": features.views[row], "keys": keys}

    labels = None if stream.labels is None else stream.labels.tolist()
    ids = [features.ids[row] for row in order]
    return Items(ids, body, features.class_names, labels, stream)


def _of_pictures(images: ImageSet, classes: Sequence[str] | os.PathLike[str]) -> Items:
    names, labels, notes = images.class_names, images.labels, [*images.notes]
    if classes:
        given = user_path(classes) if isinstance(classes, str | os.PathLike) else classes
        names = with_class_names(replace(images, labels=None, class_names=()), given).class_names
    if images.passed_over:
        notes.append(f"passed over, as no pictures: {len(images.passed_over)}")

    def body(at: int) -> dict[str, Any]:
        return {"image": images.locations[at].read()}

    numbers = None if labels is None else _as_numbers(images, names)
    if labels is not None and numbers is None:
        notes.append("sub-folders are not taken for labels: not all are called like a class")
    unnamed = None if classes else images
    return Items(images.ids, body, names, numbers, notes=(*notes,), unnamed=unnamed)


def _as_numbers(images: ImageSet, names: Sequence[str]) -> list[int] | None:
    """The labels that sub-folders give, by classes that are called like them."""
    number_of = {_folded(name): number for number, name in reversed([*enumerate(names)])}
    numbers = [number_of.get(_folded(name)) for name in images.class_names]
    known = [each for each in numbers if each is not None]
    return [known[n] for n in images.labels or ()] if len(known) == len(numbers) else None


def _folded(name: str) -> str:
    """As folders and people write a class: case and underscores are no difference."""
    return name.replace("_", " ").casefold()


def fitted(items: Items, info: Mapping[str, Any]) -> Items:
    """The items as this memory takes them, refused where they are for another."""
    if items.unnamed is not None:
        items = _of_pictures(items.unnamed, info["classes"])
    if items.classes and tuple(info["classes"]) != items.classes:
        ours, theirs = (", ".join(each)[:120] for each in (items.classes, info["classes"]))
        raise MarcError("this memory has other classes", got=ours, allowed=theirs,
                        hint="another --memory")  # fmt: skip
    if items.stream is None:
        if not info["takes_pictures"]:
            raise MarcError(
                "this memory takes features, not pictures",
                got=info["name"],
                allowed="dimensions: " + _dims(info["dim"], info["spaces"]),
                hint="marc embed SOURCE, then marc send store/DIR",
            )
        return items
    features = items.stream.features
    known = {name: features.dim(name) for name in info["spaces"] if name in features.spaces}
    if known != info["spaces"] or features.predictor.prototypes.shape[1] != info["dim"]:
        every = {name: features.dim(name) for name in features.spaces}
        raise MarcError(
            "these features are not those of this memory",
            got=_dims(features.predictor.prototypes.shape[1], every),
            allowed=_dims(info["dim"], info["spaces"]),
            hint="another --memory, or a source with the same encoders",
        )

    def body(at: int) -> dict[str, Any]:
        whole = items.body(at)
        return {**whole, "keys": {name: whole["keys"][name] for name in info["spaces"]}}

    return replace(items, body=body)


def _dims(dim: int, spaces: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size}" for name, size in {"predictor": dim, **spaces}.items())


def paced(
    items: Items, places: range, rate: float | None, prefix: str, neighbours: int
) -> Iterator[dict[str, Any] | MarcError]:
    """The steps in order, not faster than so many a second."""
    started = time.monotonic()
    for at in places:
        if rate is not None:
            time.sleep(max(0.0, started + at / rate - time.monotonic()))
        about = {"id": _name(prefix + items.ids[at]), "neighbours": neighbours}
        try:
            yield {**items.body(at), **about}
        except MarcError as error:
            yield error
        except OSError as error:  # a file that went away, or may not be read
            yield MarcError("this picture cannot be read", got=error.strerror)


def _name(id: str) -> str:
    """A name that a server takes; one that is too long ends in its digest."""
    if len(id) <= _LONGEST_ID and id.isprintable():
        return id
    digest = hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    plain = "".join(each if each.isprintable() else "?" for each in id)
    return f"{plain[: _LONGEST_ID - 33]}#{digest}"
