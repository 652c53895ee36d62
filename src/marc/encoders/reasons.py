"""Why a library failed, in one line: what it says goes on for pages."""

from __future__ import annotations

_LONGEST = 200


def reason(error: BaseException) -> str:
    r"""The first line of what went wrong at first.

    >>> reason(OSError("no route\nand much more"))
    'no route'
    >>> reason(KeyError())
    'KeyError'
    """
    while error.__cause__ is not None:  # the first cause is the one that can be mended
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0][:_LONGEST] if lines else type(error).__name__
