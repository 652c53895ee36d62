"""Captions: each picture must find its caption, each caption its picture (CLIP's recipe).

The one encoder here that can be asked in words: prototypes of the classes come from prompts, and
that makes it the predictor of the lab.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from marc_lab.caption_texts import CAPTION_LENGTH, VOCABULARY, tokens
from marc_lab.classes import CLASS_NAMES
from marc_lab.encoders import PROMPTS
from marc_lab.networks.convolutional import Projected
from marc_lab.networks.transformer import TextTransformer
from training.augment import Augmentation
from training.losses import caption_matching
from training.recipe import Encoder, Recipe, every_row
from training.training_set import Batch

DIMENSION = 128
LARGEST_SCALE = 100.0


class Captions(Recipe):
    """Symmetric InfoNCE between pictures and captions, with a learned scale."""

    views_per_row: ClassVar[int] = 1
    kept: ClassVar[tuple[str, ...]] = ("encoder.", "text.", "log_scale")

    def __init__(self, body: Encoder) -> None:
        super().__init__()
        self.encoder = Projected(body, DIMENSION)
        self.text = TextTransformer(len(VOCABULARY), CAPTION_LENGTH, DIMENSION)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
        # No mirror images: captions speak of left and right.
        self.augmentation = Augmentation(0.5, mirror=False, colour=0.4, grey=0.2)

    def loss(self, batch: Batch) -> Tensor:
        """Each picture against all captions of the batch, and the reverse."""
        images = self.encoder(self.augmentation(batch.pictures))
        log_scale = self.log_scale.clamp(max=math.log(LARGEST_SCALE))
        return caption_matching(images, self.text(batch.tokens), log_scale)

    def rows(self, labels: Tensor) -> Tensor:
        """All pictures."""
        return every_row(labels)

    def scale(self) -> float:
        """What a cosine is multiplied by to become a logit."""
        return min(float(self.log_scale.detach().exp()), LARGEST_SCALE)

    def prompt_embeddings(self) -> Tensor:
        """Each class in each prompt, of unit length: (48, prompts, dimension)."""
        texts = [prompt.format(name) for name in CLASS_NAMES for prompt in PROMPTS]
        words = torch.from_numpy(np.stack([tokens(text) for text in texts]))
        with torch.no_grad():
            embedded = self.text(words.to(self.log_scale.device)).float()
        return functional.normalize(embedded, dim=1).view(len(CLASS_NAMES), len(PROMPTS), -1)

    def predict(self, images: Tensor) -> Tensor:
        """Zero-shot: the class whose mean prompt is nearest."""
        prototypes = functional.normalize(self.prompt_embeddings().mean(1), dim=1)
        return (self.encoder(images).float() @ prototypes.T).argmax(1)
