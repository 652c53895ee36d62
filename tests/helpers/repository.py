"""Where the repository is, and the features of photographs that may lie beside it."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
PACKS = SHARED / "real"
