"""JPEGs by simplejpeg: the pixels and the refusals of PIL, whatever is in a file."""

import io
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from marc.pictures import decoding
from marc.pictures.decoding import Unreadable, decode

simplejpeg = pytest.importorskip("simplejpeg")


def outcome(data):
    try:
        picture = decode(data, upright=True)
    except Unreadable as reason:
        return reason.code, None
    return picture.mode, np.asarray(picture)


def by_pil(data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_simplejpeg", lambda: None)
        return outcome(data)


def assert_same(data):
    (kind, pixels), (expected_kind, expected) = outcome(data), by_pil(data)
    assert kind == expected_kind
    assert np.array_equal(pixels, expected)


def drawn(width, height, seed, mode="RGB"):
    """Large spots and noise, in every colour and beyond what YCbCr can hold."""
    generator = np.random.default_rng(seed)
    spots = Image.fromarray(generator.integers(0, 256, (5, 7, 3), dtype=np.uint8))
    pixels = np.asarray(spots.resize((width, height))).astype(np.int16)
    noise = generator.integers(-90, 90, pixels.shape)
    return Image.fromarray((pixels + noise).clip(0, 255).astype(np.uint8)).convert(mode)


def encoded(picture, **options):
    file = io.BytesIO()
    picture.save(file, "JPEG", **options)
    return file.getvalue()


@st.composite
def files(draw):
    size = draw(st.integers(1, 70)), draw(st.integers(1, 70))
    mode = draw(st.sampled_from(["RGB", "RGB", "RGB", "L", "CMYK"]))
    exif = Image.Exif()
    exif[0x0112] = draw(st.integers(1, 8))
    options = {
        "quality": draw(st.integers(1, 100)),
        "progressive": draw(st.booleans()),
        "optimize": draw(st.booleans()),
        "exif": exif,
        "restart_marker_blocks": draw(st.sampled_from([0, 1, 3])),
    }
    if mode == "RGB":
        kept = {"keep_rgb": True}
        options |= draw(st.sampled_from([*({"subsampling": each} for each in (0, 1, 2)), kept]))
    return encoded(drawn(*size, draw(st.integers(0, 9)), mode), **options)


@settings(max_examples=150, deadline=None)
@given(files())
def test_the_pixels_are_those_of_pil(data):
    assert_same(data)


@settings(max_examples=150, deadline=None)
@given(files(), st.floats(0, 1), st.booleans())
def test_a_cut_file_is_refused_as_pil_refuses_it(data, part, ends):
    cut = data[: int(part * len(data))]
    assert_same(cut + b"\xff\xd9" * ends)


@settings(max_examples=300, deadline=None)
@given(files(), st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=3))
def test_a_damaged_file_is_read_or_refused_as_by_pil(data, changes):
    damaged = bytearray(data)
    for place, value in changes:
        damaged[int(place * len(data))] = value
    assert_same(bytes(damaged))


@pytest.mark.parametrize("size", [(500, 375), (375, 501), (1023, 77)])
@pytest.mark.parametrize("subsampling", [0, 1, 2])
def test_photographs_are_those_of_pil_and_pil_is_not_asked(size, subsampling, monkeypatch):
    data = encoded(drawn(*size, 1), quality=90, subsampling=subsampling)
    expected = by_pil(data)[1]
    monkeypatch.setattr(decoding, "check_whole", None)  # which every file that PIL decodes meets
    assert np.array_equal(outcome(data)[1], expected)


def test_what_is_behind_the_picture_is_nothing_odd():
    data = encoded(drawn(40, 30, 2))
    assert np.array_equal(outcome(data + b"anything")[1], by_pil(data)[1])
    assert_same(data + data)


def test_without_the_library_pil_decodes(monkeypatch):
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    decoding._simplejpeg.cache_clear()
    try:
        assert decoding._simplejpeg() is None
        assert outcome(encoded(drawn(9, 8, 3)))[0] == "RGB"
    finally:
        decoding._simplejpeg.cache_clear()
