"""What a server takes at most; each is named where it refuses something."""

from __future__ import annotations

from collections.abc import Sequence

from marc.errors import MarcError, integer, one_of

DEFAULTS = {
    "memories": 100,
    "classes": 20_000,
    "capacity": 1024,
    "dims": 8192,
    "bytes": 4 * 2**30,
    "image_bytes": 20 * 2**20,
    "listeners": 100,
    "restore_bytes": 8 * 2**30,
}
"""`bytes`: of the keys of one memory when it is full. `listeners`: of all memories together."""


_DIGITS = 20  # of a number; one that is too large is refused in better words, Python has its own


def quotas_of(assignments: Sequence[str]) -> dict[str, int]:
    """The quotas of a server, from what differs from the defaults.

    >>> quotas_of(["memories=2"])["memories"]
    2
    """
    quotas = dict(DEFAULTS)
    for each in assignments:
        name, equals, value = each.partition("=")
        one_of("quota", name, DEFAULTS, hint="--quota memories=20")
        if not equals or not value.isdecimal() or len(value) > _DIGITS:
            raise MarcError("a quota is a name and an integer", got=each[:80], hint="memories=20")
        quotas[name] = integer(name, int(value), 1)
    return quotas
