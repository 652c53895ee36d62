"""Golden vectors: what an encoder makes of pictures that the program draws itself.

A wrong crop, interpolation, colour order, mean, pooling or activation raises no error. It gives
other vectors, so vectors are what is compared: with those that ship with us for `mini:` encoders,
and for all other weights with those that were stored when they were first checked.

`python -m marc.encoders.golden` writes the file that ships.
"""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from marc.encoders.cards import Encoder, safe_name
from marc.errors import MarcError
from marc.files import (
    cache_folder,
    changed,
    conform,
    parse_json,
    read_arrays,
    versions,
    write_arrays,
)

_SHIPPED = Path(__file__).with_name("golden.npz")
_VERSION = 1
"""To be raised with any change of a pixel: vectors of different versions are never compared."""

_NOISE = {"float32": (1e-5, 1e-12), "bfloat16": (3e-3, 1e-5)}
"""What is noise, by precision: a fraction of the mean 1 - cosine between pictures, and a minimum.

An encoder that sees all pictures as nearly alike must be held to smaller differences, hence a
fraction. Measured with random weights of CLIP B/16, supervised B/16, SigLIP B/16, DINOv2-S,
ConvNeXt-B and ResNet-50, two draws each, the fractions are: other batch or number of threads, up
to 6e-13; bfloat16, up to 1.2e-4; the smallest mistake, GELU in place of QuickGELU or the reverse,
2.7e-4 and more (none in ConvNeXt, whose random branches are scaled by 1e-6); mean and deviation of
CLIP in place of ImageNet's, 5e-4; bilinear in place of bicubic, 1.2e-3; other crops, a squashed
picture, colour order, pooling, 6e-2 and more. So bfloat16 may hide what float32 shows, and
`marc check` asks for float32. `pytest -rP tests/encoders/test_golden.py` prints such a table.
"""

_UNIT = 1e-3  # how far from 1 the length of a unit vector may be

_Status = Literal["same", "stored", "changed", "failed"]
_Int = NDArray[np.int64]


@dataclass(frozen=True)
class _Verdict:
    """What became of one encoder's golden vectors."""

    name: str
    status: _Status
    largest: float
    """The largest 1 - cosine between the vectors of a picture, now and as known; 0 if unknown."""
    tolerance: float
    """What is still noise; 0 if there was nothing to compare with."""
    message: str


class _About(TypedDict):
    card: dict[str, Any]
    precision: str
    versions: dict[str, str]


@dataclass(frozen=True)
class _Known:
    """Vectors of an earlier day, and what they came from."""

    vectors: NDArray[Any]
    card: Mapping[str, Any]
    precision: str
    versions: Mapping[str, str]

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """For a file."""
        about = {"card": self.card, "precision": self.precision, "versions": self.versions}
        return {"vectors": self.vectors, "about": np.array(json.dumps(about))}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> _Known:
        """From a file."""
        vectors, about = arrays["vectors"], parse_json(str(arrays["about"]), "golden vectors")
        conform(about, _About, "golden vectors")
        if vectors.ndim != 2 or vectors.dtype.kind != "f":
            raise MarcError("no golden vectors", got=f"{vectors.dtype} {vectors.shape}")
        return cls(vectors, **about)


def _golden_vectors(encoder: Encoder) -> NDArray[np.float32]:
    """Vectors (5, dim) of the golden pictures, through the crop on the encoder's own card."""
    crop = encoder.card.crop
    return encoder.encode(np.stack([crop.cut(each) for each in _golden_pictures()]))


def check_golden(encoder: Encoder, folder: Path | None = None) -> _Verdict:
    """Compare an encoder with what is known of its weights, or store what it gives.

    Args:
        encoder: a loaded encoder; the digest on its card tells which weights it has.
        folder: where vectors are stored; `golden` in the user's cache folder by default.
    """
    try:
        vectors = _golden_vectors(encoder)
        problem = _problem(vectors, encoder.card.dim)
    except (MarcError, RuntimeError, ValueError) as error:
        problem = f"the encoder failed: {error}"
    if problem:
        return _Verdict(encoder.card.name, "failed", 0.0, 0.0, problem)
    now = _describe(encoder, vectors)
    shipped = _shipped_vectors().get(_key(encoder))
    if shipped is not None:
        hint = "install marc-clip again"
        return _compare(encoder.card.name, now, shipped, "the vectors that ship with marc", hint)
    return _compare_stored(encoder, now, folder or cache_folder() / "golden")


def known_digests(name: str, folder: Path | None = None) -> list[str]:
    """Of the weights that were checked under a name on this machine, their first letters."""
    folder = folder or cache_folder() / "golden"
    return [*map(_digest_in, sorted(folder.glob(f"{safe_name(name)}@*-{_VERSION}.npz")))]


def _shipped_vectors(path: Path = _SHIPPED) -> dict[str, _Known]:
    """Known vectors that ship with us, by encoder and digest; none of another version."""
    arrays = read_arrays(path, "a file of golden vectors")
    if int(arrays.pop("version")) != _VERSION:
        return {}
    parts: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        key, _, part = name.rpartition("/")
        parts.setdefault(key, {})[part] = array
    return {key: _Known.from_arrays(each) for key, each in parts.items()}


def _write_shipped(path: Path = _SHIPPED) -> None:
    """Compute and write the vectors of all `mini:` encoders: `python -m marc.encoders.golden`."""
    from marc.encoders import create_encoder, list_encoders

    arrays: dict[str, NDArray[Any]] = {"version": np.array(_VERSION)}
    for name in list_encoders("mini:*"):
        encoder = create_encoder(name)
        half = _golden_vectors(encoder).astype(np.float16)  # rounds by 1e-8 in 1 - cosine
        known = _describe(encoder, half)
        arrays |= {f"{_key(encoder)}/{part}": each for part, each in known.as_arrays().items()}
    write_arrays(path, arrays, compressed=True)


def _distances(vectors: NDArray[Any], others: NDArray[Any]) -> NDArray[np.float64]:
    """1 - cosine row by row, as half a squared distance: exact also where it is tiny.

    >>> _distances(np.eye(2), np.array([[1, 1e-8], [1, 0]]))
    array([5.e-17, 1.e+00])
    """
    pair = [np.asarray(each, dtype=np.float64) for each in (vectors, others)]
    first, second = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in pair)
    return np.asarray(((first - second) ** 2).sum(axis=1) / 2)


def _compare_stored(encoder: Encoder, now: _Known, folder: Path) -> _Verdict:
    name = encoder.card.name
    path = folder / f"{_key(encoder)}-{_VERSION}.npz"
    try:
        known = _Known.from_arrays(read_arrays(path, "a file of golden vectors"))
    except (MarcError, KeyError, TypeError, ValueError):
        known = None  # not there, or not whole: it is written again
    if known is not None:
        return _compare(
            name, now, known, "the vectors of its first check", f"to accept them, rm '{path}'"
        )
    others = known_digests(name, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_arrays(path, now.as_arrays())
    except OSError as error:
        problem = f"its vectors cannot be stored in {folder} ({error.strerror}); MARC_CACHE=DIR"
        return _Verdict(name, "failed", 0.0, 0.0, problem)
    message = "first check of these weights: their vectors are stored, and compared from now on"
    if others:
        message += f"; other weights had this name before: {', '.join(others)}"
    return _Verdict(name, "stored", 0.0, 0.0, message)


def _compare(name: str, now: _Known, known: _Known, what: str, hint: str) -> _Verdict:
    tolerance = max(_tolerance(each.precision, known.vectors) for each in (now, known))
    comparable = now.vectors.shape == known.vectors.shape
    largest = float(_distances(now.vectors, known.vectors).max()) if comparable else 2.0
    if largest <= tolerance:
        return _Verdict(name, "same", largest, tolerance, f"gives {what}")
    message = f"does not give {what}: {_differences(now, known)}; {hint}"
    return _Verdict(name, "changed", largest, tolerance, message)


def _differences(now: _Known, known: _Known) -> str:
    """What differs beside the vectors, in words."""
    changes = [
        f"{name} is {new!r}, was {old!r}"
        for name, old, new in changed(known.card, now.card)
        if name not in ("summary", "licence", "paper")
    ]
    if changes:
        return "on its card " + ", ".join(changes)
    changes = [
        f"{name} {new or 'not there'}, was {old or 'not there'}"
        for name, old, new in changed(known.versions, now.versions)
    ]
    if now.precision != known.precision:
        changes.insert(0, f"computed in {now.precision}, was {known.precision}")
    return "same card, other vectors" + ("; " + ", ".join(changes) if changes else "")


def _describe(encoder: Encoder, vectors: NDArray[Any]) -> _Known:
    computed = versions(encoding=True) | {"machine": platform.machine()}
    card = json.loads(json.dumps(dataclasses.asdict(encoder.card)))  # tuples as they are read back
    return _Known(vectors, card, encoder.precision, computed)


def _problem(vectors: NDArray[np.float32], dim: int) -> str:
    """What is wrong with vectors whatever they are compared with; empty if nothing is."""
    if vectors.ndim != 2 or vectors.shape[1] != dim:
        return f"it gives vectors of shape {vectors.shape[1:]}, its card says {dim}"
    if not np.isfinite(vectors).all():
        return "it gives vectors that are not finite"
    if np.abs(np.linalg.norm(vectors, axis=1) - 1).max() > _UNIT:
        return "its vectors do not have unit length"
    if _distances(vectors[1:], vectors[:1]).max() == 0:
        return "it gives the same vector for all pictures"
    return ""


def _tolerance(precision: str, vectors: NDArray[Any]) -> float:
    fraction, least = _NOISE.get(precision, _NOISE["bfloat16"])
    first, second = np.triu_indices(len(vectors), 1)
    return max(least, fraction * float(_distances(vectors[first], vectors[second]).mean()))


def _key(encoder: Encoder) -> str:
    return f"{safe_name(encoder.card.name)}@{encoder.card.digest[:16] or 'plain'}"


def _digest_in(path: Path) -> str:
    return path.name.rpartition("@")[2].removesuffix(f"-{_VERSION}.npz")[:8]


def _golden_pictures() -> list[Image.Image]:
    """Five pictures: wide, tall, small, square, and very wide.

    >>> [picture.size for picture in _golden_pictures()]
    [(360, 200), (170, 300), (44, 36), (256, 256), (500, 130)]
    """
    drawn = (_gradients(), _rings(), _blocks(), _frames(), _waves())
    return [Image.fromarray(np.stack(each, axis=2).astype(np.uint8)) for each in drawn]


def _gradients() -> tuple[_Int, ...]:
    """Red grows to the right, green downwards; blue is a board of checks with bright ends."""
    y, x = _pixels(200, 360)
    ends = (x < 30) | (x >= 345)
    return 255 * x // 359, 255 * y // 199, np.where(ends, 250, (x // 9 + y // 9) % 2 * 140 + 20)


def _rings() -> tuple[_Int, ...]:
    """Rings around a point off the centre, on a ground that changes from top to bottom."""
    y, x = _pixels(300, 170)
    squared = (x - 50) ** 2 + (y - 170) ** 2
    ring = squared // 1500 % 2
    return ring * 190 + 30, 255 - 200 * y // 299, np.where(squared < 4900, 220, 60 + x)


def _blocks() -> tuple[_Int, ...]:
    """Few pixels, hard edges: it must be made larger, and how that is done shows."""
    y, x = _pixels(36, 44)
    row, column = y // 4, x // 4
    return tuple((row * a + column * b + row * column * c) % 256
                 for a, b, c in ((67, 131, 29), (151, 43, 17), (89, 211, 53)))  # fmt: skip


def _frames() -> tuple[_Int, ...]:
    """Frames one in another, each with its own colour; fine stripes in the outermost."""
    y, x = _pixels(256, 256)
    depth = np.minimum(np.minimum(x, 255 - x), np.minimum(y, 255 - y))
    frame = depth // 18
    stripes = np.where(depth < 18, (x + 2 * y) // 3 % 2 * 90, 0)
    return frame * 97 % 160 + stripes, frame * 53 % 200, (frame * 151 + 60) % 256


def _waves() -> tuple[_Int, ...]:
    """Waves that become finer from left to right and from top to bottom."""
    y, x = _pixels(130, 500)
    across, along = x * x // 12 % 256, y * y // 3 % 256
    return across, along, (across + along) // 2


def _pixels(height: int, width: int) -> tuple[_Int, _Int]:
    rows, columns = np.indices((height, width), dtype=np.int64)
    return rows, columns


if __name__ == "__main__":
    _write_shipped()
