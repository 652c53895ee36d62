"""Images to a device and vectors back: nothing waits, nothing is overwritten, no bit changes."""

from helpers.torch_towers import filled  # first: it makes the libraries work

# isort: split
import contextlib
from types import SimpleNamespace

import numpy as np
import open_clip
import pytest
import torch
from safetensors.torch import save_file

import marc
from marc import MarcError
from marc.encoders import encoder_card, image_forward
from marc.encoders.cards import Loading
from marc.encoders.from_timm import _build_tower
from marc.encoders.image_forward import ImageForward, _Captured, _CudaLink, _Filled
from marc.encoders.torch_runtime import Running
from marc.scores import unit

NAME = "timm:test_vit.r160_in1k"
CARD = encoder_card(NAME)


@pytest.fixture(scope="module")
def tower():
    return filled(lambda: _build_tower(CARD))


def images(n=5, kind=np.uint8):
    return np.random.default_rng(1).integers(0, 256, (n, 160, 160, 3)).astype(kind)


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
@pytest.mark.parametrize("batch", [2, 32])
def test_vectors_are_those_of_the_plain_steps_to_the_last_bit(tower, kind, batch):
    parts = [images(5, kind)[start : start + batch] for start in range(0, 5, batch)]
    with torch.inference_mode():
        rows = [tower(torch.from_numpy(CARD.normalise(part))).numpy() for part in parts]
    wait = ImageForward(Running("cpu", "float32", batch), CARD, tower).begin(images(5, kind))
    assert np.array_equal(wait(), unit(np.concatenate(rows)))


def test_a_forward_pass_goes_to_another_process_without_what_it_holds_on_a_device():
    given = Running("cpu", "float32", 2), CARD, torch.neg
    make, arguments = ImageForward(*given).__reduce__()
    assert (make, arguments) == (ImageForward, given)


def test_pure_bfloat16_is_a_precision_of_its_own(tower, tmp_path):
    save_file(tower.state_dict(), tmp_path / "tower.safetensors")

    def vectors(precision):
        encoder = marc.create_encoder(
            NAME, weights=tmp_path, offline=True, device="cpu", precision=precision
        )
        assert encoder.precision == precision
        return encoder, encoder.encode(images())

    (exact, first), (_, mixed), (pure, last) = map(
        vectors, ("float32", "bfloat16", "pure-bfloat16")
    )
    assert pure.card == exact.card
    assert ((first * last).sum(axis=1) > 0.995).all()
    assert not np.array_equal(last, mixed)
    exact.image_tower()
    with pytest.raises(MarcError, match="rounded when they were loaded"):
        pure.image_tower()


def test_pure_bfloat16_leaves_the_text_tower_as_it_is(tmp_path):
    config = '{"embed_dim": 16, "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, '
    config += '"patch_size": 16}, "text_cfg": {"context_length": 77, "vocab_size": 49408, '
    config += '"width": 64, "heads": 1, "layers": 1}}'
    (tmp_path / "small.json").write_text(config)
    open_clip.add_model_config(tmp_path / "small.json")
    torch.manual_seed(0)
    model = open_clip.create_model("small", pretrained=None)
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    exact, pure = (
        marc.create_encoder(
            f"mine=open_clip:{tmp_path / 'small.json'}",
            weights=tmp_path / "weights.safetensors",
            device="cpu",
            precision=precision,
        )
        for precision in ("float32", "pure-bfloat16")
    )
    words = ["a star", "a fish"]
    assert np.array_equal(pure.encode_text(words), exact.encode_text(words))
    squares = np.random.default_rng(2).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    cosines = (pure.encode(squares) * exact.encode(squares)).sum(axis=1)
    assert (cosines > 0.995).all()
    assert (cosines < 1).all()


def test_compiled_code_is_for_a_gpu_alone():
    with pytest.raises(MarcError, match="--compile"):
        Running.choose(Loading(device="cpu", compiled=True))


def test_full_batches_are_compiled_for_one_size(tower, monkeypatch):
    sizes = []

    def compile_(network, dynamic):
        assert dynamic is False

        def run(pixels):
            sizes.append(len(pixels))
            return network(pixels)

        return run

    monkeypatch.setattr(torch, "compile", compile_)
    plain = ImageForward(Running("cpu", "float32", 4), CARD, tower)
    compiled = ImageForward(Running("cpu", "float32", 4, compiled=True), CARD, tower)
    for count in (1, 4, 5, 6, 11):
        found = compiled.begin(images(count))()
        assert np.abs(found - plain.begin(images(count))()).max() < 1e-5
    assert sizes == [4] * (0 + 1 + 1 + 2 + 3)


def test_a_batch_less_than_half_full_is_not_filled_up():
    eager, compiled = (lambda pixels: pixels + 1), (lambda pixels: pixels + 2)
    filled_up = _Filled(eager, compiled, batch=4)
    assert filled_up(torch.zeros(1, 2)).tolist() == [[1, 1]]
    assert filled_up(torch.zeros(2, 2)).tolist() == [[2, 2], [2, 2]]


def test_a_pass_is_captured_once_for_each_shape_and_type_that_comes_again():
    log = []

    def capture(run, pixels):
        log.append(("captured", tuple(pixels.shape), pixels.dtype))
        return lambda pixels: run(pixels) + 100

    once = _Captured(lambda pixels: pixels + 1, capture)
    small = torch.zeros(1, 2)
    assert [once(small)[0, 0].item() for _ in range(4)] == [1, 1, 101, 101]
    assert [once(small.byte())[0, 0].item() for _ in range(3)] == [1, 1, 101]
    assert log == [("captured", (1, 2), torch.float32), ("captured", (1, 2), torch.uint8)]


def test_what_cannot_be_captured_runs_as_it_did():
    tried = []

    def capture(run, pixels):
        tried.append(1)
        raise RuntimeError("operation not permitted when stream is capturing")

    once = _Captured(lambda pixels: pixels + 1, capture)
    assert [once(torch.zeros(1)).item() for _ in range(5)] == [1] * 5
    assert len(tried) == 1


class Card:
    """A card that computes when somebody waits, and no sooner; it keeps pixels where they lie."""

    def __init__(self):
        self.queue, self.log = [], []

    def run_until(self, length):
        while self.queue and len(self.log) < length:
            self.queue.pop(0)()

    def record_event(self):
        length = len(self.log) + len(self.queue)
        return SimpleNamespace(synchronize=lambda: self.run_until(length))

    def wait_stream(self, other):
        pass


@pytest.fixture
def card(monkeypatch):
    card = Card()
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: card)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: card)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    monkeypatch.setattr(
        image_forward, "_pinned", lambda n_bytes: torch.empty(n_bytes, dtype=torch.uint8)
    )
    return card


def test_memory_is_not_filled_again_before_the_card_is_done_with_it(card):
    link = _CudaLink("cpu")
    parts = [images(n, kind) for n, kind in [(3, "u1"), (2, "f4"), (3, "u1"), (4, "f4"), (1, "u1")]]
    held = []
    for part in parts:
        with link.sent(part) as pixels:
            card.queue.append(lambda pixels=pixels: card.log.append(pixels.clone().numpy()))
        held.append(len(card.queue))
    assert held == [1, 2, 2, 2, 2]  # two at a time, and always one more than is computed
    card.run_until(len(parts))
    for found, part in zip(card.log, parts, strict=True):
        assert found.dtype == part.dtype
        assert np.array_equal(found, part)


def test_vectors_are_waited_for_when_they_are_asked_for(card):
    link, rows = _CudaLink("cpu"), torch.zeros(2)
    card.queue.append(lambda: card.log.append(rows.fill_(7)))
    wait = link.fetched(rows)
    card.queue.append(lambda: card.log.append("the next batch"))
    assert not card.log
    assert wait().tolist() == [7, 7]
    assert len(card.queue) == 1


def test_vectors_by_way_of_staged_memory_are_the_same(card, tower):
    forward = ImageForward(Running("cpu", "float32", 2), CARD, tower)
    expected = forward.begin(images())()
    forward._link = _CudaLink("cpu")
    assert np.array_equal(forward.begin(images())(), expected)
