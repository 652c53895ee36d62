"""`marc report`: one self-contained HTML page of a run or a sweep.

`writing.py` is the way through: open the folders (`inputs.py`), decide what the page is about
(`subject.py`), read the memory again (`reading.py`, `explorer.py`), tell it (`story.py`,
`curves.py`, `figures.py`) and put it into one file (`page.py`).
"""

from __future__ import annotations

from marc.report.build import QUERIES, Report, write_report
from marc.report.thumbnails import Pictures, pictures_of

__all__ = ["QUERIES", "Pictures", "Report", "pictures_of", "write_report"]
