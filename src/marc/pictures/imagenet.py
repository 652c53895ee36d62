"""`imagenet-val`, `-a`, `-v2`, `-r` and `-sketch`: folders as they are distributed."""

from __future__ import annotations

import ast
import contextlib
import os
import re
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from marc.errors import MarcError
from marc.files import read_text
from marc.pictures.folder import list_pictures
from marc.pictures.image_set import FileBytes, ImageSet
from marc.pictures.listing import is_integer, printable

_WORDNET_ID = re.compile(r"n\d{8}")


@dataclass(frozen=True)
class _ImageNetSet:
    """One published set: how many pictures it has, and where they lie under a root folder."""

    name: str
    images: int
    synsets: str
    """Which list of WordNet ids is its label order."""
    classes: int
    folders: tuple[str, ...]
    """Where its class folders may lie below the root, looked for in this order."""
    numbered: bool = False
    """Class folders may be called 0 to 999: the label itself."""

    @property
    def layout(self) -> str:
        """In words."""
        example = "0 ... 999" if self.numbered else _wordnet_example(self.classes)
        return f"{self.folders[0]}/ with folders {example}"

    def open(self, root: Path) -> ImageSet:
        """The pictures of the set, all of them, labels in its own order."""
        folder = _class_folder(self, root)
        ids = _wordnet_ids(self.synsets)
        label = {wordnet_id: index for index, wordnet_id in enumerate(ids)}
        listing = list_pictures(folder)
        paths: list[str] = []
        labels: list[int] = []
        strange: list[tuple[str, str]] = []
        for path in listing.pictures:
            found = _label(self, path.partition("/")[0] if "/" in path else "", label)
            if found is None:
                strange.append((printable(path), f"not in a class folder of {self.name}"))
            else:
                paths.append(path)
                labels.append(found)
        if not paths:
            raise MarcError(
                f"the class folders of {self.name} have no pictures",
                got=folder,
                hint=f"ls {folder}",
            )
        names = _class_names()
        images = ImageSet(
            self.name,
            tuple(printable(path) for path in paths),
            tuple(FileBytes(os.path.join(folder, path)) for path in paths),  # noqa: PTH118
            tuple(labels),
            tuple(names[index] for index in _labels_within_imagenet(self.synsets)),
            prompts=("tip-7",),
            upright=False,
            passed_over=tuple(sorted([*listing.passed_over, *strange])),
        )
        return replace(images, notes=tuple(images.count_notes(self.images, self.classes)))


def _wordnet_example(n_classes: int) -> str:
    return f"{'n01440764' if n_classes == 1000 else 'n01498041'} ... ({n_classes})"


_V2 = "imagenetv2-matched-frequency-format-val"
IMAGENET_SETS: tuple[_ImageNetSet, ...] = (
    _ImageNetSet("imagenet-val", 50_000, "imagenet", 1000,
                 ("val", "imagenet/images/val", "imagenet/val", "images/val", "ILSVRC2012/val",
                  "ILSVRC/Data/CLS-LOC/val")),
    _ImageNetSet("imagenet-a", 7_500, "imagenet-a", 200,
                 ("imagenet-a", "imagenet-adversarial/imagenet-a")),
    _ImageNetSet("imagenet-v2", 10_000, "imagenet", 1000, (_V2, f"imagenetv2/{_V2}"), True),
    _ImageNetSet("imagenet-r", 30_000, "imagenet-r", 200,
                 ("imagenet-r", "imagenet-rendition/imagenet-r")),
    _ImageNetSet("imagenet-sketch", 50_889, "imagenet", 1000,
                 ("sketch", "ImageNet-Sketch/sketch", "imagenet-sketch/images",
                  "imagenet-sketch/sketch", "imagenet-sketch")),
)  # fmt: skip


def _label(published: _ImageNetSet, folder: str, label: dict[str, int]) -> int | None:
    """Of a class folder; numbers are compared as numbers, never as text (10 follows 9, not 1)."""
    if published.numbered and is_integer(folder) and int(folder) < published.classes:
        return int(folder)
    return label.get(folder)


def _class_folder(published: _ImageNetSet, root: Path) -> Path:
    for folder in [*(root / below for below in published.folders), root]:
        if folder.is_dir() and _has_classes(published, folder):
            return folder
    flat = next((root / f for f in (*published.folders, "") if _is_flat(root / f)), None)
    raise MarcError(
        f"{published.name} was not found",
        got=f"{flat}: pictures without class folders" if flat else root,
        allowed=" or ".join(f"{root / below}/" for below in published.folders)
        + f", or {root} itself, with class folders "
        + ("0 ... 999" if published.numbered else _wordnet_example(published.classes)),
        hint="move the pictures into class folders, or list them in csv/FILE"
        if flat
        else "name the folder that holds it with --root; nothing is downloaded",
    )


def _has_classes(published: _ImageNetSet, folder: Path) -> bool:
    with os.scandir(folder) as entries:
        return any(
            _WORDNET_ID.fullmatch(entry.name) or (published.numbered and is_integer(entry.name))
            for entry in entries
            if os.path.isdir(entry.path)  # noqa: PTH112 (an entry fails on a ring of links)
        )


def _is_flat(folder: Path) -> bool:
    """Whether it looks like the validation pictures as they were first distributed."""
    return folder.is_dir() and any(folder.glob("ILSVRC2012_val_*"))


@cache
def _wordnet_ids(classes: str) -> tuple[str, ...]:
    """The ids of `imagenet` (1000), `imagenet-a` or `imagenet-r` (200 each), in label order."""
    file = _package_file("timm", "data", "_info", f"{classes.replace('-', '_')}_synsets.txt")
    return tuple(read_text(file).split())


@cache
def _class_names() -> tuple[str, ...]:
    """The 1000 names in label order, as open_clip has them."""
    file = _package_file("open_clip", "zero_shot_metadata.py")
    with contextlib.suppress(SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        for statement in ast.parse(read_text(file)).body:
            if isinstance(statement, ast.Assign) and _target(statement) == "IMAGENET_CLASSNAMES":
                names = tuple(map(str, ast.literal_eval(statement.value)))
                if len(names) == len(_wordnet_ids("imagenet")):
                    return names
    raise MarcError(
        "this version of open_clip has no list of ImageNet's class names",
        got=file,
        hint="pip install --upgrade open_clip_torch",
    )


def _labels_within_imagenet(classes: str) -> tuple[int, ...]:
    """The mask: which of the 1000 labels the classes are, in label order."""
    position = {wordnet_id: index for index, wordnet_id in enumerate(_wordnet_ids("imagenet"))}
    return tuple(position[wordnet_id] for wordnet_id in _wordnet_ids(classes))


def _target(statement: ast.Assign) -> str:
    target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def _package_file(package: str, *path: str) -> Path:
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    for folder in folders:
        file = Path(folder, *path)
        if file.is_file():
            return file
    raise MarcError(
        "the class list of ImageNet comes with timm and open_clip, and is not there",
        got=f"{package}: {'no ' + '/'.join(path) if folders else 'not installed'}",
        hint='pip install "marc-clip[encoders]"',
    )
