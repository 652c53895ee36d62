"""What a person should know of a method before comparing numbers; ours are in `NAME.toml`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from marc.errors import MarcError
from marc.loop import AnyMethod

Need = Literal["space", "prompts", "shots", "unlabelled", "text-tower", "image-tower"]
"""What a method needs beyond the predictor's features: a second encoder's space, the embedding of
every prompt, features of labelled few-shot images or of unlabelled ones that are no part of the
stream, or the networks of the predictor themselves."""


@dataclass(frozen=True)
class MethodCard:
    """All that is reported of a method."""

    name: str
    summary: str
    factory: Callable[..., AnyMethod]
    reads_before_writes: bool | None
    """Whether an image is answered before it is stored; None if nothing is stored."""
    paper: str
    needs: tuple[Need, ...] = ()
    sees: Literal["image", "batch", "stream"] = "image"
    """What is answered together; a method that sees the whole stream is transductive."""
    views: str = "the plain image"
    """Which views it uses."""
    paper_says: str = ""
    released_code: str = ""
    """What the released code does otherwise."""
    ours: str = ""
    """What is done here, and why where it differs."""
    gradients: bool = False
    """Whether it follows gradients; from features they may be written out, without torch."""
    resets: Literal["image", "batch", "stream", "never"] | None = None
    """After what it forgets all that it learned; None where it never learns anything."""
    grows: bool = False
    """Whether it keeps something of every image, so that its cost grows with the stream."""
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
        if not dataclasses.is_dataclass(self.factory):
            given = inspect.signature(self.factory).parameters.values()
            return {p.name: "required" if p.default is p.empty else p.default for p in given}
        return {
            setting.name: "required" if setting.default is dataclasses.MISSING else setting.default
            for setting in dataclasses.fields(self.factory)
            if setting.init
        }


@dataclass(frozen=True)
class AbsentMethod:
    """A method of the field that does not run here, and the fact that keeps it out."""

    name: str
    summary: str
    paper: str
    reason: str
    """Why it is not here: a fact, not an opinion."""
    would_need: tuple[str, ...] = ()


def card_of(method: type) -> MethodCard:
    """The card of a method's class; attributes of the class that a card has too go into it."""
    name = getattr(method, "name", None)
    if not isinstance(name, str):
        raise MarcError(
            f"the class {method.__name__} has no name to be listed under",
            hint=f'name = "{method.__name__.lower()}" in the class, or a MethodCard',
        )
    summary = (method.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    card = MethodCard(name, summary, method, reads_before_writes=True, paper="")
    sees = {"sees": "batch" if "batch_size" in card.settings else "stream"}
    needs = tuple(need for need in get_args(Need) if card.settings.get(need) == "required")
    made: dict[str, Any] = {"needs": needs, **(sees if hasattr(method, "step_batch") else {})}
    for each in dataclasses.fields(MethodCard):
        is_setting = each.name in ("name", "factory", *card.settings)
        if each.name in vars(method) and not is_setting:
            made[each.name] = vars(method)[each.name]
    return dataclasses.replace(card, **made)
