"""The 48 classes of the lab: names, synonyms and drawings, in the order of their labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from marc_lab.drawings import DRAWINGS
from marc_lab.raster import Pen, Shape


@dataclass(frozen=True)
class _ObjectClass:
    """A kind of thing: what it is called and how it is drawn."""

    name: str
    synonyms: tuple[str, ...]
    drawing: Callable[[Pen], Shape]


_SYNONYMS = {
    "star": ("pentagram",),
    "heart": ("valentine",),
    "arrow": ("pointer",),
    "gear": ("cog", "cogwheel"),
    "moon": ("crescent",),
    "cross": ("plus",),
    "spiral": ("swirl",),
    "house": ("home", "cottage"),
    "pine": ("fir", "conifer"),
    "fish": ("trout",),
    "mug": ("cup", "beaker"),
    "key": ("latchkey",),
    "leaf": ("foliage",),
    "lightning": ("bolt", "thunderbolt"),
    "cloud": ("puff",),
    "flower": ("blossom", "daisy"),
    "umbrella": ("parasol",),
    "anchor": ("mooring",),
    "bell": ("chime",),
    "crown": ("tiara",),
    "bottle": ("flask",),
    "hand": ("palm",),
    "mushroom": ("toadstool",),
    "bird": ("sparrow",),
    "butterfly": ("moth",),
    "car": ("automobile",),
    "sailboat": ("yacht", "boat"),
    "airplane": ("plane", "jet"),
    "rocket": ("spaceship",),
    "guitar": ("ukulele",),
    "hammer": ("mallet",),
    "scissors": ("shears",),
    "glasses": ("spectacles",),
    "chair": ("seat", "stool"),
    "lamp": ("lantern",),
    "candle": ("taper",),
    "apple": ("pome",),
    "cherry": ("berry",),
    "cactus": ("saguaro",),
    "snail": ("slug",),
    "cat": ("kitten", "feline"),
    "rabbit": ("bunny", "hare"),
    "boot": ("shoe",),
    "hat": ("fedora",),
    "shirt": ("tshirt", "jersey"),
    "diamond": ("gem", "jewel"),
    "hourglass": ("sandglass",),
    "balloon": ("zeppelin",),
}
CLASSES = tuple(_ObjectClass(name, words, DRAWINGS[name]) for name, words in _SYNONYMS.items())
CLASS_NAMES = tuple(each.name for each in CLASSES)

_HELD_BACK_NAMES = (
    *("heart", "house", "fish", "key", "umbrella", "mushroom"),
    *("butterfly", "rocket", "guitar", "glasses", "cactus", "hourglass"),
)
HELD_BACK = tuple(sorted(CLASS_NAMES.index(name) for name in _HELD_BACK_NAMES))
"""Classes whose labels only the upper reference has learned; the predictor knows their names."""
