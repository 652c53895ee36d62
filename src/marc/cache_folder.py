"""Where what can be computed again is kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The user's cache folder for this program; `MARC_CACHE` puts it elsewhere."""
    import platformdirs

    chosen = os.environ.get("MARC_CACHE")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("marc")
