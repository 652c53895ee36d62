"""A new store for a list of pictures, and the lock of those who fill it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from marc.errors import MarcError, whole_number
from marc.images.image_set import ImageSet
from marc.locks import LOCK, locked
from marc.records import differences
from marc.store import CHUNK, CONTENT, FORMAT, IDS, LABELS, STATUS, FeatureStore, is_store

_NOT_IDENTITY = ("source:", "root:", "folder:")  # pictures may be moved


def holds_list(path: Path, images: ImageSet, *, chunk: int = CHUNK, force: bool = False) -> bool:
    """Whether a store is there for these pictures; of others, it is an error or replaced."""
    whole_number("chunk", chunk, 1)
    _refuse_foreign(path)
    if not is_store(path):
        return False
    found = differences(FeatureStore(path).about, _about(images, chunk))
    differing = [each for each in found if not each.startswith(_NOT_IDENTITY)]
    if differing and not force:
        other = any(not each.startswith("chunk:") for each in differing)
        raise MarcError(
            "this store is of other pictures" if other else "this store has other chunks",
            got=f"{path}: {'; '.join(differing)}",
            hint="another -o STORE, or --force to replace all of it",
        )
    return not differing


def create_store(path: Path, images: ImageSet, *, chunk: int) -> FeatureStore:
    """An empty store in place of what is there, under the lock of `writing`.

    The mark goes first and comes last: killed in between, there is no store but a folder of ours.
    """
    (path / "zarr.json").unlink(missing_ok=True)
    for left in path.iterdir():
        if left.name != LOCK:
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    store = FeatureStore(path, begin=_about(images, chunk))
    store.put(IDS, np.array(images.ids, dtype=object), {})
    if images.labels is not None:
        store.put(LABELS, np.array(images.labels, dtype=np.int64), {})
    store.prepare(STATUS, (), "uint8", made={})
    store.prepare(CONTENT, (16,), "uint8", made={})
    store.mark()
    return store


def _about(images: ImageSet, chunk: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "source": images.name,
        "root": images.root,
        "folder": str(Path.cwd()),  # where a relative source starts
        "n_images": len(images),
        "list": images.digest,
        "upright": images.upright,
        "chunk": chunk,
    }


def _refuse_foreign(path: Path) -> None:
    """Never touch what is not ours; an empty folder may be filled."""
    is_folder = path.is_dir()
    empty = not path.exists() or (is_folder and not any(path.iterdir()))
    if not empty and not is_store(path) and not (is_folder and (path / LOCK).exists()):
        raise MarcError("this path is not a feature store, so it is left alone", got=path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Be the only `marc embed` that fills a store, and clear away what a killed one left.

    The system gives the lock back when its holder dies, however it dies. Where no store came of it,
    no folder stays behind.
    """
    _refuse_foreign(path)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path, "another marc embed is filling this store"):
        for left in path.rglob("*.partial"):
            left.unlink()
        try:
            yield
        finally:
            if [left.name for left in path.iterdir()] == [LOCK]:
                (path / LOCK).unlink()
                path.rmdir()
