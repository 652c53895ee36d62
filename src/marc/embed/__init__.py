"""From pictures to a feature store: `marc.embed(source, encoders=["dinov2-b"])` gives its stream.

The arguments are those of `marc embed`; `help(marc.embed.verb.embed)` lists them.
"""

import sys
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    """This package, which can be called: a verb and what belongs to it have one name."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from marc.embed.verb import embed  # deferred: its modules are in this package

        return embed(*args, **options)


sys.modules[__name__].__class__ = _Verb
