"""A memory that was killed often, beside a twin that was sent the same and never interrupted."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from benchmarks.serving.clients import Book, body_of, request_of
from marc.errors import MarcError
from marc.serve.memory import operations
from marc.serve.memory.config import config_of
from marc.serve.memory.log import StepRow
from marc.serve.memory.served import Served

_ROUNDING = 1e-4  # of an answer: similarities are 32-bit floats, and weights multiply them
_OF_SUMS = 1e-6  # of the sums of a learned weight
_COUNTS = ("seq", "n_seen", "steps", "disagreements", "admitted")


@dataclass
class Compared:
    """What a comparison found."""

    steps: int = 0
    unheard: int = 0
    """Steps in the log whose client never got the answer."""
    rounded: int = 0
    """Answers whose numbers differ by rounding: blocks are cut otherwise by the twin."""
    near_ties: int = 0
    """Of these, predictions that rounding turned around."""
    problems: list[str] = field(default_factory=list)


def compare(
    folder: Path, twin_folder: Path, seed: int, book: Book, snapshot_every: int
) -> Compared:
    """Everything that a killed memory knows, beside what was acknowledged and what a twin knows."""
    memory, found = folder.name, Compared()
    config, mode, fraction = config_of(body_of(memory, snapshot_every))
    Served.create(twin_folder, config, mode, fraction)
    try:
        served = Served(folder)
    except MarcError as error:
        found.problems.append(f"{memory}: {error}")
        return found
    twin = Served(twin_folder)
    try:
        if served.config.identity() != config.identity():
            found.problems.append("the configuration is another")
        _compare_book(served, book, found)
        _compare_steps(served, twin, seed, found)
        labels = [{"id": row.id, "label": row.label} for row in served.log.labels()]
        for start in range(0, len(labels), 5000):
            operations.label(twin, labels[start : start + 5000])
        _compare_states(served, twin, found)
    finally:
        served.close()
        twin.close()
    found.problems = [f"{memory}: {problem}"[:1000] for problem in found.problems]
    return found


def _compare_book(served: Served, book: Book, found: Compared) -> None:
    """Nothing acknowledged is missing, and there are no more labels than were given."""
    memory, log = served.folder.name, served.log
    acknowledged = book.steps[memory]
    stored = log.known_many([*acknowledged])
    for name, answer in acknowledged.items():
        if name not in stored:
            found.problems.append(f"{name} is missing, which was acknowledged: {answer!r}")
        elif stored[name].answer != answer:
            found.problems.append(f"{name} has {stored[name].answer!r}, not {answer!r}")
    found.steps, found.unheard = served.seq, served.seq - len(acknowledged)
    labels = {row.id: row.label for row in log.labels()}
    if labels != book.labels[memory]:
        found.problems.append(f"labels: {len(labels)}, not {len(book.labels[memory])}, or others")
    fell_back = served.head["fell_back"] is not None and served.head["mode"] == "shadow"
    if served.head["mode"] != book.modes[memory] and not fell_back:
        found.problems.append(f"mode {served.head['mode']}, not {book.modes[memory]}")
    if served.differences:
        found.problems.append(f"{served.differences} answered otherwise on recovery")


def _compare_steps(served: Served, twin: Served, seed: int, found: Compared) -> None:
    """Send the twin what the log has, in its order and its blocks, and compare the answers."""
    names, seq = set[str](), 0
    for block in _blocks(served):
        names |= {row.id for row in block}
        twin.commit({**twin.head, "mode": _mode_of(block)})
        answers = twin.steps([request_of(seed, row.id) for row in block])
        for row, expected in zip(block, answers, strict=True):
            seq += 1
            if not isinstance(expected, bytes):
                raise expected
            if row.answer != expected:
                _compare_answers(served, row, expected, found)
    if not len(names) == seq == served.seq:
        found.problems.append(f"{served.seq} steps, {seq} numbers, {len(names)} ids")


def _blocks(served: Served) -> Iterator[list[StepRow]]:
    """Steps that were answered together: they were written at the same time."""
    rows = filter(None, map(served.log.step, range(1, served.seq + 1)))
    return (list(block) for _, block in itertools.groupby(rows, key=lambda row: row.time))


def _mode_of(block: Sequence[StepRow]) -> str:
    """A mode in which these answers are given."""
    if not block[0].judged:
        return "off"
    sides = {orjson.loads(row.answer)["answered_by"] for row in block}
    return "canary" if len(sides) > 1 else "live" if sides == {"memory"} else "shadow"


def _compare_answers(served: Served, row: StepRow, expected_text: bytes, found: Compared) -> None:
    """Where two answers are not the same text: is it rounding?"""
    answer, expected = orjson.loads(row.answer), orjson.loads(expected_text)
    found.rounded += 1
    if served.learner.record is not None:  # of a method that is never asked in blocks
        found.problems.append(f"step {row.seq}: {row.answer!r}, twin {expected}")
    if answer["prediction"] != expected["prediction"]:
        sure = {each["number"]: each["probability"] for each in expected["top"]}
        if abs(sure[answer["prediction"]] - sure[expected["prediction"]]) > _ROUNDING:
            found.problems.append(f"step {row.seq}: {answer}, twin {expected}")
        found.near_ties += 1
        for each in (answer, expected):
            for name in ("prediction", "class", "disagree"):
                del each[name]
    for each in (answer, expected):
        each["top"].sort(key=lambda one: one["number"])
        each["neighbours"].sort(key=lambda one: str(one["seq"]))
    if not _is_near(answer, expected):
        found.problems.append(f"step {row.seq}: {answer}, twin {expected}")


def _is_near(one: Any, other: Any) -> bool:
    """Whether plain data is the same but for the rounding of its floats."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_near(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    return type(one) is type(other) and bool(one == other)


def _compare_states(served: Served, twin: Served, found: Compared) -> None:
    """All that both remember: to the bit, but for the sums of a learned weight."""
    if served.seq == 0:
        return
    for name, own in _plain_of(served).items():
        if own != (other := _plain_of(twin)[name]):
            found.problems.append(f"{name}: {own}, twin {other}")
    one, other = _arrays_of(served), _arrays_of(twin)
    if one.keys() != other.keys():
        found.problems.append(f"arrays: {[*one]}, twin {[*other]}")
        return
    for name, array in one.items():
        if not _is_same(name, array, other[name]):
            found.problems.append(f"{name}: {array}, twin {other[name]}")
    counts = [abs(served.head[name] - twin.head[name]) for name in _COUNTS]
    if max(counts) > found.near_ties:
        found.problems.append(f"counts: {served.head}, twin {twin.head}")
    if found.near_ties == 0 and served.trial.tally != twin.trial.tally:
        found.problems.append(f"judge: {served.trial.tally}, twin {twin.trial.tally}")
    if found.near_ties == 0 and not _is_near(served.history.state(), twin.history.state()):
        found.problems.append(f"history: {served.history.state()}, twin {twin.history.state()}")


def _plain_of(served: Served) -> dict[str, Any]:
    """What is not in arrays."""
    method = {**served.learner.method.state(), "arrays": None} if served.head["n_seen"] else None
    record = served.learner.record.state()[0] if served.learner.record is not None else None
    held = served.held()
    items = {item: at for item, at in served._items.items() if item in held}
    return {"method": method, "record": record, "ids of what is remembered": items}


def _arrays_of(served: Served) -> Mapping[str, NDArray[Any]]:
    arrays = dict(served.learner.method.state()["arrays"]) if served.head["n_seen"] else {}
    record = served.learner.record
    return arrays if record is None else {**arrays, **record.state()[1]}


def _is_same(name: str, one: NDArray[Any], other: NDArray[Any]) -> bool:
    """To the bit, but for the sums of a learned weight: they add up similarities of blocks."""
    if name.startswith("auto/"):
        return one.shape == other.shape and np.allclose(one, other, rtol=_OF_SUMS, atol=_OF_SUMS)
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )
