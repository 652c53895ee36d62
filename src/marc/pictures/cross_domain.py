"""The ten cross-domain sets, in the folders that CoOp describes and with its test splits."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from marc.errors import MarcError
from marc.pictures.coop import open_coop
from marc.pictures.csv_file import read_text, require_one
from marc.pictures.image_set import FileBytes, ImageSet
from marc.pictures.imagenet import count_notes
from marc.pictures.listing import made_distinct, printable

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


@dataclass(frozen=True)
class CrossDomainSet:
    """One published set: how many pictures its test part has, and where they lie under a root."""

    name: str
    images: int
    n_classes: int
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


CROSS_DOMAIN_SETS: tuple[CrossDomainSet, ...] = tuple(
    CrossDomainSet(*row)
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


def open_cross_domain(published: CrossDomainSet, root: Path) -> ImageSet:
    """The test part of a published set, in the order of its split file."""
    folder = _folder(published, root)
    pictures = folder / published.pictures
    if published.name == "fgvc-aircraft":
        images = _aircraft(folder, pictures)
    else:
        images = open_coop(folder / published.split, published.name, pictures)
    notes = [*images.notes]
    if published.name == "eurosat":
        images, renamed = _rename(images)
        notes += [f"class names of EuroSAT as prompts say them: {renamed}"] if renamed else []
    labels = list(images.labels or ())
    notes += count_notes(published.images, published.n_classes, labels)
    return replace(
        images,
        name=published.name,
        prompts=(published.prompts,),
        upright=False,
        notes=tuple(notes),
    )


def _folder(published: CrossDomainSet, root: Path) -> Path:
    for folder in (root / published.folder, root):
        if (folder / published.split).is_file() and (folder / published.pictures).is_dir():
            return folder
    raise MarcError(
        f"{published.name} was not found",
        got=root,
        allowed=f"{root / published.folder / published.split} and the pictures in "
        f"{root / published.folder / published.pictures}",
        hint="name the folder that holds it with --root; nothing is downloaded",
    )


def _rename(images: ImageSet) -> tuple[ImageSet, str]:
    """EuroSAT's folder names as words; some split files have the words already."""
    names = tuple(_EUROSAT_NAMES.get(name, name) for name in images.class_names)
    changed = [
        f"{old} -> {new}" for old, new in zip(images.class_names, names, strict=True) if old != new
    ]
    return replace(images, class_names=names), ", ".join(changed)


def _aircraft(folder: Path, pictures: Path) -> ImageSet:
    """FGVC Aircraft has lists of its own: `0034309 747-400`, one picture a line."""
    test, variants = folder / _AIRCRAFT[0], folder / _AIRCRAFT[1]
    class_names = tuple(line.strip() for line in read_text(variants).splitlines() if line.strip())
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
    locations = tuple(FileBytes(os.path.join(pictures, path)) for path in paths)  # noqa: PTH118
    require_one(locations, test, pictures)
    ids, _ = made_distinct(printable(path) for path in paths)
    return ImageSet("fgvc-aircraft", ids, locations, tuple(labels), class_names)
