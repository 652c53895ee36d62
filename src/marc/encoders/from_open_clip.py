"""Predictors with a text tower, from open_clip."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import Crop, EncoderCard
from marc.encoders.empty_weights import without_drawing
from marc.encoders.hub import hub_file, network, url_file
from marc.encoders.loading import Loading
from marc.encoders.naming import safe_name, square
from marc.encoders.torch_runtime import (
    Running,
    encode_images,
    encode_tokens,
    import_libraries,
    settle,
    state_digest,
)
from marc.encoders.weight_files import OPEN_CLIP_FILES, find_weights, misfit, read_state
from marc.errors import MarcError

if TYPE_CHECKING:
    from torch import Tensor, nn


class OpenClipEncoder:
    """A pair of towers of open_clip: pictures and texts in one space."""

    def __init__(
        self,
        card: EncoderCard,
        model: nn.Module,
        tokenize: Callable[[list[str]], Tensor],
        running: Running,
    ) -> None:
        self.card = dataclasses.replace(card, digest=state_digest(model))
        self.precision = running.precision
        self.batch = running.batch
        self._running = running
        self._model: Any = model.eval().to(running.device)
        self._tokenize = tokenize
        size = card.crop.size
        self.encode(np.zeros((1, size, size, 3), dtype=np.uint8))  # refused here, not hours later

    @property
    def logit_scale(self) -> float:
        """tau: the exponential of the stored number."""
        return float(self._model.logit_scale.detach().double().exp())

    def encode(self, images: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of cropped images (n, size, size, 3)."""
        return encode_images(self._model.encode_image, self.card, self._running, images)

    def encode_text(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of texts."""
        if isinstance(texts, str):
            raise MarcError("texts must be a list of texts", got=repr(texts))
        tokens: Any = self._tokenize(list(texts)) if len(texts) else ()
        return encode_tokens(self._model.encode_text, self.card, self._running, tokens)


def load_open_clip(card: EncoderCard, loading: Loading) -> OpenClipEncoder:
    """The predictor of a card, from a file, a folder, the hub's cache or the network."""
    import_libraries("open_clip")
    running = settle(loading)
    with network(loading.offline):
        path = (
            find_weights(card, loading.weights) if loading.weights else _hub_weights(card, loading)
        )
        model = fill_towers(card, path)
        return OpenClipEncoder(card, model, _tokenizer(card), running)


def fill_towers(card: EncoderCard, path: Path) -> nn.Module:
    """The two towers of a card with the weights of a file, all of them or none."""
    import open_clip

    # open_clip reads the file itself, but on an error of one kind it tries again without its guard
    # against code in the file. What is read here first holds tensors alone.
    read_state(card, path)
    try:
        with without_drawing():
            model: nn.Module = open_clip.create_model(
                _architecture(card), pretrained=str(path.resolve()), weights_only=True
            )
    except Exception as error:  # translating the file of another model fails in many ways
        raise misfit(card, path, error) from error
    return model


def open_clip_card(name: str) -> EncoderCard:
    """The card of any model that open_clip has weights for: ARCH/TAG."""
    import_libraries("open_clip")
    import open_clip

    architecture, _, tag = name.rpartition("/")
    known = open_clip.get_pretrained_cfg(architecture, tag)
    config = open_clip.get_model_config(architecture)
    if not known or not config:
        tags = open_clip.list_pretrained_tags_by_model(architecture or name)
        near = [
            arch for arch in open_clip.list_models() if arch.startswith((architecture or name)[:5])
        ]
        raise MarcError(
            "open_clip has no weights of this name",
            got=repr(name),
            allowed=f"{architecture or name}/ and one of {', '.join(tags)}"
            if tags
            else f"ARCH/TAG, with ARCH one of {', '.join(near or open_clip.list_models())}",
            hint="open_clip:ViT-B-16-quickgelu/openai",
        )
    if known.get("quick_gelu", False) != config.get("quick_gelu", False):
        other = architecture.removesuffix("-quickgelu")
        other = other if other != architecture else f"{architecture}-quickgelu"
        raise MarcError(
            "these weights were trained with another activation than this architecture has",
            got=name,
            hint=f"open_clip:{other}/{tag}",
        )
    size = square(name, config["vision_cfg"].get("image_size", 224))
    interpolation = "bilinear" if known.get("interpolation") == "bilinear" else "bicubic"
    return EncoderCard(
        name=safe_name(name),
        summary=f"{name} of open_clip; the crop is ours: short side to {size}, then the centre",
        library="open_clip",
        tag=name,
        dim=config["embed_dim"],
        crop=Crop(size, size, "short", interpolation),
        mean=tuple(known["mean"]),
        std=tuple(known["std"]),
        pooling="the library's default",
        licence="unknown",
        has_text=True,
    )


def _architecture(card: EncoderCard) -> str:
    return card.tag.rpartition("/")[0]


def _tokenizer(card: EncoderCard) -> Callable[[list[str]], Tensor]:
    import open_clip

    try:
        tokenizer: Callable[[list[str]], Tensor] = open_clip.get_tokenizer(_architecture(card))
    except Exception as error:  # those of some models are in yet another library, or on the hub
        raise MarcError(
            f"the tokenizer of {card.name} cannot be loaded",
            got=str(error).strip().splitlines()[0] if str(error).strip() else repr(error),
            hint="pip install transformers, and load it once with the network",
        ) from error
    return tokenizer


def _hub_weights(card: EncoderCard, loading: Loading) -> Path:
    import open_clip

    architecture, _, tag = card.tag.rpartition("/")
    known = open_clip.get_pretrained_cfg(architecture, tag)
    place = known.get("hf_hub", "")
    if place:
        repository, _, name = place.rpartition("/")
        safe = str(Path(name).with_suffix(".safetensors")) if name else ""
        names = (safe, name) if name else OPEN_CLIP_FILES
        return hub_file(card, repository, names, offline=loading.offline)
    folder = Path.home() / ".cache" / "clip"  # where open_clip keeps them
    return url_file(card, known["url"], folder, offline=loading.offline)
