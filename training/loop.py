"""The training loop, the same for every recipe: AdamW, a warm-up, then half a cosine.

On a GPU one whole step (views, networks, gradients, optimiser) is recorded once and replayed, so
that the host only says "again": the networks are so small that launching their kernels one by one
would take longer than running them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from marc_lab.networks.convolutional import Convolutional
from marc_lab.networks.transformer import Trunk
from training.augment import Augmentation
from training.recipe import Recipe
from training.training_set import Batch, ShuffledRows, TrainingSet

SEED = 0
WARM_UP = 300
REPORT_EVERY = 200
REHEARSALS = 3
"""Steps before the recording, in which libraries choose their kernels and allocate."""


@dataclass(frozen=True)
class Settings:
    """How the optimiser is set for a body."""

    learning_rate: float = 1.5e-3
    weight_decay: float = 0.02
    clip: float | None = None
    """Largest norm of a gradient."""
    betas: tuple[float, float] = (0.9, 0.999)


@dataclass(frozen=True)
class History:
    """What a training was."""

    steps: int
    seconds: float
    views_per_second: float
    losses: list[tuple[int, float]]
    """Step, and the mean loss since the step before."""


class OutOfTimeError(Exception):
    """At the measured rate the training would not end before the deadline."""


class Stepper:
    """One training step, ready to be repeated."""

    def __init__(
        self, recipe: Recipe, training_set: TrainingSet, settings: Settings, batch: int
    ) -> None:
        self.recipe, self.training_set, self.settings = recipe, training_set, settings
        device = training_set.device
        n_rows = batch // recipe.views_per_row
        self.order = ShuffledRows(recipe.rows(training_set.labels), n_rows, SEED)
        # What changes from step to step lives in tensors at fixed places: a recording reads those.
        self.rows = torch.zeros(n_rows, dtype=torch.int64, device=device)
        self.learning_rate = torch.zeros((), device=device)
        self.loss_sum = torch.zeros((), device=device)
        self.optimiser = _optimiser(recipe, settings, self.learning_rate)
        recipe.train()
        self.rows.copy_(self.order.draw())
        self.repeat = self._recorded() if device.type == "cuda" else self._step

    def __call__(self, learning_rate: float) -> None:
        """Train on the next rows."""
        self.learning_rate.fill_(learning_rate)
        self.rows.copy_(self.order.draw())
        self.repeat()

    def mean_loss(self, steps: int) -> Tensor:
        """The mean over the last `steps` steps, still on the device; counting starts anew."""
        mean = self.loss_sum / steps
        self.loss_sum.zero_()
        return mean

    def _step(self) -> None:
        self.optimiser.zero_grad()
        kind = self.training_set.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=kind == "cuda"):
            loss = self.recipe.loss(Batch(self.training_set, self.rows))
        loss.backward()
        if self.settings.clip is not None:
            clip_grad_norm_(self.recipe.parameters(), self.settings.clip, foreach=True)
        self.optimiser.step()
        self.loss_sum += loss.detach()

    def _recorded(self) -> Callable[[], None]:
        """The step as a CUDA graph. Rehearsals train nothing: their learning rate is 0."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(REHEARSALS):
                self._step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self.loss_sum.zero_()
        return graph.replay


def train(stepper: Stepper, steps: int, deadline: float) -> History:
    """Run all steps, or give up early when they would not end before the deadline."""
    started, losses = time.monotonic(), []
    views_per_step = len(stepper.rows) * stepper.recipe.views_per_row
    reported = 0
    for step in range(steps):
        stepper(stepper.settings.learning_rate * schedule(step, steps))
        if (step + 1) % REPORT_EVERY == 0 or step + 1 == steps:
            losses.append((step + 1, stepper.mean_loss(step + 1 - reported)))
            reported = step + 1
        if step + 1 == REPORT_EVERY:
            _finite(losses[0][1])  # waits for the device: until here it only took orders
            if started + (time.monotonic() - started) * steps / (step + 1) > deadline:
                raise OutOfTimeError
    values = [(step, round(_finite(loss), 4)) for step, loss in losses]
    seconds = time.monotonic() - started
    return History(steps, seconds, steps * views_per_step / seconds, values)


def schedule(step: int, steps: int) -> float:
    """The part of the learning rate used at a step: up in a line, down in half a cosine."""
    warm_up = min(WARM_UP, max(steps // 10, 1))
    return min(1.0, (step + 1) / warm_up) * (1 + math.cos(math.pi * step / steps)) / 2


def compile_parts(recipe: Recipe) -> None:
    """Have the memory-bound parts fused; what is compiled for one recipe serves the next."""
    torch.compiler.reset()
    for part in recipe.modules():
        if isinstance(part, Augmentation | Convolutional | Trunk):
            # Random numbers as without compilation, and none that a recording would freeze.
            part.compile(dynamic=False, options={"fallback_random": True})


def _finite(loss: Tensor) -> float:
    value = float(loss)
    if not math.isfinite(value):
        raise ValueError(f"the training came apart: its loss is {value}")
    return value


def _optimiser(recipe: Recipe, settings: Settings, learning_rate: Tensor) -> torch.optim.AdamW:
    """Weights decay; norms, biases and single numbers do not."""
    weights = [p for p in recipe.parameters() if p.ndim > 1]
    others = [p for p in recipe.parameters() if p.ndim <= 1]
    groups = [
        {"params": weights, "lr": learning_rate, "weight_decay": settings.weight_decay},
        {"params": others, "lr": learning_rate, "weight_decay": 0.0},
    ]
    on_gpu = learning_rate.device.type == "cuda"
    return torch.optim.AdamW(
        groups, lr=learning_rate, betas=settings.betas, fused=True, capturable=on_gpu
    )
