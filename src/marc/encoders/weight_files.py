"""Weights on the disk: which file of a folder they are in, and reading it without running it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from marc.encoders.cards import EncoderCard
from marc.encoders.reasons import reason
from marc.encoders.script_archives import is_script, read_script
from marc.errors import MarcError

TIMM_FILES = ("model.safetensors", "pytorch_model.bin")
OPEN_CLIP_FILES = (
    "open_clip_model.safetensors",
    "open_clip_pytorch_model.safetensors",
    "open_clip_pytorch_model.bin",
)
ENDINGS = (".safetensors", ".pt", ".pth", ".bin")
_WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model")
_SHOWN = 3


def find_weights(card: EncoderCard, path: Path) -> Path:
    """The file that holds an encoder's weights: `path`, or a file in the folder `path`.

    In a folder it is the file that has the encoder's name, then one of the names that the hubs
    use, then the only file that can hold weights.
    """
    path = path.expanduser()
    if path.is_file():
        return path
    if not path.is_dir():
        raise MarcError(f"the weights of {card.name} are not there", got=path)
    if (path / card.name).is_dir():
        path = path / card.name
    usual = (TIMM_FILES, OPEN_CLIP_FILES)
    first, second = reversed(usual) if card.library == "open_clip" else usual
    for name in (*(card.name + ending for ending in ENDINGS), *first, *second):
        if (path / name).is_file():
            return path / name
    files = sorted(file for file in path.iterdir() if file.suffix in ENDINGS and file.is_file())
    if len(files) != 1:
        raise MarcError(
            f"no file in the folder is clearly that of {card.name}",
            got=", ".join(file.name for file in files) or f"no weights in {path}",
            allowed=f"{card.name}.safetensors, {', '.join(first)}, or a single file",
            hint=f"--weights {path}/FILE",
        )
    return files[0]


def read_state(card: EncoderCard, path: Path) -> dict[str, Any]:
    """Tensors by name. A file that holds other objects is refused: it could run code.

    Half precision becomes float32, in which everything is loaded; no number changes by it.
    """
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            stored = load_file(path)
        elif is_script(path):
            stored = read_script(path)
        else:
            stored = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file fails in the ways of three formats
        raise MarcError(
            f"the weights of {card.name} cannot be read",
            got=f"{path}: {reason(error)}",
            allowed="tensors by name and nothing else: safetensors, TorchScript, or torch.save",
        ) from None
    state = _unwrapped(stored)
    if not state or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise MarcError(
            f"the weights of {card.name} are not tensors by name",
            got=f"{path}: {type(stored).__name__}",
            allowed="a state dict",
        )
    half = (torch.float16, torch.bfloat16)
    return {name: each.float() if each.dtype in half else each for name, each in state.items()}


def misfit(card: EncoderCard, path: Path, error: Exception) -> MarcError:
    """The error to raise where weights are those of another model."""
    return MarcError(
        f"the weights do not fit {card.name}",
        got=f"{path}: {'; '.join(_differences(str(error))) or reason(error)}",
        allowed=f"the weights of {card.tag} ({card.library})",
        hint=f"marc list encoders --card {card.name}",
    )


def _unwrapped(stored: object) -> dict[str, Any]:
    """The tensors of a checkpoint, by the names that they had before parallel training."""
    if not isinstance(stored, dict):
        return {}
    inner = [stored[name] for name in _WRAPPERS if isinstance(stored.get(name), dict)]
    tensors: dict[object, Any] = inner[0] if inner else stored
    return {str(name).removeprefix("module."): value for name, value in tensors.items()}


def _differences(message: str) -> list[str]:
    """What torch says about keys, each kind with a few names and a count.

    >>> _differences('Missing key(s) in state_dict: "a", "b". ')
    ['missing: a, b']
    """
    found = []
    for kind, words in (("missing", "Missing key"), ("unexpected", "Unexpected key")):
        line = re.search(rf"{words}\(s\) in state_dict: (.*)", message)
        names = re.findall(r'"([^"]+)"', line.group(1)) if line else []
        if names:
            found.append(f"{kind}: {_few(names)}")
    sizes = re.findall(r"size mismatch for ([\w.]+):", message)
    return found + ([f"of another size: {_few(sizes)}"] if sizes else [])


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
