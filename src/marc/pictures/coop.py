"""`coop/SPLIT.json`: split files of the CoOp family, and the ten cross-domain sets that have them.

A split file is `{"test": [[path, label, name], ...], ...}`; the sets lie in the folders that CoOp
describes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marc.errors import MarcError, one_of
from marc.files import parse_json, read_text
from marc.pictures.image_set import FileBytes, ImageSet
from marc.pictures.listing import made_distinct, printable, read_names, spoken

_PARTS = ("test", "val", "train")
_LAYOUT = '{"train": [[path, label, class name], ...], "val": [...], "test": [...]}'

_EUROSAT_NAMES = {
    "AnnualCrop": "Annual Crop Land",
    "Forest": "Forest",
    "HerbaceousVegetation": "Herbaceous Vegetation Land",
    "Highway": "Highway or Road",
    "Industrial": "Industrial Buildings",
    "Pasture": "Pasture Land",
    "PermanentCrop": "Permanent Crop Land",
    "Residential": "Residential Buildings",
    "River": "River",
    "SeaLake": "Sea or Lake",
}
"""Folder names of EuroSAT, and what prompts call them."""
_AIRCRAFT = ("images_variant_test.txt", "variants.txt")


def open_coop(file: Path, name: str, root: Path | None = None, part: str = "test") -> ImageSet:
    """One part of a split file, in its order, `test` if nothing else is asked for.

    Paths are relative to `root`; without one, to the folder of the file or the folder beside it
    that has the pictures.
    """
    split = _read(file)
    one_of("part", part, _PARTS, hint=f"{name}#test")
    rows = split.get(part, [])
    if not rows:
        filled = ", ".join(key for key, value in split.items() if value)
        raise MarcError(f"the part {part!r} is empty", got=file, allowed=filled or "none is filled")
    class_names = _class_names(file, [row for key in split for row in split[key]])
    folder = root if root is not None else _picture_folder(file, [row[0] for row in rows])
    locations = FileBytes.listed([row[0] for row in rows], folder, file)
    ids, repeated = made_distinct(printable(row[0]) for row in rows)
    return ImageSet(
        name,
        ids,
        locations,
        tuple(row[1] for row in rows),
        class_names,
        upright=False,
        notes=(f"{repeated} pictures are listed more than once",) if repeated else (),
    )


def _read(file: Path) -> dict[str, list[tuple[str, int, str]]]:
    parsed = parse_json(read_text(file), file)
    if not isinstance(parsed, dict) or not set(parsed) & set(_PARTS):
        raise MarcError("this is no split file", got=file, allowed=_LAYOUT)
    split = {part: parsed[part] for part in _PARTS if part in parsed}
    for part, rows in split.items():
        if not isinstance(rows, list):
            raise MarcError(f"the part {part!r} is no list", got=file, allowed=_LAYOUT)
        split[part] = [_row(file, part, index, row) for index, row in enumerate(rows)]
    return split


def _row(file: Path, part: str, index: int, row: Any) -> tuple[str, int, str]:
    good = (
        isinstance(row, list)
        and len(row) == 3
        and isinstance(row[0], str)
        and row[0] != ""
        and isinstance(row[1], int)
        and not isinstance(row[1], bool)
        and row[1] >= 0
        and isinstance(row[2], str)
    )
    if not good:
        raise MarcError(
            "an entry of the split file cannot be read",
            got=f"{file}: {part}[{index}] = {str(row)[:100]}",
            allowed="[path, label from 0, class name]",
        )
    return row[0], row[1], row[2]


def _class_names(file: Path, rows: list[tuple[str, int, str]]) -> tuple[str, ...]:
    """By label, from all parts: a class may be missing in one of them."""
    names: dict[int, str] = {}
    for path, label, name in rows:
        if names.setdefault(label, name) != name:
            raise MarcError(
                "a label has two class names",
                got=f"{file}: label {label} is {names[label]!r}, but {name!r} at {path}",
            )
    absent = next((label for label in range(len(names)) if label not in names), None)
    if absent is not None:
        raise MarcError(
            "a label between others has no class",
            got=f"{file}: no entry has label {absent}, the largest is {max(names)}",
        )
    return tuple(spoken(names[label]) for label in range(len(names)))


def _picture_folder(file: Path, paths: list[str]) -> Path:
    """The folder beside the split file that has most of a few pictures of the list."""
    some = paths[:: max(1, len(paths) // 50)]
    beside = sorted(path for path in file.parent.iterdir() if os.path.isdir(path))  # noqa: PTH112
    return max(
        [file.parent, *beside],
        key=lambda folder: sum(os.path.isfile(os.path.join(folder, p)) for p in some),  # noqa: PTH113, PTH118
    )


@dataclass(frozen=True)
class _CrossDomainSet:
    """One published set: how many pictures its test part has, and where they lie under a root."""

    name: str
    images: int
    classes: int
    folder: str
    """Below the root."""
    split: str
    """The split file in the folder."""
    pictures: str
    """The folder that the paths of the split file start from."""
    prompts: str = "tip-7"

    @property
    def layout(self) -> str:
        """In words."""
        return f"{self.folder}/{self.split} and {self.folder}/{self.pictures}".rstrip("/.") + "/"

    def open(self, root: Path) -> ImageSet:
        """The test part of a self set, in the order of its split file."""
        folder = self._folder(root)
        pictures = folder / self.pictures
        if self.name == "fgvc-aircraft":
            images = _aircraft(folder, pictures)
        else:
            images = open_coop(folder / self.split, self.name, pictures)
        notes = [*images.notes]
        if self.name == "eurosat":  # some split files have the words already
            renamed = [
                name for name in images.class_names if _EUROSAT_NAMES.get(name, name) != name
            ]
            names = tuple(_EUROSAT_NAMES.get(name, name) for name in images.class_names)
            images = replace(images, class_names=names)
            changes = ", ".join(f"{name} -> {_EUROSAT_NAMES[name]}" for name in renamed)
            notes += [f"class names of EuroSAT as prompts say them: {changes}"] if changes else []
        notes += images.count_notes(self.images, self.classes)
        return replace(
            images,
            name=self.name,
            prompts=(self.prompts,),
            upright=False,
            notes=tuple(notes),
        )

    def _folder(self, root: Path) -> Path:
        for folder in (root / self.folder, root):
            if (folder / self.split).is_file() and (folder / self.pictures).is_dir():
                return folder
        raise MarcError(
            f"{self.name} was not found",
            got=root,
            allowed=f"{root / self.folder / self.split} and the pictures in "
            f"{root / self.folder / self.pictures}",
            hint="name the folder that holds it with --root; nothing is downloaded",
        )


def _aircraft(folder: Path, pictures: Path) -> ImageSet:
    """FGVC Aircraft has lists of its own: `0034309 747-400`, one picture per line."""
    test, variants = folder / _AIRCRAFT[0], folder / _AIRCRAFT[1]
    class_names = tuple(read_names(variants))
    label = {name: index for index, name in enumerate(class_names)}
    paths: list[str] = []
    labels: list[int] = []
    for number, line in enumerate(read_text(test).splitlines(), 1):
        picture, _, variant = line.strip().partition(" ")
        if not picture:
            continue
        if variant not in label:
            raise MarcError(
                "a line names no aircraft of the list",
                got=f"{test}: line {number}: {line.strip()!r}",
                allowed=f"a number and a name of {variants}",
            )
        paths.append(f"{picture}.jpg")
        labels.append(label[variant])
    if not paths:
        raise MarcError("the list has no pictures", got=test, allowed="lines `0034309 747-400`")
    locations = FileBytes.listed(paths, pictures, test)
    ids, _ = made_distinct(printable(path) for path in paths)
    return ImageSet("fgvc-aircraft", ids, locations, tuple(labels), class_names)


CROSS_DOMAIN_SETS: tuple[_CrossDomainSet, ...] = tuple(
    _CrossDomainSet(*row)
    for row in (
        ("caltech101", 2465, 100, "caltech-101", "split_zhou_Caltech101.json",
         "101_ObjectCategories", "tip-7"),
        ("dtd", 1692, 47, "dtd", "split_zhou_DescribableTextures.json", "images", "dtd"),
        ("eurosat", 8100, 10, "eurosat", "split_zhou_EuroSAT.json", "2750", "eurosat"),
        ("flowers102", 2463, 102, "oxford_flowers", "split_zhou_OxfordFlowers.json",
         "jpg", "flowers"),
        ("oxford-pets", 3669, 37, "oxford_pets", "split_zhou_OxfordPets.json", "images", "pets"),
        ("stanford-cars", 8041, 196, "stanford_cars", "split_zhou_StanfordCars.json", ".", "cars"),
        ("ucf101", 3783, 101, "ucf101", "split_zhou_UCF101.json", "UCF-101-midframes", "ucf101"),
        ("fgvc-aircraft", 3333, 100, "fgvc_aircraft", _AIRCRAFT[0], "images", "aircraft"),
        ("food101", 30300, 101, "food-101", "split_zhou_Food101.json", "images", "food101"),
        ("sun397", 19850, 397, "sun397", "split_zhou_SUN397.json", "SUN397", "tip-7"),
    )
)  # fmt: skip
