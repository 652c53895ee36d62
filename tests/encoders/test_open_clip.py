"""Weights go into open_clip's towers as open_clip itself would put them, from one reading."""

import logging

import pytest
from helpers.torch_towers import filled

# isort: split
import open_clip
import torch
from open_clip.factory import load_checkpoint

from marc import MarcError
from marc.encoders import encoder_card
from marc.encoders.from_open_clip import _fill_towers, _translated
from marc.encoders.weights import WeightsFile

PICTURES = {"layers": 1, "width": 64, "patch_size": 16, "image_size": 64}
TEXTS = {"context_length": 8, "vocab_size": 50, "width": 64, "heads": 1, "layers": 1}


def towers(kind=open_clip.CLIP, pictures=(), texts=(), **more):
    return filled(
        lambda: kind(16, {**PICTURES, **dict(pictures)}, {**TEXTS, **dict(texts)}, **more)
    )


def as_list(state):
    return {**state, "logit_scale": state["logit_scale"].reshape(1)}


def with_positions(state):
    return {**state, "text.transformer.embeddings.position_ids": torch.arange(8)}


@pytest.mark.parametrize(
    ("source", "target", "change"),
    [
        (towers, towers, dict),
        (lambda: towers(pictures={"image_size": 96}), towers, dict),
        (lambda: towers(texts={"context_length": 13}), towers, dict),
        (towers, lambda: towers(open_clip.CustomTextCLIP), dict),
        (towers, towers, as_list),
        (lambda: towers(open_clip.CustomTextCLIP, init_logit_bias=-10.0),) * 2 + (dict,),
        (lambda: towers(open_clip.CustomTextCLIP),) * 2 + (with_positions,),
    ],
    ids=["same", "size", "context", "old names", "list of one", "bias", "positions"],
)
def test_weights_are_translated_as_open_clip_does(source, target, change, tmp_path):
    state = change(source().state_dict())
    torch.save(state, tmp_path / "weights.pt")
    digest = WeightsFile.digest(state)
    by_open_clip, ours = target(), target()
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.fill_(torch.nan)
    load_checkpoint(by_open_clip, tmp_path / "weights.pt")
    ours.load_state_dict(_translated(state, ours), strict=True)
    assert WeightsFile.digest(ours.state_dict()) == WeightsFile.digest(by_open_clip.state_dict())
    assert WeightsFile.digest(state) == digest  # what was read is left as it is


def test_a_file_is_read_once_and_nobody_complains(tmp_path, monkeypatch, caplog):
    """Towers are built before they are filled, of which open_clip would warn."""
    file = tmp_path / "weights.pt"
    model = towers()
    torch.save(model.state_dict(), file)
    create, read, load = open_clip.create_model, [], torch.load
    monkeypatch.setattr(
        torch, "load", lambda path, **more: (read.append(path), load(path, **more))[1]
    )
    small = {"embed_dim": 16, "vision_cfg": PICTURES, "text_cfg": TEXTS}
    monkeypatch.setattr(
        open_clip, "create_model", lambda name, **more: create(name, **more, **small)
    )
    with caplog.at_level(logging.WARNING):
        filled_model, digest = _fill_towers(WeightsFile(encoder_card("clip-b16-text"), file))
    assert read == [file]
    assert (
        digest
        == WeightsFile.digest(model.state_dict())
        == WeightsFile.digest(filled_model.state_dict())
    )
    assert "No pretrained weights" not in caplog.text
    create("ViT-B-16", **small)
    assert "No pretrained weights" in caplog.text  # the filter is gone again


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: {k: v for k, v in state.items() if k != "ln_final.bias"}, "ln_final.bias"),
        (lambda state: {**state, "more": torch.ones(1)}, "unexpected: more"),
    ],
    ids=["missing", "extra"],
)
def test_all_weights_or_none(change, words, tmp_path, monkeypatch):
    file = tmp_path / "weights.pt"
    torch.save(change(towers().state_dict()), file)
    monkeypatch.setattr(open_clip, "create_model", lambda *_, **__: towers())
    with pytest.raises(MarcError, match=words):
        _fill_towers(WeightsFile(encoder_card("clip-b16-text"), file))
