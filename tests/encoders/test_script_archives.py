"""TorchScript archives: their tensors are read, their code is not run."""

import pickle
import zipfile

import numpy as np
import pytest
from helpers.torch_towers import filled, save_as_script

# isort: split
import torch
from safetensors.torch import save_file

import marc
from marc import MarcError
from marc.encoders import encoder_card
from marc.encoders.from_timm import _build_tower
from marc.encoders.script_archives import read_script
from marc.encoders.weights import WeightsFile

NAME = "timm:test_vit.r160_in1k"
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning"),
]


class Network(torch.nn.Module):
    """Weights of several kinds, and attributes that are none."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
        self.layers.to(memory_format=torch.channels_last)
        self.attention = torch.nn.MultiheadAttention(4, 2).half()
        self.tied = self.attention.out_proj.weight
        self.register_buffer("part", torch.arange(6.0)[2:4])
        self.register_buffer("empty", torch.zeros(0, 3))
        self.register_buffer("input_resolution", torch.tensor(160))
        self.mask = torch.ones(2, 2)  # a tensor that is no weight
        self.sizes, self.words, self.pair, self.table = [1, 2], ["a"], (1, "b"), {"c": 0.5}

    def forward(self, pixels):
        return self.layers(pixels) + self.mask.sum()


class RunsCode(torch.nn.Module):
    """A module that says how it is read."""

    def __init__(self):
        super().__init__()
        self.training = False
        self.register_buffer("weight", torch.ones(2))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels

    @torch.jit.export
    def __getstate__(self) -> dict[str, torch.Tensor]:
        return {"weight": self.weight}

    @torch.jit.export
    def __setstate__(self, state: dict[str, torch.Tensor]) -> None:
        print("code of the archive was run")
        self.weight = state["weight"] * 2
        self.training = False


@pytest.mark.parametrize("way", ["script", "trace"])
def test_the_weights_are_those_that_torch_reads(way, tmp_path):
    network = Network().eval()
    pixels = torch.ones(1, 3, 8, 8)
    made = torch.jit.script(network) if way == "script" else torch.jit.trace(network, pixels)
    made.save(tmp_path / "network.pt")
    assert read_script(tmp_path / "network.pt") is not None
    found, expected = read_script(tmp_path / "network.pt"), made.state_dict()
    assert found.keys() == expected.keys() - {"input_resolution"}
    for name, value in found.items():
        assert (value.dtype, value.shape) == (expected[name].dtype, expected[name].shape)
        assert torch.equal(value, expected[name])


def test_an_archive_gives_the_vectors_of_any_other_file(tmp_path):
    card = encoder_card(NAME)
    state = filled(lambda: _build_tower(card)).state_dict()
    save_as_script(state, tmp_path / "ViT.pt", input_resolution=160)
    save_file(state, tmp_path / "tower.safetensors")
    images = np.random.default_rng(1).integers(0, 256, (3, 160, 160, 3), dtype=np.uint8)
    one, other = (
        marc.create_encoder(NAME, weights=tmp_path / name, device="cpu")
        for name in ("ViT.pt", "tower.safetensors")
    )
    assert one.card.digest == other.card.digest == WeightsFile.digest(state)
    assert np.array_equal(one.encode(images), other.encode(images))


def test_code_that_an_archive_wants_to_run_is_refused(tmp_path, capfd):
    file = tmp_path / "code.pt"
    torch.jit.script(RunsCode()).save(file)
    with pytest.raises(MarcError, match="__setstate__") as caught:
        marc.create_encoder(NAME, weights=file, device="cpu")
    assert "safetensors" in caught.value.allowed
    assert "was run" not in capfd.readouterr().out
    torch.jit.load(file)  # torch runs it
    assert "was run" in capfd.readouterr().out


@pytest.mark.parametrize(
    "content", [print, torch.nn.Linear, "text"], ids=["builtin", "class", "text"]
)
def test_an_archive_may_name_tensors_and_modules_alone(content, tmp_path):
    with zipfile.ZipFile(tmp_path / "other.pt", "w") as archive:
        archive.writestr("other/constants.pkl", b"")
        archive.writestr("other/data.pkl", pickle.dumps(content, protocol=2))
    with pytest.raises(pickle.UnpicklingError, match="archive"):
        read_script(tmp_path / "other.pt")


def test_a_tensor_beyond_its_numbers_is_refused(tmp_path):
    save_as_script({"weight": torch.arange(100.0)}, tmp_path / "whole.pt")
    with (
        zipfile.ZipFile(tmp_path / "whole.pt") as whole,
        zipfile.ZipFile(tmp_path / "short.pt", "w") as short,
    ):
        for name in whole.namelist():
            cut = 40 if name.endswith("/data/0") else None
            short.writestr(name, whole.read(name)[:cut])
    with pytest.raises(MarcError, match="cannot be read"):
        marc.create_encoder(NAME, weights=tmp_path / "short.pt", device="cpu")
