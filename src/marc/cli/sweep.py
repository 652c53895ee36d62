"""`marc sweep`: every space, capacity, weight and order of a stream."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import typer

from marc.admission import POLICIES
from marc.cli import console
from marc.cli._options import IN_ORDER, check_seeds, describe, open_stream
from marc.errors import MarcError
from marc.replay.sweep import Score, Sweep, SweepJob, check_sources, plan_sweep
from marc.results.folder import INTERVALS, Folder, read_result, read_sweep
from marc.stats import envelope_bootstrap
from marc.stream import Stream
from marc.transforms import resolve
from marc.types import CAPACITIES, WEIGHTS

_REPLICATES = 2000  # draws of the images for the interval of an oracle gain
_GRID = 1  # the place of the oracle over the grid among the scores of a space


def sweep(
    source: str = typer.Argument(help="A labelled stream, for example arrays/FILE.npz."),
    space: list[str] = typer.Option([], help="Spaces; all stored ones by default."),
    capacity: list[int] = typer.Option(list(CAPACITIES), help="Capacities, ascending."),
    weight: list[float] = typer.Option(list(WEIGHTS), help="Grid of weights, ascending."),
    seed: list[int] = typer.Option([0, 1, 2], help="Stream orders."),
    in_order: bool = IN_ORDER,
    policy: str = typer.Option("entropy", help="Admission policy."),
    views: int = typer.Option(0, help="The first M views, 0: all; the lab draws as many as asked."),
    held_out: list[str] = typer.Option(
        [], "--held-out", help="Sweep folders of other streams on which to choose K and w."
    ),
    output: str = typer.Option("", "-o", "--output", help="Folder of the result."),
    force: bool = typer.Option(False, "--force", help="Sweep again and replace the result."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be done, and stop."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Score every space x capacity x weight x order, exactly as if each had been run online.

    Example:  marc sweep arrays/photos.npz --space dinov2-b clip-b16 --seed 0 1 2

    K and w chosen elsewhere:  marc sweep arrays/photos.npz --held-out sweeps/other -o sweeps/photos
    """
    stream = open_stream(source, views)
    job = plan_sweep(
        stream, capacity, weight, check_seeds(seed, in_order=in_order), POLICIES.resolve(policy)
    )
    config = _protocol(source, job, check_spaces(stream, space))
    sources = [read_sweep(Path(path)) for path in held_out]
    if sources:
        images = stream.features.images
        check_sources(sources, images, job.capacities, job.weights, config["spaces"])
    path = Path(output or _default_folder(job, config))
    if dry_run:
        _foresee(path, stream, config)
        return
    folder = Folder(path, config, force=force)
    if not folder.done:
        _finish(folder, job, config["spaces"])
    result = read_sweep(path)
    scores = _summarise(result, sources)
    _, metrics = read_result(path, "sweep")
    intervals = _oracle_intervals(metrics, result)
    if json:
        rows = {name: [_as_data(score) for score in row] for name, row in scores.items()}
        for name, ends in intervals.items():
            rows[name][_GRID]["gain_interval"] = ends
        console.as_json({"folder": str(path), "config": config, "metrics": metrics, "scores": rows})
    else:
        _show(result, scores, intervals, config)
        console.say(f"{'already there' if folder.done else 'written'}: {path}")


def check_spaces(stream: Stream, given: list[str]) -> list[str]:
    """Known and distinct names, before anything is written."""
    spaces = [resolve(each) for each in given] or list(stream.spaces)
    if len(set(spaces)) < len(spaces):
        raise MarcError("a space is named twice", got=" ".join(spaces), allowed="each name once")
    for space in spaces:
        stream.features.dim(space)
    return spaces


def _default_folder(job: SweepJob, config: dict[str, Any]) -> str:
    """The stream's name, with a digest of the settings where they are not the usual ones."""
    stream = job.stream
    usual = {
        "spaces": list(stream.spaces),
        "capacities": list(CAPACITIES),
        "weights": list(WEIGHTS),
        "seeds": [0, 1, 2],
        "settings": plan_sweep(stream).settings,
    }
    chosen = {name: config[name] for name in usual}
    digest = hashlib.sha256(repr(chosen).encode()).hexdigest()[:8]
    return f"sweeps/{stream.name}-m{stream.n_views}" + ("" if chosen == usual else f"-{digest}")


def _protocol(source: str, job: SweepJob, spaces: list[str]) -> dict[str, Any]:
    """Everything that decides the result, as data."""
    return {
        **describe("sweep", source, job.stream),
        "images": sorted(job.stream.features.images),
        "spaces": spaces,
        "capacities": list(job.capacities),
        "weights": list(job.weights),
        "seeds": list(job.seeds),
        "settings": job.settings,
        "transductive": [space for space in spaces if "+" in space],
    }


def _foresee(path: Path, stream: Stream, config: dict[str, Any]) -> None:
    """What a sweep would do, and the arithmetic it takes at most."""
    spaces, size = config["spaces"], len(stream)
    cells = len(config["capacities"]) * len(config["weights"]) * len(config["seeds"])
    console.say(f"{len(spaces)} space(s) x {cells} settings over {size} images, into {path}")
    if path.exists():
        console.say("that folder is there already: nothing is done again without --force")
    done = Folder.parts_done(path)
    for number, space in enumerate(spaces):
        work = 2e-9 * size * size * stream.features.dim(space)
        products = f"at most {work:.1f} billion operations"
        note = "done already" if f"space-{number}" in done else products
        console.say(f"  {space}: {note}")


def _finish(folder: Folder, job: SweepJob, spaces: list[str]) -> None:
    """Sweep the spaces that are not done yet, then write the result."""
    intervals = {}
    with console.progress() as bar:
        task = bar.add_task("trajectories", total=len(spaces), note="")
        _ = job.histories
        for number, space in enumerate(spaces):
            bar.update(task, description=space, completed=number)
            done = folder.part(f"space-{number}")
            if done is None:
                lower, upper = job.space(space)
                done = {"lower": lower, "upper": upper}
                folder.keep_part(f"space-{number}", done)
            intervals[space] = (done["lower"], done["upper"])
        bar.update(task, description="interval of each oracle gain", completed=len(spaces))
        result = job.result(intervals)
        envelopes = _envelope(result)
    arrays = {
        "ids": np.array(job.stream.features.ids),
        "base_correct": result.base_correct,
        **{f"lower/{name}": ends[0] for name, ends in intervals.items()},
        **{f"upper/{name}": ends[1] for name, ends in intervals.items()},
    }
    metrics = {
        "selection": "fixed",
        "axes": ["space", "capacity", "weight", "seed"],
        "accuracy": result.accuracy.tolist(),
        "base_accuracy": result.base_accuracy.tolist(),
        "envelope": envelopes,
    }
    folder.finish(metrics, {INTERVALS: arrays})


def _envelope(sweep: Sweep) -> dict[str, Any]:
    """The oracle gain of each space over the grid, with its interval over images.

    The capacity is the one that is best on all images; the weight is chosen anew in each draw.
    """
    spaces = {}
    for space in sweep.spaces:
        best = sweep.oracle(space)
        place = sweep.capacities.index(best.capacity)
        lower, upper = (ends[:, place] for ends in sweep.intervals[space])
        gain, low, high = envelope_bootstrap(
            lower, upper, sweep.base_correct, weights=sweep.weights, n_replicates=_REPLICATES
        )
        spaces[space] = {"capacity": best.capacity, "gain": gain, "gain_interval": [low, high]}
    return {"selection": "oracle", "n_replicates": _REPLICATES, "seed": 0, "spaces": spaces}


def _oracle_intervals(metrics: dict[str, Any], sweep: Sweep) -> dict[str, list[float]]:
    """The interval of each oracle gain; a folder of an older version has none stored."""
    stored = metrics.get("envelope") or _envelope(sweep)
    return {space: row["gain_interval"] for space, row in stored["spaces"].items()}


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
    """A score for JSON."""
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
    """The result for a person: best space first."""
    base = console.percent(float(sweep.base_accuracy.mean()))
    console.say(
        f"{config['stream']}: {config['n_images']} images, {config['n_classes']} classes, "
        f"{config['n_views']} view(s), {len(sweep.seeds)} order(s); no memory {base} %"
    )
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
    for note in _notes(scores, config):
        console.say(note)


def _notes(scores: dict[str, list[Score]], config: dict[str, Any]) -> list[str]:
    """What the table cannot say."""
    found = []
    if any("/" in _setting(score) for row in scores.values() for score in row):
        found.append("several w: an oracle chooses one for each order")
    *_, last = next(iter(scores.values()))
    if last.selection == "held_out":
        found.append(f"held-out: K and w chosen on {last.chosen_on}")
    else:
        found.append(
            f"95 % interval of the oracle at that K over images: {_REPLICATES:,} draws of them,\n"
            "w chosen anew in each"
        )
    if config["transductive"]:
        found.append(f"transductive spaces: {', '.join(config['transductive'])}")
    return found


def _gain(score: Score) -> str:
    """A gain with its spread over orders."""
    spread = "" if math.isnan(score.spread) else f" ({100 * score.spread:.2f})"
    return console.points(score.gain) + spread


def _setting(score: Score) -> str:
    """Capacity and the weights that were chosen."""
    weights = "/".join(f"{weight:.3g}" for weight in dict.fromkeys(score.weights))
    return f"{score.capacity}, {weights}"
