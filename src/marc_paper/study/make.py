"""Make a study: every experiment of a plan that is not made yet, then the page that shows them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, final

from marc.embed.cluster import check_workers
from marc.errors import MarcError
from marc.files import versions, write_whole
from marc.types import OnProgress
from marc_paper.study.folder import StudyFolder
from marc_paper.study.formats import Files, files_of, place_of
from marc_paper.study.page import render
from marc_paper.study.plan import Plan
from marc_paper.study.spread import fill_shelf
from marc_paper.study.streams import OpenStreams
from marc_paper.study.work import Experiment, Work


@final
@dataclass(frozen=True)
class Outcome:
    """What became of one experiment."""

    experiment: Experiment
    status: Literal["made", "already there", "not possible", "failed"]
    reason: str = ""
    """Why it is not possible with this plan, or why it failed."""
    seconds: float = 0.0


def study(
    plan: Plan,
    folder: StudyFolder,
    experiments: Sequence[Experiment],
    all_experiments: Sequence[Experiment],
    *,
    force: bool = False,
    ray: int | None = None,
    on_progress: OnProgress | None = None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Make the experiments that are not made yet. All their streams are checked before that.

    Args:
        plan: what to study.
        folder: where; it also keeps the shared work.
        experiments: which are asked for.
        all_experiments: all there are, for the page.
        force: make the asked ones again; shared work that still holds stays.
        ray: let so many Ray workers compute the shared work; 0: one a machine, or two.
        on_progress: is called for shared work.
        on_outcome: is called when an experiment is done.
    """
    n_workers = check_workers(ray)
    streams = OpenStreams(plan, {}, on_progress)
    possible = [each for each in experiments if not each.missing(plan)]
    names = list(dict.fromkeys(name for each in possible for name in _streams_of(plan, each)))
    facts = {name: streams.facts(name) for name in names}
    streams.refuse_repeated(names)
    outcomes = []
    with folder.begin(facts):
        work = Work(plan, folder, streams, on_progress=on_progress)
        if n_workers is not None:
            left = [each for each in possible if force or not folder.record(each.name)]
            fill_shelf(work, folder, left, n_workers, on_progress or (lambda *_: None))
        for experiment in experiments:
            outcome = _one(plan, folder, work, experiment, force=force)
            outcomes.append(outcome)
            on_outcome(outcome)
            write_whole(
                folder.path / StudyFolder.INDEX, render(plan, folder, all_experiments).encode()
            )
    return outcomes


def _streams_of(plan: Plan, experiment: Experiment) -> list[str]:
    """The streams that an experiment reads, in the order of the plan."""
    read = {piece.stream for piece in experiment.pieces(plan)}
    return [name for name in plan.streams if name in read]


def _one(
    plan: Plan, folder: StudyFolder, work: Work, experiment: Experiment, *, force: bool
) -> Outcome:
    reason = experiment.missing(plan)
    if reason:
        return Outcome(experiment, "not possible", reason)
    record = None if force else folder.record(experiment.name)
    if record is not None:
        return Outcome(experiment, "already there", seconds=record["seconds"])
    started = time.perf_counter()
    try:
        artifacts = experiment.make(work)
    except MarcError as error:  # the others need not wait for this one
        return Outcome(experiment, "failed", str(error))
    files: Files = {}
    about = {"experiment": experiment.name, "streams": plan.describe()}
    for artifact in artifacts:
        files |= files_of(artifact, about)
    seconds = time.perf_counter() - started
    folder.finish(
        experiment.name,
        files,
        _streams_of(plan, experiment),
        {
            "seconds": seconds,
            "artifacts": [place_of(artifact) for artifact in artifacts],
            "versions": versions("matplotlib", "scikit-learn"),
        },
    )
    return Outcome(experiment, "made", seconds=seconds)
