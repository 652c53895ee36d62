"""Make a study: every experiment of a plan that is not made yet, then the page that shows them.

The page has the tables and figures in the paper's order, with links to every format.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, final

from marc.errors import MarcError
from marc.files import read_json, versions, write_whole
from marc.types import OnProgress
from marc_paper.study.folder import StudyFolder
from marc_paper.study.formats import Files, files_of, place_of
from marc_paper.study.plan import Plan
from marc_paper.study.streams import OpenStreams
from marc_paper.study.work import Experiment, Work

_ASSETS = Path(__file__).with_name("assets")


def _render(plan: Plan, folder: StudyFolder, experiments: Sequence[Experiment]) -> str:
    """The page as text; figures and files are linked, so that it stays small."""
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(
        loader=FileSystemLoader(_ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    sections = [_section(plan, folder, experiment) for experiment in experiments]
    return environment.get_template("study.html").render(
        plan=plan,
        sections=sections,
        streams=[_stream_facts(plan, folder, name) for name in plan.streams],
        n_made=sum(bool(section["artifacts"]) for section in sections),
        seconds=sum(section["seconds"] for section in sections),
        version=version("marc-clip"),
    )


def _stream_facts(plan: Plan, folder: StudyFolder, name: str) -> dict[str, Any]:
    """What the plan says of a stream, and what was found when it was opened."""
    entry, facts = plan.streams[name], folder.streams.get(name, {})
    return {
        "name": name,
        "group": entry.group,
        "source": entry.source,
        "predictor": entry.predictor or plan.predictor,
        "prompts": entry.prompts or plan.prompts,
        **{key: facts.get(key, "") for key in ("images", "classes", "views", "digest")},
    }


def _section(plan: Plan, folder: StudyFolder, experiment: Experiment) -> dict[str, Any]:
    record = folder.record(experiment.name)
    reason = experiment.missing(plan)
    files = record["files"] if record else []
    return {
        "name": experiment.name,
        "title": experiment.title,
        "answers": experiment.answers,
        "reason": reason or ("" if record else "not made yet"),
        "seconds": record["seconds"] if record else 0.0,
        "artifacts": [
            _shown(folder.path, place, files) for place in (record["artifacts"] if record else [])
        ],
    }


def _shown(path: Path, place: str, files: Sequence[str]) -> dict[str, Any]:
    from markupsafe import Markup

    own = [file for file in files if file.rpartition(".")[0] == place]
    stored = read_json(path / f"{place}.json")
    is_table = place.startswith("tables/")
    return {
        "anchor": place.replace("/", "-"),
        "title": stored["title"],
        "caption": stored["caption"],
        "notes": stored.get("notes", []),
        # written by us with every cell escaped
        "table": Markup((path / f"{place}.html").read_text("utf-8")) if is_table else "",
        "figure": "" if is_table else f"{place}.svg",
        "links": [(Path(file).suffix[1:].upper(), file) for file in own],
    }


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
        on_progress: is called for shared work.
        on_outcome: is called when an experiment is done.
    """
    streams = OpenStreams(plan, {}, on_progress)
    possible = [each for each in experiments if not each.missing(plan)]
    names = list(dict.fromkeys(name for each in possible for name in _streams_of(plan, each)))
    facts = {name: streams.facts(name) for name in names}
    streams.refuse_repeated(names)
    outcomes = []
    with folder.begin(facts):
        work = Work(plan, folder, streams, on_progress=on_progress)
        for experiment in experiments:
            outcome = _one(plan, folder, work, experiment, force=force)
            outcomes.append(outcome)
            on_outcome(outcome)
            write_whole(
                folder.path / StudyFolder.INDEX, _render(plan, folder, all_experiments).encode()
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
