"""`marc run`: one method over a stream, image by image, once per order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from marc.admission import POLICIES
from marc.cli import console
from marc.cli._options import IN_ORDER, check_seeds, open_stream
from marc.cli.run_all import EveryMethod, only_space, run_all
from marc.cli.run_summary import show
from marc.cli.running import Wanted, default_folder, execute
from marc.errors import MarcError
from marc.peers.registry import METHODS
from marc.results.folder import Folder, read_stored
from marc.stream import Stream
from marc.transforms import resolve


def run(
    source: str = typer.Argument(help="A stream, for example arrays/FILE.npz."),
    method: str = typer.Option(
        "marc", help="A name of `marc list methods`, package.module:Name, or all."
    ),
    space: str | None = typer.Option(None, help="Retrieval space; needed if there are several."),
    capacity: int | None = typer.Option(
        None, help="Items per pseudo-class, K (16 in marc); with --method all of marc alone."
    ),
    weight: str | None = typer.Option(
        None, help="Weight of the evidence, w (10 in marc), or auto: learned without labels."
    ),
    policy: str | None = typer.Option(None, help="Admission policy (entropy in marc)."),
    views: int = typer.Option(0, help="The first M views, 0: all; the lab draws as many as asked."),
    seed: list[int] = typer.Option([0, 1, 2], help="Stream orders: --seed 0 1 2."),
    in_order: bool = IN_ORDER,
    option: list[str] = typer.Option(
        [], "--set", help="Any other setting: --set gamma=1.0; of all methods also tda.alpha=1."
    ),
    published: str | None = typer.Option(
        None, help="Settings that were published for a data set, for example imagenet-a."
    ),
    oracle: bool = typer.Option(
        False, "--oracle", help="Choose the weights that the authors chose on labels, on labels."
    ),
    output: str = typer.Option("", "-o", "--output", help="Folder of the result."),
    force: bool = typer.Option(False, "--force", help="Run again and replace the result."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be done, and stop."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Run a method over a stream, one image at a time, once per order.

    Example:  marc run arrays/photos.npz --space dinov2-b --capacity 16 --weight 10 --seed 0 1 2

    The weight learned on the way:  marc run arrays/photos.npz --space dinov2-b --weight auto

    Every method on the same images:  marc run arrays/photos.npz --method all --space dinov2-b
    """
    stream = open_stream(source, views)
    w = None if weight is None else _number_or_text(weight)
    space = None if space is None else resolve(space)
    policy = None if policy is None else POLICIES.resolve(policy)
    given = {"space": space, "capacity": capacity, "weight": w, "policy": policy}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    orders = check_seeds(seed, in_order=in_order)
    if method == "all":
        chosen = _parse_settings(option, qualified=True)
        every = EveryMethod(source, stream, orders, settings, chosen, published)
        if oracle:
            raise MarcError(
                "--oracle is of one method", got="--method all", hint="--method cosmic --oracle"
            )
        run_all(
            every, Path(output or every.default_folder), force=force, dry_run=dry_run, json=json
        )
        return
    method = METHODS.resolve(method)
    if space is None and "space" in METHODS[method].needs:
        settings["space"] = only_space(stream)
    settings |= _parse_settings(option)
    wanted = Wanted(source, stream, orders, method, settings, published, oracle)
    config = wanted.protocol()
    path = Path(output or default_folder(config))
    if dry_run:
        if json:
            console.as_json({"folder": str(path), "config": config, "would_run": [method]})
        else:
            _foresee(path, stream, config)
        return
    was_done = execute(wanted, path, force=force)
    stored = read_stored(path, "run")
    metrics = stored.metrics
    if json:
        told = {"config": config, "metrics": metrics, "timing": stored.timing}
        console.as_json({"folder": str(path), **told})
    else:
        show(path, config, metrics, was_done=was_done)


def _parse_settings(pairs: list[str], *, qualified: bool = False) -> dict[str, Any]:
    """Settings from `name=value`; true, false and numbers are read as such.

    `qualified` ones may name their method: `tda.alpha=1`.
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise MarcError("a setting is written name=value", got=pair, hint="--set gamma=1.0")
        if name in ("space", "capacity", "weight", "policy", "seed"):
            hint = f"--set METHOD.{pair}" if qualified else f"--{name} {text}"
            raise MarcError("this setting has an option of its own", got=pair, hint=hint)
        if name in settings:
            raise MarcError("a setting is given twice", got=name, hint=f"--set {pair}")
        settings[name] = {"true": True, "false": False}.get(text.lower(), _number_or_text(text))
    return settings


def _number_or_text(text: str) -> int | float | str:
    """The text as a number where it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _foresee(path: Path, stream: Stream, config: dict[str, Any]) -> None:
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
