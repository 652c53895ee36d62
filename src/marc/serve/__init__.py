"""The memory as a service: it loses nothing, and proves its worth before it answers.

`marc.serve(data)` is the verb of this room, with the arguments of `marc serve`: the package itself
can be called. `marc.serve.server.running` is the same in a thread.

- `memory/`: one memory. `config` is what it is made of, `served` itself, `log` what happened to it,
  in SQLite, `effects` what a step changed, `snapshots`, `trial` the judge over late labels
- here: the memories of a folder, each `hosted` with `turns`, one writer and one order; all of them
  in `service`, and `server` in front of it
- `cluster/`: the same in other processes, over Ray
- `web/`: `app`, the routes, keys, metrics, and the live page
- `client/`: from elsewhere
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> None:
        from marc.errors import MarcError

        try:
            from marc.serve.server import serve
        except ModuleNotFoundError as error:
            raise MarcError(
                "a server needs libraries that are not installed",
                got=error.name,
                hint="pip install 'marc-clip[serve]'",
            ) from None
        serve(*args, **options)


_package = sys.modules[__name__]
_package.__class__ = _Verb
