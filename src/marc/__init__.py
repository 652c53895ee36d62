"""MARC: Memory-Augmented Retrieval for CLIP. The method itself is in `marc.method`.

Names are loaded when first used: `import marc` costs little more than NumPy.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names as below, for type checkers and editors
    from marc import stats as stats
    from marc.admission import Policy as Policy
    from marc.embed.verb import embed as embed
    from marc.encoders import Encoder as Encoder
    from marc.encoders import create_encoder as create_encoder
    from marc.encoders import list_encoders as list_encoders
    from marc.errors import MarcError as MarcError
    from marc.loop import Method as Method
    from marc.loop import iter_steps as iter_steps
    from marc.loop import run as run
    from marc.memory import Memory as Memory
    from marc.method import MARC as MARC
    from marc.peers.cards import MethodCard as MethodCard
    from marc.peers.registry import create_method as create_method
    from marc.peers.registry import list_methods as list_methods
    from marc.peers.registry import register_method as register_method
    from marc.replay.replay import replay as replay
    from marc.replay.sweep import Sweep as Sweep
    from marc.report.build import report as report
    from marc.report.export import export as export
    from marc.results.compare import compare as compare
    from marc.results.judge import judge as judge
    from marc.results.run import load_run as load_run
    from marc.results.run import save_run as save_run
    from marc.results.snapshot import load_snapshot as load_snapshot
    from marc.results.snapshot import save_snapshot as save_snapshot
    from marc.results.sweep import load_sweep as load_sweep
    from marc.results.sweep import save_sweep as save_sweep
    from marc.results.verb import sweep as sweep
    from marc.serve.client.client import Client as Client
    from marc.serve.server import serve as serve
    from marc.session.adapt import adapt as adapt
    from marc.session.session import Session as Session
    from marc.sources import load_stream as load_stream
    from marc.sources import register_source as register_source
    from marc.sources.pack import write_pack as write_pack
    from marc.sources.synthetic import synthetic_stream as synthetic_stream
    from marc.spaces import geometry as geometry
    from marc.spaces.geometry import geometry_of as geometry_of
    from marc.spaces.selection import Selection as Selection
    from marc.spaces.selection import select as select
    from marc.stream import Stream as Stream
    from marc.stream import transforms as transforms
    from marc.stream.predictor import Predictor as Predictor
    from marc.types import CAPACITIES as CAPACITIES
    from marc.types import WEIGHTS as WEIGHTS
    from marc.types import Query as Query
    from marc.types import Run as Run
    from marc.types import Step as Step
    from marc.types import Trajectory as Trajectory

_WHERE = {
    "CAPACITIES": "types",
    "Client": "serve.client.client",
    "Encoder": "encoders",
    "MARC": "method",
    "MarcError": "errors",
    "Memory": "memory",
    "Method": "loop",
    "MethodCard": "peers.cards",
    "Policy": "admission",
    "Predictor": "stream.predictor",
    "Query": "types",
    "Run": "types",
    "Selection": "spaces.selection",
    "Session": "session.session",
    "Step": "types",
    "Stream": "stream",
    "Sweep": "replay.sweep",
    "Trajectory": "types",
    "WEIGHTS": "types",
    "adapt": "session.adapt",
    "compare": "results.compare",
    "create_encoder": "encoders",
    "create_method": "peers.registry",
    "export": "report.export",
    "geometry_of": "spaces.geometry",
    "iter_steps": "loop",
    "judge": "results.judge",
    "list_encoders": "encoders",
    "list_methods": "peers.registry",
    "load_run": "results.run",
    "load_snapshot": "results.snapshot",
    "load_stream": "sources",
    "load_sweep": "results.sweep",
    "register_method": "peers.registry",
    "register_source": "sources",
    "run": "loop",
    "save_run": "results.run",
    "save_snapshot": "results.snapshot",
    "save_sweep": "results.sweep",
    "select": "spaces.selection",
    "sweep": "results.verb",
    "synthetic_stream": "sources.synthetic",
    "write_pack": "sources.pack",
}
_MODULES = {
    "embed": "embed",
    "geometry": "spaces.geometry",
    "replay": "replay",
    "report": "report",  # a package that can be called
    "serve": "serve",
    "stats": "stats",
    "transforms": "stream.transforms",
}

__all__ = sorted([*_WHERE, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(f"marc.{_WHERE[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"marc.{_MODULES[name]}")
    elif not name.startswith("_") and importlib.util.find_spec(f"marc.{name}"):
        value = importlib.import_module(f"marc.{name}")  # a room, such as marc.admission
    else:
        raise AttributeError(f"module 'marc' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
