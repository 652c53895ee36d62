"""`marc sweep`: every space, capacity, weight and order of a stream."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import typer

from marc.admission import POLICIES
from marc.cli import console
from marc.cli._options import check_spaces, choose_orders, open_stream, read_large
from marc.cli._ray import RAY, read_workers
from marc.cli._tracking import TRACK, log_to, open_tracker
from marc.replay.sweep import Score, Sweep
from marc.replay.sweep_job import SweepJob
from marc.results.folder import Folder, Stored
from marc.results.sweep import SweepPlan, load_sweep
from marc.types import CAPACITIES, WEIGHTS

_GRID = 1  # the index of the oracle over the grid among the scores of a space


def sweep(
    source: str = typer.Argument(help="A labelled stream, for example arrays/FILE.npz."),
    space: list[str] = typer.Option([], help="Spaces; all stored ones by default."),
    capacity: list[int] = typer.Option(list(CAPACITIES), help="Capacities, ascending."),
    weight: list[float] = typer.Option(list(WEIGHTS), help="Grid of weights, ascending."),
    seed: list[int] = typer.Option([], help="Stream orders (0 1 2)."),
    order: str = typer.Option(
        "shuffled", help="Kind of the orders, KIND[:option=value,...]: sorted, dirichlet:gamma=0.1."
    ),
    in_order: bool = typer.Option(
        False, "--in-order", help="The stored order alone, instead of --seed."
    ),
    policy: str = typer.Option("entropy", help="Admission policy."),
    device: str = typer.Option("cpu", help="cpu, cuda, cuda:N; auto: a GPU where there is one."),
    views: int = typer.Option(0, help="The first M views, 0: all; the lab draws as many as asked."),
    held_out: list[str] = typer.Option(
        [], "--held-out", help="Sweep folders of other streams on which to choose K and w."
    ),
    ray: str | None = RAY,
    track: str | None = TRACK,
    output: str = typer.Option("", "-o", "--output", help="Folder of the result."),
    force: bool = typer.Option(False, "--force", help="Sweep again and replace the result."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be done, and stop."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Score every space x capacity x weight x order, exactly as if each had been run online.

    Example:  marc sweep arrays/photos.npz --space dinov2-b clip-b16 --seed 0 1 2

    Classes that come together:  marc sweep arrays/photos.npz --order dirichlet:gamma=0.1

    On the machines of a Ray cluster:  RAY_ADDRESS=HOST:6379 marc sweep store/photos --ray

    K and w chosen elsewhere:  marc sweep arrays/photos.npz --held-out sweeps/other -o sweeps/photos
    """
    n_workers = read_workers(ray, dry_run=dry_run)
    tracker = open_tracker(track, dry_run=dry_run)
    stream, orders = choose_orders(open_stream(source, views), order, seed, in_order=in_order)
    job = SweepJob.plan(stream, capacity, weight, orders, POLICIES.resolve(policy), device)
    plan = SweepPlan(job, check_spaces(stream, space), n_workers)
    config = plan.config()
    sources = [load_sweep(path) for path in held_out]
    if sources:
        images = stream.features.images
        Sweep.check_sources(sources, images, job.capacities, job.weights, config["spaces"])
    path = Path(output or plan.default_folder())
    if dry_run:
        _show_estimate(path, job, config)
        return
    folder = Folder.open(path, config, force=force)
    if not folder.done:
        read_large(stream, config["spaces"])
        with console.progress() as bar:
            plan.write(folder, bar.report)
    stored = Stored.read(path, "sweep")
    result, metrics = load_sweep(stored), stored.metrics
    scores = _summarise(result, sources)
    oracles = metrics["envelope"]
    intervals = {name: row["gain_interval"] for name, row in oracles["spaces"].items()}
    if json:
        rows = {name: [_as_data(score) for score in row] for name, row in scores.items()}
        for name, ends in intervals.items():
            rows[name][_GRID]["gain_interval"] = ends
        data = {"config": config, "metrics": metrics, "scores": rows}
        data |= log_to(tracker, path, json=True)
        console.as_json("sweep", {"folder": str(path), **data})
    else:
        _show(result, scores, intervals, config)
        for note in _notes(scores, config, oracles["n_replicates"]):
            console.say(note)
        console.done(path, was_there=folder.done)
        log_to(tracker, path, json=False)


def _show_estimate(path: Path, job: SweepJob, config: dict[str, Any]) -> None:
    """What a sweep would do, and the arithmetic it takes at most."""
    stream = job.stream
    spaces, size = config["spaces"], len(stream)
    cells = len(config["capacities"]) * len(config["weights"]) * len(config["seeds"])
    console.say(f"{len(spaces)} space(s) x {cells} settings over {size} images, into {path}")
    if path.exists():
        console.say("that folder is there already: nothing is done again without --force")
    done = Folder.parts_done(path)
    for number, space in enumerate(spaces):
        work = 2e-9 * size * size * stream.features.dim(space)
        n_done = sum(part.startswith(f"space-{number}-") for part in done)
        kept = f", {console.count(n_done, 'piece')} of it done already" if n_done else ""
        console.say(f"  {space}: at most {work:.1f} billion operations{kept}")


def _summarise(sweep: Sweep, sources: list[Sweep]) -> dict[str, list[Score]]:
    """For each space: the paper's fixed setting, the oracles, and what was chosen elsewhere."""
    capacity = min(sweep.capacities, key=lambda k: (abs(k - 16), k))
    weight = min(sweep.weights, key=lambda w: (abs(w - 10), w))
    scores = {}
    for space in sweep.spaces:
        scores[space] = [
            sweep.fixed(space, capacity, weight),
            sweep.oracle(space),
            sweep.oracle(space, over="all"),
        ]
        if sources:
            scores[space].append(sweep.held_out(space, sources))
    return scores


def _as_data(score: Score) -> dict[str, Any]:
    spread = score.spread
    return {
        "selection": score.selection,
        "space": score.space,
        "capacity": score.capacity,
        "weights": list(score.weights),
        "accuracy": score.accuracy,
        "base_accuracy": float(np.mean(score.base_accuracies)),
        "gain": score.gain,
        "gain_sd": None if math.isnan(spread) else spread,
        "gain_interval": None,  # over images; of the oracle over the grid alone
        "chosen_on": score.chosen_on,
    }


def _show(
    sweep: Sweep,
    scores: dict[str, list[Score]],
    intervals: dict[str, list[float]],
    config: dict[str, Any],
) -> None:
    base = console.percent(float(sweep.base_accuracy.mean()))
    console.say(
        f"{config['stream']}: {config['n_images']} images, {config['n_classes']} classes, "
        f"{config['n_views']} view(s), {len(sweep.seeds)} order(s); no memory {base} %"
    )
    if sweep.ordering != "shuffled":
        console.say(f"orders: {sweep.ordering}")
    fixed, *_, last = next(iter(scores.values()))
    # one interval more, or two columns of held-out scores: both are too wide for a terminal
    is_held_out = last.selection == "held_out"
    columns = [
        "space",
        f"fixed K={fixed.capacity} w={fixed.weights[0]:g}",
        "oracle, grid",
        *([] if is_held_out else ["95 % interval"]),
        "at K, w",
        "oracle, all w",
        *(["held-out", "at K, w"] if is_held_out else []),
    ]
    rows = []
    for space, row in sorted(scores.items(), key=lambda pair: -pair[1][_GRID].gain):
        cells = [space, _gain(row[0]), _gain(row[1]), _setting(row[1]), _gain(row[2])]
        if is_held_out:
            cells += [_gain(row[3]), _setting(row[3])]
        else:
            cells.insert(3, console.interval(intervals[space]))
        rows.append(cells)
    console.say("gain in points over no memory, mean (sd over orders)")
    console.table(columns, rows)


def _notes(scores: dict[str, list[Score]], config: dict[str, Any], n_draws: int) -> list[str]:
    notes = []
    if any("/" in _setting(score) for row in scores.values() for score in row):
        notes.append("several w: an oracle chooses one for each order")
    *_, last = next(iter(scores.values()))
    if last.selection == "held_out":
        notes.append(f"held-out: K and w chosen on {last.chosen_on}")
    else:
        notes.append(
            f"95 % interval of the oracle at that K over images: {n_draws:,} draws of them,\n"
            "w chosen again in each"
        )
    if config["transductive"]:
        notes.append(f"transductive spaces: {', '.join(config['transductive'])}")
    return notes


def _gain(score: Score) -> str:
    spread = "" if math.isnan(score.spread) else f" ({100 * score.spread:.2f})"
    return console.points(score.gain) + spread


def _setting(score: Score) -> str:
    weights = "/".join(f"{weight:.3g}" for weight in dict.fromkeys(score.weights))
    return f"{score.capacity}, {weights}"
