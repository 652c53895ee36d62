"""The encoders of the embedded lab, `mini:...`: small, trained on drawn pictures, shipped with us.

They are named after what they were trained to do. None of them is, or stands for, a published
model. `training/` in the repository holds their recipes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import Encoder, EncoderCard, Library, Loading, Training
from marc.encoders.from_onnx import OnnxEncoder
from marc.encoders.torch_runtime import import_libraries
from marc.errors import MarcError
from marc.files import read_arrays, read_json
from marc.pictures.crops import Crop
from marc.scores import unit
from marc.stream.predictor import ImageTower, Predictor, PromptEmbeddings, TextTower, Towers

PREFIX = "mini:"
PREDICTOR = "captions"
PREDICTORS = (PREDICTOR, "captions-vit")
"""What reads text: the predictor of the lab's streams, and a second one."""
PROMPTS = (
    *("a {}", "a photo of a {}", "a picture of a {}", "an image of a {}", "one {}", "the {}"),
    *("a drawing of a {}", "a {} on a plain background", "my {}", "a nice {}"),
)
"""What the predictor is asked, with a class name in the braces."""
_WEIGHTS = Path(__file__).with_name("weights")
_LICENCE = "Apache-2.0"
_COARSE = 16  # cells a side of `mini:pixels`
_PLAIN = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))  # pixels from 0 to 1, as they are

_PIXELS = EncoderCard(
    name=PREFIX + "pixels",
    summary="the picture itself, averaged to 16 x 16: a control",
    library="numpy",
    tag="pixels",
    dim=3 * _COARSE**2,
    crop=Crop(64, 64),
    mean=(0.5, 0.5, 0.5),
    std=(1.0, 1.0, 1.0),
    pooling="cells",
    licence=_LICENCE,
    training=Training("none", "none", "none", 0.0, 0),
)


@functools.cache
def _mini_cards() -> dict[str, EncoderCard]:
    """Cards of the lab's encoders by name."""
    stored = read_json(_WEIGHTS / "cards.json")
    cards = {PREFIX + name: _card(name, facts) for name, facts in stored.items()}
    return {**cards, _PIXELS.name: _PIXELS}


def _load_mini(card: EncoderCard, loading: Loading | None = None) -> Encoder:
    """The encoder of a card."""
    loading = loading or Loading()
    loading.refuse_weights(card)
    if card is _PIXELS:
        return _Pixels(loading.batch)
    encoder = OnnxEncoder(card, _WEIGHTS / card.tag, loading.batch)
    if not card.has_text:
        return encoder
    return _MiniPredictor(encoder, card.name.removeprefix(PREFIX), loading)


def mini_predictor(classes: tuple[int, ...], name: str = PREDICTOR) -> Predictor:
    """A zero-shot predictor for some of the lab's 48 classes.

    A prototype is the normalised mean of the normalised embeddings of ten prompts.
    """
    from marc_lab.classes import CLASS_NAMES

    stored = _prompts(name)
    prompts = stored["embeddings"][list(classes)]  # (C, prompts, D), unit length
    names = tuple(CLASS_NAMES[label] for label in classes)
    n_classes, n_prompts, dim = prompts.shape
    return Predictor(
        unit(prompts.mean(axis=1)),
        float(stored["logit_scale"]),
        PromptEmbeddings(
            np.repeat(np.arange(n_classes), n_prompts), functools.partial(prompts.reshape, -1, dim)
        ),
        Towers(functools.partial(_text_tower, name, names), lambda: _image_tower(name)),
    )


def _text_tower(name: str, class_names: tuple[str, ...]) -> TextTower:
    import_libraries()
    from marc_lab.towers import LabTextTower

    return LabTextTower(name, class_names)


def _image_tower(name: str) -> ImageTower:
    import_libraries()
    from marc_lab.towers import LabImageTower

    return LabImageTower(name)


class _MiniPredictor:
    """Pictures through a captioned encoder of the lab, texts by looking them up.

    What it says of the 48 classes in 10 prompts each needs no torch; its towers do. They run on the
    CPU too: another device is refused when they are asked for, and not before, because one call may
    name this predictor beside encoders that run there.
    """

    precision = "float32"

    def __init__(self, pictures: OnnxEncoder, name: str, loading: Loading) -> None:
        self.card = pictures.card
        self.batch = pictures.batch
        self._name, self._loading = name, loading
        self._pictures = pictures
        self._texts = _known_texts(name)

    @property
    def logit_scale(self) -> float:
        """tau, which multiplies the cosines."""
        return float(_prompts(self._name)["logit_scale"])

    def text_tower(self, class_names: Sequence[str]) -> TextTower:
        """Its text encoder in torch."""
        self._loading.refuse_device(self.card)
        return _text_tower(self._name, tuple(class_names))

    def image_tower(self) -> ImageTower:
        """Its picture encoder in torch."""
        self._loading.refuse_device(self.card)
        return _image_tower(self._name)

    def encode(self, images: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of cropped images (n, size, size, 3)."""
        return self._pictures.encode(images)

    def encode_text(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of prompts of the lab with one of its class names."""
        from marc_lab.classes import CLASS_NAMES

        unknown = [text for text in texts if text not in self._texts]
        if unknown:
            raise MarcError(
                f"{self.card.name} knows the texts of the lab alone",
                got=repr(unknown[0]),
                allowed=f"one of {', '.join(map(repr, PROMPTS))} with a class name of the lab in"
                f" its braces: {', '.join(CLASS_NAMES)}",
                hint="prompt set lab and the lab's class names, or the predictor clip-b16-text",
            )
        rows = [self._texts[text] for text in texts]
        return np.stack(rows) if rows else np.empty((0, self.card.dim), dtype=np.float32)


class _Pixels:
    """The picture as its own embedding."""

    card = _PIXELS
    precision = "float32"

    def __init__(self, batch: int = 0) -> None:
        self.batch = Loading(batch=batch).batch or 256

    def encode(self, images: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
        """Averaged, centred pixels."""
        self.card.check_images(images)
        size = self.card.crop.size // _COARSE
        cells = images.reshape(len(images), _COARSE, size, _COARSE, size, 3).mean(
            axis=(2, 4), dtype=np.float64
        )
        return unit((cells / 255 - 0.5).reshape(len(images), self.card.dim).astype(np.float32))


def _card(name: str, facts: dict[str, Any]) -> EncoderCard:
    predicts = name in PREDICTORS
    mean, std = _PLAIN
    size = facts["input_size"]
    story = {field.name: facts[field.name] for field in dataclasses.fields(Training)}
    return EncoderCard(
        name=PREFIX + name,
        summary=facts["summary"],
        library="onnx",
        tag=f"{name}.onnx",
        dim=facts["dim"],
        crop=Crop(size, size),
        mean=mean,
        std=std,
        pooling="average",
        licence=facts["licence"],
        digest=facts["digest"],
        prompts=("lab",) if predicts else (),
        has_text=predicts,
        training=Training(**story),
    )


@functools.cache
def _prompts(name: str) -> dict[str, NDArray[Any]]:
    return read_arrays(_WEIGHTS / f"{name}-prompts.npz", "the lab's prompts")


@functools.cache
def _known_texts(name: str) -> dict[str, NDArray[np.float32]]:
    """The stored embedding of every text that a predictor of the lab was asked for."""
    from marc_lab.classes import CLASS_NAMES

    embeddings = unit(_prompts(name)["embeddings"])
    return {
        prompt.format(thing): embeddings[label, index]
        for label, thing in enumerate(CLASS_NAMES)
        for index, prompt in enumerate(PROMPTS)
    }


LIBRARY = Library("mini:NAME", _load_mini, cards=_mini_cards)
"""`mini:NAME`, the encoders that this package brings."""
