"""Image towers of libraries give what their encoders give, and learn by gradients."""

import json

import numpy as np
import pytest
from helpers.torch_towers import filled

# isort: split
import open_clip
import torch
from safetensors.torch import save_file
from torch import nn

import marc
from marc.encoders import encoder_card
from marc.encoders.from_timm import _build_tower
from marc.encoders.image_towers import LoadedImageTower
from marc.loop import iter_steps
from marc.peers.memo import MEMO
from marc.peers.tent import Tent
from marc.stream import Stream
from marc.stream.predictor import Towers

PICTURES = {"layers": 2, "width": 64, "head_width": 32, "patch_size": 16, "image_size": 64}
TEXTS = {"context_length": 8, "vocab_size": 50, "width": 64, "heads": 1, "layers": 1}
RESNET = {"layers": [1, 1, 1, 1], "width": 8, "image_size": 64}


def crops(n=5, size=64):
    return np.random.default_rng(1).integers(0, 256, (n, size, size, 3), dtype=np.uint8)


def model_of(kind=open_clip.CLIP, **pictures):
    return filled(lambda: kind(16, {**PICTURES, **pictures}, TEXTS))


def tower_of(model):
    card = encoder_card("clip-b16")
    return card, LoadedImageTower.of_open_clip(card, model, "cpu")


@pytest.mark.parametrize("kind", [open_clip.CLIP, open_clip.CustomTextCLIP])
@pytest.mark.parametrize(
    ("pictures", "width"),
    [
        ({}, 64),
        ({"no_ln_pre": True}, 64),
        ({"final_ln_after_pool": True}, 64),
        ({"pool_type": "avg"}, None),
        ({"attentional_pool": True}, None),
        ({"output_tokens": True}, 64),
        (RESNET, None),
        ({"timm_model_name": "test_vit.r160_in1k", "timm_pool": "token", "image_size": 160}, None),
    ],
    ids=["vit", "no norm", "late norm", "mean", "attention", "tokens", "resnet", "timm"],
)
def test_a_tower_says_what_its_model_says(kind, pictures, width):
    model = model_of(kind, **pictures)
    card, tower = tower_of(model)
    pixels = crops(size=pictures.get("image_size", 64))
    images = tower.prepare(pixels)
    planes = torch.from_numpy(card.normalise(pixels))
    torch.testing.assert_close(images, planes.reshape(images.shape), atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        expected = model.visual(images)
        expected = expected[0] if isinstance(expected, tuple) else expected
        torch.testing.assert_close(tower.copy()(images), expected)
    assert (tower.prefix_width, tower.digest) == (width, card.digest)


@pytest.mark.parametrize("pictures", [{}, {"no_ln_pre": True}, {"final_ln_after_pool": True}])
def test_a_prefix_is_read_behind_the_token_of_the_whole(pictures):
    """As a picture of more patches would be, whose positions are none."""
    model = model_of(**pictures)
    _, tower = tower_of(model)
    network, images = tower.copy(), tower.prepare(crops())
    prefix = torch.randn(5, 3, 64, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    found = network(images, prefix)
    visual = model.visual
    visual.patch_dropout.register_forward_hook(
        lambda part, given, tokens: torch.cat([tokens[:, :1], prefix, tokens[:, 1:]], dim=1)
    )
    torch.testing.assert_close(found, visual(images))
    found.sum().backward()
    assert prefix.grad.abs().sum() > 0


def test_a_copy_is_its_own_and_nothing_of_it_learns_yet():
    model = model_of()
    _, tower = tower_of(model)
    mine, other = tower.copy(), tower.copy()
    with torch.no_grad():
        next(mine.parameters()).zero_()
    assert next(other.parameters()).abs().sum() > 0
    assert next(model.visual.parameters()).abs().sum() > 0
    assert not any(each.requires_grad for each in mine.parameters())
    assert not any(part.training for part in mine.modules())


@pytest.fixture(scope="module")
def timm_encoder(tmp_path_factory):
    name = "timm:test_vit.r160_in1k"
    card = encoder_card(name)
    file = tmp_path_factory.mktemp("weights") / "tower.safetensors"
    save_file(filled(lambda: _build_tower(card)).state_dict(), file)
    return marc.create_encoder(name, weights=file, offline=True, device="cpu")


def test_any_model_of_timm_is_a_network_of_features(timm_encoder):
    tower, pixels = timm_encoder.image_tower(), crops(size=160)
    with torch.no_grad():
        features = nn.functional.normalize(tower.copy()(tower.prepare(pixels)))
    np.testing.assert_allclose(features, timm_encoder.encode(pixels), atol=1e-5)
    assert tower.digest == timm_encoder.card.digest
    assert tower.prefix_width is None


def test_an_encoder_of_open_clip_gives_its_tower(tmp_path):
    """Under a name of one's own, from a file."""
    config = {"embed_dim": 16, "vision_cfg": PICTURES, "text_cfg": TEXTS}
    (tmp_path / "tiny.json").write_text(json.dumps(config))
    save_file(model_of().state_dict(), tmp_path / "weights.safetensors")
    encoder = marc.create_encoder(
        f"tiny=open_clip:{tmp_path / 'tiny.json'}",
        weights=tmp_path / "weights.safetensors",
        offline=True,
        device="cpu",
    )
    tower, pixels = encoder.image_tower(), crops()
    with torch.no_grad():
        features = nn.functional.normalize(tower.copy()(tower.prepare(pixels)))
    np.testing.assert_allclose(features, encoder.encode(pixels), atol=1e-5)
    assert (tower.digest, tower.prefix_width) == (encoder.card.digest, 64)


@pytest.mark.parametrize("kind", ["clip", "timm", "resnet"])
def test_methods_learn_in_towers_of_libraries(kind, timm_encoder):
    """At a rate of 0 they say what the frozen network says, but for statistics of a batch."""
    if kind == "timm":
        tower, dim, size = timm_encoder.image_tower(), 64, 160
    else:
        tower, dim, size = tower_of(model_of(**(RESNET if kind == "resnet" else {})))[1], 16, 64
    pixels = crops(n=8, size=size).reshape(4, 2, size, size, 3)
    with torch.no_grad():
        views = tower.copy()(tower.prepare(pixels.reshape(8, size, size, 3)))
    stream = Stream.from_arrays(
        views.reshape(4, 2, dim).numpy(),
        np.random.default_rng(0).standard_normal((3, dim)),
        logit_scale=20.0,
        towers=Towers(image=lambda: tower),
        pixels=lambda row, n: pixels[row, :n],
    )
    for make in (Tent, MEMO):
        still, moving = (
            np.array([step.logits for step in iter_steps(method, stream)])
            for method in (make(rate=0), make(rate=0.01))
        )
        assert np.isfinite(moving).all()
        if kind != "resnet":
            np.testing.assert_allclose(still, [query.view_logits[0] for query in stream], atol=1e-3)
        assert make is Tent or not np.allclose(still, moving)
