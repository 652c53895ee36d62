"""What `marc verify` prints: a summary, the values that were compared, and why others were not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marc.cli import console
from marc_paper.printed import TABLES
from marc_paper.study.experiments import EXPERIMENTS
from marc_paper.study.folder import StoredStudy
from marc_paper.verify.expected import Expected
from marc_paper.verify.tolerances import KINDS
from marc_paper.verify.verify import Finding, verify

_TEXT = "values of the text"
_DEVIATIONS = "deviations over orders"
_LABELS = frozenset(table.label for table in TABLES.values())


def run_verify(study: Path, *, with_unmatched: bool, json: bool) -> int:
    """Compare a study with the paper and print what came out; gives the exit status."""
    findings = verify(StoredStudy.read(study, [each.name for each in EXPERIMENTS]))
    compared = [each for each in findings if each.status != "no match"]
    differing = [each for each in compared if each.status == "differs"]
    if json:
        console.as_json("verify", _as_data(study, findings, with_unmatched=with_unmatched))
    else:
        _show_summary(findings, with_unmatched=with_unmatched)
        _show_values([*differing, *(each for each in compared if each.status == "meets")])
        _show_reasons(findings, with_unmatched=with_unmatched)
        console.say(_conclusion(findings))
    return int(bool(differing) or not compared)


def _conclusion(findings: Sequence[Finding]) -> str:
    """What came out, in one line; deviations, which three orders hardly fix, count apart."""
    values = [each for each in findings if not each.expected.is_deviation]
    counts = Counter(each.status for each in values)
    apart = Counter(each.status for each in findings if each.expected.is_deviation)
    compared = counts["meets"] + counts["differs"]
    if not compared + apart["meets"] + apart["differs"]:
        return (
            f"nothing could be compared: none of {console.count(len(findings), 'printed value')} "
            "has the same data set, predictor, prompts, spaces and protocol in this study"
        )
    return (
        f"{compared:,} of {console.count(len(values), 'printed value')} compared: "
        f"{counts['meets']:,} met, {counts['differs']:,} differ; and "
        f"{apart['meets'] + apart['differs']:,} of {apart.total():,} deviations over orders: "
        f"{apart['meets']:,} met, {apart['differs']:,} differ"
    )


def _group_of(expected: Expected) -> str:
    """The table that prints a value; values of the text are one group, deviations another."""
    if expected.is_deviation:
        return _DEVIATIONS
    is_table = expected.column != "printed" and expected.label in _LABELS
    return expected.label if is_table else _TEXT


def _summary(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """For each printed table, how many values it has and what became of them; deviations last."""
    rows: dict[str, Counter[str]] = {}
    for each in sorted(findings, key=lambda each: each.expected.is_deviation):
        rows.setdefault(_group_of(each.expected), Counter())[each.status] += 1
    return [{"label": label, **_by_status(counts)} for label, counts in rows.items()]


def _by_status(counts: Counter[str]) -> dict[str, int]:
    return {
        "printed": counts.total(),
        "compared": counts["meets"] + counts["differs"],
        "meets": counts["meets"],
        "differs": counts["differs"],
        "no_match": counts["no match"],
    }


def _show_summary(findings: Sequence[Finding], *, with_unmatched: bool) -> None:
    """A line for each printed table of which something was compared, or for each."""
    rows = [row for row in _summary(findings) if row["compared"] or with_unmatched]
    if rows:
        heads = ["printed in", "values", "compared", "met", "differ", "no match"]
        console.table(heads, [[str(cell) for cell in row.values()] for row in rows])


def _show_values(compared: Sequence[Finding]) -> None:
    """Every compared value, what differs first, and what the paper says in two ways."""
    if not compared:
        return
    console.say("")
    console.table(
        ["", "printed in", "value", "printed", "got", "difference", "allowed", "kind", "setting"],
        [_row_of(each) for each in compared],
        numbers=False,
    )
    for note in dict.fromkeys(each.expected.place.note for each in compared):
        if note:
            labels = {e.expected.label: None for e in compared if e.expected.place.note == note}
            console.say(f"note on {', '.join(labels)}: {note}")


def _row_of(finding: Finding) -> list[str]:
    expected, tolerance = finding.expected, finding.expected.place.tolerance
    assert tolerance is not None
    assert finding.got is not None
    assert finding.difference is not None
    digits = expected.printed.decimals
    if tolerance is KINDS["p"]:
        got, difference = console.p_value(finding.got), f"{finding.difference:+.1f} digits"
        allowed = f"{expected.allowed:.1f} digits"
    elif tolerance.grid:
        got, difference = f"{finding.got:g}", f"{finding.difference:+g} steps"
        allowed = f"{expected.allowed:g} steps"
    elif tolerance.factor:
        got, difference = f"{finding.got:.{digits}f}", f"x {10**finding.difference:.2f}"
        allowed = f"x {10**expected.allowed:.1f}"
    else:
        sign = "+" if expected.printed.text.startswith(("+", "-")) else ""
        got, difference = f"{finding.got:{sign}.{digits}f}", f"{finding.difference:+.{digits}f}"
        allowed = f"{expected.allowed:.{digits + 1}f}"
        if expected.claims_sign:
            allowed += f", {expected.allowed / 2:.{digits + 1}f} beyond zero"
    bound = "< " if expected.is_bound else ""
    return [
        *("" if finding.status == "meets" else "differs", expected.label, expected.where),
        *(f"{bound}{expected.printed.text}", got, difference, allowed),
        *(tolerance.name, _setting(expected)),
    ]


def _setting(expected: Expected) -> str:
    """Under what a value was compared."""
    place = expected.place
    data = place.dataset or f"{len(place.datasets)} streams"
    settings = (f"{name} {value}" for name, value in place.settings.items())
    return ", ".join([data, place.predictor, *settings])


def _show_reasons(findings: Sequence[Finding], *, with_unmatched: bool) -> None:
    """Why the rest has no match: the reasons with their counts, or each value."""
    left_out = [each for each in findings if each.status == "no match"]
    if not left_out:
        return
    console.say("")
    if with_unmatched:
        console.table(
            ["printed in", "value", "printed", "no match"],
            [
                [each.expected.label, each.expected.where, each.expected.printed.text, each.reason]
                for each in left_out
            ],
            numbers=False,
        )
    else:
        counts = Counter(each.reason for each in left_out).most_common()
        console.table(
            ["values", "no match"], [[str(n), reason] for reason, n in counts], numbers=False
        )


def _as_data(study: Path, findings: Sequence[Finding], *, with_unmatched: bool) -> dict[str, Any]:
    counts = Counter[str](each.status for each in findings)
    reasons = Counter(each.reason for each in findings if each.reason).most_common()
    return {
        "study": str(study),
        **_by_status(counts),
        "conclusion": _conclusion(findings),
        "tables": _summary(findings),
        "values": [
            _value_data(each) for each in findings if with_unmatched or each.status != "no match"
        ],
        "reasons": [{"reason": reason, "values": number} for reason, number in reasons],
    }


def _value_data(finding: Finding) -> dict[str, Any]:
    """One printed value; got, difference and allowed are in its unit, steps of a grid or log10."""
    expected, place = finding.expected, finding.expected.place
    return {
        "label": expected.label,
        "row": expected.row,
        "column": expected.column,
        "number": expected.number,
        "part": place.part,
        "printed": expected.printed.text,
        "status": finding.status,
        "reason": finding.reason,
        "got": finding.got,
        "difference": finding.difference,
        "allowed": expected.allowed if place.tolerance and finding.got is not None else None,
        "kind": place.tolerance.name if place.tolerance else None,
        "why_allowed": place.tolerance.reason if place.tolerance else None,
        "dataset": place.dataset,
        "datasets": list(place.datasets),
        "predictor": place.predictor,
        "table": place.table,
        "column_of_table": place.column,
        "settings": dict(place.settings),
        "note": place.note,
    }
