"""Methods that learn in the image encoder get the pictures that the features are of, or none."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from helpers.tiny_networks import Tower, tower_stream
from torch import nn

import marc
from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.peers._pictures import check_pictures, crops, plain_crops
from marc.peers.memo import MEMO
from marc.peers.scap import SCAP
from marc.peers.shot_training import SHOT
from marc.peers.small_towers import SmallImageTower
from marc.peers.tent import Tent
from marc.stream.predictor import Towers

METHODS = {"tent": Tent, "memo": MEMO, "shot": SHOT, "scap": SCAP}


@pytest.fixture(scope="module")
def lab():
    """A few pictures of the lab, with two views."""
    return marc.load_stream("lab/sketch-12@captions-vit", n_views=2).subset(np.arange(6))


def showing(stream, change):
    """The stream with other pictures: `change(crops, row)`."""
    old = stream.features.pixels
    pixels = lambda row, n: change(old(row, n), row)  # noqa: E731
    return replace(stream, features=replace(stream.features, pixels=pixels))


def stored_as(stream, views):
    return replace(stream, features=replace(stream.features, views=views))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda crops, row: crops / 255.0, "crops of the first n views as bytes"),
        (lambda crops, row: crops[0], "crops of the first n views as bytes"),
        (lambda crops, row: crops.transpose(0, 3, 1, 2), "crops of the first n views as bytes"),
        (lambda crops, row: crops.tolist(), "crops of the first n views as bytes"),
        (lambda crops, row: np.repeat(crops, 3, axis=0), "crops of the first n views as bytes"),
        (lambda crops, row: 255 - crops, "pictures are not those of the features"),
        (lambda crops, row: crops[:, ::-1], "pictures are not those of the features"),
        (lambda crops, row: crops[:, :32, :32], "does not take these pictures"),
        (lambda crops, row: crops[:, row:], "must all have one size"),
    ],
)
def test_other_pictures_are_refused_before_the_first_image(lab, name, change, message):
    with pytest.raises(MarcError, match=message):
        METHODS[name]().check(showing(lab, change))


def test_pictures_in_another_order_are_refused_with_the_cosine_and_the_image(lab):
    read = lab.features.pixels
    with pytest.raises(MarcError, match="not those of the features") as refused:
        run(Tent(), showing(lab, lambda crops, row: read(min(row + 1, 5), len(crops))))
    assert "cosine 0." in refused.value.got
    assert refused.value.got.endswith(lab.features.ids[0])
    with pytest.raises(MarcError, match="not those of the features") as refused:
        run(Tent(), showing(lab, lambda crops, row: read(0 if row == 2 else row, len(crops))))
    assert refused.value.got.endswith(lab.features.ids[2])


def test_floats_are_refused_with_their_type_and_what_to_give(lab):
    with pytest.raises(MarcError) as refused:
        run(Tent(), showing(lab, lambda crops, row: crops / 255.0))
    assert refused.value.got == "float64 (1, 64, 64, 3)"
    assert refused.value.allowed == "uint8 (1, H, W, 3)"


@pytest.mark.parametrize("name", METHODS)
def test_its_own_pictures_pass_in_every_order(lab, name):
    for stream in (lab, lab.shuffled(1), lab.subset(np.array([4, 2]))):
        METHODS[name]().check(stream)


def test_rounded_features_and_other_lengths_pass(lab):
    """A store keeps half precision; an encoder may run in bfloat16."""
    views = np.asarray(lab.features.views)
    rough = torch.from_numpy(views).to(torch.bfloat16).float().numpy()
    for stored in (views.astype(np.float16), rough, 7 * views):
        check_pictures("tent", stored_as(lab, stored))


def test_another_encoder_than_that_of_the_features_is_refused():
    stream = tower_stream(n_images=5)
    predictor = tower_stream(SmallImageTower(8, seed=1), n_images=5).features.predictor
    other = replace(stream, features=replace(stream.features, predictor=predictor))
    with pytest.raises(MarcError, match="not those of the features"):
        run(Tent(), other)


def flat():
    return nn.Sequential(nn.Flatten(), nn.LayerNorm(192))


def broken():
    return nn.Sequential(nn.Conv2d(3, 8, 8), nn.Flatten(), Nothing())


class Nothing(nn.Module):
    def forward(self, states):
        return states * torch.nan


@pytest.mark.parametrize(
    ("network", "message"),
    [(flat, "vectors of another length"), (broken, "not those of the features")],
)
def test_an_encoder_that_gives_other_vectors_is_refused(network, message):
    stream, tower = tower_stream(n_images=5), Tower(network)
    predictor = replace(stream.features.predictor, towers=Towers(image=lambda: tower))
    features = replace(stream.features, predictor=predictor)
    with pytest.raises(MarcError, match=message):
        check_pictures("tent", replace(stream, features=features))


def test_what_is_read_later_is_checked_too(lab):
    """Only the first images are held against their features; every picture must be in bytes."""
    late = showing(lab, lambda crops, row: crops / 255.0 if row == 5 else crops)
    for method in (Tent(batch_size=2), MEMO()):
        method.check(late)
        with pytest.raises(MarcError, match="as bytes"):
            list(iter_steps(method, late))
    small = showing(lab, lambda crops, row: crops[:, 8:] if row == 5 else crops)
    with pytest.raises(MarcError, match="must all have one size"):
        run(Tent(), small)


def test_as_many_pictures_are_given_as_views_are_asked_for(lab):
    query = showing(lab, lambda crops, row: crops[:1]).query(0)
    assert len(crops(query, "memo", 1)) == 1
    for n_views in (None, 2):
        with pytest.raises(MarcError, match="as bytes") as refused:
            crops(query, "memo", n_views)
        assert refused.value.allowed == "uint8 (2, H, W, 3)"


def test_few_pictures_are_looked_at_and_once(lab):
    rows = []
    stream = showing(lab.shuffled(2), lambda crops, row: rows.append(row) or crops)
    check_pictures("tent", stream)
    assert rows == stream.order[:3].tolist()


def test_plain_pictures_of_queries_are_one_array(lab):
    found = plain_crops(list(lab), "tent")
    assert np.array_equal(found, np.concatenate([query.pixels(1) for query in lab]))
