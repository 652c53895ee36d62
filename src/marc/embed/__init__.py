"""From pictures to a feature store.

`marc.embed(source, encoders=[...])` is the verb of this room, with the arguments of `marc embed`:
the package itself can be called. It gives the stream of the store, if a predictor makes it one.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marc.embed.estimate import Estimate
    from marc.embed.fill import Embedded
    from marc.stream import Stream


class _Verb(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Stream | Embedded | Estimate:
        from marc.embed.verb import embed

        return embed(*args, **options)


_package = sys.modules[__name__]
_package.__class__ = _Verb
