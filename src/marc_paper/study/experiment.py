"""An experiment: a question of the paper, the shared work it needs, and the function that answers.

`pieces` says what shared work an experiment reads, so that the cost of a study is known before it
is made; a test holds every experiment to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from marc_paper.study.artifacts import Artifact
from marc_paper.study.plan import Plan
from marc_paper.study.work import Piece, Work


@final
@dataclass(frozen=True)
class Experiment:
    """One question of the paper."""

    name: str
    """In file names and after --only."""
    title: str
    answers: tuple[str, ...]
    """LaTeX labels of the paper's tables and figures."""
    make: Callable[[Work], Sequence[Artifact]]
    pieces: Callable[[Plan], Sequence[Piece]]
    missing: Callable[[Plan], str] = lambda plan: ""
    """Why this plan cannot answer it; empty if it can."""


def needs_views(plan: Plan) -> str:
    """What is missing where the main stream has one view only."""
    if len(plan.budgets(plan.main)) > 1:
        return ""
    return f"the stream {plan.main} has one view in this plan"


def needs_two(plan: Plan) -> str:
    """What is missing where there is no second main stream to choose settings on."""
    if len(plan.group("main")) > 1:
        return ""
    return "settings are chosen on another stream of group main, and there is none"
