"""What `marc study` does with its options: choose, make or estimate, and print."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from marc.cli import console
from marc.cli._ray import read_workers
from marc.errors import MarcError, one_of
from marc.report.text import duration
from marc.results.folder import Folder
from marc_paper.study.estimate import StudyCost
from marc_paper.study.experiments import EXPERIMENTS
from marc_paper.study.folder import StudyFolder
from marc_paper.study.make import Outcome
from marc_paper.study.make import study as make_study
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment


@final
@dataclass(frozen=True)
class StudyOptions:
    """The options of `marc study`."""

    plan: str
    lab: bool
    paper: bool
    quick: bool
    only: tuple[str, ...]
    output: str
    force: bool
    ray: str | None
    dry_run: bool
    json: bool


def run_study(options: StudyOptions) -> int:
    """Make a study, or estimate what it would take; gives the exit status."""
    n_workers = read_workers(options.ray, dry_run=options.dry_run)
    path = _chosen_plan(options)
    plan, experiments = Plan.read(path), _chosen_experiments(options.only)
    place = Path(options.output or f"studies/{path.stem}")
    folder = StudyFolder.open(place, plan.as_data(), force=options.force)
    if options.dry_run:
        there = [each.name for each in experiments if folder.record(each.name)]
        with console.notes():
            estimate = StudyCost.estimate(plan, experiments, [] if options.force else there)
        _show_estimate(plan, folder, estimate, json=options.json)
        return 0
    started = time.monotonic()
    outcomes = _make(plan, folder, experiments, options, n_workers)
    seconds = time.monotonic() - started
    if options.json:
        console.as_json("study", _as_data(place, outcomes, seconds))
    else:
        _conclude(place, outcomes, seconds)
    return int(any(outcome.status == "failed" for outcome in outcomes))


def _chosen_plan(options: StudyOptions) -> Path:
    ways = ((options.plan, options.plan), ("--lab", options.lab), ("--paper", options.paper))
    given = [name for name, is_given in ways if is_given]
    if len(given) != 1:
        raise MarcError(
            "a study needs one plan",
            got=" and ".join(given) or "none",
            hint="marc study --lab, or marc study PLAN.toml (before --only)",
        )
    if options.quick and not options.lab:
        raise MarcError(
            "--quick belongs to --lab", got=given[0], hint="fewer streams in a plan of your own"
        )
    if options.lab:
        return Plan.SHIPPED / ("lab-quick.toml" if options.quick else "lab.toml")
    return Plan.SHIPPED / "paper.toml" if options.paper else Path(options.plan)


def _chosen_experiments(only: Sequence[str]) -> list[Experiment]:
    """Those that are named, in the order of the paper."""
    names = [experiment.name for experiment in EXPERIMENTS]
    for name in only:
        one_of("experiment", name, names)
    return [each for each in EXPERIMENTS if not only or each.name in only]


def _make(
    plan: Plan,
    folder: StudyFolder,
    experiments: Sequence[Experiment],
    options: StudyOptions,
    n_workers: int | None,
) -> list[Outcome]:
    """Make what is not there, and print it line by line."""
    with console.notes(), console.progress() as bar:
        task = bar.add_task(experiments[0].name, total=len(experiments), note="")

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, note=f"{what} {done}/{total}" if total > 1 else what)

        def finish(outcome: Outcome) -> None:
            bar.advance(task)
            following = min(experiments.index(outcome.experiment) + 1, len(experiments) - 1)
            bar.update(task, description=experiments[following].name, note="")
            if not options.json:
                console.say(_line(outcome))

        return make_study(
            *(plan, folder, experiments, EXPERIMENTS),
            force=options.force,
            ray=n_workers,
            on_progress=show,
            on_outcome=finish,
        )


def _line(outcome: Outcome) -> str:
    name = f"{outcome.experiment.name:<20}"
    if outcome.status in ("not possible", "failed"):
        return f"{name} {outcome.status}: {outcome.reason}"
    if outcome.status == "already there":
        return f"{name} already there"
    return f"{name} {outcome.seconds:6.1f} s  {outcome.experiment.title}"


def _conclude(place: Path, outcomes: Sequence[Outcome], seconds: float) -> None:
    """What was done, how long it took, and where to look."""
    tally = console.tally(outcome.status for outcome in outcomes)
    console.say(f"{console.count(len(outcomes), 'experiment')}: {tally}; this took {seconds:.0f} s")
    if any(outcome.status in ("made", "already there") for outcome in outcomes):
        console.say(f"open {place / StudyFolder.INDEX} in a browser")


def _as_data(place: Path, outcomes: Sequence[Outcome], seconds: float) -> dict[str, Any]:
    return {
        "folder": str(place),
        "index": str(place / StudyFolder.INDEX),
        "seconds": seconds,
        "experiments": [
            {
                "name": outcome.experiment.name,
                "title": outcome.experiment.title,
                "answers": list(outcome.experiment.answers),
                "status": outcome.status,
                "reason": outcome.reason,
                "seconds": outcome.seconds if outcome.status == "made" else 0.0,
            }
            for outcome in outcomes
        ],
    }


def _show_estimate(plan: Plan, folder: StudyFolder, estimate: StudyCost, *, json: bool) -> None:
    """What would be made, and about how long it would take."""
    place, rows = folder.path, estimate.rows
    if json:
        console.as_json(
            "study",
            {
                "dry_run": True,
                "folder": str(place),
                "seconds": estimate.seconds,
                "seconds_of_features": estimate.seconds_of_features,
                "experiments": [asdict(row) for row in rows],
            },
        )
        return
    console.say(f"{plan.title}: {len(plan.streams)} streams, {len(plan.spaces.all)} spaces")
    console.table(
        ["experiment", "new shared work", "about", "status"],
        [[row.name, str(row.pieces), duration(row.seconds), row.status] for row in rows],
    )
    console.say(f"in all about {duration(estimate.seconds)} on this computer, roughly")
    if estimate.seconds_of_features:
        more = duration(estimate.seconds_of_features)
        console.say(f"and about {more} to draw and embed streams that are not kept yet")
    console.say(f"into {place}" + (", which is there" if (place / Folder.CONFIG).is_file() else ""))
