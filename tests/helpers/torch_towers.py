"""What the tests of the torch encoders share: libraries, a picture, random weights."""

import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image

if any(find_spec(name) is None for name in ("torch", "timm", "open_clip")):
    pytest.skip("needs the extra [encoders]", allow_module_level=True)

from marc.encoders.torch_runtime import import_libraries, without_drawing

import_libraries("timm", "open_clip")

import torch  # noqa: E402


def picture(width=517, height=341):
    """A photo-like picture: large spots in all colours."""
    pixels = np.random.default_rng(3).integers(0, 256, (31, 47, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR)


def filled(build):
    """A model with random weights in which no bias is zero and no scale is one."""
    with without_drawing():
        model = build()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                spread = 2 / parameter[0].numel() ** 0.5
                parameter.uniform_(-spread, spread, generator=generator)
            elif name.endswith("bias"):
                parameter.uniform_(-0.1, 0.1, generator=generator)
            elif parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5, generator=generator)
    return model.eval()


def save_as_script(state, file, **numbers):
    """Tensors by name as a TorchScript archive, with numbers beside them as OpenAI has them."""
    holder = torch.nn.Module()
    for name, value in state.items():
        place = holder
        for part in name.split(".")[:-1]:
            if part not in dict(place.named_children()):
                place.add_module(part, torch.nn.Module())
            place = dict(place.named_children())[part]
        place.register_buffer(name.split(".")[-1], value)
    for name, value in numbers.items():
        holder.register_buffer(name, torch.tensor(value))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(holder).save(file)
