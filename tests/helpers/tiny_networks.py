"""Tiny networks in torch, and streams whose predictor has one: for methods that learn in it."""

import copy
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from helpers.repository import SHARED
from marc.peers._image_learning import Classifier
from marc.peers.contract import _as_seen, _stream
from marc.stream.predictor import Towers


class ConvBN(nn.Module):
    """Two convolutions with batch norms, and a classifier over the mean."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(32)
        self.fc = nn.Linear(32, classes)

    def forward(self, images):
        states = torch.relu(self.bn1(self.conv1(images)))
        states = torch.relu(self.bn2(self.conv2(states)))
        return self.fc(states.mean((2, 3)))


def tiny_vit(classes=10):
    """The transformer of the released outputs; without classes its features."""
    from marc.encoders.torch_runtime import import_libraries

    if find_spec("timm") is None:  # to import it needs what comes next
        pytest.skip("needs timm")
    import_libraries("timm")
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(
        img_size=16, patch_size=4, embed_dim=48, depth=2, num_heads=3, num_classes=classes
    )


def with_weights(network, name, prefix=""):
    """The network with released weights, or those of a part of what a file holds."""
    path = SHARED / "gold" / f"{name}.safetensors"
    if not path.exists():
        pytest.skip(f"no shared/gold/{name}.safetensors beside this checkout")
    from safetensors.torch import load_file

    stored = load_file(path)
    mine = {
        key.removeprefix(prefix): each for key, each in stored.items() if key.startswith(prefix)
    }
    network.load_state_dict(mine)
    return network.eval()


def as_it_is(features):
    return features


def whole(network):
    """A network with a classifier of its own."""
    return Classifier(network.eval(), as_it_is, as_it_is)


def fed(pictures):
    """Released pictures (..., 3, H, W) as the tiny networks take them."""
    return (torch.from_numpy(pictures).float() / 255 - 0.5) / 0.5


class Tower:
    """The tower of any module; weights are drawn by a seed."""

    prefix_width = None

    def __init__(self, build, seed=0):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._module = build().eval()
        self.digest = f"{build.__name__}-{seed}"

    def copy(self):
        return copy.deepcopy(self._module)

    def prepare(self, pixels):
        return (
            torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).float() / 127.5 - 1
        )


def tower_stream(tower=None, *, seed=0, n_images=70, n_views=4, n_classes=5, twins=False):
    """The contract's stream of pictures, as its tower sees them, or as another one does.

    With `twins` two classes have the same text.
    """
    stream = _stream(seed, n_images, n_views, n_classes)
    predictor = stream.features.predictor
    prototypes = predictor.prototypes.copy()
    if twins:
        prototypes[-1] = prototypes[1]
    towers = predictor.towers if tower is None else Towers(image=lambda: tower)
    other = replace(predictor, prototypes=prototypes, towers=towers)
    return _as_seen(replace(stream, features=replace(stream.features, predictor=other)))


def without_pictures(stream):
    return replace(stream, features=replace(stream.features, pixels=None))


def without_towers(stream):
    features = stream.features
    predictor = replace(features.predictor, towers=Towers())
    return replace(stream, features=replace(features, predictor=predictor))


def random_state():
    """What nobody may touch: torch's draws, threads and whether gradients are made."""
    return (
        torch.random.get_rng_state().numpy().tobytes(),
        torch.get_num_threads(),
        (torch.is_grad_enabled()),
    )
