"""MARC: Memory-Augmented Retrieval for CLIP. The method itself is in `marc.method`.

Names are loaded when first used: `import marc` costs little more than NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marc.report.build import report as report
    from marc.results.compare import compare as compare
    from marc.results.run import load_run as load_run
    from marc.results.run import save_run as save_run
    from marc.results.sweep import load_sweep as load_sweep
    from marc.results.sweep import save_sweep as save_sweep
    from marc.spaces.geometry import geometry_of as geometry_of

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
    "compare": "results.compare",
    "create_encoder": "encoders",
    "create_method": "peers.registry",
    "geometry_of": "spaces.geometry",
    "iter_steps": "loop",
    "list_encoders": "encoders",
    "list_methods": "peers.registry",
    "load_run": "results.run",
    "load_snapshot": "peers.snapshot",
    "load_stream": "sources",
    "load_sweep": "results.sweep",
    "run": "loop",
    "save_run": "results.run",
    "save_snapshot": "peers.snapshot",
    "save_sweep": "results.sweep",
    "select": "spaces.selection",
    "sweep": "replay.sweep",
    "synthetic_stream": "sources.synthetic",
    "write_pack": "sources.pack",
}
_MODULES = {
    "geometry": "spaces.geometry",
    "replay": "replay",
    "report": "report",  # a package that can be called
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
