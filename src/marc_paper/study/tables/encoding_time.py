"""Seconds an image that encoders need, where a stream's pictures and encoders can be had.

Pictures are decoded before the clock starts. Making the views is counted. Nothing is downloaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from marc.embed.store import FeatureStore
from marc.encoders import Encoder, create_encoder
from marc.errors import MarcError
from marc.pictures import open_images
from marc.pictures.decoding import Unreadable, read_picture
from marc.pictures.views import make_views
from marc.sources import default_store, is_pictures
from marc.stream import Stream
from marc_lab.embedding import RECIPE, VIEW_SEED
from marc_lab.encoders import PREDICTOR, PREFIX
from marc_lab.streams import plan_stream

if TYPE_CHECKING:
    from PIL.Image import Image

N_PICTURES = 32
"""Pictures that are encoded for one time."""
_N_WARM = 8
"""Of these, so many are encoded once before, to warm up."""


@final
@dataclass(frozen=True)
class _Drawing:
    """What turns pictures of a source into features: encoders by name, and the views."""

    predictor: str
    spaces: Mapping[str, str]
    """Encoders by space."""
    recipe: str
    seed: int
    pictures: Callable[[Sequence[int]], list[Image]]
    """Decoded pictures of some rows."""


@final
@dataclass(frozen=True)
class Bench:
    """Loaded encoders and decoded pictures."""

    predictor: Encoder
    encoders: Mapping[str, Encoder]
    """By space."""
    pictures: Sequence[Image]
    recipe: str
    seed: int

    def predictor_seconds(self, n_views: int) -> float:
        """Seconds a picture to make its views and embed them with the predictor."""
        crop = self.predictor.card.crop

        def embed(picture: Image, key: str) -> None:
            views = make_views(picture, crop, self.recipe, n_views, key=key, seed=self.seed)
            self.predictor.encode(views)

        return self._seconds(embed)

    def space_seconds(self, space: str) -> float:
        """Seconds a picture to crop it and embed it with a retrieval encoder."""
        encoder = self.encoders[space]

        def embed(picture: Image, key: str) -> None:
            encoder.encode(make_views(picture, encoder.card.crop, "V0", 1, key=key, seed=0))

        return self._seconds(embed)

    def _seconds(self, embed: Callable[[Image, str], None]) -> float:
        for picture in self.pictures[:_N_WARM]:
            embed(picture, "warm-up")
        started = time.perf_counter()
        for number, picture in enumerate(self.pictures):
            embed(picture, str(number))
        return (time.perf_counter() - started) / len(self.pictures)


def open_bench(
    stream: Stream, source: str, spaces: Sequence[str], n_pictures: int = N_PICTURES
) -> Bench | str:
    """Encoders of some spaces and a few pictures of a source, or why they cannot be had."""
    try:
        drawing = _drawing(stream, source)
        unknown = [space for space in spaces if space not in drawing.spaces]
        if unknown:
            return f"no encoder is known for {', '.join(unknown)}"
        pictures = drawing.pictures(range(min(n_pictures, len(stream.features.ids))))
        if not pictures:
            return "the pictures are not where they were embedded from"
        return Bench(
            create_encoder(drawing.predictor, offline=True),
            {space: create_encoder(drawing.spaces[space], offline=True) for space in spaces},
            pictures,
            drawing.recipe,
            drawing.seed,
        )
    except MarcError as error:
        return error.problem.rstrip(".")


def _drawing(stream: Stream, source: str) -> _Drawing:
    if is_pictures(source):
        return _of_store(stream, default_store(source))
    kind, _, name = source.partition("/")
    if kind == "store":
        return _of_store(stream, Path(name).expanduser())
    if kind == "lab":
        return _of_lab(stream, name)
    raise MarcError("this source does not say which encoders made its features")


def _of_lab(stream: Stream, name: str) -> _Drawing:
    from PIL import Image

    plan = plan_stream(name)
    return _Drawing(
        PREFIX + PREDICTOR,
        {space: PREFIX + space for space in stream.spaces},
        RECIPE,
        VIEW_SEED,
        lambda rows: [Image.fromarray(plan.picture(row)) for row in rows],
    )


def _of_store(stream: Stream, path: Path) -> _Drawing:
    store = FeatureStore(path)
    about: dict[str, Any] = store.about
    views = store.attributes(store.VIEWS)

    def pictures(rows: Sequence[int]) -> list[Image]:
        kind, slash, rest = about["source"].partition("/")
        source = f"{kind}/{Path(about['folder'], Path(rest).expanduser())}" if slash else kind
        root = Path(about["folder"], about["root"]) if about["root"] else None
        images = open_images(source, root)
        places = dict(zip(images.ids, images.locations, strict=True))
        wanted = [
            places[stream.features.ids[row]] for row in rows if stream.features.ids[row] in places
        ]
        try:
            return [read_picture(place, upright=about["upright"]) for place in wanted]
        except Unreadable:
            return []

    return _Drawing(
        views["card"]["name"],
        {
            space: store.attributes(f"{store.SPACES}/{space}")["card"]["name"]
            for space in store.names(store.SPACES)
        },
        views["made"]["views"]["id"],
        views["made"]["views"]["seed"],
        pictures,
    )
