"""The one kind of error this package raises on bad input."""

from __future__ import annotations

import operator
from collections.abc import Iterable


class MarcError(ValueError):
    """Bad input, told in four parts: what was wrong, what came, what is allowed, what to try.

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


def whole_number(name: str, value: object, at_least: int) -> int:
    """`value` as an int, refused if it is not a whole number of at least `at_least`."""
    try:
        result = at_least - 1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        result = at_least - 1
    if result < at_least:
        raise MarcError(f"{name} must be a whole number >= {at_least}", got=repr(value))
    return result


def number(name: str, value: object, at_least: float = 0.0, *, hint: str | None = None) -> float:
    """`value` as a float, refused if it is not finite or is below `at_least`."""
    try:
        is_text = isinstance(value, (bool, str, bytes))
        result = float("nan") if is_text else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        result = float("nan")
    if not at_least <= result < float("inf"):
        problem = f"{name} must be a finite number >= {at_least:g}"
        raise MarcError(problem, got=repr(value), hint=hint)
    return result


def switch(name: str, value: object) -> bool:
    """`value` as a bool, refused if it is anything else."""
    if str(value) not in ("True", "False"):  # NumPy has its own kind of bool
        raise MarcError(f"{name} must be true or false", got=repr(value))
    return bool(value)
