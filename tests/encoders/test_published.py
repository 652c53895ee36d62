"""The cards of the published encoders, against what the libraries say of the same weights."""

import json
import re

import pytest
from helpers.torch_towers import picture  # noqa: F401  # it makes the libraries work

# isort: split
import open_clip
import timm
import torch
from timm.models import get_pretrained_cfg
from typer.testing import CliRunner

from marc import MarcError
from marc.cli.app import _app
from marc.encoders import check_predictor, encoder_card, list_encoders
from marc.encoders.from_timm import _build_tower, _projects
from marc.encoders.published import PUBLISHED, WITH_TEXT
from marc.encoders.torch_runtime import without_drawing

PREDICTORS = {name: card for name, card in PUBLISHED.items() if card.has_text}
SPACES = {name: card for name, card in PUBLISHED.items() if name not in PREDICTORS}


def test_there_are_sixteen_spaces_and_two_predictors():
    assert len(SPACES) == 16
    assert list(PREDICTORS) == ["clip-b16-text", "clip-rn50-text"]
    assert [*PUBLISHED][:2] == list(PREDICTORS)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in PUBLISHED)


@pytest.mark.parametrize("name", SPACES)
def test_a_card_agrees_with_timm_about_the_weights(name):
    card, known = SPACES[name], get_pretrained_cfg(SPACES[name].tag)
    assert card.mean == pytest.approx(known.mean)
    assert card.std == pytest.approx(known.std)
    assert card.crop.interpolation == known.interpolation
    assert card.licence.lower() == known.license
    assert ("quickgelu" in card.tag) == ("QuickGELU" in str(known.notes))
    assert re.fullmatch(r"\S+ et al\. 20\d\d, arXiv:\d{4}\.\d{5}", card.paper)


@pytest.mark.parametrize("name", PREDICTORS)
def test_a_card_agrees_with_open_clip_about_the_weights(name):
    card = PREDICTORS[name]
    architecture, tag = card.tag.split("/")
    known = open_clip.get_pretrained_cfg(architecture, tag)
    config = open_clip.get_model_config(architecture)
    assert (card.mean, card.std) == (known["mean"], known["std"])
    assert card.crop.interpolation == known["interpolation"]
    assert known["quick_gelu"] is config["quick_gelu"] is True
    assert card.dim == config["embed_dim"]
    assert card.crop.size == config["vision_cfg"]["image_size"]


@pytest.mark.parametrize("name", WITH_TEXT)
def test_an_image_space_is_no_predictor_but_says_where_its_texts_are(name):
    with pytest.raises(MarcError, match="text tower") as caught:
        check_predictor(encoder_card(name))
    assert encoder_card(caught.value.hint).has_text


def test_a_space_without_texts_lists_the_predictors():
    with pytest.raises(MarcError, match="clip-b16-text, clip-rn50-text"):
        check_predictor(encoder_card("dinov2-b"))


@pytest.mark.parametrize(("name", "near"), [("dinov2", "dinov2-b"), ("clip_b16", "clip-b16")])
def test_an_unknown_name_is_answered_with_near_ones(name, near):
    with pytest.raises(MarcError, match="unknown encoder") as caught:
        encoder_card(name)
    assert near in caught.value.hint


def test_any_model_of_timm_has_a_card():
    card = encoder_card("timm:test_vit.r160_in1k")
    assert (card.name, card.dim, card.crop.size) == ("test_vit.r160_in1k", 64, 160)
    assert "the crop is ours" in card.summary
    assert encoder_card("timm:test_vit") == card  # timm's default weights
    projects = encoder_card("timm:vit_base_patch32_clip_224.laion2b")
    assert (projects.dim, projects.pooling) == (512, "CLS + projection")
    tuned = encoder_card("timm:vit_base_patch32_clip_224.laion2b_ft_in1k")
    assert tuned.dim == 768


OTHER = "the library's default + projection"


@pytest.mark.parametrize(
    ("tag", "dim", "pooling"),
    [
        ("convnext_base.clip_laion2b", 640, OTHER),
        ("fastvit_mci0.apple_mclip", 512, OTHER),
        ("resnet50_clip.openai", 1024, OTHER),  # it pools by attention
        ("resnet50_clip_gap.openai", 2048, "the library's default"),
        ("vit_pe_core_tiny_patch16_384.fb", 512, OTHER),
        ("vit_xsmall_patch16_clip_224.tinyclip_yfcc15m", 512, "CLS + projection"),
    ],
)
def test_a_tower_of_a_clip_gives_the_vector_on_its_card(tag, dim, pooling):
    card = encoder_card(f"timm:{tag}")
    assert (card.dim, card.pooling) == (dim, pooling)
    with without_drawing():
        tower = _build_tower(card)
    pixels = torch.zeros(1, 3, card.crop.size, card.crop.size)
    with torch.inference_mode():
        assert tower.eval()(pixels).shape == (1, dim)


def test_a_projection_is_never_taken_for_labels_nor_labels_for_a_projection():
    labels = {0, 1000, 11221, 11821, 19168, 21841, 21842, 21843}
    for tag in timm.list_pretrained():
        n_classes = get_pretrained_cfg(tag).num_classes
        assert _projects(tag, n_classes) == (n_classes not in labels), tag


def test_any_model_of_open_clip_has_a_card():
    card = encoder_card("open_clip:ViT-B-32/laion2b_s34b_b79k")
    assert (card.name, card.dim) == ("ViT-B-32-laion2b_s34b_b79k", 512)
    assert card.has_text
    assert "the crop is ours" in card.summary
    assert encoder_card("open_clip:ViT-B-16-SigLIP/webli").mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("name", "better"),
    [
        (
            "timm:vit_base_patch16_clip_224.openai",
            "timm:vit_base_patch16_clip_quickgelu_224.openai",
        ),
        ("open_clip:ViT-B-16/openai", "open_clip:ViT-B-16-quickgelu/openai"),
    ],
)
def test_the_wrong_activation_is_refused(name, better):
    with pytest.raises(MarcError, match="another activation") as caught:
        encoder_card(name)
    assert caught.value.hint == better
    encoder_card(better)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("timm:nonsense", "timm has no weights"),
        ("timm:", "timm has no weights"),
        ("timm:test_vit.mine", "timm has no weights"),
        ("open_clip:ViT-B-32/mine", "laion2b_s34b_b79k"),
        ("open_clip:ViT-B-32", "ViT-B-32/ and one of"),
        ("open_clip:nonsense/openai", "ARCH/TAG"),
        ("hub:thing", "unknown encoder"),
    ],
)
def test_names_that_a_library_does_not_know_are_refused(name, words):
    with pytest.raises(MarcError, match=words):
        encoder_card(name)


def test_the_command_line_lists_and_tells():
    def say(*arguments):
        result = CliRunner().invoke(_app, ["list", "encoders", *arguments])
        assert result.exit_code == 0, result.output
        return result.output

    listed = say("dino*")
    assert all(name in listed for name in list_encoders("dino*"))
    assert "mini:" not in listed
    card = say("dino*", "--card", "dinov2-b")
    for words in ("short side to 224 pixels, bicubic", "0.485, 0.456, 0.406", "CLS", "2304.07193"):
        assert words in card
    assert json.loads(say("--card", "mae-b16", "--json"))["mae-b16"]["crop"]["size"] == 224
    assert "CC-BY-NC-4.0" in say("--card", "mae-b16")
    assert "Conv-L" in say("--card", "mini:captions")
