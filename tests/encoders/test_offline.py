"""Without a network: what is here is used, nothing is tried, and errors say what to do."""

import os
import socket
import subprocess
import sys
import time

import pytest
from helpers.torch_towers import filled

# isort: split
import open_clip
from safetensors.torch import save_file

import marc
from marc import MarcError
from marc.encoders import encoder_card
from marc.encoders import network as networking
from marc.encoders import weights as encoder_weights
from marc.encoders.from_timm import _build_tower

NAME = "timm:test_vit.r160_in1k"
CODE = """
import socket, sys, time
tried = []
def forbidden(*arguments, **more):
    tried.append(arguments)
    raise OSError("the network was tried")
class Forbidden(socket.socket):  # others derive from it when they are imported
    __init__ = forbidden
socket.socket = Forbidden
socket.create_connection = socket.getaddrinfo = forbidden
time.sleep = lambda seconds: None  # nobody waits between two attempts
import numpy as np, marc
name, weights, offline = sys.argv[1:]
try:
    encoder = marc.create_encoder(name, weights=weights or None, offline=offline == "offline")
    size = encoder.card.crop.size
    print(encoder.encode(np.zeros((1, size, size, 3), dtype=np.uint8)).shape)
    if encoder.card.has_text:
        print("texts", encoder.encode_text(["a photo of a mug", "a heron"]).shape)
except marc.MarcError as error:
    print(error)
print("tried" if tried else "never tried")
"""


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    card = encoder_card(NAME)
    file = tmp_path_factory.mktemp("weights") / "tower.safetensors"
    save_file(filled(lambda: _build_tower(card)).state_dict(), file)
    return file


def without_sockets(home, name, weights="", offline="offline"):
    """What a fresh program prints that may not open a socket."""
    clean = {**os.environ, "HF_HOME": str(home), "TORCH_HOME": str(home)}
    for switch in ("HF_HUB_OFFLINE", "HF_HUB_CACHE", "TRANSFORMERS_OFFLINE"):
        clean.pop(switch, None)
    command = [sys.executable, "-c", CODE, name, str(weights), offline]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=clean)
    return done.stdout


def test_offline_with_weights_works_and_never_tries_the_network(weights, tmp_path):
    said = without_sockets(tmp_path, NAME, weights)
    assert "(1, 64)" in said
    assert "never tried" in said


def test_a_predictor_with_its_tokenizer_never_tries_the_network(tmp_path):
    model = filled(lambda: open_clip.create_model("RN50-quickgelu"))
    save_file(model.half().state_dict(), tmp_path / "clip-rn50-text.safetensors")
    said = without_sockets(tmp_path, "clip-rn50-text", tmp_path)
    (tmp_path / "clip-rn50-text.safetensors").unlink()  # it is large, and pytest would keep it
    assert "(1, 1024)" in said
    assert "texts (2, 1024)" in said
    assert "never tried" in said


@pytest.mark.parametrize("name", [NAME, "dinov2-b", "clip-b16-text"])
def test_offline_without_weights_says_which_are_missing(name, tmp_path):
    said = without_sockets(tmp_path, name)
    assert "the network is off" in said
    assert encoder_card(name).tag in said
    assert "--weights PATH" in said
    assert "never tried" in said


def test_offline_takes_what_an_earlier_download_left(weights, tmp_path):
    kept = tmp_path / "hub" / "models--timm--test_vit.r160_in1k"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text("0123abcd")
    (kept / "snapshots" / "0123abcd").mkdir(parents=True)
    (kept / "snapshots" / "0123abcd" / "model.safetensors").hardlink_to(weights)
    for offline in ("offline", "online"):
        said = without_sockets(tmp_path, NAME, offline=offline)
        assert "(1, 64)" in said
        assert "never tried" in said


def test_otherwise_the_network_is_tried_and_its_failure_explained(tmp_path):
    said = without_sockets(tmp_path, NAME, offline="online")
    assert "could not be downloaded" in said
    assert "the network was tried" in said
    assert "never tried" not in said


def test_a_failed_download_is_an_error_with_advice(monkeypatch):
    import huggingface_hub

    def fail(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    monkeypatch.setattr(encoder_weights, "unreachable", lambda address: "")
    with pytest.raises(MarcError, match="could not be downloaded") as caught:
        marc.create_encoder(NAME)
    assert "no route" in caught.value.got
    assert caught.value.hint.startswith("--weights PATH")


def test_a_hub_that_does_not_answer_is_given_up_at_once(tmp_path, monkeypatch):
    """One question and no retries: not even a program that never answers is waited for."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setattr(networking, "_PATIENCE", 0.5)
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")
        start = time.perf_counter()
        with pytest.raises(MarcError, match="could not be downloaded") as caught:
            marc.create_encoder(NAME)
        assert time.perf_counter() - start < 5
    assert f"{port}/timm/test_vit.r160_in1k/resolve/main/model.safetensors" in caught.value.hint
    monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{port}")  # now it refuses
    with pytest.raises(MarcError, match="refused"):
        marc.create_encoder(NAME)


def test_the_network_is_back_after_a_loading_without_it(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with networking.network(offline=True):
        assert constants.is_offline_mode()
        assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert not constants.is_offline_mode()
    assert "HF_HUB_OFFLINE" not in os.environ


def test_a_file_with_an_address_of_its_own_is_kept(tmp_path, monkeypatch):
    import torch

    card, url = encoder_card(NAME), "https://example.org/models/tower.pth"
    with pytest.raises(MarcError, match="the network is off"):
        encoder_weights._url_file(card, url, tmp_path, offline=True)

    def download(address, target, progress):
        assert address == url
        with open(target, "w") as file:  # noqa: PTH123
            file.write("weights")

    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    monkeypatch.setattr(encoder_weights, "unreachable", lambda address: "")
    assert encoder_weights._url_file(card, url, tmp_path, offline=False).read_text() == "weights"
    assert encoder_weights._url_file(card, url, tmp_path, offline=True) == tmp_path / "tower.pth"


def test_a_dry_run_needs_neither_weights_nor_network(tmp_path):
    from PIL import Image

    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 30)).save(tmp_path / "photos" / "1.png")
    code = CODE[: CODE.index("import numpy")] + DRY_RUN
    clean = {**os.environ, "HF_HOME": str(tmp_path), "TORCH_HOME": str(tmp_path)}
    command = [sys.executable, "-c", code, str(tmp_path / "photos"), NAME]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=clean)
    assert "never tried" in done.stdout
    assert "{'clip-b16-text': 598400000.0, 'test_vit.r160_in1k': None}" in done.stdout
    assert "guessed ('predictor/views',) unknown ('spaces/test_vit.r160_in1k',)" in done.stdout
    assert "chunks {'predictor/views': (0, 1), 'spaces/test_vit.r160_in1k': (0, 1)}" in done.stdout


DRY_RUN = """
import marc
photos, name = sys.argv[1:]
options = {"device": "cpu", "dry_run": True, "output": photos + "-store", "class_names": ["a", "b"]}
found = marc.embed(f"folder/{photos}", [name], **options)
assert found.encode_seconds["predictor/views"] > 0
print(found.download, "guessed", found.guessed, "unknown", found.unknown, "chunks", found.chunks)
print("tried" if tried else "never tried")
"""
