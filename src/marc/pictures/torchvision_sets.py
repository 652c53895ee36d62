"""`tv/NAME`: a data set of torchvision that lies on the disk. Nothing is ever downloaded.

torchvision knows the files; pictures are taken from it by their index, each when it is needed.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from marc.errors import MarcError, one_of
from marc.pictures.image_set import ImageSet
from marc.pictures.listing import read_labels, spoken

_PARTS = ("test", "val")  # which is taken if none is asked for, the first that there is
_LABELS = ("targets", "labels", "_labels")
_OPEN_SETS = 2
_NEEDED = {"root", "transform", "target_transform"}


def open_torchvision(written: str, source: str, root: Path | None) -> ImageSet:
    """One part of a data set, `NAME` or `NAME#train`, in its order."""
    name, sign, asked = written.partition("#")
    known = _data_sets()
    one_of("data set of torchvision", name, known, "tv/CIFAR10 --root DIR")
    if root is None:
        hint = f"tv/{written} --root DIR; nothing is downloaded"
        raise MarcError("tv/ needs the folder that holds the data set", got=source, hint=hint)
    place = str(root.absolute())
    part, data = _opened(known[name], name, place, asked if sign else None)
    count = len(data)
    if not count:
        raise MarcError("the data set has no pictures", got=f"{name}, part {part!r}: {place}")
    names = _class_names(data, name)
    try:
        labels = _read_labels(data, names, name)
    except (OSError, RuntimeError) as error:  # a picture that is read for its label
        got = f"{name} in {place}: {error}"
        raise MarcError("a picture of the data set cannot be read", got=got) from error
    return ImageSet(
        source,
        tuple(f"{part}/{row:06}" for row in range(count)),
        tuple(_Item(name, place, part, row) for row in range(count)),
        labels,
        names,
        upright=False,
        notes=() if sign else (f"the part {part!r} is read; {source}#train would be another",),
    )


@dataclass(frozen=True)
class _Item:
    """A picture by its index; the process that reads it opens the data set for itself."""

    name: str
    root: str
    part: str
    row: int

    def read(self) -> bytes:
        """The picture in a format without loss, whose bytes no library's version changes."""
        try:
            picture = _data_set(self.name, self.root, self.part)[self.row][0]
        except MarcError as error:
            raise FileNotFoundError(str(error)) from error
        except OSError:
            raise
        except Exception as error:  # of another's code, at files that were changed
            raise ValueError(f"{self.name}: {error}") from error
        encoded = io.BytesIO()
        plain = picture if picture.mode in ("L", "RGB") else picture.convert("RGB")
        plain.save(encoded, "PPM")
        return encoded.getvalue()


def _data_sets() -> Mapping[str, Any]:
    """Classes that are opened with a root folder and a part, and give one picture and a label."""
    if find_spec("torchvision") is None:
        hint = 'pip install "marc-clip[encoders]"'
        raise MarcError("tv/ needs the package torchvision, which is not installed", hint=hint)
    from marc.encoders.torch_runtime import import_libraries

    try:
        import_libraries()
        module = import_module("torchvision.datasets")
    except (ImportError, OSError, RuntimeError) as error:
        got, hint = (
            f"{type(error).__name__}: {error}",
            'pip install --upgrade "marc-clip[encoders]"',
        )
        raise MarcError("torchvision cannot be imported", got=got, hint=hint) from error
    every = {name: getattr(module, name) for name in module.__all__}
    return {name: each for name, each in every.items() if _part_option(each) is not None}


def _part_option(data_set: Any) -> str | None:
    """`train` or `split`, by which a class is told the part; None: it is none of ours."""
    if not inspect.isclass(data_set):
        return None
    options = inspect.signature(data_set).parameters
    optional = all(o.default is not o.empty for name, o in options.items() if name != "root")
    if not options.keys() >= _NEEDED or not optional:
        return None
    return next((name for name in ("train", "split") if name in options), None)


def _opened(kind: Any, name: str, root: str, part: str | None) -> tuple[str, Any]:
    """The part that was asked for, or the first that there is, and its pictures."""
    if _part_option(kind) == "train":
        part = one_of("part", part or "test", ("test", "train"), f"tv/{name}#train")
        return part, _data_set(name, root, part)
    refused = []
    for each in _PARTS if part is None else (part,):
        try:
            return each, _data_set(name, root, each)
        except ValueError as error:
            refused.append(error)
    got = " ".join(str(refused[0]).split())
    raise MarcError("the data set has no such part", got=got, hint=f"tv/{name}#train")


@lru_cache(maxsize=_OPEN_SETS)
def _data_set(name: str, root: str, part: str) -> Any:
    kind = _data_sets()[name]
    options: dict[str, Any] = {"split": part}
    if _part_option(kind) == "train":
        options = {"train": part == "train"}
    fetch = "download" in inspect.signature(kind).parameters
    if fetch:
        options["download"] = False
    try:
        return kind(root, **options)
    except Exception as error:  # each data set has its own for files that are not there
        if isinstance(error, ValueError) and "split" in options:
            raise  # no such part
        problem = " ".join(str(error).partition("You can use download")[0].split())
        call = f"torchvision.datasets.{name}({root!r}, download=True)"
        raise MarcError(
            "the data set is not there, or not whole; nothing is downloaded",
            got=f"{name} in {root}: {problem or type(error).__name__}",
            hint=f"in Python: {call}" if fetch else f"ls {root}",
        ) from error


def _class_names(data: Any, name: str) -> tuple[str, ...]:
    """In the order of the labels; of several words for a class the first."""
    names = getattr(data, "classes", None)
    if not names:
        raise MarcError(
            "this data set does not say what its classes are called",
            got=name,
            hint="list its pictures and labels in csv/FILE",
        )
    return tuple(spoken(str(each if isinstance(each, str) else each[0])) for each in names)


def _read_labels(data: Any, names: tuple[str, ...], name: str) -> tuple[int, ...] | None:
    """Labels as the data set keeps them, if they are those that it gives; None if hidden."""
    labels = next((kept for kept in map(partial(_kept, data), _LABELS) if kept), None)
    labels = labels or [_integer(data[row][1]) for row in range(len(data))]
    if any(label is None for label in labels):
        hint = "a data set for classification, or csv/FILE"
        raise MarcError("the labels of this data set are no integers", got=name, hint=hint)
    if all(label == -1 for label in labels):
        return None
    places = [f"index {row}" for row in range(len(labels))]
    return read_labels([str(label) for label in labels], places, name, (names, name))[0]


def _kept(data: Any, attribute: str) -> list[int | None]:
    """What an attribute holds; nothing unless the first, middle and last row have these labels."""
    kept, count = getattr(data, attribute, None), len(data)
    if kept is None or len(kept) != count:
        return []
    labels = [_integer(label) for label in kept]
    some = {0, count // 2, count - 1}
    agree = all(labels[row] == _integer(data[row][1]) for row in some)
    return labels if agree else []


def _integer(label: Any) -> int | None:
    try:
        number = label.item() if hasattr(label, "item") else label
    except (RuntimeError, ValueError):  # an array of several
        return None
    whole = isinstance(number, int) and not isinstance(number, bool)
    return cast(int, number) if whole else None
