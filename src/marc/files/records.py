"""Records: what computed a result, in what two of them differ, and work that is kept."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.files.reading import read_arrays
from marc.files.writing import write_arrays

_SEAL = "seal"  # the digest of a piece of work, among its arrays
_ENCODING = ("pillow", "onnxruntime", "torch", "timm", "open_clip_torch")


def versions(*more: str, encoding: bool = False) -> dict[str, str]:
    """What computed a result: this package, the libraries under it, and `more` if installed.

    `encoding`: also the libraries that features of pictures come through.
    """
    found = {"python": platform.python_version()}
    for name in ("marc-clip", "numpy", "numba", "scipy", *more, *(_ENCODING if encoding else ())):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level with dotted names.

    >>> flatten({"method": {"capacity": 16}, "seeds": [0, 1]})
    {'method.capacity': 16, 'seeds': [0, 1]}
    """
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def differences(stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two records, in words.

    >>> differences({"card": {"dim": 8}}, {"card": {"dim": 9}})
    ['card.dim: stored 8, now 9']
    """
    return [
        f"{name}: stored {_short(old)}, now {_short(new)}"
        for name, old, new in changed(stored, now)
    ]


def changed(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Name, old and new value of what differs between two records."""
    old, new = flatten(stored), flatten(now)
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            yield name, old.get(name), new.get(name)


def json_digest(*values: Any) -> str:
    """A digest of plain data, however they are spelled in a file.

    >>> json_digest({"a": 1, "b": 2}) == json_digest({"b": 2, "a": 1})
    True
    """
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with their own digest.

    >>> unsealed(sealed({"a": 1})), unsealed({**sealed({"a": 1}), "a": 2})
    ({'a': 1}, None)
    """
    plain = json.loads(json.dumps(value))
    return {**plain, "seal": json_digest(plain)}


def unsealed(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Data that are as they were sealed; None if there are none, or they were changed."""
    plain = {name: each for name, each in (value or {}).items() if name != "seal"}
    return plain if value and value.get("seal") == json_digest(plain) else None


def arrays_digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Of the names, types, shapes and numbers of arrays, in whatever order."""
    known = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        known.update(f"{name!r} {array.dtype.str} {arrays[name].shape} ".encode())
        known.update(array.reshape(-1).view(np.uint8).data)
    return known.hexdigest()[:32]


def keep_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], *of: Any) -> None:
    """Write a piece of work with a digest of it and of what it is a piece `of`."""
    seal = np.array(json_digest(*of, arrays_digest(arrays)))
    write_arrays(path, {**arrays, _SEAL: seal})


def kept_arrays(path: Path, *of: Any) -> dict[str, NDArray[Any]] | None:
    """A piece of work; None if there is none, it is damaged, or it is a piece of another."""
    try:
        arrays = read_arrays(path, "a piece of work")
    except (MarcError, OSError):
        return None
    seal = arrays.pop(_SEAL, None)
    whole = seal is not None and str(seal) == json_digest(*of, arrays_digest(arrays))
    return arrays if whole else None


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."
