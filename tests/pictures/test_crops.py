"""Crops equal those of torchvision to the last bit; normalising equals its formula."""

from helpers.torch_towers import picture  # first: it makes the libraries work

# isort: split
import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision import transforms
from torchvision.transforms import InterpolationMode

from marc import MarcError
from marc.encoders import encoder_card
from marc.encoders.published import PUBLISHED
from marc.pictures import crops as crops_module
from marc.pictures.crops import _LONGEST, Crop

BICUBIC = Crop(224, 224)
ODD_SIZES = [(224, 224), (225, 224), (224, 225), (501, 375), (333, 500), (640, 480), (223, 1000)]
SMALL = [(1, 1), (2, 3), (17, 5), (223, 223), (100, 64), (1, 40)]
THIN = [(3, 190), (190, 3), (1, 64), (2000, 40)]


def by_torchvision(image, crop):
    way = InterpolationMode(crop.interpolation)
    sides = crop.resized if crop.resize == "short" else (crop.resized, crop.resized)
    cut = transforms.Compose([transforms.Resize(sides, way), transforms.CenterCrop(crop.size)])
    return np.asarray(cut(image))


@pytest.mark.parametrize("size", ODD_SIZES + SMALL + THIN)
@pytest.mark.parametrize(
    "crop",
    [BICUBIC, Crop(224, 224, "short", "bilinear"), Crop(224, 256), Crop(64, 77, "squash")],
    ids=["bicubic", "bilinear", "256 to 224", "squash"],
)
def test_a_crop_equals_that_of_torchvision(size, crop):
    image = picture(*size)
    found = crop.cut(image)
    assert found.dtype == np.uint8
    assert np.array_equal(found, by_torchvision(image, crop))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 150),
    st.integers(1, 150),
    st.integers(1, 40),
    st.integers(0, 20),
    st.sampled_from(["bicubic", "bilinear"]),
    st.sampled_from(["short", "squash"]),
)
def test_any_crop_equals_that_of_torchvision(width, height, size, more, interpolation, resize):
    image = picture(width, height)
    if max(width, height) > _LONGEST * min(width, height):
        return  # cut first, see below
    crop = Crop(size, size + more, resize, interpolation)
    assert np.array_equal(crop.cut(image), by_torchvision(image, crop))


def test_a_line_of_pixels_is_cut_to_its_middle_and_does_not_fill_the_memory():
    line = Image.new("RGB", (3_000_000, 1))
    line.paste((255, 0, 0), (1_499_000, 0, 1_501_000, 1))
    found = BICUBIC.cut(line)
    assert np.array_equal(found, np.broadcast_to(np.uint8([255, 0, 0]), (224, 224, 3)))
    upright = BICUBIC.cut(line.transpose(Image.Transpose.ROTATE_90))
    assert np.array_equal(upright, found)


@pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK", "P", "1"])
def test_pictures_of_other_modes_become_colours(mode):
    other = picture(60, 40).convert(mode)
    assert np.array_equal(BICUBIC.cut(other), BICUBIC.cut(other.convert("RGB")))


@pytest.mark.parametrize("name", ["clip-b16", "dinov2-b", "siglip-b16", "resnet50", "vit-b16"])
def test_normalised_pixels_equal_those_of_torchvision(name):
    card = encoder_card(name)
    images = card.crop.cut(picture())[None]
    way = transforms.Compose([transforms.ToTensor(), transforms.Normalize(card.mean, card.std)])
    expected = way(Image.fromarray(images[0]))[None].numpy()
    found = card.normalise(images)
    assert found.dtype == np.float32
    assert np.array_equal(found, expected)
    assert np.array_equal(card.normalise(images.astype(np.float32)), expected)
    on_device = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(each).view(1, 3, 1, 1) for each in (card.mean, card.std))
    assert np.array_equal(((on_device - mean) / std).numpy(), expected)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"resize": "long"}, "short, squash"),
        ({"interpolation": "nearest"}, "bicubic, bilinear, fast-bicubic, fast-bilinear"),
        ({"resized": 200}, "resized >= size"),
        ({"size": 0}, "an integer"),
    ],
)
def test_a_crop_that_cannot_be_cut_is_refused(change, words):
    with pytest.raises(MarcError, match=words):
        dataclasses.replace(BICUBIC, **change).cut(picture())


def test_all_published_encoders_see_the_same_square():
    crops = {card.crop for card in PUBLISHED.values()}
    assert crops == {BICUBIC, Crop(224, 224, "short", "bilinear")}
    assert [n for n, card in PUBLISHED.items() if card.crop != BICUBIC] == ["resnet50"]


@pytest.mark.parametrize("size", ODD_SIZES + SMALL + THIN)
@pytest.mark.parametrize("crop", [BICUBIC, Crop(180, 224), Crop(180, 224, "squash", "bilinear")])
def test_a_fast_crop_is_close_to_the_exact_one(size, crop):
    image = picture(*size)
    found, exact = crop.by("fast").cut(image), crop.cut(image).astype(np.int16)
    assert found.dtype == np.uint8
    assert np.abs(found - exact).max() <= 2
    assert (found != exact).mean() < (0.02 if crop.interpolation == "bicubic" else 0.2)


def test_a_fast_crop_is_another_crop_and_goes_back_to_the_exact_one():
    fast = BICUBIC.by("fast")
    assert fast != BICUBIC
    assert fast.by("fast") == fast
    assert fast.by("exact") == BICUBIC
    with pytest.raises(MarcError, match="exact, fast"):
        BICUBIC.by("quick")


def test_crops_that_resize_alike_share_one_resize(monkeypatch):
    crops = [Crop(64, 80), Crop(80, 80), Crop(48, 80, "squash"), Crop(17, 80), Crop(64, 81)]
    expected = {crop: crop.cut(picture()) for crop in crops}
    resized, plain = [], crops_module._resized
    monkeypatch.setattr(
        crops_module, "_resized", lambda image, crop: resized.append(crop) or plain(image, crop)
    )
    found = Crop.cut_all(picture(), crops)
    assert [*found] == crops
    assert resized == [crops[0], crops[2], crops[4]]
    for crop in crops:
        assert np.array_equal(found[crop], expected[crop])
