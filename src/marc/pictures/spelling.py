"""How sources of pictures are written, and the one spelling of each: a store bears its name."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from marc.errors import MarcError
from marc.files import user_path
from marc.pictures.coop import CROSS_DOMAIN_SETS
from marc.pictures.image_set import ImageSet
from marc.pictures.imagenet import IMAGENET_SETS
from marc.pictures.listing import near_name, no_such


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
    "tv": ("tv/NAME", "a torchvision data set on the disk, with --root DIR; #train for that part"),
    "wds": ("wds/SHARDS", "webdataset tar files: a folder, or shards/{000..003}.tar"),
}
"""How a source is written, and what it is, by its type."""

_PUBLISHED: tuple[_NamedSet, ...] = (*IMAGENET_SETS, *CROSS_DOMAIN_SETS)
NAMED_SETS: Mapping[str, _NamedSet] = {each.name: each for each in _PUBLISHED}
"""The published sets, which need a root folder."""

_IN_PARTS = ("coop", "hf")
_FOLDERS, _FILES = ("folder", "hf"), ("csv", "coop")
_BY_SUFFIX = {".csv": "csv", ".tsv": "csv", ".json": "coop"}


def canonical(source: str | os.PathLike[str]) -> str:
    """The one spelling of a source of pictures, so that it has one store; others as they are.

    A folder below the current one is spelled from there, however it was reached; any other by its
    whole path. A plain folder is `folder/DIR`, a plain table `csv/FILE`.

    >>> canonical("folder/./photos//"), canonical(f"folder/{Path.cwd()}/photos")
    ('folder/photos', 'folder/photos')
    """
    text = os.fspath(source)
    kind, _, rest = text.partition("/")
    if not text or text in NAMED_SETS:
        return text
    if not rest or kind not in IMAGE_KINDS:
        kind, rest = _plain_kind(text), text
    return f"{kind}/{_path(kind, rest)}" if kind and kind != "tv" else text


def _plain_kind(text: str) -> str:
    """The type of a plain path; empty if it is none, or could be several."""
    path, _ = split_part("coop", text)
    if os.path.isdir(user_path(text)):  # noqa: PTH112 (pathlib raises if a name is too long)
        return "folder"
    return _BY_SUFFIX.get(path.suffix.lower(), "") if os.path.isfile(path) else ""  # noqa: PTH113


def split_part(kind: str, name: str) -> tuple[Path, str | None]:
    """`DIR#val` is the part `val` of DIR where there are parts, unless something is called so."""
    whole = user_path(name)
    before, sign, part = name.rpartition("#")
    if kind not in _IN_PARTS or not sign or _is_there(whole):
        return whole, None
    return user_path(before), part


def _path(kind: str, name: str) -> str:
    path, part = split_part(kind, name)
    return _from_here(path) + ("" if part is None else f"#{part}")


def _from_here(path: Path) -> str:
    """A path from the current folder if it is below it, else the whole path."""
    if ".." in path.parts:  # above a linked folder is what it is linked to
        last = len(path.parts) - path.parts[::-1].index("..")
        path = Path(os.path.realpath(Path(*path.parts[:last])), *path.parts[last:])
    if _is_here(path):
        return str(Path.cwd())  # its name says more than a dot
    for above in path.parents:
        if _is_here(above):
            below = str(path.relative_to(above))
            return f"./{below}" if below.startswith("~") else below  # no home of anybody
    return re.sub("^/+", "/", str(path))


def _is_here(path: Path) -> bool:
    try:
        return os.path.samefile(path, os.curdir)  # noqa: PTH121
    except (OSError, ValueError):
        return False


def needs_root(source: str) -> bool:
    """Whether a source is the name of a data set, which a root folder holds."""
    return source in NAMED_SETS or source.startswith("tv/")


def refuse_missing(source: str) -> None:
    """Refuse a source whose folder or file is not there; a plain path too, by its looks."""
    kind, _, rest = source.partition("/")
    if source in NAMED_SETS or not source:
        return
    if kind in IMAGE_KINDS and rest:
        path, _ = split_part(kind, rest)
        if kind in _FOLDERS and not os.path.isdir(path):  # noqa: PTH112
            raise no_such(path, kind)
        if kind in _FILES and not os.path.isfile(path):  # noqa: PTH113
            raise no_such(path, kind, "file")
        return
    path = user_path(source)
    if kind not in IMAGE_KINDS and _looks_like_path(source) and not _is_there(path):
        is_file = path.suffix != "" and not source.endswith("/")
        raise no_such(path, "folder", "file" if is_file else "folder")


def _is_there(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 (pathlib raises if a name is too long)


def _looks_like_path(text: str) -> bool:
    first, slash, rest = text.partition("/")
    if text.startswith(("/", "./", "../", "~")) or text.lower().endswith(tuple(_BY_SUFFIX)):
        return True
    return bool(slash) and (not rest or os.path.isdir(first))  # noqa: PTH112


def unknown_source(source: str) -> MarcError:
    """The error for what is no source of pictures."""
    spellings = [spelling for spelling, _ in IMAGE_KINDS.values()]
    is_plain = source.partition("/")[0] not in IMAGE_KINDS
    return MarcError(
        ("there is no such folder, and " if is_plain else "")
        + "this is no source of pictures that is known",
        got=repr(source),
        allowed=", ".join([*spellings, *NAMED_SETS]),
        hint=_meant(source),
    )


def _meant(source: str) -> str:
    """What was probably meant."""
    kind = source.partition("/")[0]
    if kind in IMAGE_KINDS:
        return IMAGE_KINDS[kind][0]
    if source and os.path.isfile(user_path(source)):  # noqa: PTH113
        return f"csv/{source}"
    close = difflib.get_close_matches(source.lower().replace("_", "-"), NAMED_SETS, 1, 0.6)
    if close and "/" not in source:
        return f"{close[0]} --root DIR"
    if folder := near_folder(source):
        return folder
    near = difflib.get_close_matches(kind.lower(), IMAGE_KINDS, 1, 0.6)
    return IMAGE_KINDS[near[0]][0] if near else "folder/DIR"


def near_folder(text: str) -> str | None:
    """The folder here that a plain name was probably meant to be."""
    near = near_name(Path(text)) if text and "/" not in text else None
    return f"folder/{near}" if near is not None else None
