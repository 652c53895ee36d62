"""Bad input: the one error it raises, the checks that raise it, and lookups by name."""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.scores import Int, unit

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_T = TypeVar("_T")


class MarcError(ValueError):
    """Bad input in four parts: what was wrong, what came, what is allowed, what to try.

    >>> raise MarcError("weight must be a number >= 0", got=-1, hint="weight=10")
    Traceback (most recent call last):
    marc.errors.MarcError: weight must be a number >= 0.
      got:  -1
      try:  weight=10
    """

    def __init__(
        self,
        problem: str,
        *,
        got: object = None,
        allowed: object = None,
        hint: str | None = None,
    ) -> None:
        lines = [problem.rstrip(".") + "."]
        if got is not None:
            lines.append(f"got:  {got}")
        if allowed is not None:
            lines.append(f"allowed:  {allowed}")
        if hint is not None:
            lines.append(f"try:  {hint}")
        super().__init__("\n  ".join(lines))
        self.problem, self.got, self.allowed, self.hint = problem, got, allowed, hint


def one_of(name: str, value: str, allowed: Iterable[str], hint: str | None = None) -> str:
    """`value` if it is one of the `allowed` names, else an error that lists them."""
    names = sorted(allowed)
    if value not in names:
        raise MarcError(
            f"unknown {name}", got=repr(value), allowed=", ".join(names) or "none", hint=hint
        )
    return value


def integer(name: str, value: object, at_least: int, at_most: int = 2**53 - 1) -> int:
    """`value` as an int within bounds; by default up to what every reader of JSON keeps exactly."""
    try:
        result = at_least - 1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        result = at_least - 1
    if not at_least <= result <= at_most:
        bound = f">= {at_least}" if result < at_least else f"<= {at_most}"
        raise MarcError(f"{name} must be an integer {bound}", got=repr(value)[:80])
    return result


def number(
    name: str, value: object, at_least: float = 0, at_most: float = 1e9, *, hint: str | None = None
) -> float:
    """`value` as a float within bounds; by default so that products of several stay finite."""
    try:
        is_text = isinstance(value, (bool, str, bytes))
        result = float("nan") if is_text else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        result = float("nan")
    if not at_least <= result <= at_most:
        bound = f"<= {at_most:g}" if result > at_most else f">= {at_least:g}"
        raise MarcError(f"{name} must be a finite number {bound}", got=repr(value)[:80], hint=hint)
    return result


def instance(name: str, value: object, *kinds: type, hint: str | None = None) -> None:
    """Refuse a value that is of none of these kinds."""
    if not isinstance(value, kinds):
        allowed = " or ".join(kind.__name__ for kind in kinds)
        got = f"{type(value).__name__} {value!r:.60}"
        raise MarcError(f"{name} is of another kind", got=got, allowed=allowed, hint=hint)


def switch(name: str, value: object) -> bool:
    """`value` as a bool, refused if it is anything else."""
    if str(value) not in ("True", "False"):  # NumPy has its own kind of bool
        raise MarcError(f"{name} must be true or false", got=repr(value))
    return bool(value)


_ROWS = 4096  # images checked at a time, so that the check needs little memory
_NORMS = (1e-12, 1e12)  # outside, squares lose precision in float32


def check_features(name: str, array: NDArray[Any], *, ndim: int) -> None:
    """Refuse features that are empty, not numbers, not finite, or zero vectors."""
    if array.ndim != ndim or 0 in array.shape:
        shapes = {1: "(D,)", 2: "(n, D)", 3: "(T, M, D) or (T, D)"}[ndim]
        raise MarcError(
            f"{name} must be a non-empty array of features", got=array.shape, allowed=shapes
        )
    if array.dtype.kind != "f":
        raise MarcError(
            f"{name} must be floating-point features",
            got=array.dtype,
            allowed="float16, float32 or float64",
        )
    low, high = _NORMS
    array = array.reshape(1, -1) if ndim == 1 else array
    for start in range(0, len(array), _ROWS):
        with np.errstate(over="ignore", invalid="ignore"):  # reported in our own words below
            norms = np.linalg.norm(array[start : start + _ROWS].astype(np.float64), axis=-1)
        if norms.min() <= low or not norms.max() < high:  # one that is no number is the largest
            bad = np.argwhere(~((norms > low) & (norms < high)))
            where = ", ".join(str(place) for place in (start + bad[0][0], *bad[0][1:]))
            raise MarcError(
                f"{name} must be finite and have no zero vector",
                got=f"norm {norms[tuple(bad[0])]} at [{where}]",
                allowed=f"norms between {low:g} and {high:g}",
                hint="leave that image out, or embed it again",
            )


_SPACE = re.compile(r"[^+\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")
_NO_SPACES = ("predictor", "all", "class marginals")
"""Names that mean something else beside spaces: the own one, every one, a part of an answer."""


def check_spaces(given: Mapping[str, ArrayLike], n_images: int) -> dict[str, NDArray[np.float32]]:
    """Unit features (N, D_s) by space, refused unless there is one row per image."""
    checked = {}
    instance("spaces", given, Mapping, hint='spaces={"dinov2-b": features}')
    for name, array in given.items():
        array = np.asarray(array)
        if not isinstance(name, str) or not _SPACE.fullmatch(name) or name in _NO_SPACES:
            allowed = f"any without '+' but {', '.join(map(repr, _NO_SPACES))}"
            raise MarcError("not a name for a space", got=repr(name), allowed=allowed)
        check_features(f"space {name!r}", array, ndim=2)
        if len(array) != n_images:
            raise MarcError(
                f"space {name!r} must have one row per image",
                got=f"{len(array)} rows",
                allowed=f"{n_images}, as in views",
            )
        checked[name] = unit(array)
    return checked


def check_predictor(
    prototypes: ArrayLike, logit_scale: float, dim: int
) -> tuple[NDArray[np.float32], float]:
    """Unit prototypes (C, D) and the logit scale, refused unless they fit images of `dim`."""
    texts = np.asarray(prototypes)
    check_features("prototypes", texts, ndim=2)
    if len(texts) < 2:
        raise MarcError("a classifier needs at least two classes", got=len(texts))
    if texts.shape[1] != dim:
        raise MarcError(
            "views and prototypes must have the same dimension",
            got=f"views {dim}, prototypes {texts.shape[1]}",
            hint="use the image and the text features of one predictor",
        )
    scale = number("logit_scale", logit_scale, 1e-9, hint="100 for CLIP")
    return unit(texts), scale


def check_labels(given: ArrayLike | None, n_images: int, n_classes: int) -> Int | None:
    """Labels (N,) as int64, refused outside 0..C-1."""
    if given is None:
        return None
    array = check_integers(given, n_images)
    if array.min() < 0 or array.max() >= n_classes:
        raise MarcError(
            "labels are out of range",
            got=f"{array.min()} to {array.max()}",
            allowed=f"0 to {n_classes - 1}: one per prototype",
        )
    return array


def check_integers(given: ArrayLike, n_images: int) -> Int:
    """Labels (N,) as int64, of whatever classes."""
    array = np.asarray(given)
    if array.shape != (n_images,) or array.dtype.kind not in "iu":
        raise MarcError(
            "labels must be one integer per image",
            got=f"{array.dtype} {array.shape}",
            allowed=f"integers ({n_images},)",
        )
    return array.astype(np.int64)


def check_order(given: ArrayLike, n_images: int) -> Int:
    """An order (N,) as int64, refused unless it names every image once."""
    array, allowed = np.asarray(given), f"a permutation of 0..{n_images - 1}"
    if array.shape != (n_images,) or array.dtype.kind not in "iu":
        raise MarcError(
            "an order must be one integer per image",
            got=f"{array.dtype} {array.shape}",
            allowed=allowed,
        )
    if not np.array_equal(np.sort(array), np.arange(n_images)):
        raise MarcError(
            "an order must name every image once",
            got=f"{len(np.unique(array))} distinct rows of {n_images}",
            allowed=allowed,
        )
    return array.astype(np.int64)


def check_space_name(value: object) -> str:
    """The name of a space."""
    if not isinstance(value, str):
        raise MarcError("space must be a name", got=repr(value), hint='space="dinov2-b"')
    return value


def check_same_text(prototypes: NDArray[Any], remembered: NDArray[Any]) -> NDArray[Any]:
    """The query's prototypes, refused if a memory holds others; the very same cost nothing."""
    if prototypes is remembered:
        return prototypes
    check_same_shape(prototypes.shape, remembered.shape)
    if not np.array_equal(prototypes, remembered):
        raise MarcError(
            "this query has other text prototypes than those remembered",
            got=f"{int((prototypes != remembered).any(axis=1).sum())} other rows",
            allowed="one predictor from the first query on",
            hint="method.reset()",
        )
    return prototypes


def check_same_shape(found: tuple[int, ...], remembered: tuple[int, ...]) -> None:
    """Refuse a query of other (classes, dimensions) than those that a memory was made for."""
    if found != remembered:
        raise MarcError(
            "this query does not fit what is remembered",
            got="{} classes, {} dimensions".format(*found),
            allowed="{} classes, {} dimensions".format(*remembered),
            hint="method.reset()",
        )


class Registry(Mapping[str, _T]):
    """What has a name: ours, what a program registered, and what installed packages bring.

    Packages bring things by entry points of `group`; `accept(name, thing)` makes a T of them.
    Nothing is imported before it is asked for, and a name that may come from a file imports no
    more than an installed package says: only `resolve`, which is for what a person types, imports
    `package.module:Name`.
    """

    def __init__(
        self,
        what: str,
        group: str,
        own: Mapping[str, _T | str],
        accept: Callable[[str, Any], _T],
        hint: str | None = None,
    ) -> None:
        self.what, self.group, self.hint = what, group, hint
        self.own = tuple(own)
        """Names of ours."""
        self._accept = accept
        self._things: dict[str, _T | str] = dict(own)
        self._brought: dict[str, _T] = {}

    def register(self, name: str, thing: Any, *, replace: bool = False) -> None:
        """Add a thing under a name that is free; `replace` one that a program registered."""
        if name in self.own or name in self._points or (name in self._things and not replace):
            raise MarcError(
                f"there is a {self.what} of this name",
                got=f"{name}, of {' and '.join(self._owners(name))}",
                hint="another name",
            )
        self._things[name] = self._accept(name, thing)

    def known(self, name: str) -> _T:
        """A thing by its name, else an error that lists the names. Nothing new is imported."""
        if not isinstance(name, str) or name not in self:
            one_of(self.what, name, self, self.hint)
        return self[name]

    def resolve(self, text: str) -> str:
        """The name of what a person typed: a known one, or `package.module:Name`, imported."""
        if text in self or not is_reference(text):
            self.known(text)
            return text
        thing = self._loaded(text, imported(self.what, text))
        name = str(getattr(thing, "name", text))
        if name not in self:
            self._things[name] = thing
        elif self[name] != thing:
            raise MarcError(
                f"two have the name of one {self.what}",
                got=f"{name}: {text} and that of {' and '.join(self._owners(name))}",
                hint="another name",
            )
        return name

    def load_all(self) -> tuple[dict[str, _T], dict[str, MarcError]]:
        """All that can be loaded, and why the others cannot."""
        things: dict[str, _T] = {}
        errors: dict[str, MarcError] = {}
        for name in self:
            try:
                things[name] = self[name]
            except MarcError as error:
                errors[name] = error
        return things, errors

    def __getitem__(self, name: str) -> _T:
        points = self._points.get(name, [])
        if len(points) + (name in self._things) > 1:
            raise MarcError(
                f"two have the name of one {self.what}",
                got=f"{name}: that of {' and '.join(self._owners(name))}",
                hint="uninstall one of the packages, or ask its authors for another name",
            )
        if name in self._brought:
            return self._brought[name]
        thing = self._things[name] if not points else points[0].value  # or KeyError
        if isinstance(thing, str):
            owner = self._owners(name)[0]
            thing = self._loaded(name, imported(self.what, thing, owner), owner)
            self._brought[name] = thing
        return thing

    def __contains__(self, name: object) -> bool:
        return name in self._things or name in self._points  # nothing is imported

    def __iter__(self) -> Iterator[str]:
        return iter({**self._things, **self._points})

    def __len__(self) -> int:
        return len({**self._things, **self._points})

    @cached_property
    def _points(self) -> dict[str, list[EntryPoint]]:
        from importlib.metadata import entry_points

        points: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            points.setdefault(point.name, []).append(point)
        return points

    def _owners(self, name: str) -> list[str]:
        ours = "marc" if name in self.own else "this program"
        packages = [point.dist.name if point.dist else "?" for point in self._points.get(name, [])]
        return [*([ours] if name in self._things else []), *(f"the package {p}" for p in packages)]

    def _loaded(self, name: str, thing: Any, owner: str = "") -> _T:
        try:
            accepted = self._accept(name, thing)
            if owner and (known := getattr(accepted, "name", name)) != name:
                raise MarcError("it has another name", got=known)
        except MarcError as error:
            raise MarcError(
                f"the {self.what} {name!r}" + (f" of {owner}" if owner else "") + " cannot be used",
                got=f"{error.problem} ({error.got})",
                hint=error.hint,
            ) from error
        return accepted


def is_reference(text: str) -> bool:
    """Whether a text is written `package.module:Name`."""
    return re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", text) is not None


def imported(what: str, reference: str, owner: str = "") -> Any:
    """What `package.module:Name` names; if a person typed it, also from the current folder."""
    from importlib.metadata import EntryPoint

    if not owner and (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # last: a file that lies there hides no package
    try:
        return EntryPoint(what, reference, "").load()
    except Exception as error:  # of another's code: whatever it is, say whose
        raise MarcError(
            f"the {what} {reference} cannot be loaded" + (f", of {owner}" if owner else ""),
            got=f"{type(error).__name__}: {error}",
            hint=f"python -c 'import {reference.partition(':')[0]}'",
        ) from error
