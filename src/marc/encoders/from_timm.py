"""Image towers from timm."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import EncoderCard, Library, Loading, safe_name
from marc.encoders.image_forward import ImageForward
from marc.encoders.published import Pooling
from marc.encoders.torch_runtime import Running, import_libraries, without_drawing
from marc.encoders.weights import Published, WeightsFile
from marc.errors import MarcError
from marc.pictures.crops import Crop
from marc.stream.predictor import ImageTower

if TYPE_CHECKING:
    from torch import nn

_PROJECTING = (Pooling.PROJECTION, Pooling.DEFAULT_PROJECTION)


class _TimmEncoder:
    """A tower of timm; the vector is the one that its card names."""

    def __init__(self, card: EncoderCard, model: nn.Module, running: Running) -> None:
        self.card = card
        self.precision = running.precision
        self.batch = running.batch
        self.compiled = running.compiled
        self._running = running
        self._model = running.settled(model, images=model)
        self._forward = ImageForward(running, card, self._model)
        size = card.crop.size
        self.encode(np.zeros((1, size, size, 3), dtype=np.uint8))  # refused here, not hours later

    def encode(self, images: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of cropped images (n, size, size, 3)."""
        return self._forward.begin(images)()

    def begin_encoding(self, images: NDArray[Any]) -> Callable[[], NDArray[np.float32]]:
        """Start on images; what it returns waits for what `encode` would give."""
        return self._forward.begin(images)

    def image_tower(self) -> ImageTower:
        """Itself, for methods that learn inside it."""
        self._running.refuse_rounded(self.card)
        from marc.encoders.image_towers import LoadedImageTower

        return LoadedImageTower(self.card, self._model, self._running.device)


def _load_timm(card: EncoderCard, loading: Loading) -> _TimmEncoder:
    import_libraries("timm")
    running = Running.choose(loading)
    model, digest = _fill_tower(WeightsFile.find(card, loading, _published))
    return _TimmEncoder(dataclasses.replace(card, digest=digest), model, running)


def _build_tower(card: EncoderCard, **more: Any) -> nn.Module:
    """The tower of a card; random weights unless `more` says otherwise."""
    import timm

    arguments: dict[str, Any] = {} if card.pooling in _PROJECTING else {"num_classes": 0}
    if card.pooling == Pooling.CLS:
        arguments["global_pool"] = "token"
    known = _known(card.tag)
    if known.fixed_input_size and known.input_size[-1] != card.crop.size:
        arguments["img_size"] = card.crop.size
    model: nn.Module = timm.create_model(card.tag, **arguments, **more)
    return model


def _fill_tower(file: WeightsFile) -> tuple[nn.Module, str]:
    """The tower of a card with the weights of a file, all of them or none, and their digest.

    timm translates what it knows: files of open_clip and of a model's authors, and positions that
    were learned at another size. It also leaves out a classifier that the tower does not have, but
    then it no longer minds what else is missing. So the classifier is taken out here, before.
    """
    card, state = file.card, file.state()
    if card.pooling not in _PROJECTING:
        state = {name: value for name, value in state.items() if name not in _head_keys(card)}
    digest = WeightsFile.digest(state)  # before timm changes anything
    overlay = {"state_dict": state, "custom_load": False, "classifier": None}
    try:
        with without_drawing():
            model = _build_tower(card, pretrained=True, pretrained_cfg_overlay=overlay)
    except Exception as error:  # translating the file of another model fails in many ways
        raise file.misfit(error) from error
    model.pretrained_cfg = None  # it holds a second copy of the weights
    model.default_cfg = None
    return model, digest


def _timm_card(tag: str) -> EncoderCard:
    import_libraries("timm")
    known = _known(tag, published=True)
    architecture, tag = known.architecture, f"{known.architecture}.{known.tag}"
    if "quickgelu" in " ".join(known.notes or ()).lower() and "quickgelu" not in architecture:
        raise MarcError(
            "these weights were trained with another activation than this architecture has",
            got=tag,
            hint=f"timm:{tag.replace('_clip_', '_clip_quickgelu_')}",
        )
    return _card_of(tag, known, "")


def _own_card(tag: str) -> EncoderCard:
    """The card of an architecture with weights of a user's own."""
    import_libraries("timm")
    known = _known(tag)
    whose = f"those of {known.tag}" if known.hf_hub_id or known.url else Pooling.DEFAULT
    words = f" with weights of your own; size, mean, std: {whose}"
    if "_clip_" in tag and "quickgelu" not in tag:
        words += "; GELU: OpenAI's weights need the architecture with _clip_quickgelu_"
    return _card_of(tag, known, words)


def _card_of(tag: str, known: Any, words: str) -> EncoderCard:
    import timm
    import torch

    projecting = _projects(f"{known.architecture}.{known.tag}", known.num_classes)
    with torch.device("meta"):  # shapes alone
        model: Any = timm.create_model(tag, num_classes=known.num_classes if projecting else 0)
    pooling, dim = Pooling.DEFAULT, getattr(model, "head_hidden_size", None) or model.num_features
    if projecting:
        # a ResNet of CLIP calls it a token too, but has none: it pools by attention
        has_token = getattr(model, "cls_token", None) is not None and model.global_pool == "token"
        pooling = Pooling.PROJECTION if has_token else Pooling.DEFAULT_PROJECTION
        dim = known.num_classes
    crop = Crop.of_model(tag, known.input_size[1:], known.interpolation)
    return EncoderCard(
        name=safe_name(tag),
        summary=f"{tag} of timm{words}; the crop is ours: "
        f"short side to {crop.size}, then the centre",
        library="timm",
        tag=tag,
        dim=dim,
        crop=crop,
        mean=known.mean,
        std=known.std,
        pooling=pooling,
        licence=known.license or "unknown",
    )


def _projects(tag: str, n_classes: int) -> bool:
    """Whether what timm keeps where a classifier would be is the projection of a CLIP.

    It is not where the tower was tuned on the labels of ImageNet afterwards. PE Core is a CLIP too.
    """
    paired = re.search(r"clip|pe_core", tag) and not re.search(r"_in\d+k", tag)
    return bool(paired) and n_classes > 0


def _known(tag: str, *, published: bool = False) -> Any:
    """What timm knows of a tag, or of an architecture; if it must be `published`, with weights."""
    import timm
    from timm.models import get_pretrained_cfg

    try:
        known = get_pretrained_cfg(tag)
    except RuntimeError:  # the architecture is known, the weights are not
        known = None
    architecture = tag.partition(".")[0]
    has_weights = known is not None and (known.hf_hub_id or known.url)
    if known is None or not known.architecture or (published and not has_weights):
        near = timm.list_models(f"*{architecture}*", pretrained=True)[:8] if architecture else []
        raise MarcError(
            "timm has no weights of this name",
            got=repr(tag),
            allowed=", ".join(near) or "a tag of timm, for example timm:resnet18.a1_in1k",
            hint=f"NAME=timm:{architecture} --weights NAME=PATH, for weights of your own"
            if timm.is_model(architecture)
            else None,
        )
    return known


def _head_keys(card: EncoderCard) -> set[str]:
    classifier = _known(card.tag).classifier or ()
    names = {classifier} if isinstance(classifier, str) else set(classifier)
    # a classifier inside a head, as in ConvNeXt, is the head itself in its authors' files
    names |= {name.rpartition(".")[0] for name in names} - {""}
    return {f"{name}.{kind}" for name in names for kind in ("weight", "bias")}


def _published(card: EncoderCard) -> Published:
    import torch

    known = _known(card.tag)
    names = (known.hf_hub_filename,) if known.hf_hub_filename else ()
    url = known.url if isinstance(known.url, str) or not known.url else known.url[0]
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    return Published(known.hf_hub_id or "", names, url or "", folder)


LIBRARY = Library("timm:TAG", _load_timm, _timm_card, own=_own_card)
