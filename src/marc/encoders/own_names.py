"""Names that a user gives: `NAME=timm:ARCH`, for weights that nobody published.

Published weights are called by their published name, and no others are: two stores whose spaces
are called `dinov2-b` are meant to hold the same vectors.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Container

from marc.encoders.cards import EncoderCard
from marc.errors import MarcError

SPELLING = "NAME=timm:ARCH, NAME=open_clip:ARCH, NAME=open_clip:CONFIG.json"
_TAKEN = ("predictor", "none")


def split_name(name: str) -> tuple[str, str]:
    """The name that a user gives, and what it is given to; empty and all of it without one.

    >>> split_name("mine=timm:resnet18"), split_name("dinov2-b"), split_name("onnx:a=b.onnx")
    (('mine', 'timm:resnet18'), ('', 'dinov2-b'), ('', 'onnx:a=b.onnx'))
    """
    own, equals, of = name.partition("=")
    return (own, of) if equals and not re.search(r"[:/\\]", own) else ("", name)


def called(name: str) -> str:
    """What an encoder is called where its weights are named: the user's name, if there is one.

    >>> called("mine=timm:resnet18")
    'mine'
    """
    own, of = split_name(name)
    return own or of


def check_own_name(own: str, published: Container[str]) -> None:
    """Refuse a name that cannot be that of a space, or is that of other weights."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", own) or own in _TAKEN:
        allowed = "letters, digits, . _ and -, beginning with a letter or a digit"
        raise MarcError("not a name for a space", got=repr(own), allowed=allowed)
    if own in published:
        raise MarcError(
            "this is the name of published weights, and yours need another",
            got=repr(own),
            hint=f"my-{own}=...",
        )


def renamed(card: EncoderCard, own: str) -> EncoderCard:
    """The card under a user's name."""
    return dataclasses.replace(card, name=own)
