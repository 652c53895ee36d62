"""What the documents of a feature store must look like, for `marc.files.conform`."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import msgspec


class About(TypedDict):
    """Of a store."""

    source: str
    root: str
    folder: str
    n_images: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    list: str
    labelled: bool
    upright: bool
    chunk: Annotated[int, msgspec.Meta(ge=1, le=2**20)]


class _Encoder(TypedDict):
    name: str


class _ViewsMade(TypedDict):
    encoder: _Encoder
    views: dict[str, Any]


class Views(TypedDict):
    """Attributes of the views."""

    made: _ViewsMade
    card: _Encoder


class _WordsMade(TypedDict):
    encoder: _Encoder
    logit_scale: float
    prompts: list[Annotated[list[str | int], msgspec.Meta(min_length=1)]]
    class_names: list[str]


class Words(TypedDict):
    """Attributes of the prototypes."""

    made: _WordsMade
