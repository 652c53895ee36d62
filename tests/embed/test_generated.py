"""Pictures that a user's model generated become the predictor's last views."""

import csv

import numpy as np
import pytest
from helpers.commands import call, json_in
from helpers.embedding_trees import draw_lab_folder
from PIL import Image

import marc
from marc.errors import MarcError
from marc.pictures import open_images
from marc.pictures.tables import with_generated

PER_PICTURE = 2


@pytest.fixture
def pictures(tmp_path):
    return draw_lab_folder(tmp_path / "pictures", count=9)


@pytest.fixture
def listed(pictures, tmp_path):
    """A table of two variants of each picture, beside their folder."""
    rows = []
    for name in open_images(f"folder/{pictures}").ids:
        for number in range(PER_PICTURE):
            path = tmp_path / "variants" / f"{name.replace('/', '-')}-{number}.png"
            path.parent.mkdir(exist_ok=True)
            Image.open(pictures / name).rotate(90 * (number + 1)).save(path)
            rows.append((name, f"variants/{path.name}"))
    return write(tmp_path / "variants.csv", rows)


def write(path, rows, header=("id", "path")):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def rows_of(path):
    with path.open(newline="") as file:
        return [*csv.reader(file)][1:]


def embed(pictures, output, listed="", **options):
    return marc.embed(
        f"folder/{pictures}", [], predictor="mini:captions", generated=listed, output=output,
        workers=0, **options,
    )  # fmt: skip


@pytest.mark.parametrize("views", [1, 3])
def test_generated_pictures_are_the_last_views(pictures, listed, tmp_path, views):
    stream = embed(pictures, tmp_path / "store", listed, views=views)
    plain = embed(pictures, tmp_path / "plain", views=views)
    assert stream.n_views == views + PER_PICTURE
    assert stream.features.n_generated == PER_PICTURE
    assert np.array_equal(stream.features.views[:, :views], plain.features.views[:])
    encoder = marc.create_encoder("mini:captions")
    crop = encoder.card.crop
    expected = [crop.cut(Image.open(tmp_path / path)) for _, path in rows_of(listed)]
    found = np.asarray(stream.features.views)[:, views:].reshape(len(expected), -1)
    assert np.abs(encoder.encode(np.stack(expected)) - found).max() < 1e-3


def test_the_processes_that_read_pictures_give_the_same(pictures, listed, tmp_path):
    here = embed(pictures, tmp_path / "here", listed)
    words = ["embed", f"folder/{pictures}", "--predictor", "mini:captions", "--generated", listed]
    outcome = call(*words, "--workers", "2", "-o", tmp_path / "there")
    assert outcome.status == 0, outcome.err
    there = marc.load_stream(f"store/{tmp_path / 'there'}")
    assert there.fingerprint == here.fingerprint


def test_crops_are_those_of_the_picture_alone(pictures, listed, tmp_path):
    stream = embed(pictures, tmp_path / "store", listed, views=3)
    assert len(stream.query(0).pixels()) == 3


def test_fewer_views_have_fewer_generated_ones(pictures, listed, tmp_path):
    stream = embed(pictures, tmp_path / "store", listed, views=3)
    counts = {n: stream.with_views(n).features.n_generated for n in (5, 4, 3, 1)}
    assert counts == {5: 2, 4: 1, 3: 0, 1: 0}
    assert stream.subset(np.arange(4)).features.n_generated == PER_PICTURE


def test_other_generated_pictures_make_other_features(pictures, listed, tmp_path):
    embed(pictures, tmp_path / "store", listed)
    one, other = (tmp_path / path for _, path in rows_of(listed)[:2])
    one.write_bytes(other.read_bytes())
    with pytest.raises(MarcError, match="made differently") as refused:
        embed(pictures, tmp_path / "store", listed)
    assert "generated" in str(refused.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1:], "not every picture has as many generated ones"),
        (lambda rows: [("nobody", rows[0][1]), *rows], "belongs to a picture that is not there"),
        (lambda rows: [(rows[0][0], "variants/none.png"), *rows[1:]], "cannot be read"),
        (lambda rows: [], "the table lists no pictures"),
    ],
)
def test_a_list_that_does_not_fit_is_refused(pictures, listed, tmp_path, change, message):
    write(listed, change(rows_of(listed)))
    with pytest.raises(MarcError, match=message):
        embed(pictures, tmp_path / "store", listed)
    assert not (tmp_path / "store").exists()


def test_a_list_without_ids_is_refused(pictures, listed):
    write(listed, rows_of(listed), header=("name", "path"))
    with pytest.raises(MarcError, match="no column `id`"):
        with_generated(open_images(f"folder/{pictures}"), listed)


def test_difftpt_is_told_how_many_were_generated(pictures, listed, tmp_path):
    pytest.importorskip("torch")
    stream = embed(pictures, tmp_path / "store", listed, views=3)
    with pytest.raises(MarcError, match="the last 2"):
        marc.run(marc.create_method("difftpt"), stream)
    settings = {"n_generated": PER_PICTURE, "fraction": 0.5, "prompt": "a {}"}
    run = marc.run(marc.create_method("difftpt", **settings), stream)
    assert len(run.predictions) == 9


def test_a_run_gives_generated_views_to_the_method_that_asks_for_them(pictures, listed, tmp_path):
    embed(pictures, tmp_path / "store", listed, views=3)
    words = ["run", f"store/{tmp_path / 'store'}", "--seed", "0", "--set"]
    assert call(*words, "fraction=0.4", "--method", "tps", "-o", tmp_path / "tps").status == 0
    assert json_in(tmp_path / "tps/config.json")["n_views"] == 3
    pytest.importorskip("torch")
    more = ["fraction=0.4", "prompt=a {}", "--method", "difftpt", "-o", tmp_path / "difftpt"]
    outcome = call(*words, *more)
    assert outcome.status == 0, outcome.err
    config = json_in(tmp_path / "difftpt/config.json")
    assert config["n_views"] == 3 + PER_PICTURE
    assert config["method"]["n_generated"] == PER_PICTURE
