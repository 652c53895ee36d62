"""Weights that are damaged, packed, or not all stored."""

import os
import zipfile

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import save_file  # noqa: E402

from marc.encoders import encoder_card  # noqa: E402
from marc.encoders.weights import WeightsFile  # noqa: E402
from marc.errors import MarcError  # noqa: E402

WEIGHTS = {"a.weight": torch.zeros(3, 4)}


def state(path):
    return WeightsFile(encoder_card("dinov2-b"), path).state()


@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_weights_that_are_cut_are_refused(ending, tmp_path):
    path = tmp_path / f"w.{ending}"
    torch.save(WEIGHTS, path) if ending == "pt" else save_file(WEIGHTS, path)
    assert list(state(path)) == ["a.weight"]
    data = path.read_bytes()
    for length in (0, 8, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(MarcError, match="cannot be read"):
            state(path)


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(1).expand(2**40),  # terabytes of one stored number
        torch.zeros(3).to_sparse(),
        torch.empty(2**40, device="meta"),
    ],
)
def test_tensors_that_are_not_stored_are_refused(value, tmp_path):
    torch.save({"a": value}, tmp_path / "w.pt")
    with pytest.raises(MarcError, match=r"'a' (has more|is no plain)"):
        state(tmp_path / "w.pt")


def test_a_packed_archive_is_refused(tmp_path):
    torch.save({"a": torch.zeros(2**20)}, tmp_path / "plain.pt")
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(tmp_path / "w.pt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    with pytest.raises(MarcError, match="would become"):
        state(tmp_path / "w.pt")


def test_a_name_that_cannot_be_written_is_no_weight(tmp_path):
    torch.save({"a\ud800": torch.zeros(1)}, tmp_path / "w.pt")
    with pytest.raises(MarcError, match=r"no name|cannot be read"):
        state(tmp_path / "w.pt")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_pipes_are_no_weights_and_nobody_waits(ending, tmp_path):
    os.mkfifo(tmp_path / f"w.{ending}")
    with pytest.raises(MarcError, match="plain file"):
        state(tmp_path / f"w.{ending}")
