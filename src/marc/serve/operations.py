"""What can be asked of a memory beside steps, each in its turn between them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from marc.errors import MarcError, integer, number, one_of
from marc.serve import snapshots
from marc.serve.config import MODES
from marc.serve.log import CANARY, LabelRow, StepRow
from marc.serve.refused import Refused
from marc.serve.served import Served

_ANSWERING = ("canary", "live")
_MOST = 10_000
_WINDOW = 20_000  # of the newest disagreements, from which an audit is drawn


def info(served: Served) -> dict[str, Any]:
    """What the memory is made of, and how it is."""
    config, head = served.config, served.head
    last = served.log.step(served.seq)
    items = served.learner.items
    sizes = [len(items.get(label, ())) for label in range(len(config.classes))]
    trial = judgement(served)
    shadow = ("steps", "disagreements", "disagreement_rate", "verdict", "sentence")
    settings = {name: value for name, value in served.learner.method.config().items()}
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
        "shadow": {name: trial[name] for name in shadow},
        "fell_back": head["fell_back"],
        "created": config.created,
        "answered_otherwise_on_recovery": served.differences,
    }


def judgement(served: Served) -> dict[str, Any]:
    """What the labels say of the memory."""
    head = served.head
    return served.trial.to_dict(head["steps"], head["disagreements"], head["since"])


def label(served: Served, labels: Sequence[Any]) -> dict[str, Any]:
    """Take late labels; each is written once, or corrected, and read by the judge alone."""
    if not isinstance(labels, Sequence) or len(labels) > _MOST:
        raise MarcError("labels are a list", allowed=f"at most {_MOST} of them at once")
    counts = {"accepted": 0, "changed": 0, "repeated": 0}
    unknown: list[str] = []
    rows: dict[str, LabelRow] = {}
    count = served.log.n_labels()
    given = [_label(served, each) for each in labels]  # all are looked at before one is taken
    steps = served.log.known_many([name for name, _ in given])
    for name, truth in given:
        if (step := steps.get(name)) is None:
            unknown.append(name)
            continue
        old = rows.get(name) or served.log.label(name)
        if old is not None and old.label == truth:
            counts["repeated"] += 1
            continue
        counts["accepted" if old is None else "changed"] += 1
        count += old is None
        place = old.number if old else count
        rows[name] = LabelRow(place, name, step.seq, truth, _result(step, truth))
    _count(served, [*rows.values()])
    return {**counts, "unknown": unknown, "judgement": judgement(served)}


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
    return each["id"], truth


def _result(step: StepRow, truth: int) -> int | None:
    """Won 1, lost -1, neither 0; none where both answers are the same, or nothing was learned."""
    if not step.disagrees or not step.judged:
        return None
    return int(truth == step.prediction) - int(truth == step.base)


def _count(served: Served, rows: list[LabelRow]) -> None:
    """Tell the judge, and fall back where it says that the memory harms."""
    head = dict(served.head)
    judged = [row for row in rows if row.seq >= head["since"]]
    harms = [served.trial.add(row.id, row.result) for row in judged]
    if any(harms) and head["mode"] in _ANSWERING:
        why = "the labels say that it harms: its answers were right less often than the base's"
        head["fell_back"] = {"seq": served.seq, "from": head["mode"], "why": why}
        head["mode"] = "shadow"
    if rows:
        served.commit(head, labels=rows)


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
        beside = {"at": row.time, "choices": choices, "picture": row.seq in pictures}
        items.append({"id": row.id, "seq": row.seq, **beside})
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
        raise Refused(409, "the mode is another by now", got=f"expected {expect}", allowed=before)
    if to in _ANSWERING and served.trial.verdict == "harms" and not anyway:
        raise Refused(
            409,
            "the judge says that this memory harms, so it is not let to answer",
            got=served.trial.sentence,
            hint='"anyway": true, or restore a snapshot: then the trial begins again',
        )
    head = {**served.head, "mode": to, "fell_back": None}
    head["fraction"] = number("fraction", CANARY if fraction is None else fraction, 0, 1)
    served.commit(head)
    return {"mode": to, "before": before, "fraction": head["fraction"], "seq": served.seq}


def snapshot(served: Served) -> dict[str, Any]:
    """Write everything that is remembered, and forget the log before it."""
    made = served.snapshot()
    path = made.write(served.folder)
    served.start_from(made)
    return {"file": made.file, "seq": made.seq, "bytes": path.stat().st_size}


def list_snapshots(served: Served) -> dict[str, Any]:
    """The snapshots that are kept, the newest last."""
    return {"items": snapshots.kept(served.folder)}


def snapshot_file(served: Served, file: str) -> str:
    """Where a snapshot is."""
    return str(snapshots.path_of(served.folder, file))


def samples(served: Served, n: int = 20) -> dict[str, Any]:
    """Some of the last steps, newest first."""
    return {"items": served.last_samples(integer("n", n, 1, 60))}


def history(served: Served, points: int = 300) -> dict[str, Any]:
    """The whole past, in so many points."""
    count = integer("points", points, 1, 1000)
    return {"points": served.history.points(count), "width": served.history.width}


def stored(served: Served, id: str) -> Any:
    """The answer that a step got."""
    return orjson.loads(served.stored(id).answer)


def picture(served: Served, seq: int) -> bytes:
    """The small picture of a step."""
    found = served.log.thumbnail(integer("seq", seq, 1))
    if found is None:
        raise Refused(404, "this step has no picture that is kept", got=seq)
    return found


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
