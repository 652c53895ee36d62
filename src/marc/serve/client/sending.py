"""A source of pictures or features, sent to a memory image by image: exactly once, by name."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from marc.errors import MarcError, integer, number
from marc.files import csv_bytes, user_path, write_whole
from marc.serve.client.client import Client, Outcome, RemoteMemory
from marc.serve.client.items import Items, fitted, open_items, paced
from marc.serve.client.replies import Reply
from marc.serve.memory.config import MOST_NEIGHBOURS
from marc.serve.refused import Refused
from marc.stream import Stream
from marc.types import OnProgress

_OF_ONE_IMAGE = (400, 413, 415, 422)
"""Statuses that say something about an image; with any other one, sending stops."""
_HOPELESS = 20  # refused before one was answered: it is not the images
_WINDOW = 100_000  # answers that a memory keeps, unless it is made for more
_PICTURES, _FEATURES = 8, 32  # of one request
_ADVICE = "the same command goes on; what was answered is not learned again"


@dataclass(frozen=True)
class Sent:
    """What became of a source that was sent."""

    memory: str
    mode: str
    """Of the memory, after the last step."""
    created: bool
    """Whether the memory was made for it."""
    classes: tuple[str, ...] = field(repr=False)
    replies: tuple[tuple[int, Reply], ...] = field(repr=False)
    """Place in the source and answer, of each image that got one; without top and neighbours."""
    refused: tuple[tuple[str, str], ...] = field(repr=False)
    """Name and reason of each image that got none."""
    n_repeated: int
    """How many had been answered before, by name: they changed nothing."""
    labels: Sequence[int] | None = field(default=None, repr=False)
    """Of the source by place, where they were sent."""
    labelled: Mapping[str, Any] | None = field(default=None, repr=False)
    """What the server says of them."""
    notes: tuple[str, ...] = ()

    @property
    def n_changed(self) -> int:
        """How many answers the memory changed, whoever answered."""
        return sum(reply.disagree for _, reply in self.replies)

    @property
    def accuracies(self) -> tuple[float, float] | None:
        """How often the memory was right and how often the base, of those with sent labels."""
        if self.labels is None or not self.replies:
            return None
        n, truth = len(self.replies), self.labels
        right = sum(reply.prediction == truth[at] for at, reply in self.replies)
        return right / n, sum(r.base_prediction == truth[at] for at, r in self.replies) / n

    def to_dict(self) -> dict[str, Any]:
        """The counts, and where labels were sent what they say."""
        found: dict[str, Any] = {
            "memory": self.memory,
            "mode": self.mode,
            "created": self.created,
            "n_answered": len(self.replies),
            "n_repeated": self.n_repeated,
            "n_changed": self.n_changed,
            "n_refused": len(self.refused),
            "refused": [list(each) for each in self.refused],
            "notes": list(self.notes),
        }
        if (accuracies := self.accuracies) is not None:
            both = dict(zip(("accuracy", "base_accuracy"), accuracies, strict=True))
            found |= {**both, "gain": accuracies[0] - accuracies[1], "selection": "fixed"}
        return found | ({} if self.labelled is None else {"labelled": dict(self.labelled)})

    def csv(self) -> bytes:
        """A row for each answer."""
        header = ["id", "seq", "base_answer", "answer", "base_confidence", "confidence", "changed"]
        rows = [
            [
                reply.id,
                reply.seq,
                self.classes[reply.base_prediction],
                self.classes[reply.prediction],
                reply.base_confidence,
                reply.confidence,
                "true" if reply.disagree else "false",
                reply.answered_by,
                *([] if self.labels is None else [self.classes[self.labels[at]]]),
            ]
            for at, reply in self.replies
        ]
        more = [] if self.labels is None else ["label"]
        return csv_bytes([[*header, "answered_by", *more], *rows])


def send(
    client: Client,
    source: str | os.PathLike[str] | Stream,
    memory: str,
    *,
    classes: Sequence[str] | os.PathLike[str] = (),
    root: str | os.PathLike[str] = "",
    labels: bool = False,
    neighbours: int = 0,
    limit: int | None = None,
    rate: float | None = None,
    prefix: str = "",
    output: str | os.PathLike[str] = "",
    on_progress: OnProgress | None = None,
) -> Sent:
    """Send every image of a source to a memory, in order: what `marc send` does.

    An image is known by its name: stopped at any moment, the same call goes on, and what was
    answered before is not learned again. The memory is made, in shadow mode, if it is not there.

    Args:
        client: the server.
        source: a folder of pictures or another source of them, for a server with encoders; or a
            stream, a pack or a store of features.
        memory: its name.
        classes: what may be on the pictures: names, or a file with one per line.
        root: the folder of a named data set.
        labels: send the labels of the source after all steps, for the judge.
        neighbours: how many of the nearest remembered images of each space to ask for.
        limit: of the images, the first so many.
        rate: images a second, at most.
        prefix: what stands before each name, where two sources have the same names.
        output: a table of all answers, `.csv`.
        on_progress: called with how far it has come.
    """
    integer("neighbours", neighbours, 0, MOST_NEIGHBOURS)
    items = open_items(source, classes, user_path(root) if root else None, on_progress)
    total = len(items.ids) if limit is None else min(integer("limit", limit, 1), len(items.ids))
    pace = None if rate is None else number("rate", rate, 1e-3)
    client.health()  # a server that was there is waited for, but not one that never was
    remote, info, created = _found_or_made(client, memory, items, total)
    items = fitted(items, info)
    if labels and items.labels is None:
        raise MarcError("this source has no labels to send", got=str(source)[:200])
    notes = [*items.notes]
    if total > info["window"]:
        notes.append(f"the memory knows the last {info['window']:,} names again, not all of them")
    requests = paced(items, range(total), pace, prefix, neighbours)
    together = _FEATURES if items.stream is not None else _PICTURES
    together = together if pace is None else max(1, min(together, int(pace)))
    replies: list[tuple[int, Reply]] = []
    refused: list[tuple[str, str]] = []
    try:
        for at, outcome in enumerate(remote.steps(requests, together=together)):
            _keep(at, outcome, items.ids[at], replies, refused)
            if on_progress is not None:
                on_progress("sending", at + 1, total)
        told = None
        if labels and items.labels is not None:
            names = {reply.id: items.labels[at] for at, reply in replies}
            told = remote.label(names)
        mode = remote.info()["mode"]
    except MarcError as error:
        raise _stopped(error, len(replies), total) from error
    repeated = sum(reply.seq is not None and reply.seq <= info["seq"] for _, reply in replies)
    sent = Sent(
        memory,
        mode,
        created,
        tuple(info["classes"]),
        tuple(replies),
        tuple(refused),
        repeated,
        items.labels if labels else None,
        told,
        tuple(notes),
    )
    if output:
        write_whole(user_path(output), sent.csv())
    return sent


def _found_or_made(
    client: Client, name: str, items: Items, total: int
) -> tuple[RemoteMemory, dict[str, Any], bool]:
    """The memory, how it is, and whether it was made now."""
    remote = client.memory(name)
    try:
        return remote, _ready(remote.info()), False
    except Refused as error:
        if error.status != 404:
            raise
    try:
        _make(client, name, items, {"window": total} if total > _WINDOW else None)
    except Refused as error:
        if error.status != 403:
            raise
        raise Refused(
            403, "there is no such memory, and this key may not make one", got=name,
            hint="make it with an admin key; then a key with the scope 'write' sends",
        ) from error  # fmt: skip
    return remote, _ready(remote.info()), True


def _make(client: Client, name: str, items: Items, limits: dict[str, int] | None) -> None:
    if items.stream is not None:
        stream = items.stream
        spaces = {space: stream.features.dim(space) for space in stream.features.spaces}
        predictor = stream.features.predictor
        client.create(
            name, predictor=predictor, classes=items.classes, spaces=spaces, limits=limits
        )
    elif items.classes:
        client.create(name, classes=items.classes, limits=limits)
    else:
        raise MarcError(
            "there is no such memory yet, and it is not known what may be on these pictures",
            got=name,
            hint='--classes "cat,dog,coffee cup", or --class-names FILE with one per line',
        )


def _ready(info: dict[str, Any]) -> dict[str, Any]:
    if "classes" not in info:
        got = f"{info.get('state')}: {info.get('problem')}"[:300]
        raise MarcError("this memory does not answer now", got=got)
    return info


def _keep(
    at: int,
    outcome: Outcome,
    name: str,
    replies: list[tuple[int, Reply]],
    refused: list[tuple[str, str]],
) -> None:
    """Put an outcome where it belongs; raise what is not of this image alone."""
    if isinstance(outcome, Reply):
        best = [each for each in outcome.top if each["number"] in _both(outcome)]
        replies.append((at, replace(outcome, top=tuple(best), neighbours=())))
        return
    if isinstance(outcome, Refused) and outcome.status not in _OF_ONE_IMAGE:
        raise outcome
    refused.append((name, outcome.problem))
    if not replies and len(refused) >= _HOPELESS:
        raise outcome


def _both(reply: Reply) -> tuple[int, int]:
    return reply.prediction, reply.base_prediction


def _stopped(error: MarcError, done: int, total: int) -> MarcError:
    """The same error, and how far sending came."""
    far = f"{done:,} of {total:,} answered"
    got = far if error.got is None else f"{error.got}; {far}"
    parts: dict[str, Any] = {
        "got": got,
        "allowed": error.allowed,
        "hint": _ADVICE if done else error.hint,
    }
    if isinstance(error, Refused):
        return Refused(error.status, error.problem, **parts, retry_after=error.retry_after)
    return type(error)(error.problem, **parts)


def reasons(refused: Sequence[tuple[str, str]]) -> str:
    """Why images were refused, the most frequent reason first.

    >>> reasons([("a.jpg", "too large"), ("b.jpg", "no picture"), ("c.jpg", "no picture")])
    'no picture: 2 (b.jpg); too large: 1 (a.jpg)'
    """
    first = {why: name for name, why in reversed(refused)}
    counts = Counter(why for _, why in refused).most_common(5)
    return "; ".join(f"{why}: {count} ({first[why]})" for why, count in counts)
