"""`marc run`: one method over a stream, image by image, once per order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.progress import Progress

from marc.arrays import Arrays
from marc.cli import console
from marc.cli.run_summary import AS_STORED, show, summarise
from marc.cli.sources import IN_ORDER, check_seeds, describe, open_stream
from marc.core import Run, Step, order_name
from marc.errors import MarcError
from marc.folders import PREDICTIONS, Folder, read_result
from marc.loop import run as run_method
from marc.method_cards import AnyMethod
from marc.methods import METHODS, create_method
from marc.stream import Stream


def run(
    source: str = typer.Argument(help="A stream, for example arrays/FILE.npz."),
    method: str = typer.Option("marc", help="A name that `marc list methods` shows."),
    space: str | None = typer.Option(None, help="Retrieval space; needed if there are several."),
    capacity: int | None = typer.Option(None, help="Items per pseudo-class, K (16 in marc)."),
    weight: str | None = typer.Option(
        None, help="Weight of the evidence, w (10 in marc), or auto: learned without labels."
    ),
    policy: str | None = typer.Option(None, help="Admission policy (entropy in marc)."),
    views: int = typer.Option(0, help="Use the first M stored views; 0 uses all."),
    seed: list[int] = typer.Option([0, 1, 2], help="Stream orders: --seed 0 1 2."),
    in_order: bool = IN_ORDER,
    option: list[str] = typer.Option(
        [], "--set", help="Any other setting of the method: --set gamma=1.0."
    ),
    output: str = typer.Option("", "-o", "--output", help="Folder of the result."),
    force: bool = typer.Option(False, "--force", help="Run again and replace the result."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be done, and stop."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Run a method over a stream, one image at a time, once per order.

    Example:  marc run arrays/photos.npz --space dinov2-b --capacity 16 --weight 10 --seed 0 1 2

    The weight learned on the way:  marc run arrays/photos.npz --space dinov2-b --weight auto
    """
    stream = open_stream(source, views)
    w = None if weight is None else number_or_text(weight)
    given = {"space": space, "capacity": capacity, "weight": w, "policy": policy}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    settings |= parse_settings(option)
    if method == "marc" and space is None:
        settings["space"] = only_space(stream)
    orders = check_seeds(seed, in_order=in_order)
    methods = {each: seeded(method, settings, each) for each in orders}
    config = protocol(source, stream, methods)
    path = Path(output or default_folder(config))
    if dry_run:
        foresee(path, stream, config)
        return
    folder = Folder(path, config, force=force)
    if not folder.done:
        finish(folder, stream, methods)
    _, metrics = read_result(path, "run")
    if json:
        console.as_json({"folder": str(path), "config": config, "metrics": metrics})
    else:
        show(path, config, metrics, was_done=folder.done)


def seeded(name: str, settings: dict[str, Any], seed: int | None) -> AnyMethod:
    """The method for one order: a reservoir draws from the seed that draws the order."""
    draws = name in METHODS and "seed" in METHODS[name].settings
    return create_method(name, **settings, **({"seed": seed or 0} if draws else {}))


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Settings from `name=value`; true, false and numbers are read as such."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise MarcError("a setting is written name=value", got=pair, hint="--set gamma=1.0")
        if name in ("space", "capacity", "weight", "policy", "seed"):
            raise MarcError(
                "this setting has an option of its own", got=pair, hint=f"--{name} {text}"
            )
        settings[name] = {"true": True, "false": False}.get(text.lower(), number_or_text(text))
    return settings


def number_or_text(text: str) -> int | float | str:
    """The text as a number where it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def only_space(stream: Stream) -> str:
    """The stream's space if there is no choice to make."""
    if len(stream.spaces) == 1:
        return stream.spaces[0]
    raise MarcError(
        "the stream has several spaces, and the choice decides the result",
        got="no --space",
        allowed=", ".join([*stream.spaces, "predictor"]),
        hint="marc select SOURCE to choose without labels, then --space NAME",
    )


def default_folder(config: dict[str, Any]) -> str:
    """A name that says what is inside: the settings that are not the usual ones are named."""
    settings = dict(config["method"])
    name = settings.pop("method")
    parts = [config["stream"], f"m{config['n_views']}", name]
    if "space" in settings:
        parts += [settings.pop("space")]
        capacity, weight = settings.pop("capacity"), settings.pop("weight")
        parts += [f"k{capacity}", f"w{weight if weight == 'auto' else format(weight, 'g')}"]
    usual = METHODS[name].settings
    parts += [f"{key}-{value}" for key, value in settings.items() if value != usual[key]]
    if config["seeds"] == [None]:
        parts += ["in-order"]
    elif config["seeds"] != [0, 1, 2]:
        parts += ["seeds", *map(str, config["seeds"])]
    return "runs/" + "-".join(parts).replace("/", "_")


def protocol(source: str, stream: Stream, methods: dict[int | None, AnyMethod]) -> dict[str, Any]:
    """Everything that decides the result, as data."""
    first = next(iter(methods.values())).config()
    if "space" in first:
        stream.features.keys(first["space"])  # refuse a wrong name before anything is written
    return {
        **describe("run", source, stream),
        "method": {name: value for name, value in first.items() if name != "seed"},
        "seeds": list(methods),
        "selection": "fixed",
        "transductive": "+" in first.get("space", ""),
    }


def foresee(path: Path, stream: Stream, config: dict[str, Any]) -> None:
    """What a run would do, and how much memory its memories may take."""
    console.say(f"{len(stream)} steps for each of {len(config['seeds'])} order(s), into {path}")
    if path.exists():
        console.say("that folder is there already: nothing is done again without --force")
    for part in Folder.parts_done(path):
        console.say(f"done already: {part}")
    method = config["method"]
    if method["method"] == "marc":
        floats = method["capacity"] * stream.features.dim(method["space"])
        floats += method["admission_capacity"] * stream.features.views.shape[2]
        size = 4 * stream.n_classes * floats / 2**20
        console.say(f"the memories hold at most {size:.1f} MiB of keys")


def finish(folder: Folder, stream: Stream, methods: dict[int | None, AnyMethod]) -> None:
    """Run the orders that are not done yet, then write the result."""
    parts: dict[int | None, Arrays] = {}
    with console.progress() as bar:
        for seed, method in methods.items():
            name = "order-stored" if seed is None else f"order-{seed}"
            done = folder.part(name)
            if done is None:
                done = by_row(with_bar(bar, method, stream.in_order(seed)))
                folder.keep_part(name, done)
            parts[seed] = done
    names = next(iter(parts.values()))
    arrays = {name: np.stack([part[name] for part in parts.values()]) for name in names}
    features = stream.features
    result = {
        "ids": np.array(features.ids),
        "seeds": np.array([AS_STORED if seed is None else seed for seed in parts]),
        "base_prediction": features.base.label,
        "class_names": np.array(features.class_names),
        **arrays,
    }
    if stream.row_labels is not None:
        result["label"] = stream.row_labels
    folder.finish(summarise(result), {PREDICTIONS: result})


def with_bar(bar: Progress, method: AnyMethod, stream: Stream) -> Run:
    """One order, with running accuracy and gain where labels are known."""
    task = bar.add_task(order_name(stream.seed), total=len(stream), note="")
    labels = stream.labels
    seen = right = base_right = 0

    def advance(step: Step) -> None:
        nonlocal seen, right, base_right
        if labels is not None:
            right += step.prediction == labels[seen]
            base_right += step.base_prediction == labels[seen]
        seen += 1
        if seen % 50 == 0:
            gain = console.points((right - base_right) / seen)
            note = "" if labels is None else f"{100 * right / seen:.1f} % ({gain})"
            bar.update(task, completed=seen, note=note)

    return run_method(method, stream, advance if not bar.disable else None)


def by_row(run: Run) -> dict[str, np.ndarray]:
    """A run's arrays by stored row instead of by position, so that runs can be paired."""
    place = np.argsort(run.order)
    return {
        "order": run.order,
        "prediction": run.predictions[place],
        "pseudo_label": run.trajectory.label[place],
        "priority": run.trajectory.priority[place],
        "weight": run.weights[place],
    }
