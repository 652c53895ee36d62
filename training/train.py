"""Train every encoder of the lab: one command that can be stopped and called again.

    python -m training.train --out trained

Renders what is not rendered yet, trains in order what is not trained yet, and saves after each
encoder. `--limit-seconds` ends a call in time; the next one goes on. Without a GPU it works, too,
but only for tests: a tiny --pictures, --views-millions and --batch.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from training import batch_statistics
from training.benchmark import benchmark
from training.catalogue import ENCODERS, Entry
from training.loop import (
    SEED,
    History,
    OutOfTimeError,
    Stepper,
    compile_parts,
    train,
)
from training.pictures import (
    VALIDATION_SEED,
    fingerprint,
    render_apart,
    training_pictures,
    validation_pictures,
)
from training.recipe import Recipe, kept_parameters
from training.training_set import TrainingSet, load
from training.validation import validate
from training.work_folder import WorkFolder

NOTHING_TRAINED = History(steps=0, seconds=0.0, views_per_second=0.0, losses=[])


@dataclass(frozen=True)
class Plan:
    """What all encoders have in common. An encoder made under another plan is made anew."""

    pictures: int
    views: int
    batch: int
    world: str
    """Fingerprint of the pictures."""
    seed: int = SEED
    validation_seed: int = VALIDATION_SEED

    @property
    def steps(self) -> int:
        """Each step takes one batch of views."""
        return self.views // self.batch


def main() -> int:
    """Train what is asked for; 0 when all of it is finished."""
    options = _options()
    work = WorkFolder(options.work)
    deadline = work.started + options.limit_seconds
    plan = Plan(options.pictures, round(options.views_millions * 1e6), options.batch, fingerprint())
    work.log(f"{plan}, torch {torch.__version__}")
    if not render_apart(options.work, options.pictures, deadline - time.monotonic()):
        work.log("not all pictures are rendered: call again")
        return 1
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    pictures = load(training_pictures(options.work, options.pictures), device)
    work.log(f"{len(pictures.labels)} pictures on {device.type}")
    if options.benchmark:
        how = {"batch": options.batch, "seconds": options.benchmark, "deadline": deadline}
        benchmark(options.only, pictures, work, **how)
        return 0
    unseen = load(validation_pictures(options.work), device)
    studio = Studio(work, plan, pictures, unseen, compiled=options.compile, deadline=deadline)
    for name in options.only:
        studio.provide(name)
        if options.out is not None:
            work.bundle(options.out)
    missing = [name for name in options.only if not studio.finished(name)]
    work.log(f"still to do: {' '.join(missing)}" if missing else "all finished")
    return 1 if missing else 0


@dataclass(frozen=True)
class Studio:
    """Where encoders are trained one after the other, on the same pictures."""

    work: WorkFolder
    plan: Plan
    pictures: TrainingSet
    unseen: TrainingSet
    compiled: bool
    deadline: float

    def finished(self, name: str) -> bool:
        """Whether the encoder is there, and was made under this very plan."""
        facts = self.work.record()["encoders"].get(name, {})
        return facts.get("plan") == asdict(self.plan) and self.work.weights(name).exists()

    def provide(self, name: str) -> None:
        """Train, measure and save one encoder unless it is there; log it when that fails."""
        if self.finished(name):
            self.work.log(f"{name}: finished before")
            return
        try:
            self._check_time(ENCODERS[name])
            recipe, history = self._trained(ENCODERS[name])
        except OutOfTimeError:
            self.work.log(f"{name}: would not fit in the time that is left")
            return
        except Exception:
            self.work.log(f"{name}: failed\n{traceback.format_exc()}")
            return
        facts = self._facts(ENCODERS[name], recipe, history)
        self.work.save(name, kept_parameters(recipe), facts)
        told = ("parameters", "seconds", "views_per_second", "final_loss", "validation")
        self.work.log(f"{name}: " + ", ".join(f"{key} {facts[key]}" for key in told))

    def _check_time(self, entry: Entry) -> None:
        """Do not even start what would not fit at the best rate seen so far.

        What passes is looked at again when its own rate is known, some steps into its training.
        """
        rates = [facts["views_per_second"] for facts in self.work.record()["encoders"].values()]
        needed = self.plan.views / max(rates) if entry.trained and any(rates) else 0.0
        if time.monotonic() + needed > self.deadline:
            raise OutOfTimeError

    def _trained(self, entry: Entry) -> tuple[Recipe, History]:
        """A recipe after training, ready to be measured and saved."""
        recipe, history = self._fresh(entry), NOTHING_TRAINED
        if entry.trained:
            stepper = self._stepper(entry)
            history = train(stepper, self.plan.steps, self.deadline)
            # Compiled parts stay behind: they would be compiled anew for every other shape.
            recipe.load_state_dict(stepper.recipe.state_dict())
        if entry.measured:
            batch_statistics.measure(recipe.encoder, self.pictures)
        return recipe, history

    def _stepper(self, entry: Entry) -> Stepper:
        """The step of a fresh recipe; where compilation fails, without it."""
        if self.compiled:
            recipe = self._fresh(entry)
            try:
                compile_parts(recipe)
                return Stepper(recipe, self.pictures, entry.settings, self.plan.batch)
            except Exception as error:
                self.work.log(f"compilation failed, going on without: {error!r:.500}")
        return Stepper(self._fresh(entry), self.pictures, entry.settings, self.plan.batch)

    def _fresh(self, entry: Entry) -> Recipe:
        return entry.make().to(self.pictures.device, memory_format=torch.channels_last)

    def _facts(self, entry: Entry, recipe: Recipe, history: History) -> dict[str, Any]:
        """What the record says about an encoder."""
        return {
            "objective": entry.objective,
            "body": entry.body,
            "parameters": count_parameters(recipe.encoder),
            "dimension": recipe.encoder.dimension,
            "plan": asdict(self.plan),
            "settings": asdict(entry.settings),
            "views": history.steps * self.plan.batch,
            "steps": history.steps,
            "seconds": round(history.seconds, 1),
            "views_per_second": round(history.views_per_second),
            "final_loss": history.losses[-1][1] if history.losses else None,
            "losses": history.losses,
            "validation": validate(recipe, self.unseen),
        }


def count_parameters(module: nn.Module) -> int:
    """How many numbers were learned, batch statistics not counted."""
    return sum(parameter.numel() for parameter in module.parameters())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the encoders of the lab.")
    names = list(ENCODERS)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--work", type=Path, default=Path("training/work"))
    parser.add_argument("--out", type=Path, help="folder for record, log and archives of weights")
    parser.add_argument("--pictures", type=int, default=240_000, help="even: clips have two frames")
    parser.add_argument("--views-millions", type=float, default=11.0, help="budget of each encoder")
    parser.add_argument("--batch", type=int, default=1024, help="views in a step")
    parser.add_argument("--limit-seconds", type=float, default=float("inf"))
    parser.add_argument("--compile", action="store_true", help="fuse what is memory-bound")
    parser.add_argument("--benchmark", type=float, metavar="SECONDS", help="only measure rates")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
