"""The 48 classes of the lab: names, synonyms and drawings, in the order of their labels."""

from __future__ import annotations

from dataclasses import dataclass

from marc_lab import drawings_life as life
from marc_lab import drawings_signs as signs
from marc_lab import drawings_things as things
from marc_lab.outlines import Drawing


@dataclass(frozen=True)
class ObjectClass:
    """A kind of thing: what it is called and how it is drawn."""

    name: str
    synonyms: tuple[str, ...]
    drawing: Drawing


CLASSES = (
    ObjectClass("star", ("pentagram",), signs.star),
    ObjectClass("heart", ("valentine",), signs.heart),
    ObjectClass("arrow", ("pointer",), signs.arrow),
    ObjectClass("gear", ("cog", "cogwheel"), signs.gear),
    ObjectClass("moon", ("crescent",), signs.moon),
    ObjectClass("cross", ("plus",), signs.cross),
    ObjectClass("spiral", ("swirl",), signs.swirl),
    ObjectClass("house", ("home", "cottage"), things.house),
    ObjectClass("pine", ("fir", "conifer"), signs.pine),
    ObjectClass("fish", ("trout",), life.fish),
    ObjectClass("mug", ("cup", "beaker"), things.mug),
    ObjectClass("key", ("latchkey",), things.key),
    ObjectClass("leaf", ("foliage",), signs.leaf),
    ObjectClass("lightning", ("bolt", "thunderbolt"), signs.lightning),
    ObjectClass("cloud", ("puff",), signs.cloud),
    ObjectClass("flower", ("blossom", "daisy"), signs.flower),
    ObjectClass("umbrella", ("parasol",), life.umbrella),
    ObjectClass("anchor", ("mooring",), things.anchor),
    ObjectClass("bell", ("chime",), life.bell),
    ObjectClass("crown", ("tiara",), life.crown),
    ObjectClass("bottle", ("flask",), things.bottle),
    ObjectClass("hand", ("palm",), life.hand),
    ObjectClass("mushroom", ("toadstool",), signs.mushroom),
    ObjectClass("bird", ("sparrow",), life.bird),
    ObjectClass("butterfly", ("moth",), life.butterfly),
    ObjectClass("car", ("automobile",), things.car),
    ObjectClass("sailboat", ("yacht", "boat"), things.sailboat),
    ObjectClass("airplane", ("plane", "jet"), things.airplane),
    ObjectClass("rocket", ("spaceship",), things.rocket),
    ObjectClass("guitar", ("ukulele",), things.guitar),
    ObjectClass("hammer", ("mallet",), things.hammer),
    ObjectClass("scissors", ("shears",), things.scissors),
    ObjectClass("glasses", ("spectacles",), life.glasses),
    ObjectClass("chair", ("seat", "stool"), things.chair),
    ObjectClass("lamp", ("lantern",), things.lamp),
    ObjectClass("candle", ("taper",), things.candle),
    ObjectClass("apple", ("pome",), signs.apple),
    ObjectClass("cherry", ("berry",), signs.cherry),
    ObjectClass("cactus", ("saguaro",), signs.cactus),
    ObjectClass("snail", ("slug",), life.snail),
    ObjectClass("cat", ("kitten", "feline"), life.cat),
    ObjectClass("rabbit", ("bunny", "hare"), life.rabbit),
    ObjectClass("boot", ("shoe",), life.boot),
    ObjectClass("hat", ("fedora",), life.hat),
    ObjectClass("shirt", ("tshirt", "jersey"), life.shirt),
    ObjectClass("diamond", ("gem", "jewel"), signs.diamond),
    ObjectClass("hourglass", ("sandglass",), things.hourglass),
    ObjectClass("balloon", ("zeppelin",), life.balloon),
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
