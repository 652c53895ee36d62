"""The page of a study: what holds of the paper's claims, then every table and figure, folded.

Figures that matplotlib drew stand in the page and follow its colours; pictures and large ones are
linked, on white. Everything can be read without the script, which searches and unfolds.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from marc.files import read_json
from marc.report.style import page_svg
from marc_paper.study.artifacts import captions
from marc_paper.study.claims import Finding, claims, judge
from marc_paper.study.folder import StoredStudy, StudyFolder
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment

_ASSETS = Path(__file__).with_name("assets")
_LARGE = 400_000  # bytes of a figure that is linked
_BACKGROUND = re.compile(r'<g id="patch_1">.*?</g>', re.DOTALL)  # of a file of matplotlib's


def render(plan: Plan, folder: StudyFolder, experiments: Sequence[Experiment]) -> str:
    """The page as text."""
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_ASSETS), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    sections = {each.name: _section(plan, folder, each) for each in experiments}
    script = (_ASSETS / "study.js").read_text("utf-8")
    found = _findings(plan, folder, sections)
    return environment.get_template("study.html").render(
        plan=plan,
        groups=_grouped(sections),
        n_sections=len(sections),
        findings=found,
        n_holding=sum(finding["verdict"] == "holds" for finding in found),
        n_decided=sum(bool(finding["checks"]) for finding in found),
        streams=[_stream_facts(plan, folder, name) for name in plan.streams],
        n_made=sum(bool(section["artifacts"]) for section in sections.values()),
        seconds=sum(section["seconds"] for section in sections.values()),
        css=Markup((_ASSETS / "study.css").read_text("utf-8")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=version("marc-clip"),
    )


def _findings(
    plan: Plan, folder: StudyFolder, sections: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The claims that this study decides, then those whose experiment was not made."""
    tables = StoredStudy.read(folder.path, list(sections)).tables
    roles = {role: getattr(plan.spaces, role) for role in ("own", "deployed", "strong")}
    found = [judge(claim, tables, roles) for claim in claims()]
    found.sort(key=lambda finding: not finding.values)
    return [_shown_finding(finding, sections) for finding in found]


def _shown_finding(finding: Finding, sections: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    claim = finding.claim
    figures = [
        artifact
        for artifact in sections.get(claim.figure, {}).get("artifacts", ())
        if artifact["file"].endswith(".svg")
    ]
    return {
        "says": claim.says,
        "printed": claim.printed,
        "quantity": claim.quantity,
        "verdict": finding.verdict,
        "checks": finding.values,
        "rule": finding.rule,
        "anchor": f"tables-{claim.table}",
        "figure": figures[0] if figures and finding.values else None,
    }


def _grouped(sections: Mapping[str, dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Sections under the headings of the page; one that has no heading comes last."""
    groups = {
        title: [sections[name] for name in names if name in sections]
        for title, names in captions()["groups"].items()
    }
    placed = {name for names in captions()["groups"].values() for name in names}
    groups["More"] = [section for name, section in sections.items() if name not in placed]
    return [(title, members) for title, members in groups.items() if members]


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
    places = record["artifacts"] if record else []
    artifacts = [_shown(folder.path, place, files) for place in places]
    words = [experiment.name, experiment.title]
    words += [text for each in artifacts for text in (each["title"], each["caption"])]
    return {
        "name": experiment.name,
        "title": experiment.title.removesuffix(", figure").removesuffix(", figures"),
        "search": " ".join(words).lower(),
        "reason": reason or ("" if record else "not made yet"),
        "seconds": record["seconds"] if record else 0.0,
        "n_tables": sum(bool(each["table"]) for each in artifacts),
        "n_figures": sum(not each["table"] for each in artifacts),
        "artifacts": artifacts,
    }


def _shown(path: Path, place: str, files: Sequence[str]) -> dict[str, Any]:
    from markupsafe import Markup

    own = [file for file in files if file.rpartition(".")[0] == place]
    stored = read_json(path / f"{place}.json")
    is_table = place.startswith("tables/")
    file = f"{place}.html" if is_table else f"{place}.svg"
    text = (path / file).read_text("utf-8")
    is_drawn = "matplotlib" in text and "<image" not in text and len(text) < _LARGE
    anchor = place.replace("/", "-")
    return {
        "anchor": anchor,
        "title": stored["title"],
        "caption": stored["caption"],
        "notes": stored.get("notes", []),
        "file": file,
        # written by us with every cell escaped
        "table": Markup(text) if is_table else "",
        "svg": Markup(page_svg(_BACKGROUND.sub("", text, 1), anchor)) if is_drawn else "",
        "links": [(Path(file).suffix[1:].upper(), file) for file in own],
    }
