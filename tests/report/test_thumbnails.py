"""Pictures for a page: found, read with care, and made small."""

import shutil
from dataclasses import replace

import numpy as np
from helpers.embedding_trees import draw_lab_folder, embed_plan, make_plan
from helpers.image_trees import bomb
from helpers.report_pages import LONG, make_stream
from PIL import Image

import marc
from marc.pictures.image_set import FileBytes
from marc.report import pictures_of
from marc.report.thumbnails import _LARGEST, _read_picture, thumbnails
from marc_lab.streams import plan_stream


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
    assert found[0].shape == (32, _LARGEST, 3)
    assert found[1].shape == (10, 10, 3)
    assert found[2:] == [None] * 6
    assert pictures_of(stream, "elsewhere/x")(0) is None


def test_pictures_of_the_lab_are_drawn_again():
    picture = pictures_of(make_stream(), "lab/sketch-12")(5)
    assert np.array_equal(picture, plan_stream("sketch-12").picture(5))


def test_a_decompression_bomb_is_no_picture(tmp_path):
    (tmp_path / "bomb.png").write_bytes(bomb())
    assert _read_picture(FileBytes(str(tmp_path / "bomb.png"))) is None


def test_a_store_shows_the_pictures_it_was_embedded_from(tmp_path):
    pictures = draw_lab_folder(tmp_path / "photos", count=6)
    embed_plan(make_plan(pictures, tmp_path / "s", spaces=("mini:pixels",)))
    source = f"store/{tmp_path / 's'}"
    stream = marc.load_stream(source)
    shown = pictures_of(stream, source)
    with Image.open(pictures / stream.features.ids[0]) as first:
        assert shown(0).shape == (first.height, first.width, 3)
    (pictures / stream.features.ids[0]).unlink()
    assert shown(0) is None
    shutil.rmtree(pictures)
    assert pictures_of(stream, source)(1) is None  # the features still work


def test_thumbnails_keep_within_their_budget():
    draw = np.random.default_rng(0)
    noise = draw.integers(256, size=(40, 200, 150, 3), dtype=np.uint8)
    whole = thumbnails(lambda row: noise[row] if row < 40 else None, range(50))
    assert set(whole) == set(range(40))
    small = thumbnails(lambda row: noise[row], range(40), budget=60_000)
    assert sum(map(len, small.values())) < 80_000 < sum(map(len, whole.values()))
    assert thumbnails(lambda row: None, range(5)) == {}
