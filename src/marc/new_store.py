"""A new store for a list of pictures, and the lock of those who fill it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from marc.errors import MarcError, whole_number
from marc.images.image_set import ImageSet
from marc.records import differences
from marc.store import CHUNK, CONTENT, FORMAT, IDS, LABELS, MARK, STATUS, FeatureStore, is_store


def create_store(path: Path, images: ImageSet, *, chunk: int = CHUNK, force: bool = False) -> None:
    """A store for a list of pictures; one that is there already must be of the same list."""
    if not holds_list(path, images, chunk=chunk, force=force):
        replace_store(path, images, chunk=chunk)


def holds_list(path: Path, images: ImageSet, *, chunk: int = CHUNK, force: bool = False) -> bool:
    """Whether a store is there for these pictures; of others, it is an error or replaced."""
    whole_number("chunk", chunk, 1)
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return False
    if not is_store(path):
        raise MarcError("this path is not a feature store, so it is left alone", got=path)
    differing = differences(FeatureStore(path).about, _about(images, chunk))
    differing = [each for each in differing if not each.startswith(("source:", "root:"))]
    if differing and not force:
        raise MarcError(
            "this store is of other pictures",
            got=f"{path}: {'; '.join(differing)}",
            hint="another -o STORE, or --force to replace it",
        )
    return not differing


def _about(images: ImageSet, chunk: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "source": images.name,
        "root": images.root,
        "n_images": len(images),
        "list": images.digest,
        "upright": images.upright,
        "chunk": chunk,
    }


def replace_store(path: Path, images: ImageSet, *, chunk: int) -> None:
    """An empty store, in place of what is there; never under the hands of another writer."""
    with writing(path) if is_store(path) else nullcontext():
        _create(path, images, _about(images, chunk))


def _create(path: Path, images: ImageSet, about: Mapping[str, Any]) -> None:
    """Write the list beside, then put it in place: a store appears with its list."""
    import zarr

    fresh, old = (path.with_name(path.name + end) for end in (".new", ".old"))
    for place in (fresh, old):
        if is_store(place) or _is_begun(place):
            shutil.rmtree(place)
    fresh.mkdir(parents=True)  # refuses what is not ours
    zarr.create_group(fresh, zarr_format=3, attributes={MARK: dict(about)})
    store = FeatureStore(fresh, write=True)
    store.put(IDS, np.array(images.ids, dtype=object), {})
    if images.labels is not None:
        store.put(LABELS, np.array(images.labels, dtype=np.int64), {})
    store.prepare(STATUS, (), "uint8", made={})
    store.prepare(CONTENT, (16,), "uint8", made={})
    if path.exists():
        path.rename(old)
    fresh.rename(path)
    if is_store(old):
        shutil.rmtree(old)


def _is_begun(path: Path) -> bool:
    """Whether a folder is one that a killed call had just begun to write."""
    return path.is_dir() and all(file.name.startswith("zarr.") for file in path.iterdir())


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Be the only `marc embed` that fills a store, and clear away what a killed one left.

    The lock is on the folder itself: no file stays behind, and the system gives it back when its
    holder dies, however it dies. Windows cannot lock a folder; there, two writers do double work.
    """
    with ExitStack() as stack:
        if sys.platform != "win32":
            import fcntl

            handle = os.open(path, os.O_RDONLY)
            stack.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise MarcError("another marc embed is filling this store", got=path) from error
            except OSError:
                pass  # some shared file systems cannot lock a folder either
        for left in path.rglob("*.partial"):
            left.unlink()
        yield
