"""Sources by name, `type/name`: where a stream comes from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.embed.networks import Networks
from marc.embed.opening import open_store
from marc.embed.store import FeatureStore
from marc.errors import MarcError, Registry, instance, is_reference
from marc.files import user_path
from marc.pictures import (
    IMAGE_KINDS,
    NAMED_SETS,
    canonical,
    needs_root,
    open_images,
    refuse_missing,
)
from marc.pictures.spelling import near_folder
from marc.sources.pack import read_pack
from marc.stream import Stream
from marc.types import OnProgress

_Opener = Callable[[str, OnProgress | None, int | None], Stream]
"""Takes what follows `kind/`, whom to tell how far it is, and the views asked for, or None."""
Pictures = Callable[[int], NDArray[np.uint8] | None]
"""From a stored row to its picture (height, width, 3), or None if there is none to show."""


@dataclass(frozen=True)
class SourceKind:
    """A type of source."""

    spelling: str
    """How a source of this type is written."""
    open: _Opener
    names: Callable[[], Mapping[str, tuple[int, int]]] = dict
    """The sources that there are, and the images and classes of each; empty if that is open."""
    pictures: Callable[[str], Pictures] | None = None
    """The pictures of a source, where it has any that a folder or store does not hold."""
    draws_views: bool = False
    """Whether it has as many views as are asked for."""


def _kind(name: str, thing: Any) -> SourceKind:
    if not callable(thing) and not isinstance(thing, SourceKind):
        raise MarcError(f"{name} opens no source", got=type(thing).__name__, hint="a function")
    return thing if isinstance(thing, SourceKind) else SourceKind(f"{name}/NAME", thing)


SOURCES = Registry(
    "type of source",
    "marc.sources",
    {
        # both have the views that were stored, and nothing to wait for
        "arrays": SourceKind("arrays/FILE.npz", lambda name, *_: read_pack(user_path(name))),
        "store": SourceKind("store/DIR", lambda name, *_: FeatureStore(user_path(name)).stream()),
    },
    _kind,
)
"""Types of sources by name: ours, registered ones, and those that installed packages bring."""


def register_source(kind: str, opener: _Opener | SourceKind, *, replace: bool = False) -> None:
    """Make `kind/NAME` a source: `opener(name, on_progress, n_views)` gives its stream."""
    if "/" in kind or kind in IMAGE_KINDS:
        raise MarcError("not a name for a type of source", got=repr(kind), hint="another name")
    SOURCES.register(kind, opener, replace=replace)


def resolve_source(text: str) -> str:
    """The one spelling of what a person typed; `package.module:opener/NAME` is imported."""
    kind, slash, _ = text.partition("/")
    if slash and is_reference(kind):
        SOURCES.resolve(kind)
    return spelled(text)


def spelled(source: str | os.PathLike[str]) -> str:
    """The one spelling of a source; a plain pack, store or folder gets its type. Imports nothing.

    >>> spelled("photos.npz"), spelled("lab/sketch-12"), spelled("folder/photos/")
    ('arrays/photos.npz', 'lab/sketch-12', 'folder/photos')
    """
    text = os.fspath(source)
    kind, _, rest = text.partition("/")
    if not text or text in NAMED_SETS or (rest and (kind in SOURCES or is_reference(kind))):
        return text
    if not rest or kind not in IMAGE_KINDS:
        if text.endswith(".npz"):
            return f"arrays/{text}"
        path = user_path(text)
        if os.path.isdir(path) and FeatureStore.exists(path):  # noqa: PTH112 (never raises)
            return f"store/{text.rstrip('/') or '/'}"
    return canonical(text)


def load_stream(
    source: str | os.PathLike[str],
    on_progress: OnProgress | None = None,
    n_views: int | None = None,
    *,
    weights: Sequence[str] = (),
    offline: bool = False,
    device: str = "auto",
) -> Stream:
    """Open a source.

    `arrays/FILE.npz` is a feature pack, `lab/NAME` the embedded lab, `store/DIR` a feature store;
    a plain `FILE.npz` or `DIR` is known by what it is.
    A source of pictures (`folder/DIR`, `imagenet-a`, ...) is opened from the store that
    `marc embed` made of it.

    Args:
        source: written type/name.
        on_progress: called with how far the work has come, where there is some.
        n_views: M, the first views. By default all that are stored, and of the lab the plain
            picture alone; the lab draws as many as are asked for.
        weights: where the weights of a store's predictor lie, for methods that learn in its
            networks: a file, a folder with NAME.safetensors, or NAME=PATH. Needed for weights of
            your own; others are looked for where they were when they were embedded with.
        offline: never touch the network for them.
        device: what these networks run on: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`. Those of the
            lab run on the CPU, and another device is refused.
    """
    instance("source", source, str, os.PathLike, hint='marc.load_stream("arrays/FILE.npz")')
    text, networks = spelled(source), Networks(tuple(weights), offline, device)
    stream = replace(_open(text, on_progress, n_views, networks), source=text)
    return stream if n_views is None else stream.with_views(n_views)


def _open(
    text: str, on_progress: OnProgress | None, n_views: int | None, networks: Networks
) -> Stream:
    kind, _, name = text.partition("/")
    if is_pictures(text):
        return _open_embedded(text, networks)
    if kind == "store" and name:
        return open_store(FeatureStore(user_path(name)), networks)
    if networks.weights:
        raise MarcError(
            "only a feature store has networks that take weights",
            got=f"{text}: {', '.join(networks.weights)}",
            hint="marc embed folder/DIR --encoder dinov2-b, then store/DIR",
        )
    if not name or kind not in SOURCES:
        if kind not in SOURCES:
            refuse_missing(text)
        known = sorted(each.spelling for each in SOURCES.load_all()[0].values())
        raise MarcError(
            "a source is written type/name, and this type is not known",
            got=repr(text),
            allowed=", ".join([*known, *(spelling for spelling, _ in IMAGE_KINDS.values())]),
            hint=_spelling(text, kind),
        )
    stream = SOURCES[kind].open(name, on_progress, n_views)
    networks.check_elsewhere(text, stream.features.predictor.towers)
    return stream


def is_pictures(source: str) -> bool:
    """Whether a source is of pictures, which must be embedded before they are a stream."""
    source = spelled(source)
    return source.partition("/")[0] in IMAGE_KINDS or source in NAMED_SETS


def draws_views(source: str) -> bool:
    """Whether a source has as many views as are asked for: the lab does, and stores none."""
    kind = source.partition("/")[0]
    return kind in SOURCES and SOURCES[kind].draws_views


def _open_embedded(source: str, networks: Networks) -> Stream:
    path = FeatureStore.default_path(source)
    if not FeatureStore.exists(path):
        refuse_missing(source)
        raise MarcError(
            "these pictures are not embedded yet",
            got=f"{_typed(source)}: no store in {path}",
            hint=f"{_embed_again(source)} --encoder dinov2-b, or store/DIR if it is elsewhere",
        )
    about = FeatureStore(path).about
    if about["source"] != source:
        raise MarcError(
            "the store of that name is of another source",
            got=f"{path}: {about['source']}",
            hint=f"{_embed_again(source)} --encoder dinov2-b -o DIR, then store/DIR",
        )
    images = open_images(source, Path(about["root"]) if about["root"] else None)
    if images.digest != about["list"]:
        raise MarcError(
            "the pictures of this source are not those that were embedded: some came or went",
            got=f"{source}, {path}",
            hint=f"store/{path} for the old ones, or {_embed_again(source)} ... --force",
        )
    return open_store(FeatureStore(path), networks)


def _embed_again(source: str) -> str:
    """The beginning of the command that embeds a source, as it can be typed."""
    return f"marc embed {quote(_typed(source))}" + (" --root DIR" if needs_root(source) else "")


def _typed(source: str) -> str:
    """A source as a person would type it: a whole path to a folder needs no type."""
    path = source.removeprefix("folder/")
    return path if path.startswith("/") and spelled(path) == source else source


def _spelling(text: str, kind: str) -> str:
    """What was probably meant."""
    if is_reference(kind):
        return f"marc.register_source({kind!r}, opener), or install what brings it"
    for other, source in SOURCES.load_all()[0].items():
        if text in source.names():
            return f"{other}/{text}"
    if folder := near_folder(text):
        return folder
    return SOURCES[kind].spelling if kind in SOURCES else "lab/sketch-12"
