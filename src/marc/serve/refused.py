"""A request that is refused: an error with the status that HTTP has for it."""

from __future__ import annotations

from typing import Any

from marc.errors import MarcError


class Refused(MarcError):  # noqa: N818  (the request is, and nothing failed)
    """Bad input, or a bad time for it, in four parts and a status.

    >>> Refused(404, "there is no such memory", got="cam-1").status
    404
    """

    def __init__(
        self,
        status: int,
        problem: str,
        *,
        got: object = None,
        allowed: object = None,
        hint: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(problem, got=got, allowed=allowed, hint=hint)
        self.status, self.retry_after = status, retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        """It may cross to another process, where an error is made again from its parts."""
        parts = self.status, self.problem, self.got, self.allowed, self.hint, self.retry_after
        return _made_again, parts


def _made_again(
    status: int, problem: str, got: object, allowed: object, hint: str | None, after: float | None
) -> Refused:
    return Refused(status, problem, got=got, allowed=allowed, hint=hint, retry_after=after)
