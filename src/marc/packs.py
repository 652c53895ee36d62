"""Feature packs: one `.npz` file with a stream's features. Never pickled objects."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, one_of
from marc.stream import Stream

_SPACE = "spaces/"
_KEYS = (
    "predictor/views (T, M, D) or predictor/features (T, D), predictor/prototypes (C, D), "
    "predictor/tau, spaces/NAME (T, D_s), and optional labels, class_names, paths"
)


def load_stream(source: str | os.PathLike[str]) -> Stream:
    """Open a source written `type/name`: for now `arrays/FILE.npz`, a feature pack."""
    kind, _, name = os.fspath(source).partition("/")
    if not name or kind not in ("arrays",):
        hint = f"arrays/{source}" if str(source).endswith(".npz") else "arrays/FILE.npz"
        one_of("type of source", kind if name else str(source), ("arrays",), hint)
    return read_pack(Path(name))


def read_pack(path: Path) -> Stream:
    """A stream from a feature pack."""
    if not path.is_file():
        raise MarcError("there is no such feature pack", got=path, hint=f"ls {path.parent}")
    try:
        with np.load(path, allow_pickle=False) as pack:
            arrays = {name: pack[name] for name in pack.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise MarcError(
            "this file is not a feature pack", got=f"{path}: {error}", allowed=f".npz with {_KEYS}"
        ) from error
    views = arrays.get("predictor/views", arrays.get("predictor/features"))
    if views is None or "predictor/prototypes" not in arrays:
        found = ", ".join(sorted(arrays)) or "nothing"
        raise MarcError("the pack has no predictor", got=f"{path}: {found}", allowed=_KEYS)
    return Stream.from_arrays(
        views,
        arrays["predictor/prototypes"],
        {key.removeprefix(_SPACE): arrays[key] for key in arrays if key.startswith(_SPACE)},
        logit_scale=_scalar(arrays.get("predictor/tau")),
        labels=arrays.get("labels"),
        class_names=_strings(arrays.get("class_names")),
        ids=_strings(arrays.get("paths")),
        name=path.stem,
    )


def write_pack(stream: Stream, path: Path) -> None:
    """Write a stream's features in the order of the files; a killed write leaves nothing."""
    features = stream.features
    arrays: dict[str, Any] = {
        "predictor/views": features.views,
        "predictor/prototypes": features.predictor.prototypes,
        "predictor/tau": np.float64(features.predictor.logit_scale),
        "class_names": np.array(features.class_names),
        "paths": np.array(features.ids),
        **{f"{_SPACE}{name}": keys for name, keys in features.spaces.items()},
    }
    if features.labels is not None:
        arrays["labels"] = features.labels
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    partial.replace(path)


def _scalar(tau: NDArray[Any] | None) -> float:
    if tau is None:
        return 100.0
    if tau.size != 1:
        raise MarcError("predictor/tau must be one number", got=tau.shape)
    return float(tau.reshape(-1)[0])


def _strings(array: NDArray[Any] | None) -> list[str] | None:
    return None if array is None else [str(value) for value in array.reshape(-1)]
