"""`marc report`: one self-contained HTML page of a run or a sweep.

`build.py` is the way through: open the folders (`inputs.py`), decide what the page is about
(`setting.py`), say it (`story.py`), draw it (`figures.py`, `style.py`), read the memory again for
single images (`explorer.py`, `thumbnails.py`), and put it all into one file.
"""

from __future__ import annotations

from marc.report.build import QUERIES, Report, write_report
from marc.report.thumbnails import Pictures, pictures_of

__all__ = ["QUERIES", "Pictures", "Report", "pictures_of", "write_report"]
