"""Small torch encoders: files of every kind, precision, batches, wrong weights."""

import numpy as np
import pytest
from helpers.torch_towers import filled

# isort: split
import timm
import torch
from safetensors.torch import save_file

import marc
from marc import MarcError
from marc.encoders import encoder_card, torch_runtime
from marc.encoders.cards import Loading
from marc.encoders.from_timm import _build_tower
from marc.encoders.torch_runtime import Running, choose_device
from marc.encoders.weights import WeightsFile

NAME = "timm:test_vit.r160_in1k"
ROW = "blocks.0.norm1.weight"


@pytest.fixture(scope="module")
def tower():
    card = encoder_card(NAME)
    return filled(lambda: _build_tower(card))


@pytest.fixture(scope="module")
def weights(tower, tmp_path_factory):
    file = tmp_path_factory.mktemp("weights") / "tower.safetensors"
    save_file(tower.state_dict(), file)
    return file


def images(n=5):
    return np.random.default_rng(1).integers(0, 256, (n, 160, 160, 3), dtype=np.uint8)


def create(weights, **choices):
    return marc.create_encoder(NAME, weights=weights, offline=True, device="cpu", **choices)


def test_every_kind_of_file_gives_the_same(tower, weights, tmp_path):
    expected = create(weights).encode(images())
    state = tower.state_dict()
    head = {"head.weight": torch.ones(1000, 64), "head.bias": torch.ones(1000)}
    stored = {
        "plain.pt": state,
        "plain.pth": {**state, **head},
        "wrapped.bin": {"state_dict": {f"module.{key}": value for key, value in state.items()}},
        "model.pt": {"model": state, "epoch": 3},
    }
    for name, content in stored.items():
        torch.save(content, tmp_path / name)
        encoder = create(tmp_path / name)
        assert np.array_equal(encoder.encode(images()), expected)
        assert encoder.card.digest == WeightsFile.digest(tower.state_dict())


def test_in_a_folder_the_right_file_is_found(weights, tmp_path):
    with pytest.raises(MarcError, match="no weights in"):
        create(tmp_path)
    (tmp_path / "one.safetensors").hardlink_to(weights)
    assert create(tmp_path).card.digest
    (tmp_path / "two.pt").write_text("other")
    with pytest.raises(MarcError, match=r"one\.safetensors, two\.pt"):
        create(tmp_path)
    for better in ("open_clip_model.safetensors", "model.safetensors"):
        (tmp_path / better).hardlink_to(weights)
        assert create(tmp_path).card.digest
    (tmp_path / "test_vit.r160_in1k.pt").write_text("the encoder's own name comes first")
    with pytest.raises(MarcError, match=r"test_vit\.r160_in1k\.pt"):
        create(tmp_path)
    (tmp_path / "test_vit.r160_in1k").mkdir()
    (tmp_path / "test_vit.r160_in1k" / "any.safetensors").hardlink_to(weights)
    assert create(tmp_path).card.digest
    with pytest.raises(MarcError, match="not there"):
        create(tmp_path / "nothing")


class Anything:
    """An object that a weights file has no business to hold."""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: {k: v for k, v in state.items() if k != ROW}, f"missing: {ROW}"),
        (lambda state: {**state, "extra.weight": torch.ones(2)}, r"unexpected: extra\.weight"),
        (lambda state: {**state, ROW: torch.ones(3)}, f"of another size: {ROW}"),
        (lambda state: timm.create_model("test_resnet").state_dict(), "missing: .* and .* more"),
        (lambda state: {}, "not tensors by name"),
        (lambda state: [1, 2], "not tensors by name"),
        (lambda state: {"a": 1}, "not tensors by name"),
        (lambda state: {**state, "object": Anything()}, "cannot be read"),
    ],
    ids=["missing", "extra", "size", "architecture", "empty", "list", "numbers", "objects"],
)
def test_weights_of_something_else_are_refused(tower, tmp_path, change, words):
    file = tmp_path / "wrong.pt"
    torch.save(change(tower.state_dict()), file)
    with pytest.raises(MarcError, match=words):
        create(file)


@pytest.mark.parametrize("name", ["text.pt", "text.safetensors", "text.bin", "text.txt"])
def test_a_text_file_is_refused(tmp_path, name):
    (tmp_path / name).write_text("these are no weights")
    with pytest.raises(MarcError, match="cannot be read"):
        create(tmp_path / name)


def test_a_weight_that_was_not_loaded_makes_itself_felt(weights, monkeypatch):
    """A library that loads less than everything in silence is found out."""
    monkeypatch.setattr(torch.nn.Module, "load_state_dict", lambda *_, **__: None)
    with pytest.raises(MarcError, match=r"not finite|do not fit"):
        create(weights)


def test_batches_and_floats_and_unwritable_memory(weights):
    encoder = create(weights)
    assert (encoder.precision, encoder.batch) == ("float32", 32)
    expected = encoder.encode(images())
    assert expected.dtype == np.float32
    assert np.allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-6)
    small = create(weights, batch=2)
    assert small.batch == 2
    assert np.abs(small.encode(images()) - expected).max() <= 1e-5
    frozen = images().astype(np.float32)
    frozen.flags.writeable = False
    assert np.array_equal(encoder.encode(frozen), expected)
    assert encoder.encode(images(0)).shape == (0, 64)
    assert len(np.unique(expected, axis=0)) == 5
    with pytest.raises(MarcError, match="160, 160"):
        encoder.encode(np.zeros((1, 224, 224, 3), dtype=np.uint8))


def test_bfloat16_is_close_and_not_the_same(weights):
    exact = create(weights)
    rough = create(weights, precision="bfloat16")
    assert rough.precision == "bfloat16"
    assert rough.card.digest == exact.card.digest
    cosines = (rough.encode(images()) * exact.encode(images())).sum(axis=1)
    assert (cosines > 0.999).all()
    assert not np.array_equal(rough.encode(images()), exact.encode(images()))


def test_the_digest_is_of_names_kinds_shapes_and_numbers():
    state = {"weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": torch.zeros(2)}
    first = WeightsFile.digest(state)
    assert WeightsFile.digest(dict(reversed(state.items()))) == first
    assert WeightsFile.digest({**state, "weight": state["weight"].T.contiguous().T}) == first
    others = [
        {**state, "bias": torch.tensor([0.0, 1e-30])},
        {**state, "bias": torch.zeros(2, dtype=torch.float64)},
        {**state, "weight": torch.tensor([1.0, 2.0, 3.0, 4.0])},
        {f"0.{name}": value for name, value in state.items()},
        {**state, "number": torch.tensor(1)},
    ]
    assert len({first, *map(WeightsFile.digest, others)}) == 6


def test_the_digest_is_of_the_file_and_not_of_what_timm_makes_of_it(tower, tmp_path):
    """Positions that were learned at another size are interpolated by code that may change."""
    large = {**tower.state_dict(), "pos_embed": torch.rand(1, 1 + 12 * 12, 64)}
    save_file(large, tmp_path / "large.safetensors")
    torch.save(large, tmp_path / "large.pt")
    encoders = [create(tmp_path / name) for name in ("large.safetensors", "large.pt")]
    assert [each.card.digest for each in encoders] == [WeightsFile.digest(large)] * 2
    assert np.array_equal(*(each.encode(images()) for each in encoders))


def test_half_precision_in_a_file_is_float32_in_a_model(tower, tmp_path):
    half = {name: value.half() for name, value in tower.state_dict().items()}
    save_file(half, tmp_path / "half.safetensors")
    save_file({name: each.float() for name, each in half.items()}, tmp_path / "wide.safetensors")
    one, other = (create(tmp_path / name) for name in ("half.safetensors", "wide.safetensors"))
    assert one.card.digest == other.card.digest != WeightsFile.digest(tower.state_dict())
    assert np.array_equal(one.encode(images()), other.encode(images()))


def test_devices_and_precisions(monkeypatch):
    with pytest.raises(MarcError, match="unknown device"):
        Running.choose(Loading(device="tpu"))
    with pytest.raises(MarcError, match="unknown precision"):
        Running.choose(Loading(precision="float8"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MarcError, match="no such GPU"):
        choose_device("cuda")
    assert Running.choose(Loading()) == Running("cpu", "float32", 32)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation
    )
    assert Running.choose(Loading()).precision == "float32"  # what is emulated is slow
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)
    assert Running.choose(Loading()) == Running("cuda", "bfloat16", 256)
    assert Running.choose(Loading(device="cuda:1", batch=7)).device == "cuda:1"
    with pytest.raises(MarcError, match="cuda:0, cuda:1"):
        choose_device("cuda:2")


def test_the_gpu_of_an_apple_is_one_if_asked_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(MarcError, match="no such GPU"):
        choose_device("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert Running.choose(Loading(device="mps")) == Running("mps", "float32", 256)
    assert Running.choose(Loading()).device == "cpu"


def test_a_missing_library_says_what_to_install():
    with pytest.raises(MarcError, match=r"pip install 'marc-clip\[encoders\]'"):
        torch_runtime.import_libraries("no_such_library")
