"""Sources by name, `type/name`: where a stream comes from."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from marc.errors import MarcError
from marc.lab.embedding import OnProgress, lab_stream
from marc.lab.streams import list_lab_streams
from marc.packs import read_pack
from marc.stream import Stream


def _open_pack(name: str, on_progress: OnProgress | None) -> Stream:
    del on_progress  # a pack is read in one piece
    return read_pack(Path(name))


_KINDS: dict[str, tuple[str, Callable[[str, OnProgress | None], Stream]]] = {
    "arrays": ("arrays/FILE.npz", _open_pack),
    "lab": ("lab/NAME", lab_stream),
}


def load_stream(source: str | os.PathLike[str], on_progress: OnProgress | None = None) -> Stream:
    """Open a source: `arrays/FILE.npz` (a feature pack) or `lab/NAME` (the embedded lab)."""
    text = os.fspath(source)
    kind, _, name = text.partition("/")
    if kind not in _KINDS or not name:
        raise MarcError(
            "a source is written type/name, and this type is not known",
            got=repr(text),
            allowed=", ".join(spelling for spelling, _ in _KINDS.values()),
            hint=_spelling(text, kind),
        )
    return _KINDS[kind][1](name, on_progress)


def _spelling(text: str, kind: str) -> str:
    """What was probably meant."""
    if text.endswith(".npz"):
        return f"arrays/{text}"
    if text in list_lab_streams():
        return f"lab/{text}"
    return _KINDS[kind][0] if kind in _KINDS else "lab/sketch-12"
