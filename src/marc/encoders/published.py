"""The sixteen retrieval spaces and the two predictors of the study, as `published.toml` has them.

Preprocessing is pinned here, because the libraries disagree about it: for the same weights timm
cuts 10 % off the borders where open_clip cuts nothing, and a file given by its path gets the
numbers of CLIP whatever it holds. The rule is one for all: the short side becomes 224 pixels and
the centre is cut out. So every space sees what the predictor sees, and a difference between two
spaces is not one between two crops. Mean and standard deviation are the model's own.

Licences are those that timm states for its files; that of the predictors is their authors' own.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from marc.encoders.cards import EncoderCard
from marc.pictures.crops import Crop


class Pooling:
    """Which vector a model gives, in the words of a card."""

    DEFAULT = "the library's default"
    """Of a model that is not on one of our own cards."""
    PROJECTION = "CLS + projection"
    DEFAULT_PROJECTION = f"{DEFAULT} + projection"
    CLS = "CLS"
    AVERAGE = "average"
    AVERAGE_AND_NORM = "average + norm"
    ATTENTION = "attention"


_TOML = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _card(name: str, facts: dict[str, Any]) -> EncoderCard:
    mean, std = map(tuple, _TOML["numbers"][facts["numbers"]])
    library = facts.get("library", "timm")
    return EncoderCard(
        name=name,
        library=library,
        crop=Crop(224, 224, "short", facts.get("interpolation", "bicubic")),
        mean=mean,
        std=std,
        licence=facts.get("licence", "Apache-2.0"),
        has_text=library == "open_clip",
        **{key: facts[key] for key in ("summary", "tag", "dim", "pooling", "paper")},
    )


PUBLISHED = MappingProxyType({name: _card(name, facts) for name, facts in _TOML["cards"].items()})
"""All of them by name, the predictors first."""
WITH_TEXT = {name: facts["text"] for name, facts in _TOML["cards"].items() if "text" in facts}
"""Where the text tower of an image space is."""


@dataclass(frozen=True)
class Cost:
    """What an encoder takes of a network, and of a processor."""

    n_bytes: float
    """Of its file, in float32."""
    operations: float
    """Multiplications for one picture of 224 pixels."""


COSTS = {
    card.tag: Cost(4e6 * _TOML["costs"][name][0], 1e9 * _TOML["costs"][name][1])
    for name, card in PUBLISHED.items()
}
"""By tag: the same whatever the encoder is called."""
