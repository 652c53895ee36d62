"""Encoders by name: images in, unit vectors out."""

from __future__ import annotations

import fnmatch

from marc.encoders.cards import Encoder, EncoderCard
from marc.errors import one_of

__all__ = ["Encoder", "EncoderCard", "create_encoder", "encoder_card", "list_encoders"]


def list_encoders(pattern: str = "*") -> list[str]:
    """Names of the encoders that are known.

    >>> list_encoders("mini:pairs-*")
    ['mini:pairs-large', 'mini:pairs-medium', 'mini:pairs-small', 'mini:pairs-vit']
    """
    from marc.encoders.mini import mini_cards

    return fnmatch.filter(mini_cards(), pattern)


def encoder_card(name: str) -> EncoderCard:
    """What is known of an encoder, without loading it."""
    from marc.encoders.mini import mini_cards

    cards = mini_cards()
    return cards[one_of("encoder", name, cards, hint="marc list encoders")]


def create_encoder(name: str) -> Encoder:
    """Load an encoder.

    >>> import numpy as np
    >>> encoder = create_encoder("mini:pairs-small")
    >>> encoder.encode(np.zeros((2, 64, 64, 3), dtype=np.uint8)).shape
    (2, 128)
    """
    from marc.encoders.mini import load_mini

    return load_mini(encoder_card(name))
