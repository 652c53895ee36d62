"""What a method must do, and what a person should know of it before comparing numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from marc.core import Query, Step
from marc.errors import MarcError

STATE_VERSION = 1

Need = Literal["space", "prompts", "shots"]
"""What a method needs beyond the predictor's features: a second encoder's space, the embedding of
every prompt, labelled few-shot features."""

PLAIN_IMAGE = "the plain image"


class _Named(Protocol):
    """What every method has, whatever its verb. A method never sees a label."""

    @property
    def name(self) -> str:
        """The name under which the method is listed."""
        ...

    @property
    def varies_with(self) -> frozenset[str]:
        """Settings that would change what is stored, beyond the stream and the predictor."""
        ...

    def reset(self) -> None:
        """Forget everything that was seen."""
        ...

    def config(self) -> dict[str, Any]:
        """Everything that decides the method's answers, as plain data."""
        ...

    def state(self) -> dict[str, Any]:
        """Settings and memories as plain data and arrays; `from_state` of its class goes on."""
        ...


class Method(_Named, Protocol):
    """One verb: `step`. Such a method sees queries one at a time."""

    def step(self, query: Query) -> Step:
        """Answer one query and learn from it."""
        ...


@runtime_checkable
class BatchMethod(_Named, Protocol):
    """One verb: `step_batch`. Such a method answers several queries together."""

    @property
    def batch_size(self) -> int | None:
        """How many queries are answered together; None is the whole stream."""
        ...

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Answer the queries of a batch, in their order."""
        ...


AnyMethod = Method | BatchMethod


@dataclass(frozen=True)
class MethodCard:
    """All that is told of a method."""

    name: str
    summary: str
    factory: Callable[..., AnyMethod]
    reads_before_writes: bool | None
    """Whether an image is answered before it is stored; None if nothing is stored."""
    paper: str
    needs: tuple[Need, ...] = ()
    sees: Literal["image", "batch", "stream"] = "image"
    """What is answered together; a method that sees the whole stream is transductive."""
    views: str = PLAIN_IMAGE
    """Which views it uses."""
    paper_says: str = ""
    released_code: str = ""
    """What the released code does otherwise."""
    ours: str = ""
    """What is done here, and why where it differs."""
    tuned: str = "nothing"
    """What its authors tuned, and on what."""
    published: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings that were published for single data sets."""
    searched: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Weights that the authors chose on evaluation labels, by setting: the grid of an oracle."""
    reconstruction: bool = False
    """Whether it was built from descriptions, without equations or code to check against."""

    def reads_first(self, settings: Mapping[str, Any]) -> bool | None:
        """`reads_before_writes` of the method with these settings: some let one choose."""
        if "writes_first" in settings:
            return not settings["writes_first"]
        return self.reads_before_writes

    @property
    def settings(self) -> dict[str, Any]:
        """Settings and their defaults; a setting without one must be given."""
        return {
            setting.name: "required" if setting.default is dataclasses.MISSING else setting.default
            for setting in dataclasses.fields(self.factory)  # type: ignore[arg-type]
            if setting.init
        }


def config_of(method: Any) -> dict[str, Any]:
    """The name and every setting of a method that is a dataclass."""
    settings = {each.name: getattr(method, each.name) for each in _settings(method)}
    return {"method": method.name, **settings}


def as_state(method: AnyMethod, arrays: Mapping[str, Any] | None) -> dict[str, Any]:
    """The state of a method whose memories are `arrays`; None before the first step."""
    if arrays is None:
        raise MarcError("nothing was seen yet, so there is no state", hint="step(query) first")
    return {"version": STATE_VERSION, "config": method.config(), "arrays": dict(arrays)}


def forget_nothing(method: AnyMethod) -> None:
    """`reset` of a method that remembers nothing."""


def empty_state(method: AnyMethod) -> dict[str, Any]:
    """`state` of a method that remembers nothing: its settings."""
    return as_state(method, {})


def from_settings(cls: Any, state: Mapping[str, Any]) -> Any:
    """`from_state` of a method that remembers nothing."""
    return cls(**settings_in(state))


def named(**parts: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of several memories in one dictionary, as PART/NAME."""
    return {f"{part}/{name}": a for part, arrays in parts.items() for name, a in arrays.items()}


def part(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The arrays of one memory in a state; empty if there was none."""
    prefix, arrays = f"{name}/", state["arrays"].items()
    return {key.removeprefix(prefix): array for key, array in arrays if key.startswith(prefix)}


def settings_in(state: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the method that gave a state; another format is refused."""
    if state.get("version") != STATE_VERSION:
        raise MarcError(
            "this memory state has another format",
            got=repr(state.get("version")),
            allowed=STATE_VERSION,
        )
    return {name: value for name, value in state["config"].items() if name != "method"}


def _settings(method: Any) -> list[dataclasses.Field[Any]]:
    return [each for each in dataclasses.fields(method) if each.init]
