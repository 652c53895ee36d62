"""The encoders of the lab: what each is, and how it is made. Start here.

All see the same pixels, never a shift, and the same number of views. They differ in the signal
(captions, frame pairs, crops, labels, masks, turns), in the body, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from marc_lab.classes import CLASS_NAMES, HELD_BACK
from marc_lab.networks.convolutional import LARGE, MEDIUM, SMALL, Convolutional
from marc_lab.networks.transformer import PictureTransformer
from training.captions import Captions
from training.crops import Crops
from training.labels import Labels
from training.labels_contrastive import LabelsContrastive
from training.loop import SEED, Settings
from training.masked import Masked
from training.pairs import Pairs
from training.recipe import Recipe
from training.rotation import Rotation
from training.untrained import Untrained
from training.vicreg import VICReg

ALL = tuple(range(len(CLASS_NAMES)))
NOT_HELD_BACK = tuple(label for label in ALL if label not in HELD_BACK)
HALF = tuple(label for index, label in enumerate(NOT_HELD_BACK) if index % 3 != 2)
"""The 24 classes whose labels the half-supervised encoder learns."""
TRANSFORMER = Settings(learning_rate=1e-3, weight_decay=0.05, clip=1.0)


@dataclass(frozen=True)
class Entry:
    """One encoder."""

    summary: str
    objective: str
    body: str
    recipe: Callable[[], Recipe]
    settings: Settings = field(default_factory=Settings)
    trained: bool = True
    measured: bool = False
    """Whether its batch statistics must be measured after training."""

    def make(self) -> Recipe:
        """The recipe at its start, the same each time."""
        torch.manual_seed(SEED)
        return self.recipe()


ENCODERS: dict[str, Entry] = {
    "captions": Entry(
        "pictures and captions find each other",
        "symmetric InfoNCE, learned scale",
        LARGE.name,
        lambda: Captions(Convolutional(LARGE, neck=False)),
        Settings(betas=(0.9, 0.98)),
    ),
    "captions-vit": Entry(
        "pictures and captions find each other: a second predictor",
        "symmetric InfoNCE, learned scale",
        "ViT",
        lambda: Captions(PictureTransformer()),
        Settings(learning_rate=1e-3, weight_decay=0.05, clip=1.0, betas=(0.9, 0.98)),
    ),
    "pairs-large": Entry(
        "two frames of a clip find each other",
        "InfoNCE, temperature 0.2",
        LARGE.name,
        lambda: Pairs(Convolutional(LARGE)),
    ),
    "pairs-medium": Entry(
        "two frames of a clip find each other",
        "InfoNCE, temperature 0.2",
        MEDIUM.name,
        lambda: Pairs(Convolutional(MEDIUM)),
    ),
    "pairs-small": Entry(
        "two frames of a clip find each other",
        "InfoNCE, temperature 0.2",
        SMALL.name,
        lambda: Pairs(Convolutional(SMALL)),
    ),
    "pairs-vit": Entry(
        "two frames of a clip find each other",
        "InfoNCE, temperature 0.2",
        "ViT",
        lambda: Pairs(PictureTransformer()),
        TRANSFORMER,
    ),
    "masked-vit": Entry(
        "hidden patches are painted",
        "masked reconstruction, 75 % hidden",
        "ViT",
        lambda: Masked(PictureTransformer()),
        Settings(learning_rate=1e-3, weight_decay=0.05, clip=1.0, betas=(0.9, 0.95)),
        measured=True,
    ),
    "vicreg": Entry(
        "two frames of a clip agree, no coordinate repeats another",
        "VICReg, 25 / 25 / 1",
        LARGE.name,
        lambda: VICReg(Convolutional(LARGE)),
    ),
    "crops": Entry(
        "two crops of a frame find each other",
        "InfoNCE, temperature 0.2",
        LARGE.name,
        lambda: Crops(Convolutional(LARGE)),
    ),
    "labels": Entry(
        "all 48 labels are told: an upper reference",
        "cross-entropy, smoothing 0.1",
        LARGE.name,
        lambda: Labels(Convolutional(LARGE), ALL, smoothing=0.1),
    ),
    "labels-half": Entry(
        "24 of the 48 labels are told",
        "cross-entropy",
        LARGE.name,
        lambda: Labels(Convolutional(LARGE), HALF, smoothing=0.0),
    ),
    "labels-contrastive": Entry(
        "pictures with one label attract each other, 36 of 48 labels",
        "supervised contrastive, temperature 0.1",
        LARGE.name,
        lambda: LabelsContrastive(Convolutional(LARGE), NOT_HELD_BACK),
    ),
    "rotation": Entry(
        "by which quarter turn a picture was rotated is told",
        "cross-entropy",
        LARGE.name,
        lambda: Rotation(Convolutional(LARGE)),
    ),
    "random": Entry(
        "random weights: a control",
        "none",
        SMALL.name,
        lambda: Untrained(Convolutional(SMALL)),
        trained=False,
        measured=True,
    ),
}
