"""The 48 classes of the lab: names, synonyms and drawings, in the order of their labels."""

from __future__ import annotations

from dataclasses import dataclass

from marc_lab import drawings_life as life
from marc_lab import drawings_signs as signs
from marc_lab import drawings_things as things
from marc_lab.outlines import Drawing


@dataclass(frozen=True)
class _ObjectClass:
    """A kind of thing: what it is called and how it is drawn."""

    name: str
    synonyms: tuple[str, ...]
    drawing: Drawing


CLASSES = (
    _ObjectClass("star", ("pentagram",), signs.star),
    _ObjectClass("heart", ("valentine",), signs.heart),
    _ObjectClass("arrow", ("pointer",), signs.arrow),
    _ObjectClass("gear", ("cog", "cogwheel"), signs.gear),
    _ObjectClass("moon", ("crescent",), signs.moon),
    _ObjectClass("cross", ("plus",), signs.cross),
    _ObjectClass("spiral", ("swirl",), signs.swirl),
    _ObjectClass("house", ("home", "cottage"), things.house),
    _ObjectClass("pine", ("fir", "conifer"), signs.pine),
    _ObjectClass("fish", ("trout",), life.fish),
    _ObjectClass("mug", ("cup", "beaker"), things.mug),
    _ObjectClass("key", ("latchkey",), things.key),
    _ObjectClass("leaf", ("foliage",), signs.leaf),
    _ObjectClass("lightning", ("bolt", "thunderbolt"), signs.lightning),
    _ObjectClass("cloud", ("puff",), signs.cloud),
    _ObjectClass("flower", ("blossom", "daisy"), signs.flower),
    _ObjectClass("umbrella", ("parasol",), life.umbrella),
    _ObjectClass("anchor", ("mooring",), things.anchor),
    _ObjectClass("bell", ("chime",), life.bell),
    _ObjectClass("crown", ("tiara",), life.crown),
    _ObjectClass("bottle", ("flask",), things.bottle),
    _ObjectClass("hand", ("palm",), life.hand),
    _ObjectClass("mushroom", ("toadstool",), signs.mushroom),
    _ObjectClass("bird", ("sparrow",), life.bird),
    _ObjectClass("butterfly", ("moth",), life.butterfly),
    _ObjectClass("car", ("automobile",), things.car),
    _ObjectClass("sailboat", ("yacht", "boat"), things.sailboat),
    _ObjectClass("airplane", ("plane", "jet"), things.airplane),
    _ObjectClass("rocket", ("spaceship",), things.rocket),
    _ObjectClass("guitar", ("ukulele",), things.guitar),
    _ObjectClass("hammer", ("mallet",), things.hammer),
    _ObjectClass("scissors", ("shears",), things.scissors),
    _ObjectClass("glasses", ("spectacles",), life.glasses),
    _ObjectClass("chair", ("seat", "stool"), things.chair),
    _ObjectClass("lamp", ("lantern",), things.lamp),
    _ObjectClass("candle", ("taper",), things.candle),
    _ObjectClass("apple", ("pome",), signs.apple),
    _ObjectClass("cherry", ("berry",), signs.cherry),
    _ObjectClass("cactus", ("saguaro",), signs.cactus),
    _ObjectClass("snail", ("slug",), life.snail),
    _ObjectClass("cat", ("kitten", "feline"), life.cat),
    _ObjectClass("rabbit", ("bunny", "hare"), life.rabbit),
    _ObjectClass("boot", ("shoe",), life.boot),
    _ObjectClass("hat", ("fedora",), life.hat),
    _ObjectClass("shirt", ("tshirt", "jersey"), life.shirt),
    _ObjectClass("diamond", ("gem", "jewel"), signs.diamond),
    _ObjectClass("hourglass", ("sandglass",), things.hourglass),
    _ObjectClass("balloon", ("zeppelin",), life.balloon),
)

CLASS_NAMES = tuple(each.name for each in CLASSES)

_HELD_BACK_NAMES = (
    "heart",
    "house",
    "fish",
    "key",
    "umbrella",
    "mushroom",
    "butterfly",
    "rocket",
    "guitar",
    "glasses",
    "cactus",
    "hourglass",
)
HELD_BACK = tuple(sorted(CLASS_NAMES.index(name) for name in _HELD_BACK_NAMES))
"""Classes whose labels only the upper reference has learned; the predictor knows their names."""

_OTHERS = tuple(label for label in range(len(CLASSES)) if label not in HELD_BACK)
HALF = tuple(label for place, label in enumerate(_OTHERS) if place % 3 != 2)
"""The 24 classes whose labels the half-supervised encoder learns."""
