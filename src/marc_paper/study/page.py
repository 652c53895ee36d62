"""The page of a study: its tables and figures in the paper's order, with links to every format."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from marc.results.files import read_json
from marc_paper.study.experiment import Experiment
from marc_paper.study.folder import StudyFolder
from marc_paper.study.plan import Plan

_ASSETS = Path(__file__).with_name("assets")


def render(plan: Plan, folder: StudyFolder, experiments: Sequence[Experiment]) -> str:
    """The page as text; figures and files are linked, so that it stays small."""
    from jinja2 import Environment, FileSystemLoader

    environment = Environment(
        loader=FileSystemLoader(_ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    sections = [_section(plan, folder, experiment) for experiment in experiments]
    return environment.get_template("study.html").render(
        plan=plan,
        sections=sections,
        streams=[_stream(plan, folder, name) for name in plan.streams],
        n_made=sum(bool(section["artifacts"]) for section in sections),
        seconds=sum(section["seconds"] for section in sections),
        version=version("marc-clip"),
    )


def _stream(plan: Plan, folder: StudyFolder, name: str) -> dict[str, Any]:
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
            _artifact(folder.path, place, files)
            for place in (record["artifacts"] if record else [])
        ],
    }


def _artifact(path: Path, place: str, files: Sequence[str]) -> dict[str, Any]:
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
