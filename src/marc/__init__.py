"""MARC: Memory-Augmented Retrieval for CLIP. The method itself is in `marc.method`.

Names are loaded when first used: `import marc` costs little more than NumPy.
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "CAPACITIES": "types",
    "MARC": "method",
    "MarcError": "errors",
    "Memory": "memory",
    "Predictor": "types",
    "Query": "types",
    "Run": "types",
    "Step": "types",
    "Stream": "stream",
    "Sweep": "replay.sweep",
    "Trajectory": "types",
    "WEIGHTS": "types",
    "create_encoder": "encoders",
    "create_method": "peers.registry",
    "iter_steps": "loop",
    "list_encoders": "encoders",
    "list_methods": "peers.registry",
    "load_snapshot": "peers.snapshot",
    "load_stream": "sources",
    "run": "loop",
    "save_snapshot": "peers.snapshot",
    "select": "spaces.selection",
    "sweep": "replay.sweep",
    "synthetic_stream": "sources.synthetic",
    "write_pack": "sources.pack",
}
_MODULES = {
    "geometry": "spaces.geometry",
    "replay": "replay",
    "stats": "stats",
    "transforms": "transforms",
}

__all__ = sorted([*_WHERE, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(f"marc.{_WHERE[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"marc.{_MODULES[name]}")
    else:
        raise AttributeError(f"module 'marc' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
