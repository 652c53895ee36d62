"""Random views of pictures, for a whole batch at once, on the device that trains.

A crop, a mirror image and a blur are linear along each axis, so one 64 x 64 matrix for the rows and
one for the columns of a picture do all three. Brightness, contrast, saturation, hue and greyness
are linear in the colour of a pixel, so one 3 x 3 matrix and an offset do all five. A view is thus
three batched matrix products, whatever is switched on.

Pictures arrive as (n, 64, 3, 64): row, channel, column. In this order both axes are at hand for a
product without moving the pixels first.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

SIDE = 64
STRETCH = math.log(4 / 3)
"""The sides of a crop differ by up to this factor (as a logarithm)."""
BLUR = (0.2, 1.2)
"""Standard deviations of a blur, in pixels."""
NO_BLUR = 0.05
"""A kernel so narrow that its matrix is the identity."""
YIQ_FROM_RGB = ((0.299, 0.587, 0.114), (0.596, -0.274, -0.322), (0.211, -0.523, 0.312))


class Augmentation(nn.Module):
    """Draws one view of each picture.

    Args:
        smallest: a crop covers at least this part of the picture's area, at most all of it.
        mirror: whether half of the views are mirror images.
        colour: strength of the colour changes; 1 is SimCLR's, 0 leaves colours alone.
        grey: how often a view has no colour at all.
        blur: how often a view is blurred.
    """

    def __init__(
        self,
        smallest: float,
        *,
        mirror: bool = True,
        colour: float = 0.0,
        grey: float = 0.0,
        blur: float = 0.0,
    ) -> None:
        super().__init__()
        self.smallest, self.mirror = smallest, mirror
        self.colour, self.grey, self.blur = colour, grey, blur
        to_yiq = torch.tensor(YIQ_FROM_RGB)
        self.register_buffer("to_yiq", to_yiq, persistent=False)
        self.register_buffer("to_rgb", torch.linalg.inv(to_yiq), persistent=False)

    def forward(self, pictures: Tensor) -> Tensor:
        """Pictures (n, 64, 3, 64) of bytes to views (n, 3, 64, 64) in [0, 1]."""
        with torch.no_grad(), torch.autocast(pictures.device.type, enabled=False):
            views = self._resample(pictures.float() / 255)
            if self.colour or self.grey:
                views = self._recolour(views)
            return views.contiguous(memory_format=torch.channels_last)

    def _resample(self, pictures: Tensor) -> Tensor:
        """Crop, mirror and blur: (n, 64, 3, 64) to (n, 3, 64, 64)."""
        n = len(pictures)
        rows, columns = self._crops(pictures)
        if self.blur:
            kernel = self._blurs(pictures)
            rows, columns = kernel @ rows, kernel @ columns
        pictures = rows @ pictures.view(n, SIDE, 3 * SIDE)
        pictures = pictures.view(n, SIDE * 3, SIDE) @ columns.transpose(1, 2)
        return pictures.view(n, SIDE, 3, SIDE).transpose(1, 2)

    def _crops(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Bilinear resampling along rows and columns, each (n, 64, 64)."""
        area = _uniform(pictures, self.smallest, 1.0)
        stretch = torch.exp(_uniform(pictures, -STRETCH, STRETCH))
        height = (area / stretch).sqrt().clamp(max=1)
        width = (area * stretch).sqrt().clamp(max=1)
        flips = _chance(pictures, 0.5 if self.mirror else 0.0)
        upright = torch.zeros_like(flips)
        return _interpolation(height, upright), _interpolation(width, flips)

    def _blurs(self, pictures: Tensor) -> Tensor:
        """Gaussian smoothing along an axis, (n, 64, 64); the identity where nothing is blurred."""
        sigma = torch.where(_chance(pictures, self.blur), _uniform(pictures, *BLUR), NO_BLUR)
        place = torch.arange(SIDE, device=pictures.device)
        distance = (place[:, None] - place) / sigma[:, None, None]
        weights = torch.exp(-0.5 * distance.square())
        return weights / weights.sum(2, keepdim=True)

    def _recolour(self, views: Tensor) -> Tensor:
        """Mix the channels of (n, 3, 64, 64) anew."""
        changed = _chance(views, 0.8).float()
        brightness, contrast, saturation = (
            1 + changed * _uniform(views, -0.8, 0.8) * self.colour for _ in range(3)
        )
        hue = changed * _uniform(views, -0.2, 0.2) * self.colour * 2 * math.pi
        saturation = torch.where(_chance(views, self.grey), 0.0, saturation)
        turn = _turn(hue.cos() * saturation, hue.sin() * saturation)
        mixing = (brightness * contrast)[:, None, None] * (self.to_rgb @ turn @ self.to_yiq)
        # Contrast pulls towards the picture's mean. Grey passes the colour turn unchanged, so the
        # offset is the same in all three channels.
        offset = (1 - contrast) * brightness * views.mean((1, 2, 3))
        mixed = torch.baddbmm(offset[:, None, None], mixing, views.flatten(2))  # (n, 3, 4096)
        return mixed.view(-1, 3, SIDE, SIDE).clamp(0, 1)


def as_images(pictures: Tensor) -> Tensor:
    """Pictures (n, 64, 3, 64) of bytes as they are, in an encoder's form: (n, 3, 64, 64)."""
    return (pictures.transpose(1, 2).float() / 255).contiguous(memory_format=torch.channels_last)


def _interpolation(extent: Tensor, flips: Tensor) -> Tensor:
    """The matrix that stretches a random part of an axis, `extent` (n,) of it, over all of it."""
    place = torch.arange(SIDE, device=extent.device)
    start = _uniform(extent, 0.0, 1.0) * (1 - extent)
    order = torch.where(flips[:, None], SIDE - 1 - place, place)  # (n, 64)
    source = (start[:, None] + extent[:, None] * (order + 0.5) / SIDE) * SIDE - 0.5
    source = source.clamp(0, SIDE - 1)
    return (1 - (source[:, :, None] - place).abs()).clamp(min=0)  # (n, 64 to, 64 from)


def _turn(cosine: Tensor, sine: Tensor) -> Tensor:
    """(n, 3, 3): leaves brightness (Y) alone, turns and shrinks the colour plane (I, Q)."""
    zero, one = torch.zeros_like(cosine), torch.ones_like(cosine)
    rows = [(one, zero, zero), (zero, cosine, -sine), (zero, sine, cosine)]
    return torch.stack([torch.stack(row, 1) for row in rows], 1)


def _uniform(like: Tensor, low: float, high: float) -> Tensor:
    """One number for each picture, (n,)."""
    return torch.rand(len(like), device=like.device) * (high - low) + low


def _chance(like: Tensor, probability: float) -> Tensor:
    """One yes or no for each picture, (n,)."""
    return torch.rand(len(like), device=like.device) < probability
