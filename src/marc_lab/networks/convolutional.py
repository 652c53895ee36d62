"""The convolutional encoder: a small residual network for 64 x 64 pictures, in three sizes."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import fuse_conv_bn_eval


@dataclass(frozen=True)
class Size:
    """Channels and residual blocks of the four stages; the last width is the embedding's."""

    name: str
    widths: tuple[int, int, int, int]
    blocks: tuple[int, int, int, int]


LARGE = Size("Conv-L", (24, 56, 112, 208), (1, 1, 2, 1))
MEDIUM = Size("Conv-M", (16, 40, 80, 160), (1, 1, 2, 1))
SMALL = Size("Conv-S", (16, 32, 64, 128), (1, 1, 1, 1))


class Convolutional(nn.Module):
    """Pictures (n, 3, 64, 64) in [0, 1] to embeddings (n, dimension), not of unit length."""

    def __init__(self, size: Size, *, neck: bool = True) -> None:
        super().__init__()
        self.dimension = size.widths[-1]
        # The stem halves the picture at once: layers at full resolution would take half the time.
        self.stem = nn.Sequential(convolution(3, size.widths[0], kernel=4, stride=2), nn.ReLU())
        self.stages = nn.Sequential(*_residuals(size))
        # Without affine parameters the neck centres the embedding, so that cosines spread.
        self.neck = nn.BatchNorm1d(self.dimension, affine=False) if neck else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """Embed; the pixels are centred here, so that nobody else has to know how."""
        features = self.stages(self.stem((images - 0.5) * 4))  # (n, dimension, 4, 4)
        return self.neck(features.mean((2, 3)))


class Projected(nn.Module):
    """An encoder and the linear map into the space that pictures share with captions."""

    def __init__(self, body: nn.Module, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension
        self.body = body
        self.projection = nn.Linear(body.dimension, dimension, bias=False)

    def forward(self, images: Tensor, *more: Tensor) -> Tensor:
        """(n, 3, 64, 64), and what else the body takes, to (n, dimension)."""
        return self.projection(self.body(images, *more))


class Residual(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, incoming: int, outgoing: int, stride: int) -> None:
        super().__init__()
        self.first = convolution(incoming, outgoing, kernel=3, stride=stride)
        self.second = convolution(outgoing, outgoing, kernel=3, stride=1)
        changes = stride > 1 or incoming != outgoing
        shortcut = convolution(incoming, outgoing, kernel=1, stride=stride) if changes else None
        self.shortcut = shortcut or nn.Identity()

    def forward(self, features: Tensor) -> Tensor:
        """(n, incoming, h, w) to (n, outgoing, h / stride, w / stride)."""
        inner = self.second(torch.relu(self.first(features)))
        return torch.relu(inner + self.shortcut(features))


def convolution(incoming: int, outgoing: int, *, kernel: int, stride: int) -> nn.Sequential:
    """A convolution and its batch norm, as a pair that `fold` makes one of."""
    padding = (kernel - 1) // 2
    return nn.Sequential(
        nn.Conv2d(incoming, outgoing, kernel, stride, padding, bias=False),
        nn.BatchNorm2d(outgoing),
    )


def _residuals(size: Size) -> list[Residual]:
    blocks, incoming = [], size.widths[0]
    for stage, (width, count) in enumerate(zip(size.widths, size.blocks, strict=True)):
        for block in range(count):
            halves = stage > 0 and block == 0
            blocks.append(Residual(incoming, width, stride=2 if halves else 1))
            incoming = width
    return blocks


def fold(encoder: nn.Module) -> nn.Module:
    """A copy in which each convolution has swallowed the batch norm behind it."""
    folded = copy.deepcopy(encoder).eval()
    for part in list(folded.modules()):
        if isinstance(part, nn.Sequential) and _is_normalised_convolution(part):
            part[0], part[1] = fuse_conv_bn_eval(part[0], part[1]), nn.Identity()
    return folded


def _is_normalised_convolution(part: nn.Sequential) -> bool:
    kinds = [type(member) for member in part]
    return kinds == [nn.Conv2d, nn.BatchNorm2d]
