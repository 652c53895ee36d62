"""The networks and pictures behind a feature store, for methods that learn in the predictor.

A store holds features. What made them is loaded again when a method first asks for it: the
predictor's networks, whose weights must be those that made the features, and the crops behind the
views of a picture, if the pictures still lie where they were embedded from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.embed.plan import EncoderSpec
from marc.embed.store import FeatureStore
from marc.embed.workers import PixelSpec, ViewPlan
from marc.encoders import create_encoder
from marc.encoders.cards import Loading
from marc.encoders.published import PUBLISHED
from marc.errors import MarcError
from marc.pictures import reopen_images
from marc.pictures.crops import Crop
from marc.pictures.decoding import Unreadable
from marc.pictures.image_set import ImageSet
from marc.stream.predictor import ImageTower, TextTower, Towers


@dataclass(frozen=True)
class Networks:
    """How the networks of a stream's predictor are loaded, should a method need them."""

    weights: Sequence[str] = ()
    """Weights on disk: a file, a folder with NAME.safetensors, or NAME=PATH."""
    offline: bool = False
    device: str = "auto"

    def __post_init__(self) -> None:
        Loading(device=self.device)  # refused here, not when a method first asks

    def towers(self, made: dict[str, Any], class_names: tuple[str, ...]) -> Towers:
        """Both towers of the encoder that `made` a store's features, none of them loaded yet."""
        load = partial(self._load, made["encoder"])

        def text() -> TextTower:
            return load("text_tower").text_tower(class_names)

        def image() -> ImageTower:
            return load("image_tower").image_tower()

        return Towers(text, image)

    def check_elsewhere(self, source: str, towers: Towers) -> None:
        """Refuse a device for networks that a source other than a store brings."""
        brought = towers.text is not None or towers.image is not None
        if brought and self.device not in ("auto", "cpu"):
            raise MarcError(
                "only the networks of a feature store can be put on a device",
                got=f"{source}: {self.device!r}",
                allowed="auto, cpu",
                hint="--device auto: the networks of the lab run on the CPU",
            )

    def _load(self, made: dict[str, Any], tower: str) -> Any:
        name = _name_of(made)
        path = EncoderSpec.weights_of(name, [*self.weights], [name])
        encoder = create_encoder(
            name, weights=path, offline=self.offline, device=self.device, precision="float32"
        )
        if encoder.card.digest != made["digest"]:
            raise MarcError(
                f"these weights of {made['name']} are not those that made the features",
                got=f"digest {encoder.card.digest[:12]}",
                allowed=f"digest {made['digest'][:12]}",
                hint=f"--weights {made['name']}=PATH",
            )
        if not hasattr(encoder, tower):
            raise MarcError(
                f"{made['name']} gives no {tower.replace('_', ' ')} to learn in",
                allowed="predictors of open_clip and of the lab",
            )
        return encoder


def _name_of(made: dict[str, Any]) -> str:
    """What `create_encoder` calls the encoder of a store.

    >>> _name_of({"name": "mine", "library": "open_clip", "tag": "ViT-B-32"})
    'mine=open_clip:ViT-B-32'
    """
    name, library, tag = (str(made[part]) for part in ("name", "library", "tag"))
    if name in PUBLISHED or ":" in name:
        return name
    if "/" in tag:
        return f"{library}:{tag}"
    return f"{name}={library}:{tag}"


@dataclass(frozen=True)
class StoredPictures:
    """The crops behind the views of a store, made again from the pictures themselves."""

    store: FeatureStore
    seen: dict[str, Any]
    """Attributes of the stored views: what made them, and the card of the encoder."""
    rows: NDArray[np.int64]
    """The row of the store at each row of its stream."""

    def crops(self, row: int, n_views: int) -> NDArray[Any]:
        """What the predictor saw of a row of the stream first, (n, H, W, 3); none generated."""
        number = int(self.rows[row])
        name, location = self._images.ids[number], self._images.locations[number]
        made = self._spec(n_views).prepare(((name,), (location,)))
        if status := int(made.status[0]):
            raise MarcError(
                "a picture of this store can no longer be read",
                got=f"{name}: {Unreadable.REASONS[status]}",
                hint="bring the pictures back to where they were embedded from",
            )
        if not np.array_equal(made.content[0], self._content[number]):
            raise self.store.other_picture(number)
        return made.squares[self._crop] if made.views is None else made.views[0]

    @cached_property
    def _images(self) -> ImageSet:
        try:
            images = reopen_images(self.store.about)
        except MarcError as error:
            raise MarcError(
                f"the pictures of this store are not to be had: {error.problem}",
                got=f"{self.store.path}: {self.store.about['source']}",
                hint="bring them back; methods that need features alone run without",
            ) from error
        if images.digest != self.store.about["list"]:
            raise MarcError(
                "the pictures of this store are not those that were embedded: some came or went",
                got=self.store.about["source"],
                hint=f"marc embed {self.store.about['source']} ... --force",
            )
        return images

    @cached_property
    def _content(self) -> NDArray[Any]:
        return self.store.get(self.store.CONTENT)

    @cached_property
    def _crop(self) -> Crop:
        return Crop(**self.seen["card"]["crop"])

    def _spec(self, n_views: int) -> PixelSpec:
        drawn, upright = self.seen["made"]["views"], self.store.about["upright"]
        n_drawn = min(n_views, drawn["n_views"] - drawn.get("n_generated", 0))
        if n_drawn == 1:
            return PixelSpec((self._crop,), None, upright)
        plan = ViewPlan(drawn["id"], n_drawn, drawn["seed"])
        return PixelSpec((), (self._crop, plan), upright)
