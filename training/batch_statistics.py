"""Batch-norm statistics measured on training pictures, where training itself left none.

The untrained control has seen nothing, and the masked transformer never used its neck.
"""

from __future__ import annotations

import torch
from torch import nn

from training.augment import as_images
from training.training_set import Batch, TrainingSet

BATCHES = 20
PICTURES = 1000


@torch.no_grad()
def measure(encoder: nn.Module, training_set: TrainingSet) -> None:
    """Set every running mean and variance to its average over some batches of plain pictures."""
    encoder.eval()
    for part in encoder.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.reset_running_stats()
            part.momentum = None  # a plain average
            part.train()
    every = torch.arange(len(training_set.labels), device=training_set.device)
    for rows in every.split(PICTURES)[:BATCHES]:
        encoder(as_images(Batch(training_set, rows).pictures))
    encoder.eval()
