"""The tables of a study that its walk-through speaks of, as Markdown.

    marc study --lab -o studies/lab && python -m marc_paper.results studies/lab

docs/results/study.md holds the output for the plan of the lab; `make study-results` makes it again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from marc_paper.markdown import table
from marc_paper.study.artifacts import Estimate
from marc_paper.study.experiments import EXPERIMENTS
from marc_paper.study.folder import StoredStudy
from marc_paper.study.formats import cell_text

_TABLES = (
    *("spaces", "spaces-ranked", "controls", "transformed", "memory-alone"),
    *("view-budget", "substitution", "splits", "repairs", "repairs-shared"),
    *("correlations", "correlations-checks", "batches", "composite"),
    *("selection-rules", "selection-streams", "joint-choice", "transfer-summary"),
    *("components", "protocol-controls", "policies", "large-views", "hazard-weights"),
    *("benchmark", "benchmark-domains", "matched-orders", "matched-orders-oracle"),
    *("across-streams", "multiplicity", "cost", "cost-ratios"),
)


def _cell(stored: Any, unit: Any) -> str:
    return cell_text(Estimate(**stored) if isinstance(stored, dict) else stored, unit)


def _section(stored: dict[str, Any]) -> str:
    """One table with its words."""
    columns = stored["columns"]
    heads = [c["name"] + (f" ({c['word']})" if c["word"] else "") for c in columns]
    rows = [
        [_cell(cell, column["unit"]) for cell, column in zip(row, columns, strict=True)]
        for row in stored["rows"]
    ]
    words = " ".join([stored["caption"], *stored["notes"]])
    title = f"## {stored['title']}\n\n`tables/{stored['name']}`, {', '.join(stored['answers'])}."
    return f"{title} {words}\n\n{table(heads, rows)}\n"


def _page(study: StoredStudy) -> str:
    plan = study.config["plan"]
    seconds = sum(record["seconds"] for record in study.records.values())
    head = (
        f"# {plan['title']}: tables\n\nPrinted by `make study-results`. The plan is "
        "`src/marc_paper/study/plans/lab.toml`; [study.md](../study.md) says what they mean. "
        f"{len(study.records)} experiments, {seconds:.0f} s without the drawing and embedding of "
        "pictures.\n"
    )
    return "\n".join([head, *(_section(dict(study.tables[name])) for name in _TABLES)])


if __name__ == "__main__":
    names = [experiment.name for experiment in EXPERIMENTS]
    print(_page(StoredStudy.read(Path(sys.argv[1]), names)), end="")
