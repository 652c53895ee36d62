"""Print docs/results/paper-arithmetic.md: what the paper prints, recomputed from what it prints.

    python -m marc_paper.arithmetic.document > docs/results/paper-arithmetic.md

Takes seconds and needs nothing but the printed values of `marc_paper.printed`. `findings.toml` has
the words: why a value does not reproduce, by the name of its check, and what could not be checked.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from marc_paper.arithmetic.benchmarks import BENCHMARKS
from marc_paper.arithmetic.checks import Check, Section, Verdict
from marc_paper.arithmetic.choices import CHOICES
from marc_paper.arithmetic.intervals import COUNTS, INTERVALS, P_VALUES
from marc_paper.arithmetic.ranks import RANKS
from marc_paper.arithmetic.views import VIEWS
from marc_paper.markdown import numbered, table, wrapped

_SECTIONS = (RANKS, CHOICES, *INTERVALS, VIEWS, *BENCHMARKS)
_FINDINGS: dict[str, Any] = tomllib.loads((files(__package__) / "findings.toml").read_text("utf-8"))


def _document() -> str:
    checks = [check for section in _SECTIONS for check in section.checks]
    wrong, rounded = (
        [check for check in checks if check.verdict == verdict]
        for verdict in (Verdict.DIFFERENT, Verdict.ROUNDED)
    )
    parts = [
        "# The paper's own arithmetic",
        *_FINDINGS["introduction"],
        "## In short",
        _overview(),
        f"These {len(wrong)} do not reproduce:",
        numbered(map(_contradiction, wrong)),
        f"These {len(rounded)} are within the rounding of their inputs (in brackets, what these "
        "allow):",
        _one_by_one(rounded),
    ]
    for section in _SECTIONS:
        parts += [f"## {section.title}", section.text, *_reproduced(section)]
    parts += ["## Remarks, not counted", numbered(_FINDINGS["remarks"])]
    parts += ["## What could not be checked", numbered(_FINDINGS["unchecked"])]
    return "\n\n".join(map(wrapped, parts)) + "\n"


def _overview() -> str:
    """Verdicts counted by section."""
    counts = [(each.title, Counter(check.verdict for check in each.checks)) for each in _SECTIONS]
    total = sum((each for _, each in counts), Counter[Verdict]())
    rows = [
        [title, str(each.total()), *(str(each[verdict]) for verdict in Verdict)]
        for title, each in [*counts, ("all", total)]
    ]
    return table(["section", "checks", *Verdict], rows)


def _contradiction(check: Check) -> str:
    """One that does not reproduce, with both numbers and a reason."""
    values = f"printed {check.printed}, computed {check.computed}"
    reason = _FINDINGS["reasons"][check.name]
    return f"`{check.where}`, {check.what} ({check.item}): {values}. {reason}"


def _reproduced(section: Section) -> list[str]:
    """What reproduces: some kinds value by value, the others as one line for each table."""
    same = [check for check in section.checks if check.verdict == Verdict.SAME]
    shown = [check for check in same if check.what in section.listed]
    parts = [_one_by_one(shown)] if shown else []
    if any(check.what == COUNTS for check in same):
        parts.append(_tests(same))
    rest = [check for check in same if check.what not in (*section.listed, COUNTS, P_VALUES)]
    labels = Counter(check.where for check in rest)
    if len({check.what for check in rest}) == 1:
        return [*parts, "So it is in " + ", ".join(f"{w} ({n})" for w, n in labels.items()) + "."]
    rows = [_folded([check for check in rest if check.where == where]) for where in labels]
    return [*parts, table(["reproduces in", "values", "farthest", "what"], rows)]


def _one_by_one(checks: Sequence[Check]) -> str:
    rows = [[c.where, f"{c.what}: {c.item}", c.printed, c.computed] for c in checks]
    return table(["where", "what", "printed", "computed"], rows)


def _tests(checks: Sequence[Check]) -> str:
    """Counts that follow from a gain and its discordant images, and the p-values from them."""
    p_values = {(c.where, c.item): [c.printed, c.computed] for c in checks if c.what == P_VALUES}
    rows = [
        [c.where, c.item, c.printed, c.computed, *p_values[c.where, c.item]]
        for c in checks
        if c.what == COUNTS
    ]
    names = ["where", "row", "images", "repairs, regressions", "p printed", "p computed"]
    return table(names, rows)


def _folded(checks: Sequence[Check]) -> list[str]:
    distances = [check.distance for check in checks if check.distance is not None]
    farthest = f"{max(distances):.2f}" if distances else "-"
    kinds = "; ".join(dict.fromkeys(check.what for check in checks))
    return [checks[0].where, str(len(checks)), farthest, kinds]


if __name__ == "__main__":
    sys.stdout.write(_document())
