"""Feature packs: one `.npz` file with a stream's features. Never pickled objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, instance
from marc.files import as_text, read_arrays, write_arrays
from marc.stream import Stream

_SPACE = "spaces/"
_KEYS = (
    "predictor/views (T, M, D) or predictor/features (T, D), predictor/prototypes (C, D), "
    "predictor/tau, spaces/NAME (T, D_s), and optional labels, domain, class_names, paths, "
    "predictor/prompts (P, D) with predictor/prompt_class (P,), predictor/generated (T, G, D)"
)


def read_pack(path: Path) -> Stream:
    """A stream from a feature pack."""
    if not path.is_file():
        raise MarcError("there is no such feature pack", got=path, hint=f"ls {path.parent}")
    arrays = read_arrays(path, "a feature pack", f".npz with {_KEYS}")
    views = arrays.get("predictor/views", arrays.get("predictor/features"))
    if views is None or "predictor/prototypes" not in arrays:
        names = ", ".join(sorted(arrays)) or "nothing"
        raise MarcError("the pack has no predictor", got=f"{path}: {names}", allowed=_KEYS)
    return Stream.from_arrays(
        views,
        arrays["predictor/prototypes"],
        {key.removeprefix(_SPACE): arrays[key] for key in arrays if key.startswith(_SPACE)},
        logit_scale=_scalar(arrays.get("predictor/tau")),
        prompts=arrays.get("predictor/prompts"),
        prompt_class=arrays.get("predictor/prompt_class"),
        labels=arrays.get("labels"),
        domains=arrays.get("domain"),
        class_names=_strings(arrays, "class_names"),
        ids=_strings(arrays, "paths"),
        name=path.stem,
        generated=arrays.get("predictor/generated"),
    )


def write_pack(stream: Stream, path: str | Path) -> None:
    """Write a stream's features in the order of the files."""
    instance("stream", stream, Stream)
    path = Path(path)
    features = stream.features
    arrays: dict[str, Any] = {
        "predictor/views": features.views,
        "predictor/prototypes": features.predictor.prototypes,
        "predictor/tau": np.float64(features.predictor.logit_scale),
        "class_names": np.array(features.class_names),
        "paths": np.array(features.ids),
        **{f"{_SPACE}{name}": keys for name, keys in features.spaces.items()},
    }
    if features.predictor.prompts is not None:
        arrays["predictor/prompts"] = features.predictor.prompts.rows
        arrays["predictor/prompt_class"] = features.predictor.prompts.class_of
    if features.generated is not None:
        arrays["predictor/generated"] = features.generated
    if stream.row_labels is not None:
        arrays["labels"] = stream.row_labels
    if stream.row_domains is not None:
        arrays["domain"] = stream.row_domains
    write_arrays(path, arrays)


def _scalar(tau: NDArray[Any] | None) -> float:
    if tau is None:
        return 100.0
    if tau.size != 1 or tau.dtype.kind not in "fiu":
        raise MarcError("predictor/tau must be one number", got=f"{tau.dtype} {tau.shape}")
    return float(tau.reshape(-1)[0])


def _strings(arrays: Mapping[str, NDArray[Any]], key: str) -> list[str] | None:
    if key not in arrays:
        return None
    values = arrays[key].reshape(-1).tolist()
    return [as_text(value, key) if isinstance(value, bytes) else str(value) for value in values]
