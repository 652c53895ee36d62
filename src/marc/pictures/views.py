"""Views of a picture: the plain centre crop first, then seeded random crops of it.

What view j of a picture looks like depends on the picture's key, the seed and j, and on nothing
else: not on the index in a stream, the number of workers, the order of the calls or the number of
views. The first 8 of 64 views are the 8 views. Recipes share their draws: VB mixes the very crops
of VA, VD those of VC, and encoders of two input sizes see the same part of a picture.

AugMix mixes a picture with chains of operations on it; it is written from its description.

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

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageOps

from marc.errors import MarcError, integer, one_of
from marc.pictures.crops import Crop

MOST_VIEWS = 4096
"""Of one picture."""
_N_TRIES = 10
"""Crops that are drawn before a picture is thought too thin for any."""

_Box = tuple[int, int, int, int]
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

    def apply(self, picture: _Picture) -> _Picture:
        """The picture after it; its size stays."""
        return _OPERATIONS[self.name](picture, self.level / _FULL_LEVEL, self.sign)


@dataclass(frozen=True)
class _Mixture:
    """Everything that is drawn for one mixed picture."""

    weights: tuple[float, ...]
    """Of the chains; they sum to one."""
    original: float
    """m: how much of the picture itself stays."""
    chains: tuple[tuple[_Operation, ...], ...]


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
            copy = operation.apply(copy)
        share = (1 - mixture.original) * weight
        mixed += np.multiply(np.asarray(copy), share, dtype=np.float32)
    return np.clip(mixed, 0, 255, out=mixed)  # rounded weights may sum to a little over one


def _posterize(picture: _Picture, strength: float, sign: int) -> _Picture:
    bits = max(0, 4 - int(4 * strength))
    kept = 256 - 2 ** (8 - bits)  # a mask of the top bits; PIL's own function refuses none at all
    return picture.point([value & kept for value in range(256)] * 3)


def _moved(picture: _Picture, x: int, y: int) -> _Picture:
    """Whole pixels need no interpolation: a crop that reaches beyond the picture is black there."""
    return picture.crop((x, y, x + picture.width, y + picture.height))


def _affine(picture: _Picture, b: float = 0, d: float = 0) -> _Picture:
    """Each new pixel comes from the place (x + b y, d x + y); outside it is black."""
    affine, bilinear = Image.Transform.AFFINE, Image.Resampling.BILINEAR
    return picture.transform(picture.size, affine, (1, b, 0, d, 1, 0), resample=bilinear)


def _enhanced(enhancement: Callable[[_Picture], Any]) -> _Change:
    return lambda picture, strength, sign: enhancement(picture).enhance(0.1 + 1.8 * strength)


_OPERATIONS: dict[str, _Change] = {
    "autocontrast": lambda picture, strength, sign: ImageOps.autocontrast(picture),
    "equalize": lambda picture, strength, sign: ImageOps.equalize(picture),
    "posterize": _posterize,
    "rotate": lambda picture, strength, sign: picture.rotate(
        sign * int(30 * strength), resample=Image.Resampling.BILINEAR
    ),
    "solarize": lambda picture, strength, sign: ImageOps.solarize(
        picture, max(0, 256 - int(256 * strength))
    ),
    "shear_x": lambda picture, strength, sign: _affine(picture, b=sign * 0.3 * strength),
    "shear_y": lambda picture, strength, sign: _affine(picture, d=sign * 0.3 * strength),
    "translate_x": lambda picture, strength, sign: _moved(
        picture, sign * int(picture.width / 3 * strength), 0
    ),
    "translate_y": lambda picture, strength, sign: _moved(
        picture, 0, sign * int(picture.height / 3 * strength)
    ),
    "color": _enhanced(ImageEnhance.Color),
    "contrast": _enhanced(ImageEnhance.Contrast),
    "brightness": _enhanced(ImageEnhance.Brightness),
    "sharpness": _enhanced(ImageEnhance.Sharpness),
}
"""By name: a picture, the fraction of full strength and a direction, +1 or -1, give a picture; the
last four are also corruptions of well-known benchmarks."""


@dataclass(frozen=True)
class _ViewRecipe:
    """How the views after the first come about."""

    id: str
    summary: str
    used_by: str
    scale: tuple[float, float] | None
    """Smallest and largest fraction of the picture's area in a crop; None: there are no crops."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """Narrowest and widest crop, width / height, before it is squeezed into a square."""
    flips: bool = True
    """Whether half of the views are mirrored, left to right."""
    operations: tuple[str, ...] = ()
    """Of AugMix; none: crops are not mixed."""
    severity: float = 0.0
    """Highest level of an operation; ten is full strength."""
    interpolation: str = "bilinear"
    """Of all random crops. The released codes of all four recipes leave the default of the usual
    random resized crop as it is, and that is bilinear; only the plain view follows the card."""

    @property
    def mixes(self) -> bool:
        """Whether views are mixtures, and so floats."""
        return bool(self.operations)


_WIDE, _NARROW = (0.08, 1.0), (0.5, 1.0)

_RECIPES: dict[str, _ViewRecipe] = {
    recipe.id: recipe
    for recipe in (
        _ViewRecipe(
            "V0", "the plain centre crop alone", "everyone with one view", None, flips=False
        ),
        _ViewRecipe(
            "VA",
            "crops of 8 to 100% of the area, mirrored or not",
            "TPT and ZERO on ImageNet-like sets, ZERO and BoostAdapter on all sets",
            _WIDE,
        ),
        _ViewRecipe(
            "VB",
            "the crops of VA in AugMix with 9 operations at severity 1",
            "TDA on ImageNet-A, V2, R and Sketch, TPT on the cross-domain sets, ETTA",
            _WIDE,
            operations=tuple(_OPERATIONS)[:9],
            severity=1.0,
        ),
        _ViewRecipe(
            "VC",
            "crops of 50 to 100% of the area, mirrored or not",
            "DMN and COSMIC on ImageNet-like sets; MARC's default",
            _NARROW,
        ),
        _ViewRecipe(
            "VD",
            "the crops of VC in AugMix with 13 operations at severity 50",
            "COSMIC on the cross-domain sets",
            _NARROW,
            operations=tuple(_OPERATIONS),
            severity=50.0,
        ),
    )
}


def read_recipe(name: str) -> _ViewRecipe:
    """The recipe with this name, in capitals or not."""
    if name.upper() == "VE":
        raise MarcError(
            "views that a diffusion model draws (DiffTPT's) are no recipe: they are listed",
            got=repr(name),
            allowed=", ".join(_RECIPES),
            hint="marc embed ... --recipe VA --generated LIST.csv",
        )
    return _RECIPES[one_of("view recipe", name.upper(), _RECIPES, hint="VC, the default")]


def make_views(
    picture: Image.Image,
    crop: Crop,
    recipe: str,
    n_views: int,
    *,
    key: str,
    seed: int,
    plain: NDArray[np.uint8] | None = None,
) -> NDArray[Any]:
    """Views of a picture, (n_views, size, size, 3), with values from 0 to 255.

    Args:
        picture: any that PIL holds; it is seen in RGB.
        crop: of the encoder. View 0 is its plain crop; the others have its size.
        recipe: V0, VA, VB, VC or VD.
        n_views: M, with the plain one.
        key: names the picture among all pictures; data set and id, say.
        seed: another seed gives other views, except view 0.
        plain: view 0, where it was cut already.

    Returns:
        uint8, or float32 where the recipe mixes pictures (VB, VD): rounding would change them.
    """
    chosen = read_recipe(recipe)
    integer("n_views", n_views, 1, MOST_VIEWS)
    integer("seed", seed, 0)
    _check(picture, chosen, n_views)
    if picture.mode != "RGB":
        picture = picture.convert("RGB")
    shape = (n_views, crop.size, crop.size, 3)
    views = np.empty(shape, dtype=np.float32 if chosen.mixes else np.uint8)
    views[0] = crop.cut(picture) if plain is None else plain
    for view in range(1, n_views):
        views[view] = _random_view(picture, crop.size, chosen, _view_generator(key, seed, view))
    return views


def _check(picture: Image.Image, recipe: _ViewRecipe, n_views: int) -> None:
    if recipe.scale is None and n_views > 1:
        raise MarcError(
            f"{recipe.id} is the plain centre crop and has one view",
            got=f"{n_views} views",
            hint=f"recipe VC with {n_views} views, or V0 with 1",
        )
    if 0 in picture.size:
        raise MarcError(
            "a picture without pixels has no views", got=f"{picture.width} x {picture.height}"
        )


def _view_generator(key: str, seed: int, view: int) -> np.random.Generator:
    """The random numbers of one view of one picture: the same in every process, for ever."""
    text = json.dumps([key, int(seed), int(view)])  # escapes whatever a file name may hold
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words.tolist())))


def _random_view(
    picture: Image.Image, size: int, recipe: _ViewRecipe, generator: np.random.Generator
) -> NDArray[Any]:
    assert recipe.scale is not None, "V0 has no random views"
    box = _draw_crop_box(picture.size, recipe.scale, recipe.ratio, generator)
    # Cut first: resizing with a box would let pixels from outside the crop shine in at its edges.
    how = Image.Resampling[recipe.interpolation.upper()]
    view = picture.crop(box).resize((size, size), how)
    if recipe.flips and generator.random() < 0.5:
        view = view.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if not recipe.mixes:
        return np.asarray(view)
    return _mix(view, _draw_mixture(recipe.operations, recipe.severity, generator))


def _draw_crop_box(
    size: tuple[int, int],
    scale: tuple[float, float],
    ratio: tuple[float, float],
    generator: np.random.Generator,
) -> _Box:
    """Left, top, right and bottom of a random crop of a picture of `size`, width and height.

    The fraction of the area is uniform in `scale`, the logarithm of width / height is uniform in
    that of `ratio`, and so is the position among all where the crop fits. If ten drawn crops
    do not fit, the largest crop around the centre that `ratio` allows is taken.
    """
    width, height = size
    narrowest, widest = (math.log(bound) for bound in ratio)
    for _ in range(_N_TRIES):
        fraction, shape = generator.random(2).tolist()
        area = width * height * (scale[0] + fraction * (scale[1] - scale[0]))
        aspect = math.exp(narrowest + shape * (widest - narrowest))
        across, down = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < across <= width and 0 < down <= height:
            x, y = generator.random(2).tolist()
            left, top = int(x * (width - across + 1)), int(y * (height - down + 1))
            return left, top, left + across, top + down
    return _central_box(width, height, ratio)


def _central_box(width: int, height: int, ratio: tuple[float, float]) -> _Box:
    across = max(1, min(width, round(height * ratio[1])))
    down = max(1, min(height, round(width / ratio[0])))
    left, top = (width - across) // 2, (height - down) // 2
    return left, top, left + across, top + down
