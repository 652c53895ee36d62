"""How many views each recipe takes in a second, plain and compiled."""

from __future__ import annotations

import time

import torch

from training.catalogue import ENCODERS
from training.loop import Stepper, compile_parts
from training.training_set import TrainingSet
from training.work_folder import WorkFolder

STEPS_AT_ONCE = 20


def benchmark(
    names: list[str],
    training_set: TrainingSet,
    work: WorkFolder,
    *,
    batch: int,
    seconds: float,
    deadline: float,
) -> None:
    """Run each recipe for some seconds each way and log its rate; a failure is logged, too."""
    for name in names:
        if not ENCODERS[name].trained or time.monotonic() > deadline:
            continue
        for compiled in (False, True):
            way = "compiled" if compiled else "plain"
            try:
                line = _measure(name, training_set, batch=batch, seconds=seconds, compiled=compiled)
            except Exception as error:
                line = f"failed: {error!r:.300}"
            work.log(f"{name:20s} {way:9s} {line}")


def _measure(
    name: str, training_set: TrainingSet, *, batch: int, seconds: float, compiled: bool
) -> str:
    entry, began = ENCODERS[name], time.monotonic()
    recipe = entry.make().to(training_set.device, memory_format=torch.channels_last)
    if compiled:
        compile_parts(recipe)
    stepper = Stepper(recipe, training_set, entry.settings, batch)
    stepper(0.0)
    float(stepper.mean_loss(1))
    ready, steps, loss = time.monotonic(), 0, 0.0
    while time.monotonic() < ready + seconds:
        for _ in range(STEPS_AT_ONCE):
            stepper(entry.settings.learning_rate)
        steps += STEPS_AT_ONCE
        loss = float(stepper.mean_loss(STEPS_AT_ONCE))  # waits for the device
    rate = steps * batch / (time.monotonic() - ready)
    return f"{rate:9.0f} views/s, ready after {ready - began:5.1f} s, loss {loss:.3f} at {steps}"
