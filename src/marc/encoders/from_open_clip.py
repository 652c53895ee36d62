"""Predictors with a text tower, from open_clip."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import EncoderCard, Library, Loading, NotHere, reason, safe_name
from marc.encoders.image_forward import ImageForward
from marc.encoders.open_clip_configs import Architecture
from marc.encoders.open_clip_text import OpenClipTextTower
from marc.encoders.published import Pooling
from marc.encoders.torch_runtime import Running, import_libraries, without_drawing
from marc.encoders.weights import Published, WeightsFile
from marc.errors import MarcError
from marc.pictures.crops import Crop
from marc.stream.predictor import ImageTower

if TYPE_CHECKING:
    from torch import Tensor, nn


class _OpenClipEncoder:
    """A pair of towers of open_clip: pictures and texts in one space."""

    def __init__(
        self,
        card: EncoderCard,
        model: Any,
        tokenize: Callable[[list[str]], Tensor],
        running: Running,
    ) -> None:
        self.card = card
        self.precision = running.precision
        self.batch = running.batch
        self.compiled = running.compiled
        self._running = running
        self._model: Any = running.settled(model, images=model.visual)
        self._forward = ImageForward(running, card, self._model.encode_image)
        self._tokenize = tokenize
        size = card.crop.size
        self.encode(np.zeros((1, size, size, 3), dtype=np.uint8))  # refused here, not hours later

    @property
    def logit_scale(self) -> float:
        """tau: the exponential of the stored number."""
        return float(self._model.logit_scale.detach().cpu().double().exp())

    def encode(self, images: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of cropped images (n, size, size, 3)."""
        return self._forward.begin(images)()

    def begin_encoding(self, images: NDArray[Any]) -> Callable[[], NDArray[np.float32]]:
        """Start on images; what it returns waits for what `encode` would give."""
        return self._forward.begin(images)

    def encode_text(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of texts."""
        if isinstance(texts, str):
            raise MarcError("texts must be a list of texts", got=repr(texts))
        tokens: Any = self._tokenize(list(texts)) if len(texts) else ()
        return self._running.encode_tokens(self._model.encode_text, self.card, tokens)

    def text_tower(self, class_names: Sequence[str]) -> OpenClipTextTower:
        """Its text encoder, for methods that learn what it is asked."""
        return OpenClipTextTower(
            self._model,
            self._tokenize,
            class_names,
            name=self.card.name,
            digest=self.card.digest,
        )

    def image_tower(self) -> ImageTower:
        """Its image encoder, for methods that learn inside it."""
        self._running.refuse_rounded(self.card)
        from marc.encoders.image_towers import LoadedImageTower

        return LoadedImageTower.of_open_clip(self.card, self._model, self._running.device)


def _load_open_clip(card: EncoderCard, loading: Loading) -> _OpenClipEncoder:
    import_libraries("open_clip")
    running = Running.choose(loading)
    architecture = _architecture(card)
    file = WeightsFile.find(card, loading, _published)
    with architecture.network(loading.offline):
        model, digest = _fill_towers(file)
        tokenizer = architecture.tokenizer(card)
    return _OpenClipEncoder(dataclasses.replace(card, digest=digest), model, tokenizer, running)


def _fill_towers(file: WeightsFile) -> tuple[nn.Module, str]:
    """The two towers of a card with the weights of a file, all of them or none, and their digest.

    open_clip would read the file itself, but it does not read OpenAI's own, and on an error of one
    kind it tries again without its guard against code in the file.
    """
    import open_clip

    state = file.state()
    digest = WeightsFile.digest(state)
    try:
        with without_drawing(), _without_complaint(), _architecture(file.card).known() as name:
            model: nn.Module = open_clip.create_model(
                name, load_weights=False, pretrained_text=False
            )
    except Exception as error:  # of another library: whatever it is, say what it was about
        raise NotHere(
            f"the towers of {file.card.name} cannot be built",
            got=f"{file.card.tag}: {reason(error)}",
        ) from error
    try:
        model.load_state_dict(_translated(state, model), strict=True)
    except Exception as error:  # translating the file of another model fails in many ways
        raise file.misfit(error) from error
    return model, digest


def _translated(state: dict[str, Any], model: Any) -> dict[str, Any]:
    """Weights under the names and in the shapes of a model, as open_clip does with its own files.

    They may be those of MobileCLIP's authors, from before the text tower had a name of its own, or
    for another size of pictures.
    """
    from open_clip.convert import convert_state_dict
    from open_clip.model import (
        convert_to_custom_text_state_dict,
        resize_pos_embed,
        resize_text_pos_embed,
    )

    state = dict(convert_state_dict(model, dict(state)))
    if "positional_embedding" in state and not hasattr(model, "positional_embedding"):
        state = dict(convert_to_custom_text_state_dict(state))
    for name in ("logit_scale", "logit_bias"):  # numbers, or lists of one
        if name in state and getattr(model, name, None) is not None:
            state[name] = state[name].reshape(getattr(model, name).shape)
    # older versions of transformers kept the numbers 0, 1, 2 ... among the weights
    state.pop("text.transformer.embeddings.position_ids", None)
    resize_pos_embed(state, model)
    resize_text_pos_embed(state, model)
    return state


@contextmanager
def _without_complaint() -> Iterator[None]:
    """open_clip warns of towers without weights; here they get theirs a moment later."""

    def other(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return "No pretrained weights" not in message and "no CLIP weights" not in message

    logger = logging.getLogger()
    logger.addFilter(other)
    try:
        yield
    finally:
        logger.removeFilter(other)


def _open_clip_card(name: str) -> EncoderCard:
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
            hint="open_clip:ViT-B-16-quickgelu/openai; weights of your own: NAME=open_clip:ARCH",
        )
    if known.get("quick_gelu", False) != config.get("quick_gelu", False):
        other = architecture.removesuffix("-quickgelu")
        other = other if other != architecture else f"{architecture}-quickgelu"
        raise MarcError(
            "these weights were trained with another activation than this architecture has",
            got=name,
            hint=f"open_clip:{other}/{tag}",
        )
    crop = Crop.of_model(
        name, config["vision_cfg"].get("image_size", 224), known.get("interpolation")
    )
    return EncoderCard(
        name=safe_name(name),
        summary=f"{name} of open_clip; the crop is ours: "
        f"short side to {crop.size}, then the centre",
        library="open_clip",
        tag=name,
        dim=config["embed_dim"],
        crop=crop,
        mean=tuple(known["mean"]),
        std=tuple(known["std"]),
        pooling=Pooling.DEFAULT,
        licence="unknown",
        has_text=True,
    )


def _own_card(name: str) -> EncoderCard:
    """The card of towers with weights of a user's own: ARCH, FILE.json, or ARCH/TAG."""
    import_libraries("open_clip")
    is_published = "/" in name and not name.endswith(".json")
    return _open_clip_card(name) if is_published else Architecture.read(name).card()


def _architecture(card: EncoderCard) -> Architecture:
    is_published = "/" in card.tag and "#" not in card.tag
    return Architecture.read(card.tag.rpartition("/")[0] if is_published else card.tag)


def _published(card: EncoderCard) -> Published:
    import open_clip

    architecture, _, tag = card.tag.rpartition("/")
    known = open_clip.get_pretrained_cfg(architecture, tag) or {}
    repository, _, name = known.get("hf_hub", "").rpartition("/")
    safe = str(Path(name).with_suffix(".safetensors")) if name else ""
    folder = Path.home() / ".cache" / "clip"  # where open_clip keeps them
    names = (safe, name) if name else ()
    return Published(repository, names, known.get("url", ""), folder)


LIBRARY = Library("open_clip:ARCH/TAG", _load_open_clip, _open_clip_card, own=_own_card)
