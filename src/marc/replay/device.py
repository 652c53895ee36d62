"""Which processor computes whole streams: the CPU, or a GPU of CUDA where there is one.

The arithmetic of a memory needs no GPU, so to ask for one that is not there is no error: the CPU
gives the same answers, later.
"""

from __future__ import annotations

import importlib.util
import re
import warnings

from marc.errors import MarcError

_NAME = re.compile(r"cpu|auto|cuda(:\d+)?")


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
