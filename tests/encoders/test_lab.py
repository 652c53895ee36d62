"""The shipped encoders give what the training framework gave, and nothing else passes for them."""

import json
from pathlib import Path

import numpy as np
import pytest

import marc
import marc_lab
from marc import MarcError
from marc.encoders import create_encoder, encoder_card
from marc.encoders.from_onnx import OnnxEncoder
from marc.files import read_arrays
from marc.scores import unit
from marc_lab.classes import CLASS_NAMES, HELD_BACK
from marc_lab.encoders import PREFIX, PROMPTS, _mini_cards, mini_predictor
from marc_lab.world import render

WEIGHTS = Path(marc_lab.__file__).with_name("weights")
GOLDEN = read_arrays(WEIGHTS / "golden.npz", "golden vectors")
NAMES = list(_mini_cards())
SHIPPED = [name for name in NAMES if name != "mini:pixels"]
LARGEST_PACKAGE = 19_000_000  # bytes of everything that ships for the encoders


@pytest.fixture(scope="module")
def pictures():
    scenes = zip(GOLDEN["seed"], GOLDEN["index"], GOLDEN["shift"], strict=True)
    return np.stack([render(int(s), int(i), str(shift)).image for s, i, shift in scenes])


@pytest.mark.parametrize("name", SHIPPED)
def test_an_encoder_gives_the_vectors_of_the_training_framework(name, pictures):
    vectors = marc.create_encoder(name).encode(pictures)
    distance = np.abs(vectors - GOLDEN[name.removeprefix(PREFIX)]).max()
    assert distance <= 1e-3  # 5e-7 where the pictures agree to the last bit


@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_unit_and_do_not_depend_on_the_batch(name, pictures):
    encoder = marc.create_encoder(name)
    vectors = encoder.encode(pictures[:5])
    assert vectors.shape == (5, encoder.card.dim)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.allclose(vectors[3:4], encoder.encode(pictures[3:4]), atol=1e-5)
    assert encoder.encode(pictures[:0]).shape == (0, encoder.card.dim)


def test_there_are_enough_encoders_and_they_are_named_after_what_they_do():
    assert len(SHIPPED) >= 8
    published = ("clip", "dino", "imagenet", "mae", "resnet", "siglip")
    assert not [name for name in NAMES for other in published if other in name]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_card_says_how_the_encoder_came_about(name):
    card = encoder_card(name)
    assert card.training.objective
    assert card.digest
    assert card.training.parameters <= 1_500_000
    assert (card.training.epochs > 0) == (name != "mini:random")


def test_the_package_stays_small(capsys):
    sizes = {file.name: file.stat().st_size for file in WEIGHTS.iterdir()}
    with capsys.disabled():
        total = sum(sizes.values())
        print(f"\nencoders in the package: {len(SHIPPED)} files, {total / 1e6:.2f} MB with cards")
    assert sum(sizes.values()) <= LARGEST_PACKAGE


def test_equal_budgets():
    record = json.loads((WEIGHTS / "training.json").read_text())["encoders"]
    views = {name: facts["views"] for name, facts in record.items() if name != "random"}
    assert len(views) == len(SHIPPED) - 1
    assert len(set(views.values())) == 1


@pytest.mark.parametrize(("name", "n_classes"), [("labels-half", 24), ("labels-contrastive", 36)])
def test_a_card_counts_the_pictures_that_were_shown(name, n_classes):
    card = encoder_card(PREFIX + name)
    assert f"pictures of {n_classes} classes" in card.training.data
    assert card.training.epochs > encoder_card("mini:labels").training.epochs


def test_the_predictor_knows_the_classes_it_is_asked_for():
    few, all_classes = mini_predictor(HELD_BACK), mini_predictor(tuple(range(48)))
    assert few.prototypes.shape == (12, 128)
    assert np.allclose(few.prototypes, all_classes.prototypes[list(HELD_BACK)])
    assert np.allclose(np.linalg.norm(few.prototypes, axis=1), 1, atol=1e-5)
    clean = np.stack([render(77, 2 * label, "clean", label).image for label in range(48)])
    scores = marc.create_encoder("mini:captions").encode(clean) @ all_classes.prototypes.T
    assert (scores.argmax(axis=1) == np.arange(48)).mean() > 0.8
    assert len(CLASS_NAMES) == 48


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((2, 32, 32, 3), dtype=np.uint8),
        np.zeros((2, 3, 64, 64), dtype=np.uint8),
        np.zeros((2, 64, 64, 3), dtype=np.float64),
        np.zeros((64, 64, 3), dtype=np.uint8),
    ],
    ids=["small", "colours first", "long floats", "one image"],
)
def test_images_of_another_kind_are_refused(images):
    with pytest.raises(MarcError, match=r"uint8 \(n, 64, 64, 3\)"):
        marc.create_encoder("mini:pairs-small").encode(images)


@pytest.mark.parametrize("value", [-1.0, 255.5, np.nan])
def test_floats_beyond_the_values_of_pixels_are_refused(value):
    images = np.zeros((2, 64, 64, 3), dtype=np.float32)
    images[1, 5, 6, 1] = value
    for name in ("mini:pairs-small", "mini:pixels"):
        with pytest.raises(MarcError, match="from 0 to 255"):
            marc.create_encoder(name).encode(images)


@pytest.mark.parametrize("name", NAMES)
def test_pictures_as_floats_give_the_vectors_of_bytes(name, pictures):
    encoder = marc.create_encoder(name)
    floats = pictures[:3].astype(np.float32)
    assert np.array_equal(encoder.encode(floats), encoder.encode(pictures[:3]))


def test_the_predictor_reads_the_prompts_of_the_lab():
    predictor = create_encoder("mini:captions")
    assert predictor.card.prompts == ("lab",)
    texts = [prompt.format(name) for name in CLASS_NAMES for prompt in PROMPTS]
    vectors = predictor.encode_text(texts).reshape(48, 10, 128)
    expected = mini_predictor(tuple(range(48)))
    assert np.allclose(unit(vectors.mean(axis=1)), expected.prototypes, atol=1e-6)
    assert predictor.logit_scale == expected.logit_scale
    assert predictor.encode_text([]).shape == (0, 128)


def test_the_predictor_says_which_texts_it_knows():
    with pytest.raises(MarcError, match=r"'a photo of a \{\}'") as caught:
        create_encoder("mini:captions").encode_text(["a photo of a mug", "a photo of a zebra"])
    assert caught.value.got == "'a photo of a zebra'"
    assert CLASS_NAMES[0] in str(caught.value)


def test_other_weights_are_refused(tmp_path):
    card = encoder_card("mini:pairs-small")
    damaged = bytearray((WEIGHTS / "pairs-small.onnx").read_bytes())
    damaged[1000] ^= 1
    (tmp_path / "pairs-small.onnx").write_bytes(damaged)
    with pytest.raises(MarcError, match="not the ones on its card"):
        OnnxEncoder(card, tmp_path / "pairs-small.onnx")
    with pytest.raises(MarcError, match="no such ONNX file"):
        OnnxEncoder(card, tmp_path / "nothing.onnx")


def test_an_unknown_encoder_is_refused_with_the_names():
    with pytest.raises(MarcError, match="mini:captions"):
        marc.create_encoder("mini:everything")
    with pytest.raises(MarcError, match="try:  mini:pairs-small"):
        marc.create_encoder("mini:pairs_small")
