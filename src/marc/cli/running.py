"""One run from its settings to its folder: what `marc run` does for each method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from marc.cli import console
from marc.cli._options import describe
from marc.cli.run_summary import AS_STORED, summarise
from marc.errors import MarcError
from marc.loop import iter_steps
from marc.loop import run as run_method
from marc.peers.registry import METHODS, create_method
from marc.peers.weight_search import WeightSearch
from marc.results.files import Arrays
from marc.results.folder import PREDICTIONS, Folder
from marc.stream import Stream
from marc.types import AnyMethod, Checking, Run, Step, order_name

_WARM = 4
"""Images that a method answers before its time is taken."""


@dataclass(frozen=True)
class Wanted:
    """One method over one stream in some orders."""

    source: str
    stream: Stream
    orders: list[int | None]
    name: str
    settings: dict[str, Any]
    published: str | None = None
    oracle: bool = False
    """Choose the weights that the authors chose on labels, on the labels of this stream."""

    def method(self, seed: int | None) -> AnyMethod:
        """The method for one order: a reservoir draws from the seed that draws the order."""
        draws = self.name in METHODS and "seed" in METHODS[self.name].settings
        drawn: dict[str, Any] = {"seed": seed or 0} if draws else {}
        return create_method(self.name, published=self.published, **self.settings, **drawn)

    def protocol(self) -> dict[str, Any]:
        """Everything that decides the result, as data."""
        method = self.method(self.orders[0])
        config = method.config()
        if self.oracle:
            self._refuse_oracle()
        if isinstance(method, Checking):
            method.check(self.stream)
        if "space" in config:
            self.stream.features.keys(config["space"])  # refuse a wrong name before writing
        return {
            **describe("run", self.source, self.stream),
            "method": {name: value for name, value in config.items() if name != "seed"},
            "seeds": self.orders,
            "selection": "oracle" if self.oracle else "fixed",
            "transductive": "+" in config.get("space", "") or METHODS[self.name].sees == "stream",
            **({"published": self.published} if self.published else {}),
        }

    def _refuse_oracle(self) -> None:
        if self.stream.row_labels is None:
            raise MarcError(
                "an oracle needs labels, and this stream has none",
                got=self.source,
                hint="leave --oracle out, or add labels to the source",
            )
        if not METHODS[self.name].searched:
            known = [name for name in METHODS.own if METHODS[name].searched]
            raise MarcError(
                f"{self.name} has no weights that were chosen on labels",
                got="--oracle",
                allowed=", ".join(known) or "no method",
                hint=f"--method {known[0]} --oracle" if known else None,
            )


def default_folder(config: dict[str, Any]) -> str:
    """A name that says what is inside: the settings that are not the usual ones are named."""
    settings = dict(config["method"])
    name = settings.pop("method")
    usual = METHODS[name].settings
    parts = [config["stream"], f"m{config['n_views']}", name]
    if name == "marc":
        parts += [settings.pop("space")]
        capacity, weight = settings.pop("capacity"), settings.pop("weight")
        parts += [f"k{capacity}", f"w{weight if weight == 'auto' else format(weight, 'g')}"]
    parts += [f"{key}-{value}" for key, value in settings.items() if value != usual[key]]
    if config["selection"] == "oracle":
        parts += ["oracle"]
    if config["seeds"] == [None]:
        parts += ["in-order"]
    elif config["seeds"] != [0, 1, 2]:
        parts += ["seeds", *map(str, config["seeds"])]
    return "runs/" + "-".join(parts).replace("/", "_")


def execute(wanted: Wanted, path: Path, *, force: bool) -> bool:
    """Run the orders that are not done yet, then write the result; True if it was there already."""
    config = wanted.protocol()
    if Folder(path, config, force=force, begin=False).done:
        return True
    warm_up(wanted)  # a method that refuses these features does so before anything is written
    folder = Folder(path, config, force=force)
    parts: list[Arrays] = []
    with console.progress() as bar:
        for seed in wanted.orders:
            name = "order-stored" if seed is None else f"order-{seed}"
            done = folder.part(name)
            if done is None or "seconds" not in done:  # as parts of older versions are
                done = _by_row(*_answer(wanted, bar, seed))
                folder.keep_part(name, done)
            parts.append(done)
    folder.finish(*_result(wanted, parts))
    return False


def _result(
    wanted: Wanted, parts: list[Arrays]
) -> tuple[dict[str, Any], dict[str, Arrays], dict[str, Any]]:
    """The metrics, the files and the time of a finished run."""
    arrays = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    seconds = arrays.pop("seconds")
    features = wanted.stream.features
    result = {
        **arrays,
        "ids": np.array(features.ids),
        "seeds": np.array([AS_STORED if seed is None else seed for seed in wanted.orders]),
        "base_prediction": arrays["base_prediction"][0],  # of the image alone, in every order
        "class_names": np.array(features.class_names),
    }
    if wanted.stream.row_labels is not None:
        result["label"] = wanted.stream.row_labels
    metrics = summarise(result)
    if wanted.oracle:
        names = METHODS[wanted.name].searched
        chosen = [dict(zip(names, row, strict=True)) for row in result["chosen"].tolist()]
        metrics |= {"selection": "oracle", "chosen": chosen}
    speed = float(seconds.size * len(features.ids) / seconds.sum())
    # a search over many weights is no method's time
    timing = {} if wanted.oracle else {"seconds": seconds.tolist(), "images_per_second": speed}
    return metrics, {PREDICTIONS: result}, timing


def _answer(
    wanted: Wanted, bar: Progress, seed: int | None
) -> tuple[Run, dict[str, float], np.ndarray]:
    """One order: the run, the weights that an oracle chose, and the answers."""
    stream = wanted.stream.in_order(seed)
    search = None
    if wanted.oracle:
        search = WeightSearch(METHODS[wanted.name].searched, len(stream))
    run = _with_bar(bar, wanted.method(seed), stream, search)
    if search is None or stream.labels is None:
        return run, {}, run.predictions
    return run, *search.best(stream.labels)


def warm_up(wanted: Wanted) -> None:
    """Answer the first images and forget them: libraries load and compile at their first use.

    A few images need not be enough for a method that answers many together; that is no refusal.
    """
    few = replace(wanted.stream, order=wanted.stream.order[:_WARM])
    try:
        for _ in iter_steps(wanted.method(wanted.orders[0]), few):
            pass
    except MarcError:
        if METHODS[wanted.name].sees == "image":
            raise


def _with_bar(
    bar: Progress, method: AnyMethod, stream: Stream, search: WeightSearch | None = None
) -> Run:
    """One order, with running accuracy and gain where labels are known."""
    task = bar.add_task(f"{method.name} {order_name(stream.seed)}", total=len(stream), note="")
    labels = stream.labels
    seen = right = base_right = 0

    def advance(step: Step) -> None:
        nonlocal seen, right, base_right
        if search is not None:
            search.take(step)
        if labels is not None:
            right += step.prediction == labels[seen]
            base_right += step.base_prediction == labels[seen]
        seen += 1
        if seen % 50 == 0:
            gain = console.points((right - base_right) / seen)
            note = "" if labels is None else f"{100 * right / seen:.1f} % ({gain})"
            bar.update(task, completed=seen, note=note)

    run = run_method(method, stream, advance if search or not bar.disable else None)
    bar.update(task, visible=False)
    return run


def _by_row(run: Run, chosen: dict[str, float], predictions: np.ndarray) -> dict[str, np.ndarray]:
    """A run's arrays by stored row instead of by position, so that runs can be paired."""
    place = np.argsort(run.order)
    return {
        "order": run.order,
        "prediction": predictions[place],
        "base_prediction": run.base_predictions[place],
        "pseudo_label": run.trajectory.label[place],
        "priority": run.trajectory.priority[place],
        "weight": run.weights[place],
        "seconds": np.array(run.seconds),
        **({"chosen": np.array(list(chosen.values()))} if chosen else {}),
    }
