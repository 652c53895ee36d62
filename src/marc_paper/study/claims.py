"""Whether what the paper claims holds in a study: each claim is data, decided by a study's table.

A claim (`claims.toml`) names cells of a table and a rule. An interval with the rule's bound inside
tells nothing; a claim of several checks, such as one for each stream, holds if all of them do.
"""

from __future__ import annotations

import operator
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, final

import msgspec

from marc_paper.study.artifacts import Cell, Estimate, Unit
from marc_paper.study.formats import cell_text

Verdict = Literal["holds", "does not hold", "cannot be told", "not made in this study"]

_RULES = {
    "above": operator.gt,
    "at least": operator.ge,
    "below": operator.lt,
    "at most": operator.le,
}


@final
class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the paper says, and the cells that decide it; `claims.toml` says what each key is."""

    says: str
    printed: str
    label: str
    table: str
    column: str
    quantity: str
    rule: dict[Literal["above", "at least", "below", "at most"], float]
    rows: dict[str, str] = {}
    less: dict[str, str] = {}
    each: str = ""
    take: Literal["only", "span", "lowest", "highest"] = "only"
    figure: str = ""


@final
@dataclass(frozen=True)
class Finding:
    """A claim, and what one study says about it."""

    claim: Claim
    verdict: Verdict
    values: tuple[tuple[str, str], ...] = ()
    """What was checked, such as a stream, and its value."""
    rule: str = ""


@cache
def claims() -> tuple[Claim, ...]:
    """All claims, in the order in which they are shown."""
    text = Path(__file__).with_name("claims.toml").read_text("utf-8")
    return msgspec.convert(tuple(tomllib.loads(text)["claims"]), tuple[Claim, ...])


def judge(
    claim: Claim, tables: Mapping[str, Mapping[str, Any]], spaces: Mapping[str, str]
) -> Finding:
    """What a study says of a claim.

    Args:
        claim: which.
        tables: those that the study has made, by name, as their JSON files have them.
        spaces: the names of the plan's spaces by role: own, deployed, strong.
    """
    if claim.table not in tables:
        return Finding(claim, "not made in this study")
    table = tables[claim.table]
    names = [column["name"] for column in table["columns"]]
    unit = cast(Unit, table["columns"][names.index(claim.column)]["unit"])
    (rule, bound), *_ = claim.rule.items()
    checked = list(_checked(claim, names, table["rows"], spaces))
    verdicts = [_hold(rule, bound, value) for _, value in checked]
    return Finding(
        claim,
        _together(verdicts),
        tuple((name, cell_text(value, unit)) for name, value in checked),
        f"{rule} {cell_text(bound, unit)}",
    )


def _checked(
    claim: Claim, names: Sequence[str], rows: Sequence[Sequence[Any]], spaces: Mapping[str, str]
) -> Iterator[tuple[str, Estimate]]:
    """What is held against the rule: a value for each text of the column `each`, or one."""
    each = names.index(claim.each) if claim.each else None
    column = names.index(claim.column)

    def chosen(wanted: Mapping[str, str], group: Cell) -> list[Estimate]:
        meant = {names.index(name): _meant(text, spaces) for name, text in wanted.items()}
        cells = [
            _estimate(row[column])
            for row in rows
            if all(row[place] == text for place, text in meant.items())
            and (each is None or row[each] == group)
        ]
        return [cell for cell in cells if cell is not None]

    for group in [""] if each is None else dict.fromkeys(row[each] for row in rows):
        found = chosen(claim.rows, group)
        if claim.less:  # of two cells the table has no interval of the difference
            others = chosen(claim.less, group)
            found = [Estimate(a.value - b.value) for a, b in zip(found, others, strict=False)]
        if found:
            yield group, _taken(claim.take, found)


def _taken(take: str, found: Sequence[Estimate]) -> Estimate:
    if take == "only" and len(found) > 1:
        raise ValueError(f"a claim means one cell, and the table has {len(found)}")
    ordered = sorted(found, key=lambda cell: cell.value)
    if take == "span":
        return Estimate(ordered[-1].value - ordered[0].value)
    return ordered[-1] if take == "highest" else ordered[0]


def _meant(text: str, spaces: Mapping[str, str]) -> str:
    """A text of the table: `@own+center` is the plan's own space, centred."""
    role, plus, transform = text.removeprefix("@").partition("+")
    return f"{spaces[role]}{plus}{transform}" if text.startswith("@") else text


def _estimate(cell: Any) -> Estimate | None:
    """A number of a stored table; none where the cell is empty."""
    estimate = Estimate(**cell) if isinstance(cell, Mapping) else Estimate(cell)
    return None if estimate.value is None else estimate


def _hold(rule: str, bound: float, value: Estimate) -> bool | None:
    """Whether a value obeys a rule; None where its interval has both sides of the bound."""
    holds = _RULES[rule]
    if value.low is None or value.high is None:
        return holds(value.value, bound)
    ends = {holds(value.low, bound), holds(value.high, bound)}
    return ends.pop() if len(ends) == 1 else None


def _together(verdicts: Sequence[bool | None]) -> Verdict:
    if not verdicts:
        return "not made in this study"
    if False in verdicts:
        return "does not hold"
    return "cannot be told" if None in verdicts else "holds"
