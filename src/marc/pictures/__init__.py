"""Lists of pictures by name: `type/name`, or the name of a published set with its root folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.files import user_path
from marc.pictures.coop import open_coop
from marc.pictures.folder import open_folder
from marc.pictures.hf import open_hf
from marc.pictures.image_set import FileBytes, ImageSet, Location
from marc.pictures.listing import with_class_names
from marc.pictures.spelling import (
    IMAGE_KINDS,
    NAMED_SETS,
    canonical,
    needs_root,
    refuse_missing,
    split_part,
    unknown_source,
)
from marc.pictures.tables import open_csv
from marc.pictures.torchvision_sets import open_torchvision
from marc.pictures.wds import open_wds

__all__ = [
    "IMAGE_KINDS",
    "NAMED_SETS",
    "FileBytes",
    "ImageSet",
    "Location",
    "canonical",
    "needs_root",
    "open_images",
    "refuse_missing",
    "reopen_images",
    "with_class_names",
]


def open_images(source: str | os.PathLike[str], root: Path | None = None) -> ImageSet:
    """The pictures of a source, in canonical order.

    Args:
        source: `folder/DIR`, `csv/FILE`, `coop/SPLIT.json`, `hf/DIR`, `tv/NAME`, `wds/SHARDS`, the
            name of a published set (`imagenet-a`, `eurosat`, ...), or a plain folder or table.
        root: for a published set or `tv`, the folder that holds it; for `csv` and `coop`, the
            folder that paths start from.
    """
    try:
        images = _open(canonical(source), root)
    except (OSError, UnicodeError) as problem:  # names too long or of no text, no permission
        raise MarcError("a source cannot be opened", got=f"{source!s:.200}: {problem}") from problem
    return images if root is None else replace(images, root=str(root))


def reopen_images(about: Mapping[str, Any]) -> ImageSet:
    """The pictures that a store was made of, by what it says of them, from any current folder."""
    source, here = about["source"], about["folder"]
    kind, slash, path = source.partition("/")
    if slash and not needs_root(source):
        source = f"{kind}/{Path(here, user_path(path))}"
    return open_images(source, Path(here, about["root"]) if about["root"] else None)


def _open(source: str, root: Path | None) -> ImageSet:
    if source in NAMED_SETS:
        return _open_named(source, root)
    kind, slash, name = source.partition("/")
    if kind not in IMAGE_KINDS or not slash or not name:
        refuse_missing(source)
        raise unknown_source(source)
    if root is not None and not root.is_dir():
        raise MarcError("there is no such root folder", got=root, hint=f"ls {root.parent}")
    if kind == "tv":
        return open_torchvision(name, source, root)
    path, part = split_part(kind, name)
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


def _open_named(name: str, root: Path | None) -> ImageSet:
    if root is None or not root.is_dir():
        raise MarcError(
            f"{name} needs the folder that holds it" if root is None else "there is no such folder",
            got=root,
            allowed=f"ROOT/{NAMED_SETS[name].layout}",
            hint=f"{name} --root DIR; nothing is downloaded",
        )
    return NAMED_SETS[name].open(root)
