"""Which processor computes whole streams: the CPU, or a GPU of CUDA where there is one.

The arithmetic of a memory needs no GPU, so to ask for one that is not there is no error: the CPU
gives the same answers, later.
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError

_ELSEWHERE = 2**28  # bytes on a device that does not say how much memory it has
_NAME = re.compile(r"cpu|auto|cuda(:[0-9]+)?")


def choose_gpu(device: str) -> str | None:
    """The GPU to compute on as torch names it, or None for the CPU.

    `auto` is a GPU where there is one; `cuda` that is not there is the CPU, which is said.
    """
    if not isinstance(device, str) or not _NAME.fullmatch(device):
        raise MarcError(
            "there is no such device", got=repr(device), allowed="cpu, auto, cuda, cuda:N"
        )
    if device == "cpu":
        return None
    why = _missing(device)
    if why and device != "auto":
        warnings.warn(f"computing on the CPU: {why}", stacklevel=3)
    return None if why else device.replace("auto", "cuda")


def _missing(device: str) -> str:
    """Why a GPU cannot be used; empty if it can."""
    if importlib.util.find_spec("torch") is None:
        return "a GPU needs torch (pip install 'marc-clip[gpu]')"
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    number = int(device.partition(":")[2] or 0)
    if number >= count:
        return f"torch finds no {device if count else 'GPU'} here"
    return ""


def place(array: NDArray[Any], gpu: str) -> Any:
    """A copy of an array on the card."""
    import torch

    return torch.tensor(np.ascontiguousarray(array), device=gpu)


def free_memory(gpu: str) -> int:
    """Bytes to use; what torch holds for itself is free too."""
    import torch

    if torch.device(gpu).type != "cuda":
        return _ELSEWHERE
    held = torch.cuda.memory_reserved(gpu) - torch.cuda.memory_allocated(gpu)
    return 3 * (int(torch.cuda.mem_get_info(gpu)[0]) + held) // 4


def as_current(gpu: str) -> AbstractContextManager[Any]:
    """While this is open, kernels that are not of torch start on this GPU and on no other."""
    import torch

    return torch.cuda.device(gpu) if gpu.startswith("cuda") else nullcontext()


@contextmanager
def full_precision() -> Iterator[None]:
    """Products of float32 numbers as such, whatever is set."""
    import torch

    products: Any = torch.backends.cuda.matmul
    newer = getattr(products, "fp32_precision", None)
    try:
        older = torch.get_float32_matmul_precision()
    except RuntimeError:  # it is at odds with the newer setting, which then holds
        older = "highest"
    products.allow_tf32 = False  # in both
    try:
        yield
    finally:
        if older != "highest":
            torch.set_float32_matmul_precision(older)
        if newer is not None:
            products.fp32_precision = newer
