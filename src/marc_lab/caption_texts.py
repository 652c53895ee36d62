"""Captions as people write them: true, incomplete, and often not naming the thing at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc_lab.classes import CLASSES
from marc_lab.encoders import PROMPTS
from marc_lab.scenery import COLOR_NAMES
from marc_lab.world import Facts

CAPTION_LENGTH = 28  # words; longer captions are cut

_OPENERS = (*(p.removesuffix(" {}") for p in PROMPTS if p.endswith(" {}")), "lovely")
_TAILS = (
    *("", "", "", "for sale", "wallpaper"),
    *("stock image", "today", "print", "by me", "free download"),
)
_ANYTHING = ("thing", "object", "shape", "item")
_SIZES = ("tiny", "small", "medium", "large")
_FILLS = {
    "plain": ("plain", "flat"),
    "striped": ("striped", "stripy"),
    "spotted": ("spotted", "dotted"),
    "checked": ("checked", "chequered"),
    "shiny": ("shiny", "glossy"),
    "rough": ("rough", "weathered"),
}
_BACKGROUNDS = {
    "plain": "plain {} background",
    "gradient": "{} gradient",
    "cloudy": "cloudy {} sky",
    "striped": "striped {} wallpaper",
    "checked": "checked {} cloth",
    "dotted": "dotted {} paper",
    "landscape": "{} landscape with hills",
    "bokeh": "{} bokeh lights",
    "grainy": "grainy {} wall",
}
_MOODS = {
    "warm": ("warm light", "cosy mood", "sunset"),
    "cold": ("cold light", "winter mood", "icy"),
    "dark": ("dark", "gloomy mood", "night"),
    "bright": ("bright", "cheerful mood", "sunny"),
}
_PLACES = ("on the left", "in the middle", "on the right")
_POSTURES = ("tilted", "upright")
_EXTRAS = ("with a shadow", "with some confetti")


def caption(facts: Facts, generator: np.random.Generator) -> str:
    """One sentence about a picture; in a quarter of them the thing is only "thing" or "object"."""
    words = [str(generator.choice(_OPENERS)), *_adjectives(facts, generator)]
    words.append(_noun(facts, generator))
    phrases = _phrases(facts, generator)
    words += [phrases[index] for index in generator.permutation(len(phrases))]
    words.append(str(generator.choice(_TAILS)))
    return " ".join(words).strip()


def _adjectives(facts: Facts, generator: np.random.Generator) -> list[str]:
    says_size, says_color, says_fill = generator.random(3) < (0.45, 0.75, 0.5)
    words = [facts.size] if says_size else []
    words += [facts.color] if says_color else []
    return words + ([str(generator.choice(_FILLS[facts.fill]))] if says_fill else [])


def _noun(facts: Facts, generator: np.random.Generator) -> str:
    kind, chance = CLASSES[facts.label], generator.random()
    if chance < 0.25:
        return str(generator.choice(_ANYTHING))
    return str(generator.choice(kind.synonyms)) if chance < 0.5 else kind.name


def _phrases(facts: Facts, generator: np.random.Generator) -> list[str]:
    says = iter(generator.random(8))
    phrases = []
    if next(says) < 0.7:
        where = "on a " if next(says) < 0.5 else "against a "
        what = _BACKGROUNDS[facts.background] if next(says) < 0.75 else "{} background"
        phrases.append(where + what.format(facts.background_color))
    if next(says) < 0.25:
        phrases.append(_PLACES[int(facts.x >= 0.43) + int(facts.x > 0.57)])
    if next(says) < 0.2:
        phrases.append(_POSTURES[int(abs(facts.angle) <= 0.4)])
    if facts.light and next(says) < 0.6:
        phrases.append(str(generator.choice(_MOODS[facts.light])))
    if facts.has_shadow and next(says) < 0.2:
        phrases.append(_EXTRAS[0])
    if facts.n_confetti > 1 and next(says) < 0.4:
        phrases.append(_EXTRAS[1])
    return phrases


def _vocabulary() -> dict[str, int]:
    texts = [*PROMPTS, *_OPENERS, *_TAILS, *_ANYTHING, *_SIZES, *COLOR_NAMES, *_PLACES]
    texts += [*_POSTURES, *_EXTRAS, *_BACKGROUNDS.values(), "on a against a background"]
    texts += [word for words in (*_FILLS.values(), *_MOODS.values()) for word in words]
    texts += [word for kind in CLASSES for word in (kind.name, *kind.synonyms)]
    words = sorted({word for text in texts for word in text.replace("{}", "").split()})
    return {word: number for number, word in enumerate(words, start=1)}


VOCABULARY = _vocabulary()
"""Every word of the lab and its token; 0 is padding."""


def tokens(text: str) -> NDArray[np.int64]:
    """A text as `CAPTION_LENGTH` tokens."""
    words = text.split()[:CAPTION_LENGTH]
    unknown = [word for word in words if word not in VOCABULARY]
    if unknown:
        raise MarcError("the lab does not know these words", got=", ".join(unknown))
    padding = [0] * (CAPTION_LENGTH - len(words))
    return np.array([VOCABULARY[word] for word in words] + padding, dtype=np.int64)
