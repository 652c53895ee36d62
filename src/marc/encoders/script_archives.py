"""Weights in a TorchScript archive, as OpenAI published CLIP.

torch would run what a module says about its own reading (`__setstate__`). Here nothing is run: the
archive's pickle may name tensors and modules and nothing else, a module is a dictionary, and of the
code only the two lines are read that list its parameters and buffers.
"""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_STORAGES = {"Double": "float64", "Float": "float32", "Half": "float16", "BFloat16": "bfloat16",
             "Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8",
             "Bool": "bool"}  # fmt: skip
_TYPED = ("restore_type_tag", "build_intlist", "build_boollist", "build_doublelist")
_NOT_WEIGHTS = ("input_resolution", "context_length", "vocab_size")  # numbers in CLIP's own files
_CODE = "a module of the archive runs code when it is read (__setstate__), which is not done here"
_LISTED = re.compile(r"^  __(?:parameters|buffers)__ = \[(.*)\]$", re.MULTILINE)


def read_script(path: Path) -> dict[str, Tensor] | None:
    """Parameters and buffers by name, or None if a file is no TorchScript archive.

    CLIP's numbers that are no weights are left out.
    """
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        marks = [name for name in archive.namelist() if name.endswith("/constants.pkl")]
        if not marks:
            return None
        stored = _read_archive(archive, marks[0].removesuffix("/constants.pkl"))
    if not isinstance(stored, _Module):
        raise pickle.UnpicklingError("the archive holds no module")
    tensors = dict(_tensors(stored, ""))
    return {name: value for name, value in tensors.items() if name not in _NOT_WEIGHTS}


class _Module:
    """What stands for a module: its attributes, and which of them are weights."""

    listed: frozenset[str] | None = None
    """Parameters and buffers. None: the archive does not say, so all tensors are."""

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, dict):
            raise pickle.UnpicklingError(_CODE)
        self.attributes = state


def _read_archive(archive: zipfile.ZipFile, root: str) -> object:
    import torch

    kinds = {f"{name}Storage": getattr(torch, kind) for name, kind in _STORAGES.items()}

    class Reader(pickle.Unpickler):
        """pickle's own way to say what a file may name."""

        def find_class(self, module: str, name: str) -> Any:
            if module.partition(".")[0] == "__torch__":
                return _module_kind(archive, root, module, name)
            if module == "torch" and name in kinds:
                return kinds[name]
            if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
                return _tensor
            if (module, name) == ("collections", "OrderedDict"):
                return OrderedDict
            if module == "torch.jit._pickle" and name in _TYPED:
                return _first
            raise pickle.UnpicklingError(f"the archive names {module}.{name}, which is no tensor")

        def persistent_load(self, key: Any) -> Tensor:
            _, kind, name, _, size = key  # where it was before does not matter
            if size == 0:
                return torch.empty(0, dtype=kind)
            content = bytearray(archive.read(f"{root}/data/{name}"))
            return torch.frombuffer(content, dtype=kind, count=size)

    return Reader(io.BytesIO(archive.read(f"{root}/data.pkl"))).load()


def _tensor(
    storage: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object
) -> Tensor:
    return storage.as_strided(size, stride, offset)  # torch refuses what is beyond the storage


def _first(value: object, *_: object) -> object:
    """Lists that carry their type are lists."""
    return value


def _module_kind(
    archive: zipfile.ZipFile, root: str, module: str, name: str
) -> Callable[..., _Module]:
    file = f"{root}/code/{module.replace('.', '/')}.py"
    code = archive.read(file).decode() if file in archive.namelist() else ""
    body = re.search(
        rf"^class {re.escape(name)}\(.*?(?=^class |\Z)", code, re.MULTILINE | re.DOTALL
    )
    if body and "def __setstate__(" in body.group():
        raise pickle.UnpicklingError(_CODE)
    lines = _LISTED.findall(body.group()) if body else []
    # archives from before buffers were listed have one such line
    listed = frozenset(re.findall(r'"([^"]+)"', " ".join(lines))) if len(lines) > 1 else None
    return type("_Listed", (_Module,), {"listed": listed})


def _tensors(module: _Module, prefix: str) -> Iterator[tuple[str, Tensor]]:
    import torch

    for name, value in module.attributes.items():
        if isinstance(value, _Module):
            yield from _tensors(value, f"{prefix}{name}.")
        elif isinstance(value, torch.Tensor) and (module.listed is None or name in module.listed):
            yield f"{prefix}{name}", value
