"""The streams of a plan, opened when they are asked for and let go when they take too much memory.

What is known of a stream, its digests and its labels, stays; its features are opened again if they
are needed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from marc.embed.store import FeatureStore
from marc.encoders.prompts import PromptSet
from marc.errors import MarcError
from marc.files import user_path
from marc.scores import Int
from marc.sources import is_pictures, load_stream
from marc.stream import Stream
from marc.types import OnProgress
from marc_paper.study.plan import Plan

_BYTES = 4 * 2**30  # of features that streams may hold together
_FEWEST = 40  # images of a stream


@final
class OpenStreams:
    """Streams by name, as the plan wants them."""

    def __init__(
        self, plan: Plan, given: Mapping[str, Stream], on_progress: OnProgress | None
    ) -> None:
        self._plan, self._tell = plan, on_progress
        self._given = {name: self._with_orders(stream) for name, stream in given.items()}
        self._open: dict[str, Stream] = {}
        self._fingerprints: dict[str, dict[str, Any]] = {}
        self._labels: dict[str, Int] = {}

    def get(self, name: str) -> Stream:
        """A stream with all the views that the plan gives it."""
        if name in self._given:
            return self._given[name]
        stream = self._open.pop(name, None) or self._load(name)
        self._open[name] = stream  # the newest comes last
        while len(self._open) > 1 and sum(map(_n_bytes, self._open.values())) > _BYTES:
            del self._open[next(iter(self._open))]
        return stream

    def fingerprint(self, name: str) -> dict[str, Any]:
        """Digests of everything an answer depends on."""
        if name not in self._fingerprints:
            self._fingerprints[name] = self.get(name).fingerprint
        return self._fingerprints[name]

    def facts(self, name: str) -> dict[str, Any]:
        """What is recorded of a stream: where it comes from, its size and a digest."""
        stream = self.get(name)
        text = json.dumps(self.fingerprint(name), sort_keys=True)
        return {
            "source": self._plan.streams[name].source,
            "images": len(stream),
            "classes": stream.n_classes,
            "views": stream.n_views,
            "digest": hashlib.sha256(text.encode()).hexdigest()[:16],
        }

    def refuse_repeated(self, names: Sequence[str]) -> None:
        """Refuse a plan that has the same images twice: nothing chosen on them is held out.

        The images of another stream may be seen by another predictor: group `predictor`.
        """
        seen: dict[str, str] = {}
        for name in names:
            if self._plan.streams[name].group == "predictor":
                continue
            for digest in self.get(name).features.images:
                if digest in seen:
                    raise MarcError(
                        "two streams of the plan are of the same images",
                        got=f"streams.{seen[digest]}, streams.{name}",
                        hint='one of them, or group = "predictor" for another predictor',
                    )
            seen |= dict.fromkeys(self.get(name).features.images, name)

    def labels(self, name: str) -> Int:
        """True labels by stored row, (N,)."""
        if name not in self._labels:
            labels = self.get(name).row_labels
            assert labels is not None  # a stream without any is refused
            self._labels[name] = labels
        return self._labels[name]

    def _load(self, name: str) -> Stream:
        try:
            return self._checked(name)
        except MarcError as error:
            raise MarcError(
                f"streams.{name}: {error.problem}",
                got=error.got,
                allowed=error.allowed,
                hint=error.hint,
            ) from error

    def _checked(self, name: str) -> Stream:
        entry = self._plan.streams[name]
        _check_declared(self._plan, name)
        stream = load_stream(entry.source, self._tell, n_views=entry.views)
        if stream.row_labels is None:
            raise MarcError(
                "a study measures accuracy, and this stream has no labels",
                got=entry.source,
                hint="leave the stream out of the plan, or add labels to the source",
            )
        stream = self._with_orders(stream)
        if len(stream) < _FEWEST:
            raise MarcError(
                "this stream is too small for a study",
                got=f"{len(stream)} images",
                allowed=f"{_FEWEST} or more: ten neighbours must not be most of the stream",
            )
        for space in self._plan.spaces.all:
            stream.features.dim(space)
        return stream

    def _with_orders(self, stream: Stream) -> Stream:
        """The stream as it is stored; seeds draw orders of the plan's kind."""
        kind = self._plan.seeds.kind
        return stream if kind == "shuffled" else stream.ordered(kind).in_order(None)


def _n_bytes(stream: Stream) -> int:
    """What a stream takes once all of it is read."""
    features = stream.features
    _, n_views, dim = features.views.shape
    dims = sum(features.dim(space) for space in features.spaces)
    return 4 * len(features.ids) * (n_views * dim + dims)


def _check_declared(plan: Plan, name: str) -> None:
    """Refuse a stream whose store was made with another predictor or other prompts."""
    entry = plan.streams[name]
    path = store_of(entry.source)
    if path is None or not FeatureStore.exists(path):
        return
    words = FeatureStore(path).attributes(FeatureStore.PROTOTYPES).get("made")
    if words is None:
        return  # opening it says that it is not whole
    predictor, prompts = entry.predictor or plan.predictor, entry.prompts or plan.prompts
    if words["encoder"]["name"] != predictor:
        raise MarcError(
            "the plan names another predictor than the store has",
            got=f"{predictor}; {path} has {words['encoder']['name']}",
            hint=f'predictor = "{words["encoder"]["name"]}" in the plan',
        )
    stored = [str(row[0]) for row in words["prompts"]]
    if prompts and not _same_prompts(prompts, stored):
        raise MarcError(
            "the plan names other prompts than the store has",
            got=f"{prompts}; {path} has {'+'.join(stored)}",
            hint="the prompt sets by name, joined by +, with a name of yours for each file",
        )


def store_of(source: str) -> Path | None:
    """The folder of the store behind a source, if it is one of those."""
    kind, _, path = source.partition("/")
    if kind == "store":
        return user_path(path)
    return FeatureStore.default_path(source) if is_pictures(source) else None


def _same_prompts(declared: str, stored: list[str]) -> bool:
    """Whether as many sets are declared as stored, and those that have a name here are the same.

    >>> _same_prompts("tip-7+cupl", ["tip-7", "imagenet"]), _same_prompts("tip-7+cupl", ["tip-7"])
    (True, False)
    """
    names, known = declared.split("+"), PromptSet.available()
    same = {name for name in names if name in known} == {name for name in stored if name in known}
    return same and len(names) == len(stored)
