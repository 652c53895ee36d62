"""The pictures of the first screen: one answer, and what was nearest to it in two spaces.

Chosen by a rule that the page states, so that nobody takes the clearest case for a typical one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marc.report.figures import looks_of
from marc.report.setting import Subject
from marc.report.stepped import Stepped

_NEAREST = 4  # remembered pictures of each space
_TITLES = {
    "repaired": "One image that it repaired",
    "broken": "One image that it broke",
    "changed": "One answer that it changed",
    "listed": "One image",
}


@dataclass(frozen=True)
class _Column:
    """A space in which the memory is shown, or would have been."""

    name: str
    role: str
    voice: str
    place: int
    """Among the spaces or voices of a query."""


def find(
    subject: Subject | Stepped,
    queries: Sequence[dict[str, Any]],
    pictures: Mapping[int, str],
) -> dict[str, Any]:
    """The query of the first screen, its nearest pictures, and the rule that chose it."""
    columns, looks = _columns(subject), looks_of(subject)
    places = [column.place for column in columns]
    kind = _kind(subject, queries)
    found = [query for query in queries if _is(query, kind)]
    telling = {query["row"]: _telling(subject, query, places) for query in found}
    query = max(found, key=lambda each: telling[each["row"]])  # the first of the best
    names, ids = subject.stream.features.class_names, subject.stream.features.ids

    def shown(row: int) -> dict[str, Any]:
        return {"row": row, "id": ids[row], "picture": pictures.get(row)}

    spaces = []
    for column in columns:
        voted = _votes(subject, query, column.place)
        said = _said(subject, query, column)
        spaces.append(
            {
                "name": column.name,
                "role": column.role,
                "color": looks[column.voice].page_color,
                "pictures": [
                    {**shown(row), "label": names[label], "agrees": label == query["adapted"]}
                    for row, label in voted
                ],
                "agreeing": sum(label == query["adapted"] for _, label in voted),
                "said": None if said is None else names[said],
                "right": None if query["truth"] is None else said == query["truth"],
            }
        )
    return {
        **shown(query["row"]),
        "title": _TITLES[kind],
        "truth": None if query["truth"] is None else names[query["truth"]],
        "base": names[query["base"]],
        "adapted": names[query["adapted"]],
        "changed": query["base"] != query["adapted"],
        "right": query["truth"] == query["adapted"],
        "spaces": spaces,
        "answers": isinstance(subject, Subject),
        "rule": _rule(kind, len(found), len(columns)),
    }


def _columns(subject: Subject | Stepped) -> list[_Column]:
    """The space that is read and the one beside it, or those that are trusted most and least."""
    roles = ["where this memory is read", "the same memory, read there instead"]
    if isinstance(subject, Subject):
        spaces = zip(subject.shown_spaces, roles, strict=False)
        return [_Column(name, role, name, place) for place, (name, role) in enumerate(spaces)]
    voices = subject.shown_voices
    roles = ["trusted most", "trusted least"] if len(voices) > 1 else roles
    return [
        _Column(subject.spaces[voice], role, voice, subject.voices.index(voice))
        for voice, role in zip(voices, roles, strict=False)
    ]


def _kind(subject: Subject | Stepped, queries: Sequence[dict[str, Any]]) -> str:
    """What a memory is shown by: a repair if it gains, else an answer that it broke."""
    kind = "changed"
    if subject.labels is not None:
        gains = subject.right.mean() >= (subject.base_prediction == subject.labels).mean()
        kind = "repaired" if gains else "broken"
    kinds = (each for each in (kind, "changed") if any(_is(query, each) for query in queries))
    return next(kinds, "listed")


def _is(query: dict[str, Any], kind: str) -> bool:
    if kind == "changed":
        return bool(query["base"] != query["adapted"])
    return kind == "listed" or kind in query["kinds"]


def _telling(
    subject: Subject | Stepped, query: dict[str, Any], places: Sequence[int]
) -> tuple[float, float]:
    """By how many votes for the answer the first space is ahead of the last, then by evidence."""
    votes = [
        sum(label == query["adapted"] for _, label in _votes(subject, query, place))
        for place in places
    ]
    evidence = [_ahead(query, place) for place in places]
    if len(places) < 2:
        return sum(votes), sum(evidence)
    return votes[0] - votes[-1], evidence[0] - evidence[-1]


def _ahead(query: dict[str, Any], place: int) -> float:
    """Evidence for the answer above that for the best other class; all leading ones are listed."""
    evidence = (query["slopes"] if "slopes" in query else query["evidence"])[place]
    by_class = dict(zip(query["classes"], evidence, strict=False))  # last may be the lowest of any
    mine = by_class.pop(query["adapted"])
    return float(mine - max(by_class.values(), default=mine))


def _votes(subject: Subject | Stepped, query: dict[str, Any], place: int) -> list[tuple[int, int]]:
    """Rows of the nearest remembered pictures of a space, and the class that each speaks for."""
    label = subject.base_prediction
    return [
        (entry["row"], int(entry.get("label", label[entry["row"]])))
        for entry in query["entries"][place][:_NEAREST]
    ]


def _said(subject: Subject | Stepped, query: dict[str, Any], column: _Column) -> int | None:
    """The answer if this space is read; of a voice, the class that it speaks for, if for any."""
    if isinstance(subject, Subject):
        return int(subject.answers[column.name].prediction[query["row"]])
    evidence = query["evidence"][column.place][:-1]
    if max(evidence) <= query["evidence"][column.place][-1]:
        return None
    return int(query["classes"][evidence.index(max(evidence))])


def _rule(kind: str, n_found: int, n_spaces: int) -> str:
    which = f"Of {n_found:,} {kind} images" if kind != "listed" else f"Of {n_found:,} images"
    if not n_spaces:
        return f"{which} in the explorer below, the first."
    most = f"whose {_NEAREST} nearest remembered pictures speak most for the answer"
    if n_spaces > 1:
        most += " in the first space and least in the second (then by the evidence)"
    return f"{which} in the explorer below, the one {most}: the clearest case, not a typical one."
