"""The sixteen retrieval spaces and the two predictors of the study, as frozen cards.

Preprocessing is pinned here, because the libraries disagree about it: for the same weights timm
cuts 10 % off the borders where open_clip cuts nothing, and a file given by its path gets the
numbers of CLIP whatever it holds. The rule is one for all: the short side becomes 224 pixels and
the centre is cut out. So every space sees what the predictor sees, and a difference between two
spaces is not one between two crops. Mean and standard deviation are the model's own.

Licences are those that timm states for its files; that of the predictors is their authors' own.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from marc.encoders.cards import EncoderCard
from marc.pictures.crops import Crop, Triple


class Pooling:
    """Which vector a model gives, in the words of a card."""

    DEFAULT = "the library's default"
    """Of a model that is not on one of our own cards."""
    PROJECTION = "CLS + projection"
    DEFAULT_PROJECTION = f"{DEFAULT} + projection"
    CLS = "CLS"
    AVERAGE = "average"
    AVERAGE_AND_NORM = "average + norm"
    ATTENTION = "attention"


_SIZE = 224
_BICUBIC = Crop(_SIZE, _SIZE, "short", "bicubic")
_BILINEAR = Crop(_SIZE, _SIZE, "short", "bilinear")

_CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))

_APACHE = "Apache-2.0"
_CLIP_PAPER = "Radford et al. 2021, arXiv:2103.00020"
_DINOV2_PAPER = "Oquab et al. 2023, arXiv:2304.07193"


def _space(
    name: str,
    tag: str,
    dim: int,
    numbers: tuple[Triple, Triple],
    pooling: str,
    paper: str,
    summary: str,
    *,
    licence: str = _APACHE,
    crop: Crop = _BICUBIC,
) -> EncoderCard:
    mean, std = numbers
    return EncoderCard(
        name, summary, "timm", tag, dim, crop, mean, std, pooling, licence=licence, paper=paper
    )


def _predictor(name: str, tag: str, dim: int, pooling: str, summary: str) -> EncoderCard:
    mean, std = _CLIP
    more: dict[str, Any] = {"licence": "MIT", "paper": _CLIP_PAPER, "has_text": True}
    return EncoderCard(name, summary, "open_clip", tag, dim, _BICUBIC, mean, std, pooling, **more)


_SPACES = (
    # OpenAI's weights were trained with a quicker form of GELU. The plain architecture takes the
    # same file without a word and computes something else.
    _space("clip-b16", "vit_base_patch16_clip_quickgelu_224.openai", 512, _CLIP,
           Pooling.PROJECTION, _CLIP_PAPER, "CLIP ViT-B/16, pictures and captions of the web"),
    _space("clip-l14", "vit_large_patch14_clip_quickgelu_224.openai", 768, _CLIP,
           Pooling.PROJECTION, _CLIP_PAPER, "CLIP ViT-L/14, pictures and captions of the web"),
    _space("openclip-b16", "vit_base_patch16_clip_224.laion2b", 512, _CLIP, Pooling.PROJECTION,
           "Cherti et al. 2022, arXiv:2212.07143", "OpenCLIP ViT-B/16, the captions of LAION-2B"),
    # Its authors squash both sides to 224. We do not: a squashed picture shows the borders that
    # the predictor never sees, and the spaces would differ by their field of view.
    _space("siglip-b16", "vit_base_patch16_siglip_224.webli", 768, _HALF, Pooling.ATTENTION,
           "Zhai et al. 2023, arXiv:2303.15343", "SigLIP ViT-B/16, captions with a sigmoid loss"),
    _space("eva02-b16", "eva02_base_patch16_clip_224.merged2b", 512, _CLIP, Pooling.PROJECTION,
           "Sun et al. 2023, arXiv:2303.15389",
           "EVA-02 CLIP B/16, masked pictures first, then captions", licence="MIT"),
    # DINOv2 was made for 518 pixels and is used at 224 here; its positions are interpolated.
    # The variants without registers are meant.
    _space("dinov2-s", "vit_small_patch14_dinov2.lvd142m", 384, _IMAGENET, Pooling.CLS,
           _DINOV2_PAPER, "DINOv2 ViT-S/14, pictures alone"),
    _space("dinov2-b", "vit_base_patch14_dinov2.lvd142m", 768, _IMAGENET, Pooling.CLS,
           _DINOV2_PAPER, "DINOv2 ViT-B/14, pictures alone"),
    _space("dinov2-l", "vit_large_patch14_dinov2.lvd142m", 1024, _IMAGENET, Pooling.CLS,
           _DINOV2_PAPER, "DINOv2 ViT-L/14, pictures alone"),
    # timm averages the patches of DINOv3 at 256 pixels unless told otherwise.
    _space("dinov3-b", "vit_base_patch16_dinov3.lvd1689m", 768, _IMAGENET, Pooling.CLS,
           "Siméoni et al. 2025, arXiv:2508.10104", "DINOv3 ViT-B/16, pictures alone",
           licence="DINOv3-License"),
    _space("dino-b16", "vit_base_patch16_224.dino", 768, _IMAGENET, Pooling.CLS,
           "Caron et al. 2021, arXiv:2104.14294",
           "DINO ViT-B/16, the pictures of ImageNet-1k without labels"),
    _space("mae-b16", "vit_base_patch16_224.mae", 768, _IMAGENET, Pooling.CLS,
           "He et al. 2021, arXiv:2111.06377", "MAE ViT-B/16, hidden patches are painted",
           licence="CC-BY-NC-4.0"),
    _space("beit-b16", "beit_base_patch16_224.in22k_ft_in22k", 768, _HALF,
           Pooling.AVERAGE_AND_NORM, "Bao et al. 2021, arXiv:2106.08254",
           "BEiT B/16, masked pictures, then the labels of ImageNet-22k"),
    _space("vit-b16", "vit_base_patch16_224.augreg_in21k", 768, _HALF, Pooling.CLS,
           "Steiner et al. 2021, arXiv:2106.10270", "ViT-B/16, the labels of ImageNet-21k"),
    _space("deit3-b16", "deit3_base_patch16_224.fb_in22k_ft_in1k", 768, _IMAGENET, Pooling.CLS,
           "Touvron et al. 2022, arXiv:2204.07118",
           "DeiT III B/16, the labels of ImageNet-22k, then 1k"),
    _space("convnext-b", "convnext_base.fb_in22k", 1024, _IMAGENET, Pooling.AVERAGE_AND_NORM,
           "Liu et al. 2022, arXiv:2201.03545", "ConvNeXt-B, the labels of ImageNet-22k"),
    # Its authors make the short side 256 and cut out 224. We cut from 224, as for all others.
    _space("resnet50", "resnet50.tv_in1k", 2048, _IMAGENET, Pooling.AVERAGE,
           "He et al. 2015, arXiv:1512.03385", "ResNet-50, the labels of ImageNet-1k",
           licence="BSD-3-Clause", crop=_BILINEAR),
)  # fmt: skip
_PREDICTORS = (
    _predictor("clip-b16-text", "ViT-B-16-quickgelu/openai", 512, Pooling.PROJECTION,
               "CLIP ViT-B/16 with its text tower: a predictor"),
    _predictor("clip-rn50-text", "RN50-quickgelu/openai", 1024, "attention + projection",
               "CLIP ResNet-50 with its text tower: a predictor"),
)  # fmt: skip

SPACES = MappingProxyType({card.name: card for card in _SPACES})
"""The sixteen retrieval spaces by name."""
PREDICTORS = MappingProxyType({card.name: card for card in _PREDICTORS})
"""The two predictors by name."""
PUBLISHED = MappingProxyType({**PREDICTORS, **SPACES})
"""All of them."""
WITH_TEXT = MappingProxyType(
    {
        "clip-b16": "clip-b16-text",
        "clip-l14": "open_clip:ViT-L-14-quickgelu/openai",
        "openclip-b16": "open_clip:ViT-B-16/laion2b_s34b_b88k",
        "siglip-b16": "open_clip:ViT-B-16-SigLIP/webli",
        "eva02-b16": "open_clip:EVA02-B-16/merged2b_s8b_b131k",
    }
)
"""Where the text tower of an image space is."""
