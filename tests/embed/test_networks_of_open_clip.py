"""Methods that learn in the networks of a predictor of open_clip, from a store of its features."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.torch_towers import filled

# isort: split
import open_clip
import torch
from helpers.commands import call, json_in
from helpers.embedding_trees import draw_lab_folder

import marc
from marc.errors import MarcError
from marc.scores import unit

TOWERS = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 64, "layers": 1, "width": 64, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 1, "layers": 1},
}
WEIGHTS = ("my-clip=clip.pt",)
LEARN_IN_NETWORKS = {"tpt", "c-tpt", "tent", "memo", "shot"}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store of a small pair of towers with weights of their own; the current folder has both."""
    monkeypatch.chdir(tmp_path)
    torch.save(filled(lambda: open_clip.CLIP(**TOWERS)).state_dict(), "clip.pt")
    (tmp_path / "small.json").write_text(json.dumps(TOWERS))
    draw_lab_folder(tmp_path / "pictures", count=12)
    predictor = "my-clip=open_clip:small.json"
    words = ["embed", "folder/pictures", "--predictor", predictor, "--weights", *WEIGHTS]
    more = ["--encoder", "mini:pairs-small", "--views", "4", "--offline", "--device", "cpu"]
    outcome = call(*words, *more, "--workers", "0", "-o", "store")
    assert outcome.status == 0, outcome.err
    return "store/store"


def test_its_towers_are_those_that_made_its_features(store):
    stream = marc.load_stream(store, weights=WEIGHTS, offline=True, device="cpu")
    predictor = stream.features.predictor
    image, text = predictor.image_tower, predictor.text_tower
    with torch.no_grad():
        for query in stream:
            found = unit(image.copy()(image.prepare(query.pixels())).numpy())
            assert np.abs(found - query.views).max() < 1e-3
        words = text.tokenize([f"a photo of a {name}." for name in text.class_names])
        found = unit(text.encode(text.embed(words), words).numpy())
    assert np.abs(found - predictor.prompts.by_class[:, 0]).max() < 1e-5


def test_every_method_that_learns_in_them_runs(store):
    words = ["run", store, "--method", "all", "--space", "pairs-small", "--weights", *WEIGHTS]
    more = ["--set", "fraction=0.5", "tent.batch_size=6", "--offline", "--device", "cpu"]
    outcome = call(*words, *more, "--seed", "0", "-o", "runs")
    assert outcome.status == 0, outcome.err
    for name in LEARN_IN_NETWORKS:
        assert json_in(Path("runs", name, "timing.json"))["images_per_second"] > 0, name


def test_without_the_weights_it_is_said_what_to_type(store):
    with pytest.raises(MarcError, match="no weights") as refused:
        marc.run(marc.create_method("tpt", fraction=0.5), marc.load_stream(store, offline=True))
    assert "--weights my-clip=PATH" in str(refused.value)


def test_other_weights_are_refused(store):
    other = filled(lambda: open_clip.CLIP(**TOWERS))
    with torch.no_grad():
        other.text_projection += 1
    torch.save(other.state_dict(), "other.pt")
    stream = marc.load_stream(store, weights=["my-clip=other.pt"], offline=True)
    with pytest.raises(MarcError, match="not those that made the features"):
        marc.run(marc.create_method("tpt", fraction=0.5), stream)
