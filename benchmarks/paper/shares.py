"""Shares of whole images: what one run prints in percent is a whole number of images.

Gains over no memory are such shares too. On ImageNet-A three of four values with two decimals are
possible; on the smaller splits, whose sizes the paper does not print, fewer are.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.paper.checks import Check, claim
from benchmarks.paper.ranks import FIVE
from benchmarks.paper.reaches import whole_counts
from marc_paper.printed import (
    ALONE,
    COSMIC,
    EIGHT,
    EXTRA,
    FIVE_ELSEWHERE,
    GRID,
    JOINT,
    MATCHED,
    N_IMAGES,
    PARETO,
    SEEDS16,
    SPACES16,
    SUBSTITUTION,
    SWAP,
    THREE_ELSEWHERE,
)
from marc_paper.printed.numbers import Printed, Table

SPLIT_SIZES = {  # test images of the usual splits
    "Pets": 3669,
    "Caltech101": 2465,
    "DTD": 1692,
    "UCF101": 3783,
    "Flowers102": 2463,
    "EuroSAT": 8100,
}
_SEEDS = ("0", "1", "2")
_ONE_RUN: list[tuple[Table, Iterable[str], Iterable[str]]] = [  # columns and rows
    (SPACES16, ("gain A", "anti-hub A"), SPACES16.rows),
    (SEEDS16, ("gain",), _SEEDS),
    (SWAP, ("accuracy",), FIVE),
    (EIGHT, ("oracle",), EIGHT.rows),
    (ALONE, ("accuracy",), ALONE.rows),
    (GRID, ("none", "CLIP", "DINOv2"), ("1", "2", "4", "8", "16", "32", "64")),
    (COSMIC, ("MARC", "COSMIC"), _SEEDS),
    (MATCHED, _SEEDS, ("COSMIC", "MARC")),
    (SUBSTITUTION, _SEEDS, ("gain at 1",)),
    (JOINT, ("accuracy", "oracle"), ("A",)),
    (PARETO, ("accuracy",), ("MARC-L, M = 1", "MARC-L, M = 4")),
    (EXTRA, ("A",), ("ViT MARC-L",)),
]
_ELSEWHERE = [  # DINOv2-B is said to average two seeds
    (FIVE_ELSEWHERE, ("MAE", "CLIP", "DINOv2-S", "DINOv2-L")),
    (THREE_ELSEWHERE, ("Supervised", "DINO v1", "BEiT")),
]


def share_checks() -> list[Check]:
    """Every value that the paper gives to one run."""
    cells = [
        (source, row, column, N_IMAGES)
        for source, columns, rows in _ONE_RUN
        for column in columns
        for row in rows
    ]
    cells += [
        (source, stream, space, n_images)
        for source, spaces in _ELSEWHERE
        for stream, n_images in SPLIT_SIZES.items()
        for space in spaces
    ]
    return [
        _whole(source.label, f"{row}, {column}", printed, n_images)
        for source, row, column, n_images in cells
        for printed in [source.at(row, column)]
        if printed.value  # zero is always possible
    ]


def _whole(label: str, item: str, printed: Printed, n_images: int) -> Check:
    counts = whole_counts(printed, n_images)
    below = int(printed.value * n_images / 100)
    nearest = " and ".join(f"{100 * n / n_images:.4f}" for n in (below, below + 1))
    return claim(
        label,
        "a whole number of images",
        item,
        printed.text,
        f"{counts[0]} of {n_images:,}" if counts else f"{nearest} are the nearest",
        holds=bool(counts),
    )
