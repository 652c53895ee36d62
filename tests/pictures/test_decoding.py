"""What becomes of every kind of file."""

import io
import pickle
import threading
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import image_trees as trees
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile, ImageOps

from marc.pictures import decoding
from marc.pictures.decoding import Unreadable, decode, read_picture
from marc.pictures.image_set import FileBytes


def shown(data, *, upright=False):
    picture = decode(data, upright=upright)
    assert picture.mode == "RGB"
    return np.asarray(picture)


def code(data):
    with pytest.raises(Unreadable) as caught:
        decode(data, upright=True)
    assert caught.value.reason == Unreadable.REASONS[caught.value.code]
    return caught.value.code


def test_the_codes_that_stores_keep_never_change():
    assert {
        number: words.split(",")[0].split(":")[0] for number, words in Unreadable.REASONS.items()
    } == {
        1: "missing",
        2: "empty file",
        3: "not a picture of a known format",
        4: "truncated or damaged",
        5: "too large",
    }


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM"])
def test_lossless_kinds_give_their_pixels_back(kind):
    np.testing.assert_array_equal(shown(trees.photo(3, kind)), trees.pixels(3))


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "JPEG2000"])
def test_other_kinds_are_read_as_pil_reads_them(kind, tmp_path):
    data = trees.photo(3, kind)
    (tmp_path / "x").write_bytes(data)
    with Image.open(tmp_path / "x") as picture:
        np.testing.assert_array_equal(shown(data), np.asarray(picture.convert("RGB")))


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_not_cut(kind):
    deep = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
    grey = shown(trees.encoded(deep, kind))
    np.testing.assert_array_equal(grey[..., 0], np.arange(256).reshape(16, 16))
    np.testing.assert_array_equal(grey[..., 0], grey[..., 2])


def test_sixteen_bits_of_a_pgm_are_scaled_even_if_dark():
    values = np.array([[0, 100, 250]], dtype=">u2")
    data = b"P5 3 1 65535\n" + values.tobytes()
    assert shown(data)[..., 0].tolist() == [[0, 0, 1]]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([[0.0, 0.5, 1.0]], np.float32), [0, 128, 255]),
        (np.array([[0.0, 100.0, 255.0]], np.float32), [0, 100, 255]),
        (np.array([[-1.0, 0.0, 1.0]], np.float32), [0, 128, 255]),
        (np.array([[np.nan, 0.5, np.inf]], np.float32), [128, 128, 128]),
        (np.array([[7.0, 7.0, 7.0]], np.float32), [7, 7, 7]),
        (np.array([[0, 25700, 65535]], np.int32), [0, 100, 255]),
        (np.array([[0, 3, 255]], np.int32), [0, 3, 255]),
        (np.array([[0, 50000, 100000]], np.int32), [0, 128, 255]),
        (np.array([[-5, -5, -5]], np.int32), [0, 0, 0]),
    ],
)
def test_other_numbers_are_scaled_by_their_range(values, expected):
    assert shown(trees.encoded(values, "TIFF"))[0, :, 0].tolist() == expected


def test_inks_become_colours():
    red = trees.encoded(Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG")
    assert np.abs(shown(red)[0, 0].astype(int) - [255, 0, 0]).max() < 8


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_a_moving_picture_the_first_frame_counts(kind):
    assert shown(trees.moving(kind))[4, 4].tolist() == [255, 0, 0]


def test_transparency_is_dropped_and_nothing_warns():
    colours = np.dstack([trees.pixels(1), np.zeros((12, 16), np.uint8)])
    np.testing.assert_array_equal(shown(trees.encoded(colours)), trees.pixels(1))
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    data = trees.encoded(palette, transparency=b"\x00\x80")
    assert shown(data)[0, 0].tolist() == [10, 20, 30]
    grey = Image.new("LA", (4, 4), (9, 0))
    assert shown(trees.encoded(grey))[0, 0].tolist() == [9, 9, 9]
    assert shown(trees.encoded(Image.new("1", (4, 4), 1)))[0, 0].tolist() == [255, 255, 255]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photo_is_turned_only_if_asked(orientation, tmp_path):
    data = trees.turned(orientation)
    (tmp_path / "x.jpg").write_bytes(data)
    with Image.open(tmp_path / "x.jpg") as picture:
        as_stored, right = np.asarray(picture), np.asarray(ImageOps.exif_transpose(picture))
    np.testing.assert_array_equal(shown(data, upright=False), as_stored)
    np.testing.assert_array_equal(shown(data, upright=True), right)


def test_broken_notes_of_a_camera_do_not_break_the_picture():
    data = trees.turned(6)
    at = data.index(b"Exif\0\0") + 6
    broken = data[:at] + b"\xff" * 8 + data[at + 8 :]
    assert shown(broken, upright=True).shape == (12, 16, 3)


def test_files_that_are_no_pictures():
    assert code(b"") == 2
    assert code(b"some text") == 3
    assert code(b"\0" * 500) == 3
    assert code(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n") == 3  # would start a program
    assert code(trees.photo(0, "JPEG")[:20]) == 4
    assert code(trees.photo(0)[:20]) == 4


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
def test_a_cut_file_is_refused_or_whole(kind):
    """Never a picture with a grey lower half."""
    data = trees.photo(5, kind)
    whole = shown(data)
    for length in range(1, len(data), max(1, len(data) // 60)):
        try:
            cut = shown(data[:length])
        except Unreadable as problem:
            assert problem.code in (3, 4)  # noqa: PT017
        else:
            np.testing.assert_array_equal(cut, whole)
    assert code(data[: len(data) // 2]) == 4


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "JPEG2000"]),
    places=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=8),
)
def test_damage_gives_a_picture_or_a_reason_and_nothing_else(kind, places):
    data = bytearray(trees.photo(1, kind))
    for place, value in places:
        data[place % len(data)] = value
    try:
        assert decode(bytes(data), upright=True).mode == "RGB"
    except Unreadable as problem:
        assert problem.code in Unreadable.REASONS  # noqa: PT017


def test_a_bomb_is_refused_by_its_header():
    start = time.process_time()
    assert code(trees.bomb()) == 5
    assert time.process_time() - start < 0.5
    assert code(trees.bomb(2**14, 2**13 + 1)) == 5
    assert code(trees.bomb(2**13, 2**13)) == 4  # allowed size, but the pixels are not there


def test_the_size_is_checked_here_too_should_pil_forget():
    for size, expected in (((2**14, 2**13 + 1), 5), ((2**16 + 1, 1), 5), ((0, 5), 4)):
        with pytest.raises(Unreadable) as caught:
            decoding._check_size(SimpleNamespace(size=size))
        assert caught.value.code == expected
    decoding._check_size(SimpleNamespace(size=(2**14, 2**13)))


def test_a_very_long_picture_is_refused_before_its_rows_are_read():
    """A WebP of some bytes: 16 million by 8 would take minutes."""
    data = bytearray(trees.moving("WEBP"))
    canvas = data.index(b"VP8X") + 12
    data[canvas : canvas + 3] = (2**24 - 1).to_bytes(3, "little")
    start = time.process_time()
    assert code(bytes(data)) == 5
    assert time.process_time() - start < 5


def test_the_limit_is_ours_and_pil_is_left_as_it_was(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)  # PIL alone would refuse everything
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert shown(trees.photo(0)).shape == (12, 16, 3)
    assert code(trees.photo(0, "JPEG")[:-100]) == 4
    assert Image.MAX_IMAGE_PIXELS == 10
    assert ImageFile.LOAD_TRUNCATED_IMAGES


def test_threads_do_not_undo_each_others_settings():
    before, results = list(warnings.filters), []

    def work(seed):
        for _ in range(20):
            results.append(shown(trees.photo(seed)).tobytes() == trees.pixels(seed).tobytes())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 120
    assert list(warnings.filters) == before
    assert not decoding._inside


def test_a_picture_is_read_from_its_place(tmp_path, monkeypatch):
    (tmp_path / "a.bin").write_bytes(b"before" + trees.photo(4) + b"after")
    place = FileBytes(str(tmp_path / "a.bin"), 6, len(trees.photo(4)))
    picture = read_picture(pickle.loads(pickle.dumps(place)), upright=True)  # noqa: S301
    np.testing.assert_array_equal(np.asarray(picture), trees.pixels(4))
    assert place.n_bytes() == len(place.read())
    rest = FileBytes(str(tmp_path / "a.bin"), 6)
    assert rest.n_bytes() == len(rest.read()) == len(trees.photo(4)) + 5
    for path in (tmp_path / "gone.png", tmp_path):
        with pytest.raises(Unreadable) as caught:
            read_picture(FileBytes(str(path)), upright=True)
        assert caught.value.code == 1
    with pytest.raises(Unreadable) as caught:
        read_picture(FileBytes("a\0b"), upright=True)
    assert caught.value.code == 1
    monkeypatch.setattr(decoding, "_MOST_BYTES", 10)
    with pytest.raises(Unreadable) as caught:
        read_picture(FileBytes(str(tmp_path / "a.bin")), upright=True)
    assert caught.value.code == 5


def test_a_reason_survives_the_way_between_processes():
    problem = pickle.loads(pickle.dumps(Unreadable(4, "cut")))  # noqa: S301
    assert (problem.code, str(problem)) == (4, "truncated or damaged (cut)")


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L", "1", "CMYK", "I;16"])
def test_an_open_picture_is_read_as_its_bytes_are(mode):
    array = np.arange(12 * 16, dtype=np.uint16).reshape(12, 16) * 300
    colours = Image.fromarray(trees.pixels())
    picture = Image.fromarray(array) if mode == "I;16" else colours.convert(mode)
    data = trees.encoded(picture, "TIFF")
    with Image.open(io.BytesIO(data)) as opened:
        seen = decoding.plain(opened, upright=True)
    assert np.array_equal(seen, decoding.decode(data, upright=True))


def test_an_open_picture_that_is_cut_off_is_a_finding():
    data = trees.encoded(trees.pixels(size=(120, 160)), "JPEG")
    opened = Image.open(io.BytesIO(data[: len(data) // 2]))
    with pytest.raises(Unreadable) as refused:
        decoding.plain(opened, upright=True)
    assert refused.value.code == 4
