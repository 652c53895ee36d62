"""Whole streams at once: every space, capacity, weight and order, without a loop over time.

`marc.replay(method, stream)` is the verb of this room: the package itself can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from marc.loop import AnyMethod
    from marc.stream import Stream
    from marc.types import Run


class _Verb(ModuleType):
    def __call__(self, method: AnyMethod, stream: Stream, device: str = "cpu") -> Run:
        from marc.replay.replay import replay

        return replay(method, stream, device)


sys.modules[__name__].__class__ = _Verb
