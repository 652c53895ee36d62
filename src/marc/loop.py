"""The only loop, in stream order, a query or a batch at a time; and what it asks of a method."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, instance
from marc.scores import Certainty, Float, Int
from marc.stream import Stream
from marc.stream.rows import is_large
from marc.types import Query, Run, Step, Trajectory

_BLOCK = 256  # images whose probabilities are measured together


class _Named(Protocol):
    """What every method has, whatever its verb. A method never sees a label."""

    @property
    def name(self) -> str:
        """The name under which the method is listed."""

    @property
    def varies_with(self) -> frozenset[str]:
        """Settings that would change what is stored, beyond the stream and the predictor."""

    def reset(self) -> None:
        """Forget everything that was seen."""

    def config(self) -> dict[str, Any]:
        """Everything that decides the method's answers, as plain data."""

    def state(self) -> dict[str, Any]:
        """Settings and memories as plain data and arrays; `from_state` of its class goes on."""


@runtime_checkable
class Method(_Named, Protocol):
    """One verb: `step`. Such a method sees queries one at a time."""

    def step(self, query: Query) -> Step:
        """Answer one query and learn from it."""


@runtime_checkable
class BatchMethod(_Named, Protocol):
    """One verb: `step_batch`. Such a method answers several queries together."""

    @property
    def batch_size(self) -> int | None:
        """How many queries are answered together; None is the whole stream."""

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Answer the queries of a batch, in their order."""


AnyMethod = Method | BatchMethod


@runtime_checkable
class Replayable(Protocol):
    """A method that can answer a whole stream at once, as `marc.replay` asks."""

    def replay(self, stream: Any) -> Run:
        """What `marc.run(self, stream)` gives."""


@runtime_checkable
class Checking(Protocol):
    """A method that refuses some streams before it sees their first image."""

    def check(self, stream: Any) -> None:
        """Raise `MarcError` where the stream does not fit."""


def iter_steps(method: AnyMethod, stream: Stream) -> Iterator[Step]:
    """Steps over the stream, going on from whatever the method remembers."""
    if isinstance(method, BatchMethod):
        if not isinstance(stream, Stream):
            raise MarcError(
                f"{method.name} answers batches, so the queries must come as a stream",
                got=type(stream).__name__,
                hint="method.step_batch([query, ...]) for queries of your own",
            )
        if method.batch_size is None and is_large(len(stream), stream.n_classes):
            raise MarcError(
                f"{method.name} answers all images together, and so many are not held",
                got=f"{len(stream):,} images, {stream.n_classes:,} classes",
                hint="a method that answers them one by one, as class-means",
            )
        size = method.batch_size or len(stream)
        for start in range(0, len(stream), size):
            yield from method.step_batch(_Queries(stream, stream.order[start : start + size]))
    else:
        for query in stream:
            yield method.step(query)


class _Certainties:
    """How sure the answers are, and those without memory, a block of images at a time."""

    def __init__(self, size: int, labels: Int | None) -> None:
        self._labels, self._known = labels, True
        self._both = Certainty.room(size, labels), Certainty.room(size, labels)
        self._block: list[Float] = []  # probabilities (2, C) of images that are not measured yet
        self._measured = 0

    def take(self, step: Step) -> None:
        """Take the next answer of the stream."""
        if step.to_probabilities is None:
            self._known = False
            return
        self._block.append(step.to_probabilities(np.stack([step.logits, step.base])))
        if len(self._block) == _BLOCK:
            self._measure()

    def _measure(self) -> None:
        rows = self._measured + np.arange(len(self._block))
        probabilities = np.stack(self._block, axis=1)
        if not np.isfinite(probabilities).all():
            raise MarcError(
                "the method answers with what are no numbers",
                got="probabilities that are not finite",
                hint="a lower rate, if it learns by gradients: --set rate=...",
            )
        for certainty, each in zip(self._both, probabilities, strict=True):
            certainty.put(rows, each, self._labels)
        self._measured, self._block = self._measured + len(rows), []

    def so_far(self) -> dict[str, NDArray[Any]]:
        """What is known of the images so far, for `go_on`."""
        self.both()
        both = zip(("memory", "base"), self._both, strict=True)
        named = ((f"{side}/{n}", v) for side, each in both for n, v in each.known().items())
        return {name: values[: self._measured] for name, values in named if self._known}

    def go_on(self, size: int, kept: Mapping[str, NDArray[Any]]) -> None:
        """Take up what `so_far` gave after so many images."""
        self._measured, self._known = size, "memory/confidence" in kept
        for side, each in zip(("memory", "base"), self._both, strict=True):
            for name, values in each.known().items() if self._known else ():
                values[:size] = kept[f"{side}/{name}"]

    def both(self) -> tuple[Certainty | None, Certainty | None]:
        """Of the answers and of those without memory; None where any has no probabilities."""
        if self._known and self._block:
            self._measure()
        return self._both if self._known else (None, None)


class _Queries(Sequence[Query]):
    """Queries that are made when they are looked at: a batch may be the whole stream."""

    def __init__(self, stream: Stream, items: Int) -> None:
        self._stream, self._items = stream, items

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> Query: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Query]: ...
    def __getitem__(self, index: int | slice) -> Query | Sequence[Query]:
        if isinstance(index, slice):
            return _Queries(self._stream, self._items[index])
        return self._stream.query(int(self._items[index]))


def _remembered(method: AnyMethod) -> int:
    arrays = method.state().get("arrays", {})
    return sum(int(np.asarray(array).nbytes) for array in arrays.values())


class _Answers:
    """The answers of a run so far."""

    def __init__(self, stream: Stream) -> None:
        size = len(stream)
        self.size = 0
        self.seconds = 0.0
        self.certainties = _Certainties(size, stream.labels)
        self.by_space: dict[str, NDArray[np.float64]] = {}
        self.numbers: dict[str, NDArray[Any]] = {
            **{name: np.empty(size, dtype=np.int64) for name in ("prediction", "base", "label")},
            "priority": np.empty(size),
            "weight": np.zeros(size),
        }

    def take(self, step: Step) -> None:
        """Note the answer of the next image."""
        position, by_name = self.size, step.space_weights
        weight = sum(by_name.values()) if by_name else step.weights.get("retrieval", 0.0)
        found = (step.prediction, step.base_prediction, step.label, step.priority, weight)
        for values, number in zip(self.numbers.values(), found, strict=True):
            values[position] = number
        for space, each in by_name.items():
            if space not in self.by_space:
                self.by_space[space] = np.zeros(len(self.numbers["weight"]))
            self.by_space[space][position] = each
        self.size += 1

    def so_far(self) -> dict[str, NDArray[Any]]:
        """All of it as arrays, for `go_on`."""
        arrays = {name: values[: self.size] for name, values in self.numbers.items()}
        if self.by_space:
            arrays["spaces"] = np.array(list(self.by_space))
            arrays["space_weight"] = np.stack([w[: self.size] for w in self.by_space.values()])
        return {**arrays, "seconds": np.array(self.seconds), **self.certainties.so_far()}

    def go_on(self, kept: Mapping[str, NDArray[Any]]) -> None:
        """Take up what `so_far` gave."""
        self.size, self.seconds = len(kept["prediction"]), float(kept["seconds"])
        for name, values in self.numbers.items():
            values[: self.size] = kept[name]
        for number, space in enumerate(kept["spaces"].tolist() if "spaces" in kept else ()):
            self.by_space[space] = np.zeros(len(self.numbers["weight"]))
            self.by_space[space][: self.size] = kept["space_weight"][number]
        self.certainties.go_on(self.size, kept)


@dataclass(frozen=True)
class Pauses:
    """Where a long run is kept on its way, so that a killed one goes on."""

    every: int
    """Images between two pauses; a method of batches pauses at the end of one."""
    keep: Callable[[AnyMethod, Mapping[str, NDArray[Any]]], None]
    """Called with the method, which remembers so many images, and the answers so far."""
    kept: Mapping[str, NDArray[Any]] | None = None
    """The answers at an earlier pause, after which the method goes on from what it remembers."""

    def are_due(self, n_answered: int, method: AnyMethod) -> bool:
        """Whether there is one after so many answers."""
        size = method.batch_size if isinstance(method, BatchMethod) else 1
        return size is not None and n_answered % max(size, self.every // size * size) == 0


def run(
    method: AnyMethod,
    stream: Stream,
    on_step: Callable[[Step], None] | None = None,
    *,
    pauses: Pauses | None = None,
) -> Run:
    """Run a method over a stream from an empty memory and stack its steps.

    `on_step` is called after each step, for progress. The matched baseline is part of the result:
    the same images, views, prompts and order without memory. With `pauses` a run that was killed
    goes on after the last of them.
    """
    instance("method", method, Method, BatchMethod, hint='marc.create_method("class-means")')
    instance("stream", stream, Stream, hint='marc.load_stream("arrays/FILE.npz")')
    if isinstance(method, Checking):
        method.check(stream)
    answers = _Answers(stream)
    if pauses is not None and pauses.kept is not None:
        answers.go_on(pauses.kept)
    else:
        method.reset()
    rest = replace(stream, order=stream.order[answers.size :])
    _ = stream.features.base  # computed once for every method and order, so no method's time
    started = time.perf_counter()
    for step in iter_steps(method, rest):
        answers.take(step)
        answers.seconds += time.perf_counter() - started
        answers.certainties.take(step)  # to evaluate is no method's time
        if pauses and answers.size < len(stream) and pauses.are_due(answers.size, method):
            pauses.keep(method, answers.so_far())
        started = time.perf_counter()
        if on_step is not None:
            on_step(step)
    answers.seconds += time.perf_counter() - started
    certainty, base_certainty = answers.certainties.both()
    numbers = answers.numbers
    return Run(
        method=method.config(),
        predictions=numbers["prediction"],
        base_predictions=numbers["base"],
        trajectory=Trajectory(
            stream.order, numbers["label"], numbers["priority"], method.varies_with
        ),
        labels=stream.labels,
        weights=numbers["weight"],
        space_weights=answers.by_space,
        seconds=answers.seconds,
        memory_bytes=_remembered(method),
        seed=stream.seed,
        ordering=stream.ordering.name,
        certainty=certainty,
        base_certainty=base_certainty,
    )
