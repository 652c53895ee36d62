"""Compiled functions, kept between runs wherever the machine has room for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numba


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` that keeps what it compiles, or compiles at each start where it cannot be kept.

    So it is in a container whose user can write neither beside the program nor into a home.
    """

    def compile_one(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError as error:  # "cannot cache function ...: no locator available"
            if "cannot cache" not in str(error):
                raise
            _warn()
            return numba.njit(**options)(function)

    return compile_one


@cache  # said once
def _warn() -> None:
    warnings.warn(
        "no folder can be written to, so functions are compiled at each start; "
        "NUMBA_CACHE_DIR=DIR keeps them",
        stacklevel=3,
    )
