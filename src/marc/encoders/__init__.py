"""Encoders by name: images in, unit vectors out.

A name is that of a card (`dinov2-b`, `clip-b16-text`), an encoder of the lab (`mini:pairs-small`),
any model of a library (`timm:TAG`, `open_clip:ARCH/TAG`), a graph of your own (`onnx:FILE`) or an
encoder of your own (`package.module:Name`). Weights that nobody published have a name that you
give: `NAME=timm:ARCH`, `NAME=open_clip:ARCH` or `NAME=open_clip:CONFIG.json`.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import Encoder, EncoderCard, Library, Loading, TextEncoder
from marc.encoders.own_names import SPELLING, check_own_name, renamed, split_name
from marc.encoders.published import PUBLISHED, WITH_TEXT
from marc.errors import MarcError, Registry, imported, instance, is_reference

__all__ = [
    "Encoder",
    "EncoderCard",
    "Library",
    "TextEncoder",
    "broken_libraries",
    "check_encoder",
    "check_predictor",
    "create_encoder",
    "encoder_card",
    "list_encoders",
]


def _library(name: str, thing: Any) -> Library:
    if not isinstance(thing, Library):
        raise MarcError(f"{name} is no library of encoders", got=type(thing).__name__)
    return thing


_LIBRARIES = Registry(
    "library of encoders",
    "marc.encoders",
    {
        "timm": "marc.encoders.from_timm:LIBRARY",
        "open_clip": "marc.encoders.from_open_clip:LIBRARY",
        "onnx": "marc.encoders.from_onnx:LIBRARY",
    },
    _library,
)
"""What loads encoders, by the prefix of their names."""


def list_encoders(pattern: str = "*") -> list[str]:
    """Names of the encoders that have a card of their own.

    >>> list_encoders("dinov2-*")
    ['dinov2-s', 'dinov2-b', 'dinov2-l']
    >>> list_encoders("mini:pairs-*")
    ['mini:pairs-large', 'mini:pairs-medium', 'mini:pairs-small', 'mini:pairs-vit']
    """
    return fnmatch.filter(_cards(), pattern)


def encoder_card(name: str) -> EncoderCard:
    """What is known of an encoder, without loading it.

    >>> encoder_card("dinov2-b").pooling
    'CLS'
    """
    instance("encoder", name, str)
    own, of = split_name(name)
    if own:
        return renamed(_card_of_own(own, of), own)
    if name in PUBLISHED:
        return PUBLISHED[name]
    kind, _, rest = name.partition(":")
    if kind not in _LIBRARIES and is_reference(name):
        return _imported(name).card
    library = _LIBRARIES[kind] if kind in _LIBRARIES and ":" in name else None
    if library is not None and name in (cards := _own_cards(kind, library)):
        return cards[name]
    if library is None or library.card is None:
        raise _unknown(name)
    return library.card(rest)


def _card_of_own(own: str, of: str) -> EncoderCard:
    """The card of what a user gives a name to."""
    check_own_name(own, _cards())
    if of in PUBLISHED:
        return PUBLISHED[of]
    kind, _, rest = of.partition(":")
    library = _LIBRARIES.get(kind)
    if library is None or library.own is None or not rest:
        raise MarcError("no name can be given to this", got=repr(of), allowed=SPELLING)
    return library.own(rest)


def create_encoder(
    name: str,
    *,
    weights: str | Path | None = None,
    offline: bool = False,
    device: str = "auto",
    precision: str = "auto",
    batch: int = 0,
    compiled: bool = False,
) -> Encoder:
    """Load an encoder.

    Args:
        name: One of `list_encoders()`, or `timm:TAG`, `open_clip:ARCH/TAG`, `onnx:FILE`, or
            `package.module:Name` of an encoder of yours, or of what makes one. With weights of
            your own, `NAME=timm:ARCH`, `NAME=open_clip:ARCH` or `NAME=open_clip:CONFIG.json`.
        weights: A file with the weights, or a folder with that file. None: they are looked for
            where the library keeps its downloads, and downloaded if they are not there.
        offline: Never try the network.
        device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`. `mini:` and `onnx:` encoders run on the
            CPU in float32 whatever is asked for, so that one call can name them beside others.
        precision: `auto` (bfloat16 on a GPU, float32 on a CPU), `float32`, `bfloat16` (products in
            bfloat16, the rest in float32), or `pure-bfloat16` (all of the image tower).
        batch: Images at a time; 0 leaves it to the device.
        compiled: Let torch compile the image tower, for a GPU of CUDA.

    >>> import numpy as np
    >>> encoder = create_encoder("mini:pairs-small")
    >>> encoder.encode(np.zeros((2, 64, 64, 3), dtype=np.uint8)).shape
    (2, 128)
    """
    card = encoder_card(name)
    path = None if weights is None else Path(weights)
    of = split_name(name)[1]
    kind = of.partition(":")[0] if ":" in of else card.library
    if kind not in _LIBRARIES:
        return _imported(name)
    loaded = _LIBRARIES[kind].load(card, Loading(path, offline, device, precision, batch, compiled))
    # a library that does all that ours do may bring an encoder without weights, as the lab does
    return loaded if isinstance(loaded, Encoder) else check_encoder(loaded)


def check_predictor(card: EncoderCard) -> None:
    """Refuse an encoder that reads no text."""
    if not card.has_text:
        known = [each for each, other in _cards().items() if other.has_text]
        raise MarcError(
            "a predictor needs a text tower, and this encoder has none",
            got=card.name,
            allowed=", ".join([*known, "open_clip:ARCH/TAG", "NAME=open_clip:ARCH"]),
            hint=WITH_TEXT.get(card.name),
        )


def check_encoder(thing: Any) -> Encoder:
    """An encoder of a user's own, refused unless a store of its features can be trusted."""
    card = getattr(thing, "card", None)
    if not isinstance(card, EncoderCard) or not callable(getattr(thing, "encode", None)):
        raise MarcError(
            "an encoder has a card and encodes", got=type(thing).__name__, hint="marc.Encoder"
        )
    if not card.digest:
        raise MarcError(
            f"the card of {card.name} has no digest: other weights would go unnoticed",
            hint="EncoderCard(..., digest=marc.stream.digest(weights))",
        )
    if card.name in ("", "predictor") or {"+", "/"} & {*card.name}:
        raise MarcError("not a name for a space", got=repr(card.name), allowed="no + and no /")
    return thing if isinstance(thing, Encoder) or card.has_text else _Plain(thing)


@dataclass(frozen=True)
class _Plain:
    """An encoder that has no more than a card and `encode`."""

    of: Any
    precision: str = "float32"
    batch: int = 64

    @property
    def card(self) -> EncoderCard:
        return cast(EncoderCard, self.of.card)

    def encode(self, images: NDArray[Any]) -> NDArray[np.float32]:
        parts = range(0, len(images), self.batch)
        return np.concatenate([self.of.encode(images[n : n + self.batch]) for n in parts])


@functools.cache
def _imported(name: str) -> Encoder:
    """The encoder `package.module:Name`: one, or what makes one."""
    try:
        thing = imported("encoder", name)
    except MarcError as error:
        missing = getattr(error.__cause__, "name", None)
        if isinstance(error.__cause__, ModuleNotFoundError) and missing == name.partition(":")[0]:
            raise _unknown(name) from error  # a prefix that was mistyped, rather than a module
        raise
    made = not isinstance(thing, type) and hasattr(thing, "card")
    try:
        return check_encoder(thing if made else thing())
    except MarcError:
        raise
    except Exception as error:  # of another's code: whatever it is, say whose
        got, hint = f"{type(error).__name__}: {error}", "a class that needs no arguments"
        raise MarcError(f"{name} makes no encoder", got=got, hint=hint) from error


def broken_libraries() -> dict[str, MarcError]:
    """Libraries of encoders that cannot be used, by the prefix of their names."""
    return _load_cards()[1]


def _cards() -> dict[str, EncoderCard]:
    return _load_cards()[0]


def _load_cards() -> tuple[dict[str, EncoderCard], dict[str, MarcError]]:
    libraries, broken = _LIBRARIES.load_all()
    cards = dict(PUBLISHED)
    for kind, library in libraries.items():
        try:
            cards |= _own_cards(kind, library)
        except MarcError as error:
            broken[kind] = error
    return cards, broken


def _own_cards(kind: str, library: Library) -> dict[str, EncoderCard]:
    try:
        cards = dict(library.cards())
        if strange := [name for name, card in cards.items() if not isinstance(card, EncoderCard)]:
            raise TypeError(f"{strange[0]!r} has no card")
    except Exception as error:  # of another's code: whatever it is, say whose
        problem = f"the cards of the library of encoders {kind!r} cannot be read"
        raise MarcError(problem, got=f"{type(error).__name__}: {error}") from error
    return cards


def _unknown(name: str) -> MarcError:
    names, libraries = list(_cards()), _LIBRARIES.load_all()[0].values()
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return MarcError(
        "unknown encoder",
        got=repr(name),
        allowed=", ".join([*names, *(each.spelling for each in libraries if each.card), SPELLING]),
        hint=" or ".join(near) or "marc list encoders",
    )
