"""MARC: Memory-Augmented Retrieval for CLIP. The method itself is in `marc.method`.

Names are loaded when first used: `import marc` costs little more than NumPy.
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "CAPACITIES": "sweeps",
    "MARC": "method",
    "MarcError": "errors",
    "Memory": "memory",
    "Predictor": "core",
    "Query": "core",
    "Run": "core",
    "Step": "core",
    "Stream": "stream",
    "Sweep": "sweeps",
    "Trajectory": "core",
    "WEIGHTS": "weights",
    "create_encoder": "encoders",
    "create_method": "methods",
    "iter_steps": "loop",
    "list_encoders": "encoders",
    "list_methods": "methods",
    "load_snapshot": "snapshots",
    "load_stream": "sources",
    "margins": "interaction",
    "repair_sets": "interaction",
    "replay": "offline",
    "run": "loop",
    "save_snapshot": "snapshots",
    "select": "selection",
    "stability": "isolation",
    "substitution": "interaction",
    "sweep": "sweeping",
    "synthetic_stream": "synthetic",
    "warm_up": "interaction",
    "write_pack": "packs",
}
_MODULES = ("geometry", "stats", "transforms")

__all__ = sorted([*_WHERE, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(f"marc.{_WHERE[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"marc.{name}")
    else:
        raise AttributeError(f"module 'marc' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
