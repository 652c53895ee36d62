"""Every published architecture, with random weights, through every way to load it."""

from helpers.torch_towers import (  # first: it makes the libraries work
    filled,
    picture,
    save_as_script,
)

# isort: split
import shutil

import numpy as np
import open_clip
import pytest
import timm
import torch
from safetensors.torch import save_file
from torchvision import transforms

import marc
from marc.encoders import create_encoder, encoder_card
from marc.encoders.from_timm import _build_tower
from marc.encoders.published import PUBLISHED
from marc.encoders.torch_runtime import without_drawing
from marc.encoders.weights import WeightsFile
from marc.scores import unit

PREDICTORS = {name: card for name, card in PUBLISHED.items() if card.has_text}
SPACES = {name: card for name, card in PUBLISHED.items() if name not in PREDICTORS}

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def small_disk(tmp_path):
    """The weights of all architectures together are gigabytes; pytest would keep them."""
    yield
    shutil.rmtree(tmp_path)


CLASSES = ["a photo of a mug", "a heron", "a photo of a mug", "many words " * 60]


def torchvision_pixels(card):
    ways = {"bicubic": 3, "bilinear": 2}
    return transforms.Compose(
        [
            transforms.Resize(224, interpolation=ways[card.crop.interpolation]),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize(card.mean, card.std),
        ]
    )(picture())[None]


def vectors(model, card):
    with torch.inference_mode():
        return unit(model(torchvision_pixels(card)).numpy())


@pytest.fixture
def shallow(monkeypatch):
    """Towers of timm with two blocks of their real width: the others repeat the same names."""
    create = timm.create_model

    def create_shallow(tag, **more):
        depths = {"resnet": {"layers": (1, 1, 1, 1)}, "convnext": {"depths": (1, 1, 1, 1)}}
        family = next((each for each in depths if tag.startswith(each)), None)
        return create(tag, **depths.get(family, {"depth": 2}), **more)

    monkeypatch.setattr(timm, "create_model", create_shallow)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.usefixtures("shallow")
def test_a_space_is_the_same_through_every_path(name, tmp_path):
    card = encoder_card(name)
    model = filled(lambda: _build_tower(card))
    expected, digest = vectors(model, card), WeightsFile.digest(model.state_dict())
    folder = tmp_path / "folder"
    folder.mkdir()
    file = tmp_path / f"{name}-mine.safetensors"
    save_file(model.state_dict(), file)
    (folder / "model.safetensors").hardlink_to(file)
    del model
    pixels = card.crop.cut(picture())[None]
    for weights in (file, folder):
        encoder = marc.create_encoder(name, weights=weights, offline=True, device="cpu")
        assert np.abs(encoder.encode(pixels) - expected).max() <= 1e-6
        assert encoder.card.digest == digest
        assert (encoder.precision, encoder.batch) == ("float32", 32)
        del encoder
    with without_drawing():
        by_timm = _build_tower(card, checkpoint_path=str(file)).eval()
    assert np.abs(vectors(by_timm, card) - expected).max() <= 1e-6


@pytest.mark.parametrize("name", PREDICTORS)
def test_a_predictor_is_the_same_through_every_path(name, tmp_path):
    card = encoder_card(name)
    model = filled(lambda: open_clip.create_model(card.tag.partition("/")[0]))
    expected, digest = vectors(model.encode_image, card), WeightsFile.digest(model.state_dict())
    tokens = open_clip.get_tokenizer("ViT-B-16-quickgelu")(CLASSES)
    with torch.inference_mode():
        texts = unit(model.encode_text(tokens).numpy())
    file, folder = tmp_path / "mine.pt", tmp_path / "folder"
    folder.mkdir()
    torch.save({"state_dict": model.state_dict()}, file)
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    pixels = card.crop.cut(picture())[None]
    for weights in (file, folder):
        predictor = create_encoder(name, weights=weights, offline=True, device="cpu")
        assert np.abs(predictor.encode(pixels) - expected).max() <= 1e-6
        found = predictor.encode_text(CLASSES)
        assert np.abs(found - texts).max() <= 1e-6
        assert np.array_equal(found[0], found[2])
        assert predictor.logit_scale == pytest.approx(model.logit_scale.exp().item(), rel=1e-6)
        assert predictor.card.digest == digest


OPEN_CLIP_TWINS = {
    "clip-b16": "ViT-B-16-quickgelu",
    "openclip-b16": "ViT-B-16",
    "siglip-b16": "ViT-B-16-SigLIP",
    "eva02-b16": "EVA02-B-16",
}


@pytest.mark.parametrize("name", OPEN_CLIP_TWINS)
def test_a_file_of_open_clip_loads_into_the_tower_of_timm(name, tmp_path):
    card = encoder_card(name)
    model = filled(lambda: open_clip.create_model(OPEN_CLIP_TWINS[name]))
    file = tmp_path / "open_clip_model.safetensors"
    save_file(model.state_dict(), file)
    encoder = marc.create_encoder(name, weights=tmp_path, offline=True, device="cpu")
    found = encoder.encode(card.crop.cut(picture())[None])
    expected = vectors(model.encode_image, card).astype(float)
    cosine = (
        (found * expected).sum() / np.linalg.norm(found.astype(float)) / np.linalg.norm(expected)
    )
    assert cosine >= 0.9999999


def test_a_dinov2_file_for_518_pixels_loads_at_224(tmp_path):
    card = encoder_card("dinov2-s")
    large = filled(lambda: timm.create_model(card.tag, num_classes=0))
    save_file(large.state_dict(), tmp_path / "dinov2-s.safetensors")
    encoder = marc.create_encoder("dinov2-s", weights=tmp_path, offline=True, device="cpu")
    found = encoder.encode(card.crop.cut(picture())[None])
    by_timm = timm.create_model(
        card.tag,
        pretrained=True,
        num_classes=0,
        dynamic_img_size=True,
        pretrained_cfg_overlay={"file": str(tmp_path / "dinov2-s.safetensors")},
    ).eval()
    assert np.abs(found - vectors(by_timm, card)).max() <= 1e-6
    assert encoder.card.digest == WeightsFile.digest(large.state_dict())


OPENAI = {
    "ViT-B-16-quickgelu": ("clip-b16-text", "clip-b16"),
    "RN50-quickgelu": ("clip-rn50-text",),
}


@pytest.mark.parametrize("architecture", OPENAI)
def test_a_file_as_openai_published_it_loads_into_every_tower(architecture, tmp_path):
    model = filled(lambda: open_clip.create_model(architecture)).half().float()
    state = model.state_dict()
    half = {name: each.half() if each.is_floating_point() else each for name, each in state.items()}
    numbers = {"input_resolution": 224, "context_length": 77, "vocab_size": 49408}
    save_as_script(half, tmp_path / "OpenAI.pt", **numbers)
    with torch.inference_mode():
        texts = unit(model.encode_text(open_clip.get_tokenizer(architecture)(CLASSES)).numpy())
    for name in OPENAI[architecture]:
        card = encoder_card(name)
        encoder = marc.create_encoder(name, weights=tmp_path, offline=True, device="cpu")
        found = encoder.encode(card.crop.cut(picture())[None])
        assert np.abs(found - vectors(model.encode_image, card)).max() <= 1e-5
        assert encoder.card.digest == WeightsFile.digest(state)
        if card.has_text:
            assert np.abs(encoder.encode_text(CLASSES) - texts).max() <= 1e-6
            scale = model.logit_scale.exp().item()
            assert encoder.logit_scale == pytest.approx(scale, rel=1e-6)
