"""How many cores this process may use."""

from __future__ import annotations

import os


def n_threads() -> int:
    """Cores that this process may use, which may be fewer than the computer has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system can tell
        return os.cpu_count() or 1
