"""From a picture to the numbers that an encoder takes, in PIL and NumPy.

The libraries' own preprocessing is never used: it depends on how a model was asked for. This one
gives, to the last bit, the pixels of torchvision's `Resize` and `CenterCrop` on PIL pictures; a
crop that says so is resized by torch instead, in a fraction of the time. One value in some hundreds
then differs by a level, so it is another crop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from marc.errors import MarcError, integer, one_of

_RESIZES = ("short", "squash")
_FAST = "fast-"
_INTERPOLATIONS = ("bicubic", "bilinear", f"{_FAST}bicubic", f"{_FAST}bilinear")
_LARGEST = 2**13
"""Pixels a side of what an encoder takes."""
_LONGEST = 64
"""How many times as long as wide a picture may be before its ends are cut off first: they could
not be seen in the square, and a line of pixels would become gigabytes."""


@dataclass(frozen=True)
class Crop:
    """How a picture becomes the square of pixels that an encoder takes."""

    size: int
    """Pixels a side of the square."""
    resized: int
    """Pixels of the short side before the centre is cut out."""
    resize: str = "short"
    """`short`: the short side becomes `resized`, the other follows; `squash`: both sides do."""
    interpolation: str = "bicubic"
    """`bicubic` or `bilinear`, both PIL's; `fast-bicubic` or `fast-bilinear`, torch's."""

    WAYS: ClassVar[tuple[str, ...]] = ("exact", "fast")
    """PIL's resize or torch's, for `by`."""

    def checked(self) -> Crop:
        """The crop itself; one that cannot be cut is refused."""
        integer("size of the crop", self.size, 1, _LARGEST)
        one_of("way to resize", self.resize, _RESIZES)
        one_of("interpolation", self.interpolation, _INTERPOLATIONS)
        if integer("resized", self.resized, 1, _LARGEST) < self.size:
            raise MarcError(
                "a square cannot be cut from a smaller picture",
                got=f"resized to {self.resized}, size {self.size}",
                allowed="resized >= size",
            )
        return self

    def by(self, way: str) -> Crop:
        """This crop, `exact` or `fast`.

        >>> Crop(224, 224).by("fast").interpolation
        'fast-bicubic'
        """
        one_of("way to compute a resize", way, self.WAYS)
        plain = self.interpolation.removeprefix(_FAST)
        return replace(self, interpolation=_FAST * (way == "fast") + plain)

    @classmethod
    def of_model(cls, name: str, sides: int | Sequence[int], interpolation: object) -> Crop:
        """Of a model that takes squares: short side to its size, then the centre."""
        lengths = {sides} if isinstance(sides, int) else set(sides)
        if len(lengths) != 1:
            raise MarcError(
                "only models that take square pictures can be used", got=f"{name}: {list(lengths)}"
            )
        size = int(lengths.pop())
        return cls(size, size, "short", "bilinear" if interpolation == "bilinear" else "bicubic")

    def cut(self, picture: Image.Image) -> NDArray[np.uint8]:
        """The square (size, size, 3) of a picture.

        >>> Crop(size=224, resized=224).cut(Image.new("RGB", (640, 480), "red")).shape
        (224, 224, 3)
        """
        return self.cut_all(picture, (self,))[self]

    @staticmethod
    def cut_all(picture: Image.Image, crops: Iterable[Crop]) -> dict[Crop, NDArray[np.uint8]]:
        """The squares of a picture; crops that resize it alike share one resize."""
        resized: dict[Crop, Image.Image] = {}
        squares = {}
        for crop in crops:
            alike = replace(crop.checked(), size=crop.resized)
            if alike not in resized:
                resized[alike] = _resized(picture, crop)
            squares[crop] = _centre(resized[alike], crop.size)
        return squares


def _resized(picture: Image.Image, crop: Crop) -> Image.Image:
    if picture.mode != "RGB":
        picture = picture.convert("RGB")
    if crop.resize == "short":
        picture = _middle(picture)
    size, way = _new_size(picture, crop), crop.interpolation
    if way.startswith(_FAST):
        return _resized_by_torch(picture, size, way.removeprefix(_FAST))
    return picture.resize(size, Image.Resampling[way.upper()])


def _resized_by_torch(picture: Image.Image, size: tuple[int, int], way: str) -> Image.Image:
    import torch

    # a copy that can be written, which torch asks for; colours stay together, so that it has
    # nothing to rearrange in threads, for which the networks need the cores
    pixels = torch.from_numpy(np.array(picture)[np.newaxis]).permute(0, 3, 1, 2)
    with torch.inference_mode():
        resized = torch.nn.functional.interpolate(pixels, size[::-1], mode=way, antialias=True)
        return Image.fromarray(np.ascontiguousarray(resized[0].permute(1, 2, 0).numpy()))


def _centre(picture: Image.Image, size: int) -> NDArray[np.uint8]:
    width, height = picture.size
    # round, not //: half a pixel goes to the even side, as in torchvision
    left, top = round((width - size) / 2), round((height - size) / 2)
    return np.array(picture.crop((left, top, left + size, top + size)))


def _middle(picture: Image.Image) -> Image.Image:
    """The middle of a picture that is a line; any other picture as it is."""
    width, height = picture.size
    longest = _LONGEST * min(width, height)
    if max(width, height) <= longest:
        return picture
    left, top = max(0, (width - longest) // 2), max(0, (height - longest) // 2)
    return picture.crop((left, top, min(width, left + longest), min(height, top + longest)))


def _new_size(picture: Image.Image, crop: Crop) -> tuple[int, int]:
    if crop.resize == "squash":
        return crop.resized, crop.resized
    width, height = picture.size
    if width <= height:
        return crop.resized, int(crop.resized * height / width)
    return int(crop.resized * width / height), crop.resized
