"""Pictures for a page: found, read with care, and made small."""

from dataclasses import replace

import numpy as np
from PIL import Image
from report_pages import LONG, make_stream

from marc.lab.streams import plan_stream
from marc.report import pictures_of
from marc.report.thumbnails import LARGEST, read_picture, thumbnails


def test_pictures_of_a_pack_are_found_beside_it_or_as_given(tmp_path, monkeypatch):
    Image.new("RGB", (300, 100), "red").save(tmp_path / "beside.png")
    Image.new("L", (10, 10), 200).save(tmp_path / "given.png")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    (tmp_path / "text.png").write_text("not a picture")
    ids = ["beside.png", str(tmp_path / "given.png"), "broken.png", "text.png", "gone.png"]
    ids += ["", "a\0b", LONG * 20]
    stream = replace(make_stream(), features=replace(make_stream().features, ids=tuple(ids)))
    picture = pictures_of(stream, f"arrays/{tmp_path}/pack.npz")
    found = [picture(row) for row in range(len(ids))]
    assert found[0].shape == (32, LARGEST, 3)
    assert found[1].shape == (10, 10, 3)
    assert found[2:] == [None] * 6
    assert pictures_of(stream, "elsewhere/x")(0) is None


def test_pictures_of_the_lab_are_drawn_again():
    picture = pictures_of(make_stream(), "lab/sketch-12")(5)
    assert np.array_equal(picture, plan_stream("sketch-12").picture(5))


def test_a_decompression_bomb_is_no_picture(tmp_path, monkeypatch):
    Image.new("1", (400, 400)).save(tmp_path / "bomb.png")
    for limit in (100_000, 50_000):  # warned about, and refused
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        assert read_picture(tmp_path / "bomb.png") is None


def test_thumbnails_keep_within_their_budget():
    draw = np.random.default_rng(0)
    noise = draw.integers(256, size=(40, 200, 150, 3), dtype=np.uint8)
    whole = thumbnails(lambda row: noise[row] if row < 40 else None, range(50))
    assert set(whole) == set(range(40))
    small = thumbnails(lambda row: noise[row], range(40), budget=60_000)
    assert sum(map(len, small.values())) < 80_000 < sum(map(len, whole.values()))
    assert thumbnails(lambda row: None, range(5)) == {}
