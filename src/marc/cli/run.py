"""`marc run`: one method, or all of them, over a stream, image by image, once per order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import typer

from marc.admission import POLICIES
from marc.cli import console
from marc.cli._label_order import chance_notes
from marc.cli._options import DEVICE, OFFLINE, WEIGHTS, choose_orders, open_stream, read_large
from marc.cli._settings import number_or_text, refuse_options
from marc.cli._tracking import TRACK, log_to, open_tracker
from marc.cli.compare import show_calibration, show_runs
from marc.errors import MarcError
from marc.peers.registry import METHODS, refuse_absent
from marc.results.all_methods import AllMethods
from marc.results.compare import compare
from marc.results.folder import Folder, Stored
from marc.results.run import RunPlan, named_spaces
from marc.results.tracking import Tracker
from marc.stream import Stream
from marc.stream.transforms import resolve
from marc.types import Step, order_name

_WORDS = {"true": True, "false": False, "none": None}


def run(
    source: str = typer.Argument(help="A stream, for example arrays/FILE.npz."),
    method: str | None = typer.Option(
        None,
        help="A name of `marc list methods`, package.module:Name, or all. Without it class-means, "
        "or marc where one of its settings is given.",
    ),
    space: list[str] = typer.Option(
        [], help="Retrieval spaces: --space a b c. Without it class-means reads all."
    ),
    capacity: int | None = typer.Option(
        None, help="Of marc: items per pseudo-class, K (16); with --method all of it alone."
    ),
    weight: str | None = typer.Option(
        None, help="Of marc: weight of the evidence, w (10), or auto, learned without labels."
    ),
    policy: str | None = typer.Option(None, help="Of marc: admission policy (entropy)."),
    views: int = typer.Option(0, help="The first M views, 0: all; the lab draws as many as asked."),
    seed: list[int] = typer.Option(
        [], help="Stream orders (0 1 2); without labels the stored order, if none is given."
    ),
    order: str = typer.Option(
        "shuffled", help="Kind of the orders, KIND[:option=value,...]: sorted, dirichlet:gamma=0.1."
    ),
    in_order: bool = typer.Option(
        False, "--in-order", help="The stored order alone, instead of --seed."
    ),
    option: list[str] = typer.Option(
        [], "--set", help="Any other setting: --set gamma=1.0, or of one method: tda.alpha=1."
    ),
    published: str | None = typer.Option(
        None, help="Settings that were published for a data set, for example imagenet-a."
    ),
    oracle: bool = typer.Option(
        False, "--oracle", help="Choose the weights that the authors chose on labels, on labels."
    ),
    weights: list[str] = WEIGHTS,
    offline: bool = OFFLINE,
    device: str = DEVICE,
    track: str | None = TRACK,
    output: str = typer.Option("", "-o", "--output", help="Folder of the result."),
    force: bool = typer.Option(False, "--force", help="Run again and replace the result."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be done, and stop."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Run a method over a stream, one image at a time, once per order.

    Example:  marc run arrays/photos.npz

    Only these spaces:  marc run arrays/photos.npz --space dinov2-b clip-b16 --seed 0 1 2

    The paper's system:  marc run arrays/photos.npz --method marc --space dinov2-b

    Every method on the same images:  marc run arrays/photos.npz --method all --space dinov2-b

    Classes that come together:  marc run arrays/photos.npz --order dirichlet:gamma=0.1

    In the predictor's own networks:  marc run store/photos --method tpt --weights models
    """
    tracker = open_tracker(track, dry_run=dry_run)
    stream = open_stream(source, views, weights=weights, offline=offline, device=device)
    stream, orders = choose_orders(stream, order, seed, in_order=in_order)
    w = None if weight is None else number_or_text(weight)
    spaces = [resolve(each) for each in space]
    policy = None if policy is None else POLICIES.resolve(policy)
    given = {"capacity": capacity, "weight": w, "policy": policy}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if method == "all":
        more = _parse_settings(option)
        every = AllMethods(stream, orders, {**settings, "spaces": spaces}, more, published)
        if oracle:
            raise MarcError(
                "--oracle is of one method", got="--method all", hint="--method cosmic --oracle"
            )
        kind = "" if stream.ordering.kind == "shuffled" else f"-{stream.ordering.file_name}"
        name = f"{stream.name}-m{stream.n_views}-all{kind}".replace("/", "_")
        path = Path(output or f"runs/{name}")
        _run_all(every, path, tracker, force=force, dry_run=dry_run, json=json)
        return
    # class means have no settings: who gives one means the paper's system
    method = method or ("marc" if settings or option else "class-means")
    refuse_absent(method)
    method = METHODS.resolve(method)
    card = METHODS[method]
    refuse_options({"space": " ".join(space), **settings}, card)
    settings |= _parse_settings(option, of=method)
    if "space" in card.needs or (spaces and "spaces" not in card.settings):
        settings["space"] = RunPlan.only_space(stream, method, spaces)
    elif spaces:
        settings["spaces"] = spaces
    plan = RunPlan(stream, orders, method, settings, published, oracle)
    config = plan.config()
    path = Path(output or plan.default_folder(config))
    if dry_run:
        if json:
            would = {"config": config, "would_run": [method], "dry_run": True}
            console.as_json("run", {"folder": str(path), **would})
        else:
            _show_estimate(path, stream, config)
        return
    folder = Folder.open(path, config, force=force)
    if not folder.done:
        named = named_spaces(config["method"])
        read_large(stream, stream.spaces if named == ["all"] else named)
        with _watching() as watch:
            plan.write(folder, watch)
    stored = Stored.read(path, "run")
    if json:
        result = {"config": config, "metrics": stored.metrics, "timing": stored.timing}
        more = {"notes": _notes(stored), **log_to(tracker, path, json=True)}
        console.as_json("run", {"folder": str(path), **result, **more})
    else:
        _show(path, config, stored.metrics, was_done=folder.done)
        _tell(_notes(stored))
        log_to(tracker, path, json=False)


def _notes(stored: Stored) -> list[str]:
    """What a person should look at before they believe the numbers."""
    answers, labels = stored.arrays["base_prediction"], stored.arrays.get("label")
    names = stored.arrays["class_names"].tolist()
    return chance_notes(answers, labels, names, stored.config["source"])


def _tell(notes: list[str]) -> None:
    for note in notes:
        console.note(note)


def _parse_settings(pairs: list[str], of: str = "") -> dict[str, Any]:
    """Settings from `name=value`; true, false, none and numbers are read as such.

    They may name their method: `tda.alpha=1`; those `of` one method lose its name.
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.removeprefix(f"{of}." if of else "").partition("=")
        if not equals or not name:
            raise MarcError("a setting is written name=value", got=pair, hint="--set gamma=1.0")
        if name in ("space", "spaces", "capacity", "weight", "policy"):
            hint = f"--{name.removesuffix('s')} {text}" if of else f"--set METHOD.{pair}"
            raise MarcError("this setting has an option of its own", got=pair, hint=hint)
        if name in settings:
            raise MarcError("a setting is given twice", got=name, hint=f"--set {pair}")
        settings[name] = _WORDS.get(text.lower(), number_or_text(text))
    return settings


@contextmanager
def _watching() -> Iterator[RunPlan.Watch]:
    """A progress bar for each order, with running accuracy and gain where labels are known."""
    with console.progress() as bar:
        task = bar.add_task("", visible=False, note="")

        def watch(name: str, stream: Stream, done: int) -> Callable[[Step], None] | None:
            bar.reset(task, total=len(stream), visible=True, note="")
            order = order_name(stream.seed, stream.ordering.name)
            bar.update(task, description=f"{name} {order}")
            labels, seen, right, base_right = stream.labels, done, 0, 0

            def advance(step: Step) -> None:
                nonlocal seen, right, base_right
                if labels is not None:
                    right += step.prediction == labels[seen]
                    base_right += step.base_prediction == labels[seen]
                seen += 1
                if seen % 50 == 0:
                    new = seen - done
                    gain = console.points((right - base_right) / new)
                    note = "" if labels is None else f"{100 * right / new:.1f} % ({gain})"
                    bar.update(task, completed=seen, note=note)

            return None if bar.disable else advance

        yield watch


def _show_estimate(path: Path, stream: Stream, config: dict[str, Any]) -> None:
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


def _show(path: Path, config: dict[str, Any], metrics: dict[str, Any], *, was_done: bool) -> None:
    method = config["method"]
    spaces = named_spaces(method)
    listed = ", ".join(spaces) if len(spaces) <= 3 else f"{len(spaces)} spaces"
    name = f"{method['method']} {listed}".strip()
    head = f"{config['stream']}: {config['n_images']} images, {config['n_classes']} classes"
    console.say(f"{name} on {head}, {config['n_views']} view(s)")
    if "ordering" in config:
        console.say(f"orders: {config['ordering']}")
    if "orders" not in metrics:
        console.say(
            f"no labels: {_changed(metrics)} % of the answers differ from those without memory"
        )
        if "confidence" in metrics:
            means = (console.score(metrics[name]) for name in ("confidence", "base_confidence"))
            console.say("mean confidence {}, without memory {}".format(*means))
    else:
        _show_orders(config, metrics)
    if method.get("weight") == "auto":
        weights = ", ".join(f"{weight:.3g}" for weight in metrics["final_weight"])
        console.say(f"weight learned without labels; at the end of each order: {weights}")
    _show_spaces(metrics.get("final_space_weights", []))
    if any("+" in each for each in spaces):
        console.say("the space was transformed with statistics of the whole stream: transductive")
    elif config["transductive"]:
        console.say("the method sees the whole stream before it answers: transductive")
    console.done(path, was_there=was_done)


def _show_orders(config: dict[str, Any], metrics: dict[str, Any]) -> None:
    console.table(
        ["order", "no memory %", "accuracy %", "gain", "repairs", "regressions", "McNemar p"],
        [
            [
                order_name(row["seed"]),
                console.percent(row["base_accuracy"]),
                console.percent(row["accuracy"]),
                console.points(row["gain"]),
                str(row["repairs"]),
                str(row["regressions"]),
                console.p_value(row["mcnemar_log10_p"]),
            ]
            for row in metrics["orders"]
        ],
    )
    chosen = "weights chosen on these labels: oracle"
    method = config["method"]
    learns = method["method"] == "class-means" or method.get("weight") == "auto"
    fixed = "settings fixed, w learned" if learns else "settings fixed in advance"
    fixed += f", published for {config['published']}" if config.get("published") else ""
    console.say(
        f"gain {console.points(metrics['gain'])} points, 95 % over images "
        f"{console.interval(metrics['gain_interval'])}, "
        f"{chosen if 'chosen' in metrics else fixed}"
    )
    if (n_orders := len(metrics["orders"])) > 1:
        few = f"points in {console.worst(n_orders)}"
        console.say(f"gain {console.points(metrics['worst_tenth_gain'])} {few}")
    _show_calibration(metrics.get("calibration", {}))
    for row, weights in zip(metrics["orders"], metrics.get("chosen", []), strict=False):
        words = ", ".join(f"{name} {value:g}" for name, value in weights.items())
        console.say(f"chosen in the order {order_name(row['seed'])}: {words}")


def _show_spaces(orders: list[dict[str, float]]) -> None:
    """Which spaces were believed at the end, mean over orders; nothing where there is one."""
    if not orders:
        return
    weights = {space: fmean(order[space] for order in orders) for space in orders[0]}
    whole = sum(weights.values()) or 1.0
    rows = [
        [space, f"{weight:.3f}", f"{100 * weight / whole:.1f}"]
        for space, weight in sorted(weights.items(), key=lambda each: -each[1])
    ]
    console.say("w: how far a space is believed, learned without labels")
    console.table(["space", "weight, last tenth", "share %"], rows)


def _show_calibration(found: dict[str, Any]) -> None:
    """What the answers are worth as probabilities, where they are known."""
    if "ece" not in found:
        console.say("calibration not known: no probabilities of these answers were kept")
        return
    names = {"ece": f"ECE, {found['bins']} bins", "brier": "Brier score", "log_loss": "log-loss"}
    rows = [
        [
            title,
            console.score(found[f"base_{name}"]),
            console.score(found[name]),
            console.score_change(found["difference"][name], found["interval"].get(name)),
        ]
        for name, title in names.items()
    ]
    console.table(["less is better", "no memory", "memory", "difference, 95 % over images"], rows)


def _changed(metrics: dict[str, Any]) -> str:
    return ", ".join(console.percent(fraction) for fraction in metrics["changed"])


def _run_all(
    every: AllMethods,
    path: Path,
    tracker: Tracker | None,
    *,
    force: bool,
    dry_run: bool,
    json: bool,
) -> None:
    """Run what can be run, each into a folder of its own, and say why for the rest."""
    if (path / Folder.CONFIG).exists():
        raise MarcError(
            "this folder is one result, not a place for several", got=path, hint="-o ANOTHER"
        )
    every.check()
    refused = {name: reason for name in METHODS if (reason := every.refusal(name)) is not None}
    names = [name for name in METHODS if name not in refused]
    left_out = [f"left out: {name}: {reason}" for name, reason in refused.items()]
    if dry_run:
        if json:
            would = {"would_run": names, "left_out": refused, "dry_run": True}
            console.as_json("runs", {"folder": str(path), **would})
        else:
            size = f"{len(every.stream)} images in {len(every.orders)} order(s)"
            lines = [f"{size}, into {path}/", f"would run: {', '.join(names)}", *left_out]
            console.say("\n".join(lines))
        return
    with _watching() as watch:
        failed = every.write(path, names, watch, force=force)
    done = [path / name for name in names if name not in failed]
    labelled = every.stream.row_labels is not None
    comparison = compare(*done) if labelled and len(done) > 1 else None
    notes = _notes(Stored.read(done[0], "run")) if done else []
    if json:
        runs = {each.name: Stored.numbers(each, "run")[1] for each in done}
        result = {"folder": str(path), "runs": runs, "left_out": refused, "failed": failed}
        result["notes"] = notes
        if comparison is not None:
            result["comparison"] = {"reference": comparison.reference, "runs": comparison.runs}
        result |= log_to(tracker, *done, json=True)
        console.as_json("runs", result)
    else:
        if comparison is not None:
            show_runs(comparison)
            show_calibration(comparison)
        for each in [] if labelled else done:
            changed = _changed(Stored.numbers(each, "run")[1])
            console.say(f"{each.name}: {changed} % of its answers differ from those without memory")
        _show_shared(every, [each.name for each in done])
        again = f"; compare again: marc compare {path}/*" if labelled else ""
        console.done(path, more=again)
        for line in left_out:
            console.say(line)
        _tell(notes)
        log_to(tracker, *done, json=False)
    if failed:
        _refuse_failed(failed, len(names), json)


def _refuse_failed(failed: dict[str, str], n_methods: int, json: bool) -> None:
    if json:
        raise typer.Exit(2)  # the one object has the reasons
    reasons = "\n        ".join(f"{name}: {reason}" for name, reason in failed.items())
    raise MarcError(f"{len(failed)} of {n_methods} methods did not finish", got=reasons)


def _show_shared(every: AllMethods, names: list[str]) -> None:
    """Which methods took a setting that names none."""
    for key, value in every.settings.items():
        if "." not in key:
            takers = [name for name in names if name != "marc" and key in METHODS[name].settings]
            console.say(f"{key}={value} went to {', '.join(takers)}")
