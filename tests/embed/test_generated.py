"""Pictures that a user's model generated are beside the predictor's views, for DiffTPT alone."""

import csv

import numpy as np
import pytest
from helpers.commands import call
from helpers.embedding_trees import draw_lab_folder
from PIL import Image

import marc
from marc.errors import MarcError
from marc.pictures import open_images
from marc.pictures.tables import with_generated
from marc.sources.pack import read_pack, write_pack

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
def test_generated_pictures_are_beside_the_views(pictures, listed, tmp_path, views):
    stream = embed(pictures, tmp_path / "store", listed, views=views)
    plain = embed(pictures, tmp_path / "plain", views=views)
    assert stream.n_views == views
    assert np.array_equal(stream.features.views[:], plain.features.views[:])
    assert stream.features.fingerprint.keys() - plain.features.fingerprint == {"generated"}
    encoder = marc.create_encoder("mini:captions")
    crop = encoder.card.crop
    expected = [crop.cut(Image.open(tmp_path / path)) for _, path in rows_of(listed)]
    found = np.asarray(stream.features.generated)
    assert found.shape[:2] == (9, PER_PICTURE)
    assert (
        np.abs(encoder.encode(np.stack(expected)) - found.reshape(len(expected), -1)).max() < 1e-3
    )


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


def test_generated_pictures_follow_their_images(pictures, listed, tmp_path):
    stream = embed(pictures, tmp_path / "store", listed, views=3)
    whole, rows = np.asarray(stream.features.generated), np.array([5, 0])
    write_pack(stream.with_views(2), tmp_path / "pack.npz")
    for other in (stream.with_views(1), read_pack(tmp_path / "pack.npz")):
        assert np.array_equal(np.asarray(other.features.generated), whole)
    assert np.array_equal(stream.subset(rows).features.generated, whole[rows])
    assert np.abs(stream.query(4).generated - whole[4]).max() < 1e-3


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


@pytest.mark.parametrize(
    ("generated", "problem"),
    [
        (np.ones((4, 1, 5)), "does not fit"),
        (np.ones((5, 5)), "non-empty array"),
        (np.zeros((5, 1, 5)), "zero"),
    ],
)
def test_generated_features_that_do_not_fit_are_refused(generated, problem):
    with pytest.raises(MarcError, match=problem):
        marc.Stream.from_arrays(np.ones((5, 5)), np.eye(5), generated=generated)


def test_no_method_but_difftpt_sees_them(pictures, listed, tmp_path):
    stream = embed(pictures, tmp_path / "store", listed, views=3)
    plain = embed(pictures, tmp_path / "plain", views=3)
    tps = {"fraction": 0.4}
    words = ["--seed", "0", "--set", "fraction=0.4"]
    outcome = call(
        "run", f"store/{tmp_path / 'store'}", *words, "--method", "tps", "-o", tmp_path / "o"
    )
    assert outcome.status == 0, outcome.err
    [written] = marc.load_run(tmp_path / "o")
    for each in (stream, plain):
        found = marc.run(marc.create_method("tps", **tps), each.shuffled(0))
        assert np.array_equal(found.predictions, written.predictions)
    pytest.importorskip("torch")
    settings = {"fraction": 0.5, "prompt": "a {}"}
    with_them, without = (
        [step.logits for step in marc.iter_steps(marc.create_method("difftpt", **settings), each)]
        for each in (stream, plain)
    )
    assert not np.allclose(with_them, without)
