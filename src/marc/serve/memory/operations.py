"""What can be asked of a memory beside steps, each in its turn between them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import orjson

from marc.errors import MarcError, integer, number, one_of
from marc.serve.memory import snapshots
from marc.serve.memory.config import MODES
from marc.serve.memory.log import LabelRow, StepRow
from marc.serve.memory.samples import MOST
from marc.serve.memory.served import Served
from marc.serve.memory.trial import verdict
from marc.serve.refused import Refused

_ANSWERING = ("canary", "live")
MOST_LABELS = 10_000
"""Of one request."""
_WINDOW = 20_000  # of the newest disagreements, from which an audit is drawn


def info(served: Served) -> dict[str, Any]:
    """What the memory is made of, and how it is."""
    config, head = served.config, served.head
    last = served.log.step(served.seq)
    items = served.learner.items
    sizes = [len(items.get(label, ())) for label in range(len(config.classes))]
    settings = dict(served.learner.method.config())
    return {
        "name": served.folder.name,
        "state": "ready",
        "mode": head["mode"],
        "fraction": head["fraction"],
        "method": {"name": settings.pop("method"), **settings},
        "classes": list(config.classes),
        "n_classes": len(config.classes),
        "spaces": dict(config.spaces),
        "dim": config.dim,
        "n_seen": head["n_seen"],
        "seq": served.seq,
        "durable_seq": served.seq,
        "sizes": sizes,
        "held": sum(sizes),
        "capacity": settings.get("capacity"),
        "weight": last.weight if last else None,
        "space_weights": served.space_weights,
        "window": config.limits.window,
        "limits": {name: getattr(config.limits, name) for name in config.limits.__struct_fields__},
        "durability": served.durability,
        "snapshot": head["snapshot"],
        "takes_pictures": config.encoders is not None,
        "shadow": served.trial.summary(head["steps"], head["disagreements"]),
        "fell_back": head["fell_back"],
        "created": config.created,
        "answered_otherwise_on_recovery": served.differences,
    }


def judgement(served: Served) -> dict[str, Any]:
    """What the labels show of the memory."""
    head = served.head
    return served.trial.to_dict(head["steps"], head["disagreements"], head["since"])


def label(served: Served, labels: Sequence[Any]) -> dict[str, Any]:
    """Take late labels; each counts once, may be corrected, and is read by the judge alone."""
    if not isinstance(labels, Sequence) or len(labels) > MOST_LABELS:
        raise MarcError("labels are a list", allowed=f"at most {MOST_LABELS} of them at once")
    counts = {"accepted": 0, "changed": 0, "repeated": 0}
    unknown: list[str] = []
    rows: dict[str, tuple[LabelRow, LabelRow | None]] = {}  # what is to be written, what was
    last = served.log.n_labels()
    truths = [_label(served, each) for each in labels]  # all are looked at before one is taken
    steps = served.log.known_many([name for name, _ in truths])
    for name, truth in truths:
        if (step := steps.get(name)) is None:
            unknown.append(name)
            continue
        old = served.log.label(name)
        before = old if old is not None and old.seq == step.seq else None  # or it had another step
        newest = rows[name][0] if name in rows else before
        if newest is not None and newest.label == truth:
            counts["repeated"] += 1
            continue
        counts["accepted" if newest is None else "changed"] += 1
        last += old is None and newest is None
        number = newest.number if newest else old.number if old else last
        rows[name] = LabelRow(number, name, step.seq, truth, _result(step, truth)), before
    fell_back = _count(served, [*rows.values()], steps)
    return {**counts, "unknown": unknown, "fell_back": fell_back, "judgement": judgement(served)}


def _label(served: Served, each: Any) -> tuple[str, int]:
    if not isinstance(each, dict) or {*each} != {"id", "label"} or not isinstance(each["id"], str):
        raise MarcError("a label names a step and a class", got=repr(each)[:80],
                        allowed='{"id": "17", "label": "cat"}')  # fmt: skip
    truth = served.config.class_of(each["label"])
    if truth is None:
        raise MarcError(
            "there is no such class",
            got=repr(each["label"])[:80],
            allowed='a class by name or number, or "neither"',
        )
    if not each["id"].isprintable():  # no step has it, and no log could look for it
        raise MarcError("an id is text that can be printed", got=ascii(each["id"])[:80])
    return each["id"], truth


def _result(step: StepRow, truth: int) -> int | None:
    """Won 1, lost -1, neither 0; none where both answers are the same, or nothing was learned."""
    if not step.disagrees or not step.judged:
        return None
    return int(truth == step.prediction) - int(truth == step.base)


def _count(
    served: Served,
    rows: Sequence[tuple[LabelRow, LabelRow | None]],
    steps: Mapping[str, StepRow],
) -> dict[str, Any] | None:
    """Write labels and let the judge count them; why the base answers again, where it does."""
    if not rows:
        return None
    head, tally = dict(served.head), served.trial.tally
    counted = [each for each in rows if each[0].seq >= head["since"] and steps[each[0].id].judged]
    for row, corrected in counted:
        if corrected is not None:
            tally = tally.plus(corrected.result, -1)
        tally = tally.plus(row.result)
    head["labelled"] = tally._asdict()
    # who let it answer in spite of the verdict is not overruled by the next label
    fell_back = None
    if head["mode"] in _ANSWERING and served.trial.verdict != verdict(tally) == "harms":
        why = "the labels show that it harms: its answers were right less often than the base's"
        fell_back = {"seq": served.seq, "from": head["mode"], "why": why}
        head["mode"], head["fell_back"] = "shadow", fell_back
    served.commit(head, labels=[row for row, _ in rows])
    if any(corrected for _, corrected in counted):
        served.read_labels()
    else:
        for row, _ in counted:
            served.trial.add(row.result)
    return fell_back


def audit(served: Served, n: int = 20) -> dict[str, Any]:
    """Disagreements that nobody labelled, drawn at random: what is worth a label."""
    integer("n", n, 1, 1000)
    waiting = served.log.unlabelled(served.head["since"], _WINDOW)
    drawn = random.SystemRandom().sample(waiting, min(n, len(waiting)))
    pictures = served.log.thumbnails(drawn)
    names = served.config.classes
    items = []
    for row in filter(None, map(served.log.step, drawn)):
        choices = [{"class": names[c], "number": c} for c in sorted((row.base, row.prediction))]
        has_picture = row.seq in pictures
        items.append(
            {"id": row.id, "seq": row.seq, "at": row.time, "choices": choices,
             "picture": has_picture}
        )  # fmt: skip
    return {"items": items, "left": len(waiting)}


def mode(
    served: Served,
    to: str,
    expect: str | None = None,
    fraction: float | None = None,
    anyway: bool = False,
) -> dict[str, Any]:
    """Let another side answer, if the mode is the expected one."""
    one_of("mode", to, MODES)
    before = served.head["mode"]
    if expect is not None and expect != before:
        raise Refused(409, "the mode is another by now", got=f"expected {expect}", allowed=before,
                      hint=f'"expect": "{before}"')  # fmt: skip
    if to in _ANSWERING and served.trial.verdict == "harms" and not anyway:
        raise Refused(
            409,
            "the labels show that this memory harms, so it does not answer",
            got=served.trial.sentence,
            hint='"anyway": true, or restore a snapshot: then the trial begins again',
        )
    head = {**served.head, "mode": to, "fell_back": None}
    if fraction is not None:
        head["fraction"] = number("fraction", fraction, 0, 1)
    served.commit(head)
    return {"mode": to, "before": before, "fraction": head["fraction"], "seq": served.seq}


def snapshot(served: Served) -> dict[str, Any]:
    """Write everything that is remembered, and forget the log before it."""
    made = served.snapshot()
    path = made.write(served.folder)
    served.start_from(made)
    return {"file": made.file, "seq": made.seq, "bytes": path.stat().st_size}


class InFolder(Protocol):
    """A memory that has a folder, be it open or not."""

    folder: Path


def list_snapshots(memory: InFolder) -> dict[str, Any]:
    """The snapshots that are kept, the newest last."""
    return {"items": snapshots.kept(memory.folder)}


def snapshot_file(memory: InFolder, file: str) -> str:
    """Where a snapshot is."""
    return str(snapshots.path_of(memory.folder, file))


def samples(served: Served, n: int = 20) -> dict[str, Any]:
    """Some of the last steps, newest first."""
    return {"items": served.samples.last(integer("n", n, 1, MOST), served.seq)}


def history(served: Served, points: int = 300) -> dict[str, Any]:
    """The whole past, in so many points."""
    return {"points": served.history.points(integer("points", points, 1, 1000))}


def stored(served: Served, id: str) -> Any:
    """The answer that a step got."""
    return orjson.loads(served.stored(id).answer)


def picture(served: Served, seq: int) -> bytes:
    """The small picture of a step."""
    content = served.log.thumbnail(integer("seq", seq, 1))
    if content is None:
        raise Refused(404, "this step has no picture that is kept", got=seq)
    return content


OPERATIONS: dict[str, Callable[..., Any]] = {
    "info": info,
    "labels": label,
    "audit": audit,
    "judgement": judgement,
    "mode": mode,
    "snapshot": snapshot,
    "snapshots": list_snapshots,
    "snapshot_file": snapshot_file,
    "samples": samples,
    "history": history,
    "stored": stored,
    "picture": picture,
}
"""By the name under which a server asks for it."""
OF_FOLDER = ("snapshots", "snapshot_file")
"""What can be asked of a memory that cannot be opened, too."""
