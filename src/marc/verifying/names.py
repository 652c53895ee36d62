"""The paper's names of data sets and spaces, in the words of `marc list`."""

from __future__ import annotations

DATASETS = {
    "ImageNet": "imagenet-val",
    "A": "imagenet-a",
    "V2": "imagenet-v2",
    "R": "imagenet-r",
    "Sketch": "imagenet-sketch",
    "Caltech101": "caltech101",
    "DTD": "dtd",
    "EuroSAT": "eurosat",
    "Flowers102": "flowers102",
    "Pets": "oxford-pets",
    "UCF101": "ucf101",
    "Aircraft": "fgvc-aircraft",
    "Food101": "food101",
}
A, V2 = DATASETS["A"], DATASETS["V2"]
SHIFTS = tuple(DATASETS[name] for name in ("A", "V2", "R", "Sketch"))
FAMILY = (DATASETS["ImageNet"], *SHIFTS)
ADDED = (DATASETS["Aircraft"], DATASETS["Food101"])
SIX = tuple(each for each in DATASETS.values() if each not in (*FAMILY, *ADDED))
CROSS_DOMAIN = (*SIX, *ADDED)

SPACES = {
    "DINOv2-L": "dinov2-l",
    "DINOv2-B": "dinov2-b",
    "DINOv3-B": "dinov3-b",
    "DINOv2-S": "dinov2-s",
    "DINO v1": "dino-b16",
    "DeiT-III": "deit3-b16",
    "Supervised": "vit-b16",
    "ConvNeXt-B": "convnext-b",
    "ResNet-50": "resnet50",
    "CLIP-L": "clip-l14",
    "EVA-02 CLIP": "eva02-b16",
    "SigLIP": "siglip-b16",
    "OpenCLIP": "openclip-b16",
    "CLIP": "clip-b16",
    "MAE": "mae-b16",
    "BEiT": "beit-b16",
}
OWN, DEPLOYED, STRONG = SPACES["CLIP"], SPACES["DINOv2-B"], SPACES["DINOv2-L"]
SIXTEEN = tuple(SPACES.values())
FIVE = tuple(SPACES[name] for name in ("MAE", "CLIP", "DINOv2-S", "DINOv2-B", "DINOv2-L"))
EIGHT = (*FIVE, *(SPACES[name] for name in ("Supervised", "DINO v1", "BEiT")))

VIT, RN50 = "clip-b16", "clip-rn50"
"""The two predictors."""

_TEMPLATES = {
    "dtd": "dtd",
    "eurosat": "eurosat",
    "flowers102": "flowers",
    "oxford-pets": "pets",
    "ucf101": "ucf101",
    "fgvc-aircraft": "aircraft",
    "food101": "food101",
}


def prompts_of(dataset: str) -> str:
    """The prompt sets of a data set, joined by +.

    The paper does not list its prompts. These give its one-view accuracies without memory.

    >>> prompts_of("imagenet-a"), prompts_of("dtd")
    ('tip-7+cupl', 'dtd+cupl')
    """
    return f"{_TEMPLATES.get(dataset, 'tip-7')}+cupl"


def plain_prompts(text: str) -> frozenset[str]:
    """Prompt sets as they are compared: in any order, files by their name.

    >>> sorted(plain_prompts("texts/CuPL.json + tip-7"))
    ['cupl', 'tip-7']
    """
    parts = (part.strip().replace("\\", "/").rpartition("/")[2] for part in text.split("+"))
    return frozenset(part.lower().removesuffix(".json") for part in parts if part)


def plain_predictor(text: str) -> str:
    """A predictor by the name of its image encoder.

    >>> plain_predictor("clip-rn50-text")
    'clip-rn50'
    """
    return text.removesuffix("-text")
