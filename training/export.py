"""From trained weights to what the lab ships: ONNX, towers, prompts, cards, golden features.

    python -m training.export --work training/work --target src/marc_lab/weights

Encoders that are not in the work folder stay as they are.
Runs anywhere, without a GPU, in about a minute. Every file is run by ONNX Runtime and compared with
the training framework before it counts.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from marc.encoders.cards import Training
from marc_lab.networks.convolutional import fold
from marc_lab.towers import SCALE
from marc_lab.world import SHIFTS, label_of, render
from training import batch_statistics
from training.captions import Captions
from training.catalogue import ENCODERS, Entry
from training.onnx_graph import INPUT, onnx_model
from training.pictures import TRAINING_SEED
from training.recipe import Recipe, restore
from training.rounding import in_levels, is_rounded, round_weights
from training.validation import embed
from training.work_folder import WorkFolder

TOLERANCE = 1e-3
"""Largest difference between ONNX Runtime and the training framework, in a unit-length feature."""
CARDS, RECORD = "cards.json", "training.json"
GOLDEN_SEED = 77
GOLDEN_PER_SHIFT = 2


@dataclass(frozen=True)
class Golden:
    """A few pictures of every kind, whose features are shipped to check an installation by."""

    indices: np.ndarray  # (n,) int64
    shifts: np.ndarray  # (n,) str
    images: Tensor  # (n, 3, 64, 64) in [0, 1]


def main() -> int:
    """Export every finished encoder, and what belongs to all of them."""
    parser = argparse.ArgumentParser(description="Export trained encoders to ONNX.")
    parser.add_argument("--work", type=Path, default=Path("training/work"))
    parser.add_argument("--target", type=Path, default=Path("src/marc_lab/weights"))
    options = parser.parse_args()
    work, target = WorkFolder(options.work), options.target
    record = work.record()["encoders"]
    finished = [name for name in ENCODERS if name in record]
    target.mkdir(parents=True, exist_ok=True)
    golden, features, cards = golden_pictures(), _shipped_features(target), _shipped(target, CARDS)
    for name in finished:
        recipe = ENCODERS[name].make()
        restore(recipe, work.load(name))
        path = target / f"{name}.onnx"
        features[name] = export(recipe.eval().encoder, path, golden.images)
        cards[name] = card(path, ENCODERS[name], recipe, record[name])
        if isinstance(recipe, Captions):
            save_text_tower(recipe.text.state_dict(), target / f"{name}-text.safetensors")
            save_prompts(recipe, target / f"{name}-prompts.npz")
            pictures = round_weights(fold(recipe.encoder))
            save_picture_tower(pictures, target / f"{name}-pictures.safetensors")
    save_golden(golden, features, target / "golden.npz")
    (target / CARDS).write_text(json.dumps(cards, indent=1) + "\n")
    story = {**_shipped(target, RECORD), **work.record()}
    story["encoders"] = {**_shipped(target, RECORD).get("encoders", {}), **record}
    (target / RECORD).write_text(json.dumps(story, indent=1) + "\n")
    total = sum(path.stat().st_size for path in target.glob("*.onnx"))
    print(f"{len(cards)} of {len(ENCODERS)} encoders, {total / 1e6:.2f} MB together")
    return 0 if set(cards) == set(ENCODERS) else 1


def _shipped(target: Path, name: str) -> dict[str, Any]:
    """What is there of encoders that were trained at another time."""
    path = target / name
    return json.loads(path.read_text()) if path.exists() else {}


def _shipped_features(target: Path) -> dict[str, np.ndarray]:
    path = target / "golden.npz"
    if not path.exists():
        return {}
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files if name in ENCODERS}


def export(encoder: nn.Module, path: Path, images: Tensor) -> np.ndarray:
    """Write one encoder, check the file, return the features that it should give: unit length."""
    folded = fold(encoder)
    rounded = round_weights(folded)
    path.write_bytes(onnx_model(rounded).SerializeToString())
    wanted = embed(rounded, images)
    difference = float((run(path, images) - wanted).abs().max())
    cosine = (embed(encoder, images) * wanted).sum(1)
    print(
        f"{path.stem:20s} {path.stat().st_size / 1e6:5.2f} MB, "
        f"ONNX Runtime differs by {difference:.1e}, "
        f"float32 to int8 cosine {cosine.mean():.5f}, at least {cosine.min():.5f}"
    )
    if not difference <= TOLERANCE:
        raise ValueError(f"{path.name} does not compute what was trained: {difference:.1e} apart")
    return wanted.numpy()


def run(path: Path, images: Tensor) -> Tensor:
    """Features of unit length by ONNX Runtime, in batches of different sizes."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    parts = [images[:1], images[1:]]
    found = [torch.from_numpy(session.run(None, {INPUT: part.numpy()})[0]) for part in parts]
    return functional.normalize(torch.cat(found), dim=1)


def golden_pictures() -> Golden:
    """Clean and shifted pictures of a seed of their own."""
    shifts = [shift for shift in SHIFTS for _ in range(GOLDEN_PER_SHIFT)]
    indices = [2 * place for place in range(len(shifts))]
    drawn = [render(GOLDEN_SEED, i, s).image for i, s in zip(indices, shifts, strict=True)]
    images = torch.from_numpy(np.stack(drawn)).permute(0, 3, 1, 2).float() / 255
    return Golden(np.array(indices), np.array(shifts), images.contiguous())


def save_golden(golden: Golden, features: dict[str, np.ndarray], path: Path) -> None:
    """Features by encoder, and which pictures they are of."""
    np.savez(
        path,
        seed=np.full(len(golden.indices), GOLDEN_SEED),
        index=golden.indices,
        shift=golden.shifts,
        **features,
    )


def save_text_tower(state: dict[str, Tensor], path: Path) -> None:
    """A text encoder in half precision; rounds what it is given, so that all of it agrees."""
    for each in state.values():
        each.copy_(each.half())
    save_file({name: each.half() for name, each in state.items()}, path)


def save_picture_tower(rounded: nn.Module, path: Path) -> None:
    """A folded encoder with rounded weights, those in eight bits, each channel with its scale."""
    stored: dict[str, Tensor] = {}
    for name, each in rounded.state_dict().items():
        if name.endswith(".weight") and each.ndim > 1 and is_rounded(each):
            levels, scales = in_levels(each)
            stored |= {name: levels.to(torch.int8), name + SCALE: scales}
        else:
            stored[name] = each.contiguous()
    save_file(stored, path)


def save_prompts(recipe: Captions, path: Path) -> None:
    """Every class in every prompt as the predictor reads it, (48, prompts, 128), and the scale."""
    embeddings = recipe.prompt_embeddings().numpy()
    np.savez(path, embeddings=embeddings, logit_scale=np.float32(recipe.scale()))


def pictures_of(recipe: Recipe, facts: dict[str, Any]) -> tuple[int, str]:
    """How many training pictures a recipe may show, and what they are."""
    if not facts["views"]:
        measured = batch_statistics.BATCHES * batch_statistics.PICTURES
        return measured, f"{measured:,} clean drawn pictures, for batch statistics only"
    labels = training_labels(facts["plan"]["pictures"])
    classes = labels[recipe.rows(labels)].unique()  # of a clip, both frames are shown
    n_pictures = int(torch.isin(labels, classes).sum())
    return n_pictures, f"{n_pictures:,} clean drawn pictures of {len(classes)} classes"


@functools.cache
def training_labels(n_pictures: int) -> Tensor:
    """The classes of the training pictures, which need not be drawn for it."""
    return torch.tensor([label_of(TRAINING_SEED, index) for index in range(n_pictures)])


def card(path: Path, entry: Entry, recipe: Recipe, facts: dict[str, Any]) -> dict[str, Any]:
    """What the lab says about an encoder, without the name: that is where it is filed."""
    n_pictures, data = pictures_of(recipe, facts)
    story = Training(
        objective=entry.objective,
        body=entry.body,
        data=data,
        epochs=round(facts["views"] / n_pictures, 1),
        parameters=facts["parameters"],
    )
    return {
        "summary": entry.summary,
        **asdict(story),
        "dim": facts["dimension"],
        "input_size": 64,
        "licence": "Apache-2.0",
        "digest": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


if __name__ == "__main__":
    sys.exit(main())
