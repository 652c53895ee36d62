"""AugMix: a picture mixed with chains of operations on it, written from its description.

Three copies of a picture each go through one to three operations that are drawn at random. The
copies are mixed with weights w ~ Dirichlet(1, 1, 1), and that mixture with the picture itself by
m ~ Beta(1, 1): m x picture + (1 - m) x sum of w_i x copy_i.

The sources mix after normalisation. Normalisation is affine and all the weights sum to one, so a
mixture of pixel values, kept as floats and never rounded, is the same picture.

An operation has a level ~ U(0.1, severity), and ten is full strength:

| operation          | what it does at a level               | at level 10      | at level 50     |
|--------------------|---------------------------------------|------------------|-----------------|
| autocontrast       | stretches each colour to 0..255       | no level         | no level        |
| equalize           | evens out each colour's histogram     | no level         | no level        |
| posterize          | keeps the 4 - int(0.4 level) top bits | 0 bits: black    | below 0: black  |
| rotate             | turns by int(3 level) degrees, +-     | 30 degrees       | 150 degrees     |
| solarize           | inverts 256 - int(25.6 level) and up  | inverts all      | inverts all     |
| shear x, y         | slants by 0.03 level, +-              | 0.3              | 1.5             |
| translate x, y     | moves by int(side x level / 30), +-   | a third          | out of sight    |
| color, contrast,   | PIL's enhancement by                  | 1.9              | 9.1: clipped    |
| brightness, sharp. | 0.1 + 0.18 level                      |                  |                 |

Severity 50, which one published recipe uses, goes beyond the range the operations were designed
for. Nothing is refused there: each formula is followed, and its result is cut to what a picture
can hold. No bits left is black, a threshold below zero inverts everything, and what is moved in
from outside is black.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps

_N_CHAINS = 3
_LONGEST_CHAIN = 3
_LOWEST_LEVEL = 0.1
_FULL_LEVEL = 10.0

_Picture = Image.Image
_Change = Callable[[_Picture, float, int], _Picture]


@dataclass(frozen=True)
class _Operation:
    """One drawn operation: its name, how strong, and in which of the two directions."""

    name: str
    level: float
    sign: int


@dataclass(frozen=True)
class _Mixture:
    """Everything that is drawn for one mixed picture."""

    weights: tuple[float, ...]
    """Of the chains; they sum to one."""
    original: float
    """m: how much of the picture itself stays."""
    chains: tuple[tuple[_Operation, ...], ...]


def augmix(
    picture: _Picture, names: Sequence[str], severity: float, generator: np.random.Generator
) -> NDArray[np.float32]:
    """A picture mixed with drawn operations of `names`, (height, width, 3), from 0 to 255."""
    return _mix(picture, _draw_mixture(names, severity, generator))


def _draw_mixture(
    names: Sequence[str], severity: float, generator: np.random.Generator
) -> _Mixture:
    """Draw a mixture over the operations `names`.

    Everything comes from uniform numbers: Beta(1, 1) is uniform, and the pieces of a stick that
    is broken at two uniform places are Dirichlet(1, 1, 1).
    """
    first, second = sorted(generator.random(_N_CHAINS - 1).tolist())
    original = float(generator.random())
    chains = []
    for _ in range(_N_CHAINS):
        length = 1 + int(generator.random() * _LONGEST_CHAIN)
        chains.append(tuple(_draw_operation(names, severity, generator) for _ in range(length)))
    return _Mixture((first, second - first, 1 - second), original, tuple(chains))


def _draw_operation(
    names: Sequence[str], severity: float, generator: np.random.Generator
) -> _Operation:
    which, strength, direction = generator.random(3).tolist()
    level = _LOWEST_LEVEL + strength * (severity - _LOWEST_LEVEL)
    return _Operation(names[int(which * len(names))], level, 1 if direction < 0.5 else -1)


def _mix(picture: _Picture, mixture: _Mixture) -> NDArray[np.float32]:
    """The mixed picture, (height, width, 3) with values from 0 to 255 that are not rounded."""
    mixed = np.multiply(np.asarray(picture), mixture.original, dtype=np.float32)
    for weight, chain in zip(mixture.weights, mixture.chains, strict=True):
        copy = picture
        for operation in chain:
            copy = _operate(copy, operation)
        share = (1 - mixture.original) * weight
        mixed += np.multiply(np.asarray(copy), share, dtype=np.float32)
    return np.clip(mixed, 0, 255, out=mixed)  # rounded weights may sum to a little over one


def _operate(picture: _Picture, operation: _Operation) -> _Picture:
    """The picture after one operation; its size stays."""
    return _OPERATIONS[operation.name](picture, operation.level / _FULL_LEVEL, operation.sign)


def _posterize(picture: _Picture, strength: float, sign: int) -> _Picture:
    bits = max(0, 4 - int(4 * strength))
    kept = 256 - 2 ** (8 - bits)  # a mask of the top bits; PIL's own function refuses none at all
    return picture.point([value & kept for value in range(256)] * 3)


def _rotate(picture: _Picture, strength: float, sign: int) -> _Picture:
    return picture.rotate(sign * int(30 * strength), resample=Image.Resampling.BILINEAR)


def _shear_x(picture: _Picture, strength: float, sign: int) -> _Picture:
    return _affine(picture, (1, sign * 0.3 * strength, 0, 0, 1, 0))


def _shear_y(picture: _Picture, strength: float, sign: int) -> _Picture:
    return _affine(picture, (1, 0, 0, sign * 0.3 * strength, 1, 0))


def _translate_x(picture: _Picture, strength: float, sign: int) -> _Picture:
    return _moved(picture, sign * int(picture.width / 3 * strength), 0)


def _translate_y(picture: _Picture, strength: float, sign: int) -> _Picture:
    return _moved(picture, 0, sign * int(picture.height / 3 * strength))


def _moved(picture: _Picture, x: int, y: int) -> _Picture:
    """Whole pixels need no interpolation: a crop that reaches beyond the picture is black there."""
    return picture.crop((x, y, x + picture.width, y + picture.height))


def _affine(picture: _Picture, numbers: tuple[float, ...]) -> _Picture:
    """Each new pixel comes from the place (a x + b y + c, d x + e y + f); outside it is black."""
    affine, bilinear = Image.Transform.AFFINE, Image.Resampling.BILINEAR
    return picture.transform(picture.size, affine, numbers, resample=bilinear)


def _enhanced(enhancement: Callable[[_Picture], Any]) -> _Change:
    return lambda picture, strength, sign: enhancement(picture).enhance(0.1 + 1.8 * strength)


_OPERATIONS: dict[str, _Change] = {
    "autocontrast": lambda picture, strength, sign: ImageOps.autocontrast(picture),
    "equalize": lambda picture, strength, sign: ImageOps.equalize(picture),
    "posterize": _posterize,
    "rotate": _rotate,
    "solarize": lambda picture, strength, sign: ImageOps.solarize(
        picture, max(0, 256 - int(256 * strength))
    ),
    "shear_x": _shear_x,
    "shear_y": _shear_y,
    "translate_x": _translate_x,
    "translate_y": _translate_y,
    "color": _enhanced(ImageEnhance.Color),
    "contrast": _enhanced(ImageEnhance.Contrast),
    "brightness": _enhanced(ImageEnhance.Brightness),
    "sharpness": _enhanced(ImageEnhance.Sharpness),
}
"""By name: a picture, the fraction of full strength and a direction, +1 or -1, give a picture."""

OPERATIONS = tuple(_OPERATIONS)
"""Their names; the last four are also corruptions of well-known benchmarks."""
