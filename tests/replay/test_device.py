import warnings

import pytest

from marc.errors import MarcError
from marc.replay import device


def test_the_cpu_is_chosen_without_looking_for_a_gpu(monkeypatch):
    monkeypatch.setattr(device, "_missing", None)
    assert device.choose_gpu("cpu") is None


@pytest.mark.parametrize(("asked", "chosen"), [("auto", "cuda"), ("cuda", "cuda"), ("cuda:1",) * 2])
def test_a_gpu_that_is_there_is_taken(monkeypatch, asked, chosen):
    monkeypatch.setattr(device, "_missing", lambda asked: "")
    assert device.choose_gpu(asked) == chosen


def test_a_gpu_that_is_not_there_is_the_cpu_and_that_is_said_unless_it_was_left_open(monkeypatch):
    monkeypatch.setattr(device, "_missing", lambda asked: "torch finds no GPU here")
    with pytest.warns(UserWarning, match="computing on the CPU: torch finds no GPU here"):
        assert device.choose_gpu("cuda") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert device.choose_gpu("auto") is None


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(device.importlib.util, "find_spec", lambda name: None)
    with pytest.warns(UserWarning, match=r"pip install 'marc-clip\[gpu\]'"):
        assert device.choose_gpu("cuda:0") is None


def test_a_gpu_beyond_those_that_there_are_is_not_there():
    torch = pytest.importorskip("torch")
    beyond = f"cuda:{torch.cuda.device_count()}"
    with pytest.warns(UserWarning, match="torch finds no"):
        assert device.choose_gpu(beyond) is None


@pytest.mark.parametrize("asked", ["gpu", "CUDA", "cuda:", "mps", "", 0, None])
def test_a_device_of_another_name_is_refused(asked):
    with pytest.raises(MarcError, match="no such device"):
        device.choose_gpu(asked)


def test_kernels_start_on_the_gpu_that_was_chosen(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device", lambda gpu: ("current", gpu))
    assert device.as_current("cuda:1") == ("current", "cuda:1")
    with device.as_current("cpu"):
        pass
