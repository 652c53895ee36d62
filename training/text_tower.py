"""A text tower for picture encoders that have lost theirs: learned afterwards, beside them.

    python -m training.text_tower --work training/work --pictures captions.safetensors --out trained

The pictures' tower stays as it is. The tower of texts learns two things at once: captions must find
their pictures, as in the first training, and the prompts that the lab ships must come out as they
are there, so that a predictor with this tower is the predictor that was there before.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from marc_lab.caption_texts import CAPTION_LENGTH, VOCABULARY, tokens
from marc_lab.classes import CLASS_NAMES
from marc_lab.encoders import PROMPTS
from marc_lab.networks.convolutional import LARGE, Convolutional, Projected, fold
from marc_lab.networks.transformer import TextTransformer
from training.augment import Augmentation
from training.captions import DIMENSION
from training.export import save_text_tower
from training.loop import SEED, Settings, Stepper, train
from training.losses import caption_matching
from training.pictures import render_apart, training_pictures, validation_pictures
from training.recipe import Recipe, every_row
from training.training_set import Batch, load
from training.work_folder import WorkFolder

PROMPTS_COUNT = 20.0
"""The weight of the shipped prompts beside the captions."""
STORED = Path("src/marc_lab/weights/captions-prompts.npz")


class TextsAfterwards(Recipe):
    """CLIP's loss with pictures that stand still, and the shipped prompts as targets."""

    views_per_row: ClassVar[int] = 1
    kept: ClassVar[tuple[str, ...]] = ("text.",)

    def __init__(self, pictures: nn.Module, embeddings: Tensor, log_scale: float) -> None:
        super().__init__()
        self.encoder = pictures.requires_grad_(False)
        self.text = TextTransformer(len(VOCABULARY), CAPTION_LENGTH, DIMENSION)
        self.augmentation = Augmentation(0.5, mirror=False, colour=0.4, grey=0.2)
        texts = [prompt.format(name) for name in CLASS_NAMES for prompt in PROMPTS]
        words = torch.from_numpy(np.stack([tokens(text) for text in texts]))
        self.register_buffer("words", words, persistent=False)
        self.register_buffer("embeddings", embeddings, persistent=False)
        self.register_buffer("log_scale", torch.tensor(log_scale), persistent=False)

    def loss(self, batch: Batch) -> Tensor:
        """Captions against pictures, and prompts against what they are known to be."""
        with torch.no_grad():
            images = self.encoder(self.augmentation(batch.pictures))
        matching = caption_matching(images, self.text(batch.tokens), self.log_scale)
        return matching + PROMPTS_COUNT * self.distance().mean()

    def distance(self) -> Tensor:
        """One minus the cosine of each prompt and what is shipped of it, (480,)."""
        return 1 - functional.cosine_similarity(self.text(self.words).float(), self.embeddings)

    def rows(self, labels: Tensor) -> Tensor:
        """All pictures."""
        return every_row(labels)


def main() -> None:
    """Learn the tower, save it, and say how near its prompts are."""
    parser = argparse.ArgumentParser(description="Learn a text tower beside a picture tower.")
    parser.add_argument("--work", type=Path, default=Path("training/work"))
    parser.add_argument("--pictures", type=Path, required=True, help="folded picture tower")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=240_000, help="training pictures")
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=1024)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    work = WorkFolder(options.work)
    render_apart(options.work, options.count, float("inf"))
    torch.manual_seed(SEED)
    network = fold(Projected(Convolutional(LARGE, neck=False), DIMENSION))
    network.load_state_dict(load_file(options.pictures))
    with np.load(STORED) as stored:
        embeddings = torch.from_numpy(stored["embeddings"]).flatten(0, 1)
        log_scale = float(np.log(stored["logit_scale"]))
    recipe = TextsAfterwards(network, embeddings, log_scale).to(device)
    pictures = load(training_pictures(options.work, options.count), device)
    stepper = Stepper(recipe, pictures, Settings(betas=(0.9, 0.98)), options.batch)
    history = train(stepper, options.steps, time.monotonic() + 3600)
    recipe.eval()
    with torch.no_grad():
        distance = recipe.distance()
    unseen = load(validation_pictures(options.work), device)
    work.log(
        f"text tower: {history.seconds:.0f} s, loss {history.losses[-1][1]}, prompts' cosine"
        f" {1 - float(distance.mean()):.5f}, at least {1 - float(distance.max()):.5f};"
        f" {len(unseen.labels)} unseen pictures"
    )
    options.out.mkdir(parents=True, exist_ok=True)
    state = {name: each.cpu().contiguous() for name, each in recipe.text.state_dict().items()}
    save_text_tower(state, options.out / "captions-text.safetensors")


if __name__ == "__main__":
    main()
