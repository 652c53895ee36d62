"""The training pictures where the training happens, and what a recipe may ask of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from training.pictures import PictureSet, chunks


@dataclass(frozen=True)
class TrainingSet:
    """All pictures on the device, as bytes; row 2k and row 2k + 1 are the frames of one clip."""

    pictures: Tensor  # (N, 64, 3, 64) uint8: row, channel, column, as `augment.py` wants it
    labels: Tensor  # (N,) int64
    tokens: Tensor  # (N, length) int64: one caption for each picture

    @property
    def device(self) -> torch.device:
        """Where the pictures are."""
        return self.pictures.device


@dataclass(frozen=True)
class Batch:
    """Some rows of the training set. Each property gathers when asked, so nothing idle is moved."""

    training_set: TrainingSet
    rows: Tensor  # (n,) int64

    @property
    def pictures(self) -> Tensor:
        """(n, 64, 3, 64) bytes."""
        return self.training_set.pictures[self.rows]

    @property
    def partners(self) -> Tensor:
        """The other frame of each picture's clip, (n, 64, 3, 64) bytes."""
        return self.training_set.pictures[self.rows ^ 1]

    @property
    def labels(self) -> Tensor:
        """(n,) class indices."""
        return self.training_set.labels[self.rows]

    @property
    def tokens(self) -> Tensor:
        """(n, length) words of the captions."""
        return self.training_set.tokens[self.rows]


class ShuffledRows:
    """Goes through the given rows in random order, again and again, each time in another."""

    def __init__(self, rows: Tensor, count: int, seed: int) -> None:
        if len(rows) < count:
            raise ValueError(
                f"a batch needs {count} rows and only {len(rows)} may be drawn; "
                "use a smaller --batch or more --pictures"
            )
        self.rows, self.count = rows, count
        self.generator = torch.Generator(rows.device).manual_seed(seed)
        self.order = rows[:0]

    def draw(self) -> Tensor:
        """The next rows, (count,)."""
        if len(self.order) < self.count:
            places = torch.randperm(
                len(self.rows), generator=self.generator, device=self.rows.device
            )
            self.order = self.rows[places]
        drawn, self.order = self.order[: self.count], self.order[self.count :]
        return drawn


def load(pictures: PictureSet, device: torch.device) -> TrainingSet:
    """Read a rendered set, chunk by chunk, onto the device."""
    parts: list[tuple[Tensor, Tensor, Tensor]] = []
    for images, labels, tokens in chunks(pictures):
        on_device = torch.from_numpy(images).to(device)
        parts.append(
            (
                on_device.transpose(2, 3).contiguous(),
                torch.from_numpy(labels).to(device, torch.int64),
                torch.from_numpy(tokens).to(device, torch.int64),
            )
        )
    return TrainingSet(*(torch.cat(column) for column in zip(*parts, strict=True)))
