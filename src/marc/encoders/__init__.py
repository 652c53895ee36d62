"""Encoders by name: images in, unit vectors out.

A name is that of a card (`dinov2-b`, `clip-b16-text`), an encoder of the lab (`mini:pairs-small`),
any model of a library (`timm:TAG`, `open_clip:ARCH/TAG`) or a graph of your own (`onnx:FILE`).
"""

from __future__ import annotations

import difflib
import fnmatch
import importlib
from pathlib import Path
from typing import Any, cast

from marc.encoders.cards import Encoder, EncoderCard, Library, TextEncoder
from marc.encoders.published import PUBLISHED, WITH_TEXT
from marc.errors import MarcError, Registry

__all__ = [
    "LIBRARIES",
    "Encoder",
    "EncoderCard",
    "Library",
    "TextEncoder",
    "create_encoder",
    "create_predictor",
    "encoder_card",
    "list_encoders",
]


def _library(name: str, thing: Any) -> Library:
    if not isinstance(thing, Library):
        raise MarcError(f"{name} is no library of encoders", got=type(thing).__name__)
    return thing


LIBRARIES = Registry(
    "library of encoders",
    "marc.encoders",
    {
        "timm": "marc.encoders.from_timm:LIBRARY",
        "open_clip": "marc.encoders.from_open_clip:LIBRARY",
        "onnx": "marc.encoders.from_onnx:LIBRARY",
    },
    _library,
)
"""What loads encoders, by the prefix of their names."""


def list_encoders(pattern: str = "*") -> list[str]:
    """Names of the encoders that have a card of their own.

    >>> list_encoders("dinov2-*")
    ['dinov2-s', 'dinov2-b', 'dinov2-l']
    >>> list_encoders("mini:pairs-*")
    ['mini:pairs-large', 'mini:pairs-medium', 'mini:pairs-small', 'mini:pairs-vit']
    """
    return fnmatch.filter(_cards(), pattern)


def encoder_card(name: str) -> EncoderCard:
    """What is known of an encoder, without loading it.

    >>> encoder_card("dinov2-b").pooling
    'CLS'
    """
    if name in PUBLISHED:
        return PUBLISHED[name]
    kind, colon, rest = name.partition(":")
    if colon and kind not in LIBRARIES:
        return _imported(name).card
    library = LIBRARIES[kind] if colon else None
    if library is not None and name in library.cards():
        return library.cards()[name]
    if library is None or library.card is None:
        raise _unknown(name)
    return library.card(rest)


def create_encoder(
    name: str,
    *,
    weights: str | Path | None = None,
    offline: bool = False,
    device: str = "auto",
    precision: str = "auto",
    batch: int = 0,
) -> Encoder:
    """Load an encoder.

    Args:
        name: One of `list_encoders()`, or `timm:TAG`, `open_clip:ARCH/TAG`, `onnx:FILE`.
        weights: A file with the weights, or a folder with that file. None: they are looked for
            where the library keeps its downloads, and downloaded if they are not there.
        offline: Never try the network.
        device: `auto`, `cpu`, `cuda` or `cuda:N`. `mini:` and `onnx:` encoders run on the CPU in
            float32 whatever is asked for, so that one call can name them beside others.
        precision: `auto` (bfloat16 on a GPU, float32 on a CPU), `float32` or `bfloat16`.
        batch: Images at a time; 0 leaves it to the device.

    >>> import numpy as np
    >>> encoder = create_encoder("mini:pairs-small")
    >>> encoder.encode(np.zeros((2, 64, 64, 3), dtype=np.uint8)).shape
    (2, 128)
    """
    from marc.encoders._loading import Loading

    card = encoder_card(name)
    path = None if weights is None else Path(weights)
    kind = name.partition(":")[0] if ":" in name else card.library
    if kind not in LIBRARIES:
        return _imported(name)
    return LIBRARIES[kind].load(card, Loading(path, offline, device, precision, batch))


def create_predictor(
    name: str,
    *,
    weights: str | Path | None = None,
    offline: bool = False,
    device: str = "auto",
    precision: str = "auto",
    batch: int = 0,
) -> TextEncoder:
    """Load an encoder that reads class names too; the arguments are those of `create_encoder`.

    >>> create_predictor("mini:captions").encode_text(["a photo of a mug"]).shape
    (1, 128)
    """
    if not encoder_card(name).has_text:
        known = [each for each, card in _cards().items() if card.has_text]
        raise MarcError(
            "a predictor needs a text tower, and this encoder has none",
            got=name,
            allowed=", ".join([*known, "open_clip:ARCH/TAG"]),
            hint=WITH_TEXT.get(name),
        )
    loaded = create_encoder(
        name, weights=weights, offline=offline, device=device, precision=precision, batch=batch
    )
    return cast(TextEncoder, loaded)


def _imported(name: str) -> Encoder:
    """An encoder of a user's own, `package.module:Name`: one, or a function that makes one."""
    module, _, attribute = name.partition(":")
    try:
        thing = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise _unknown(name) from error
    return cast(Encoder, thing if hasattr(thing, "encode") and hasattr(thing, "card") else thing())


def _cards() -> dict[str, EncoderCard]:
    named = [library.cards() for library in LIBRARIES.values()]
    return {**PUBLISHED, **{name: card for cards in named for name, card in cards.items()}}


def _unknown(name: str) -> MarcError:
    names = list(_cards())
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return MarcError(
        "unknown encoder",
        got=repr(name),
        allowed=", ".join([*names, *(each.spelling for each in LIBRARIES.values() if each.card)]),
        hint=" or ".join(near) or "marc list encoders",
    )
