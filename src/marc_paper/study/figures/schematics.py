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
    del work
    return [
        Figure(
            name="intervention",
            title="Only the retrieval space changes",
            caption="Schematic with the paper's names of predictor and space; nothing is measured. "
            "The predictor decides what is stored, and "
            "under which label; every space reads the same stored images, so that only the "
            "similarities of query and keys differ.",
            draw=(_ASSETS / "intervention.svg").read_bytes,
            answers=("fig:mismatch",),
        ),
        Figure(
            name="workflow",
            title="The four stages of MARC",
            caption="Schematic with the paper's names of predictor and space; nothing is measured. "
            "Dashed: the pseudo-label that is written to "
            "both memories. The CLIP memory has no output weight: it helps to decide what is worth "
            "remembering.",
            draw=(_ASSETS / "workflow.svg").read_bytes,
            answers=("fig:pipeline",),
        ),
    ]


_EXPERIMENT = Experiment(
    "schematics", "How it works", ("fig:mismatch", "fig:pipeline"), _make, pieces=lambda plan: []
)
