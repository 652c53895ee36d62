"""The two schematic figures: fig:mismatch, fig:pipeline.

Nothing in them is measured: they are files of the package. Cost: none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from marc_paper.study.artifacts import Figure
from marc_paper.study.work import Experiment, Work

_ASSETS = Path(__file__).parents[1] / "assets"


def _make(work: Work) -> Sequence[Figure]:
    return [
        Figure.of(work.plan, "intervention", (_ASSETS / "intervention.svg").read_bytes),
        Figure.of(work.plan, "workflow", (_ASSETS / "workflow.svg").read_bytes),
    ]


_EXPERIMENT = Experiment.of("schematics", _make, lambda plan: [])
