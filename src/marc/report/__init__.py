"""`marc report`: one self-contained HTML page of a run or a sweep.

`build.py` is the way through: open the folders (`inputs.py`), decide what the page is about, say it
(`story.py`), draw it (`figures.py`, `style.py`), look at single images again (`queries.py`,
`thumbnails.py`), and put it all into one file. A page is about a kernel memory at one weight,
beside all others (`setting.py`, `sweep_figures.py`, `explorer.py`), or about a run of any method
(`stepped.py`, `voices.py`).

The package is also the verb: `marc.report(folder, output="report.html")`.
"""

from __future__ import annotations

import sys
from types import ModuleType

from marc.report.build import Report, report
from marc.report.thumbnails import Pictures, pictures_of

__all__ = ["Pictures", "Report", "pictures_of"]


class _Verb(ModuleType):
    __call__ = staticmethod(report)


_module = sys.modules[__name__]
_module.__class__ = _Verb
