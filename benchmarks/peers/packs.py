"""Packs for methods that need more than a pack has: prompts for ETTA, shots for Tip-Adapter.

    python -m benchmarks.peers.packs FILE.npz

writes three packs into the current folder:

    NAME-prompts.npz    all images; five copies of each prototype stand for prompts, so that a
                        method which chooses among prompts runs, but has nothing to choose
    NAME-shots.npz      four images of each class, drawn with seed 0 class by class
    NAME-rest.npz       the images that are not among the shots, nor exact copies of one
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from marc.errors import MarcError
from marc.sources.pack import read_pack, write_pack
from marc.stream import Stream

COPIES, SHOTS = 5, 4


def part_of(stream: Stream, rows: np.ndarray, name: str) -> Stream:
    """Some of the images, with copies of the prototypes as prompts."""
    features = stream.features
    prototypes = features.predictor.prototypes
    return Stream.from_arrays(
        features.views[rows],
        prototypes,
        {space: keys[rows] for space, keys in features.spaces.items()},
        logit_scale=features.predictor.logit_scale,
        prompts=np.repeat(prototypes[:, np.newaxis], COPIES, axis=1),
        labels=stream.row_labels[rows],
        class_names=features.class_names,
        ids=[features.ids[row] for row in rows],
        name=name,
    )


def few_of_each(labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Rows of the shots: the first of each class in a seeded order."""
    draw = np.random.default_rng(0)
    return np.concatenate(
        [draw.permutation(np.flatnonzero(labels == c))[:SHOTS] for c in range(n_classes)]
    )


def main(path: Path) -> None:
    """Write the three packs."""
    stream = read_pack(path)
    if stream.row_labels is None:
        raise MarcError("shots need labels, and this pack has none", got=path)
    everything = np.arange(len(stream))
    shots = few_of_each(stream.row_labels, stream.n_classes)
    known = {row.tobytes() for row in stream.features.clip_keys[shots]}
    rest = [row for row in everything if stream.features.clip_keys[row].tobytes() not in known]
    parts = {"prompts": everything, "shots": shots, "rest": np.array(rest)}
    for kind, rows in parts.items():
        name = f"{path.stem}-{kind}"
        write_pack(part_of(stream, rows, name), Path(f"{name}.npz"))
        print(f"{name}.npz: {len(rows)} images")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
