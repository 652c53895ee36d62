"""Lists of pictures by name: `type/name`, or the name of a published set with its root folder."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from marc.errors import MarcError
from marc.files import user_path
from marc.pictures.coop import CROSS_DOMAIN_SETS, open_coop
from marc.pictures.folder import open_folder
from marc.pictures.hf import open_hf
from marc.pictures.image_set import FileBytes, ImageSet, Location
from marc.pictures.imagenet import IMAGENET_SETS
from marc.pictures.listing import with_class_names
from marc.pictures.tables import open_csv
from marc.pictures.wds import open_wds

__all__ = [
    "IMAGE_KINDS",
    "NAMED_SETS",
    "FileBytes",
    "ImageSet",
    "Location",
    "open_images",
    "with_class_names",
]


class _NamedSet(Protocol):
    """A published set that is opened by its name."""

    @property
    def name(self) -> str: ...
    @property
    def images(self) -> int: ...
    @property
    def classes(self) -> int: ...
    @property
    def layout(self) -> str: ...
    def open(self, root: Path) -> ImageSet: ...


IMAGE_KINDS: Mapping[str, tuple[str, str]] = {
    "folder": ("folder/DIR", "a folder of pictures; sub-folders are labels"),
    "csv": ("csv/FILE", "a table with the columns path and, if known, label"),
    "coop": ("coop/SPLIT.json", "a split file of the CoOp family; #val or #train for other parts"),
    "hf": ("hf/DIR", "a local Hugging Face data set; #PART for one of its parts"),
    "wds": ("wds/SHARDS", "webdataset tar files: a folder, or shards/{000..003}.tar"),
}
"""How a source is written, and what it is, by its type."""

_PUBLISHED: tuple[_NamedSet, ...] = (*IMAGENET_SETS, *CROSS_DOMAIN_SETS)
NAMED_SETS: Mapping[str, _NamedSet] = {each.name: each for each in _PUBLISHED}
"""The published sets, which need a root folder."""


def open_images(source: str, root: Path | None = None) -> ImageSet:
    """The pictures of a source, in canonical order.

    Args:
        source: `folder/DIR`, `csv/FILE`, `coop/SPLIT.json`, `hf/DIR`, `wds/SHARDS`, or the name of
            a published set (`imagenet-a`, `eurosat`, ...).
        root: for a published set, the folder that holds it; for `csv` and `coop`, the folder that
            paths start from.
    """
    try:
        images = _open(source, root)
    except (OSError, UnicodeError) as problem:  # names too long or of no text, no permission
        raise MarcError("a source cannot be opened", got=f"{source[:200]}: {problem}") from problem
    return images if root is None else replace(images, root=str(root))


def _open(source: str, root: Path | None) -> ImageSet:
    if source in NAMED_SETS:
        return _open_named(source, root)
    kind, slash, name = source.partition("/")
    if kind not in IMAGE_KINDS or not slash or not name:
        raise _unknown(source, kind)
    if root is not None and not root.is_dir():
        raise MarcError("there is no such root folder", got=root, hint=f"ls {root.parent}")
    path, part = _part(name) if kind in ("coop", "hf") else (user_path(name), None)
    if kind == "csv":
        return open_csv(path, source, root)
    if kind == "coop":
        return open_coop(path, source, root, "test" if part is None else part)
    if root is not None:
        raise MarcError(
            f"{kind}/ takes no root folder", got=root, hint=f"{kind}/ with the whole path"
        )
    if kind == "hf":
        return open_hf(path, source, part)
    return open_folder(path, source) if kind == "folder" else open_wds(str(path), source)


def _part(name: str) -> tuple[Path, str | None]:
    """`DIR#val` is the part `val` of DIR, unless there is something called so."""
    whole = user_path(name)
    before, sign, part = name.rpartition("#")
    if not sign or whole.exists():
        return whole, None
    return user_path(before), part


def _open_named(name: str, root: Path | None) -> ImageSet:
    if root is None or not root.is_dir():
        raise MarcError(
            f"{name} needs the folder that holds it" if root is None else "there is no such folder",
            got=root,
            allowed=f"ROOT/{NAMED_SETS[name].layout}",
            hint=f"{name} --root DIR; nothing is downloaded",
        )
    return NAMED_SETS[name].open(root)


def _unknown(source: str, kind: str) -> MarcError:
    spellings = [spelling for spelling, _ in IMAGE_KINDS.values()]
    return MarcError(
        "this is no source of pictures that is known",
        got=repr(source),
        allowed=", ".join([*spellings, *NAMED_SETS]),
        hint=_spelling(source, kind),
    )


def _spelling(source: str, kind: str) -> str:
    """What was probably meant."""
    if kind in IMAGE_KINDS:
        return IMAGE_KINDS[kind][0]
    path = user_path(source)
    if source and path.is_dir():
        return f"folder/{source}"
    if path.is_file():
        return f"{'coop' if path.suffix == '.json' else 'csv'}/{source}"
    close = difflib.get_close_matches(source.lower().replace("_", "-"), NAMED_SETS, 1, 0.6)
    near = difflib.get_close_matches(kind.lower(), IMAGE_KINDS, 1, 0.6)
    if close and "/" not in source:
        return f"{close[0]} --root DIR"
    return IMAGE_KINDS[near[0]][0] if near else "folder/DIR"
