"""A memory is made: its configuration is checked against the quotas, then it is on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marc.serve.memory.config import MemoryConfig, config_of
from marc.serve.memory.log import CANARY
from marc.serve.memory.served import Served
from marc.serve.refused import Refused

Settings = tuple[MemoryConfig, str, float | None]


def checked(body: Any, pictures: Any, quotas: Mapping[str, int]) -> Settings:
    """The configuration, mode and fraction that a body asks for, if they are within the quotas."""
    names = body.get("classes") if isinstance(body, dict) else None
    if isinstance(names, list):  # before an encoder reads them all
        _refuse_beyond(quotas, {"classes": len(names)})
    settings = config, _, _ = config_of(body, pictures)
    dims = [config.dim, *config.spaces.values()]
    capacity = _largest_capacity(config)
    _refuse_beyond(
        quotas,
        {
            "classes": len(config.classes),
            "capacity": capacity,
            "dims": max(dims),
            "bytes": len(config.classes) * max(1, capacity) * sum(dims) * 4,
        },
    )
    return settings


def _largest_capacity(config: MemoryConfig) -> int:
    """Images of a class that any part of the method keeps; 16 where it has no such setting."""
    settings = config.new_method().config().items()
    return max([value for name, value in settings if name.endswith("capacity")], default=16)


def _refuse_beyond(quotas: Mapping[str, int], sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        most = quotas.get(name)
        if most is not None and size > most:
            raise Refused(
                413, f"this memory is larger than the quota {name!r} allows",
                got=size, allowed=most,
            )  # fmt: skip


def made(folder: Path, config: MemoryConfig, mode: str, fraction: float | None) -> None:
    """Make the folder of a memory that saw nothing."""
    Served.create(folder, config, mode, CANARY if fraction is None else fraction)
