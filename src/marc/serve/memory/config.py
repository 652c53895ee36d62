"""What a memory is made of: method, classes, prototypes, spaces, limits; and what a step asks."""

from __future__ import annotations

import base64
import dataclasses
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, check_predictor, check_spaces, integer, number, one_of
from marc.loop import Method
from marc.memory import MOST_CLASSES, MOST_DIMS
from marc.peers.cards import MethodCard
from marc.peers.registry import METHODS, create_method
from marc.results.snapshot import damaged, read_state, write_state
from marc.scores import unit
from marc.serve.refused import Refused
from marc.stream.predictor import Predictor
from marc.types import Query, visible

MODES = ("off", "shadow", "canary", "live")
"""Who answers: the base, the base while the memory learns, the memory a fraction, the memory."""
MOST_NEIGHBOURS = 32
MOST_VIEWS = 256  # of one image; each has the logits of all classes
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_RESERVED = {"con", "prn", "aux", "nul", *(f"{p}{n}" for p in ("com", "lpt") for n in range(10))}
_LONGEST_ID, _LONGEST_CLASS = 512, 512
_FORMAT, _FILE = "marc-served", "made.safetensors"
_NEITHER = "neither"


class Chain:
    """Steps of one client that wait together."""

    refused: Refused | None = None
    """Why one of them was not taken, which may be another time."""

    def follow(self, result: Any) -> None:
        """Know the result of one of them."""
        if self.refused is None and isinstance(result, Refused) and result.retry_after is not None:
            self.refused = result


@dataclass(frozen=True)
class StepRequest:
    """One image to be answered, and learned from."""

    id: str
    """Of the client's choice; a second request with the same one gets the stored answer."""
    views: NDArray[np.float32] | None
    """Raw predictor features (M, D), or (D,); none where there is an `image`."""
    keys: Mapping[str, NDArray[np.float32]]
    """Raw retrieval features by space."""
    image: bytes | None = None
    """An encoded picture, instead of features."""
    neighbours: int = 0
    """How many of the nearest remembered images to give."""
    dry_run: bool = False
    """Answer, and leave everything as it was."""
    deadline: float | None = None
    """A `time.monotonic()` after which it is refused, before anything is done."""
    thumbnail: bytes | None = None
    chain: Chain | None = None
    """Of steps that keep their order: once one is refused for now, none that waits is taken."""

    def check(self) -> None:
        """Refuse what no memory answers."""
        if not (isinstance(self.id, str) and 0 < len(self.id) <= _LONGEST_ID):
            raise MarcError(
                "a step needs an id",
                got=repr(self.id)[:80],
                allowed=f"a text of 1 to {_LONGEST_ID} characters",
                hint='"id": "17"',
            )
        if not self.id.isprintable():  # surrogates are not, which no file could hold
            raise MarcError("an id is text that can be printed", got=ascii(self.id)[:80])
        integer("neighbours", self.neighbours, 0, MOST_NEIGHBOURS)


class _PredictorBody(msgspec.Struct, forbid_unknown_fields=True):
    prototypes: list[list[float]]
    logit_scale: float


class Limits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What one memory may take."""

    window: int = 100_000
    """Answers that are kept: so far back an id is known again, and a late label finds its step."""
    queue: int = 1024
    """Requests that wait; one more is refused."""
    snapshot_every: int = 10_000
    """Steps between two snapshots; what a recovery replays at most. 500 for methods that learn from
    their inputs again, see `marc.serve.memory.effects`."""
    steps_per_second: int | None = None

    def check(self) -> None:
        """Refuse bounds that bound nothing."""
        integer("window", self.window, 1, 10**8)
        integer("queue", self.queue, 1, 10**6)
        integer("snapshot_every", self.snapshot_every, 1, 10**6)
        if self.steps_per_second is not None:
            integer("steps_per_second", self.steps_per_second, 1)


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    method: dict[str, Any] | str = "class-means"
    predictor: _PredictorBody | None = None
    classes: list[str] | None = None
    spaces: dict[str, int] | None = None
    limits: Limits = Limits()
    mode: str = "shadow"
    fraction: float | None = None


@dataclass(frozen=True)
class MemoryConfig:
    """Everything that decides a memory's answers, but for what it saw."""

    method: Mapping[str, Any]
    """Its name as `name`, and its settings."""
    classes: tuple[str, ...]
    spaces: Mapping[str, int]
    """Dimensions by name."""
    predictor: Predictor
    limits: Limits
    encoders: Mapping[str, Any] | None = None
    """What turns pictures into features, where the server does that."""
    created: float = 0.0

    def new_method(self) -> Method:
        """The method, with nothing seen."""
        settings = {name: value for name, value in self.method.items() if name != "name"}
        method = create_method(self.method["name"], **settings)
        if not isinstance(method, Method):
            raise MarcError(
                "a server answers one image at a time, and this method does not",
                got=self.method["name"],
                allowed='"marc", "class-means", "tda" and others that have a step',
            )
        return method

    def query(self, request: StepRequest, item: int) -> Query:
        """What the method sees of a request, refused where it does not fit."""
        if request.views is None:
            raise MarcError(
                "a step needs the features of an image, or the image",
                hint='"features": {"predictor": [...], "spaces": {...}}',
            )
        views, shapes = request.views, {s: np.shape(k) for s, k in request.keys.items()}
        fits = views.ndim in (1, 2) and views.shape[-1] == self.dim
        if not fits or not 0 < views.size <= MOST_VIEWS * self.dim:
            raise MarcError(
                "the predictor's features do not fit",
                got=f"shape {views.shape}",
                allowed=f"({self.dim},), or (views, {self.dim}) of at most {MOST_VIEWS} views",
            )
        if shapes != {space: (dim,) for space, dim in self.spaces.items()}:
            raise MarcError(
                "the features of the spaces do not fit",
                got=visible(str(shapes))[:200] if shapes else "none",
                allowed=", ".join(f"{space} ({dim},)" for space, dim in self.spaces.items()),
            )
        return Query.from_features(views, self.predictor, dict(request.keys), item=item)

    def check_pictures(self, pictures: Any) -> None:
        """Refuse a picture where the memory was not made for the encoders of the server."""
        if pictures is None or self.encoders != pictures.describe():
            problem = "this memory was made with other encoders than this server has loaded"
            if self.encoders is None:
                problem = "this memory takes features, not pictures"
            elif pictures is None:
                problem = "this server has no encoders to read pictures with"
            raise Refused(
                422,
                problem,
                hint="send features (marc embed makes them)"
                + (", or marc serve --predictor ... --encoder ..." if self.encoders else ""),
            )

    @property
    def dim(self) -> int:
        """Of the predictor's features."""
        return int(self.predictor.prototypes.shape[1])

    def class_of(self, label: Any) -> int | None:
        """The number of a class that is named or numbered; -1 is none of them; None: unknown."""
        if isinstance(label, int) and not isinstance(label, bool):
            return label if 0 <= label < len(self.classes) else None
        if not isinstance(label, str):
            return None
        return self._numbers.get(label, -1 if label == _NEITHER else None)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.classes)}

    def identity(self) -> dict[str, Any]:
        """As plain data; equal for two that answer alike, whatever their limits."""
        prototypes = np.ascontiguousarray(self.predictor.prototypes)
        return {
            "method": self.new_method().config(),
            "classes": list(self.classes),
            "spaces": dict(self.spaces),
            "logit_scale": self.predictor.logit_scale,
            "prototypes": base64.b64encode(prototypes.tobytes()).decode(),
            "encoders": self.encoders,
        }

    def check(self) -> None:
        """Refuse what the first step would refuse: it takes one, of what would be seen first."""
        first = np.eye(1, MOST_DIMS, dtype=np.float32)[0]
        keys = {space: first[:dim] for space, dim in self.spaces.items()}
        query = self.query(StepRequest("first", self.predictor.prototypes[:1].copy(), keys), 0)
        try:
            self.new_method().step(query)
        except MarcError:
            raise
        except Exception as error:  # of another's method: whatever it is
            got = f"{type(error).__name__}: {error}"[:200]
            raise MarcError("this method cannot answer a first image", got=got) from error

    def save(self, folder: Path) -> None:
        """Write it; its own digest is in the file."""
        settings = {
            "method": dict(self.method),
            "classes": list(self.classes),
            "spaces": dict(self.spaces),
            "logit_scale": self.predictor.logit_scale,
            "limits": msgspec.to_builtins(self.limits),
            "encoders": self.encoders,
            "created": self.created,
        }
        arrays = {"prototypes": self.predictor.prototypes}
        write_state(folder / _FILE, {**settings, "arrays": arrays}, _FORMAT)

    @classmethod
    def load(cls, folder: Path) -> MemoryConfig:
        """What `save` wrote."""
        try:
            state = read_state(folder / _FILE, _FORMAT)
            with damaged(folder / _FILE):
                return cls(
                    state["method"],
                    tuple(state["classes"]),
                    state["spaces"],
                    Predictor(state["arrays"]["prototypes"], state["logit_scale"]),
                    msgspec.convert(state["limits"], Limits),
                    state["encoders"],
                    state["created"],
                )
        except MarcError as error:
            raise MarcError(
                "the configuration of this memory cannot be read",
                got=f"{error.problem}: {error.got}"[:300],
                allowed=error.allowed,
                hint=error.hint
                or f"put back {_FILE} from a backup; or fetch the snapshots, DELETE "
                "the memory, PUT it again as it was, and restore one",
            ) from error


def check_name(name: str) -> str:
    """A name of a memory that is also one of a folder, on every system."""
    if not _NAME.fullmatch(name) or name.endswith(".") or name.split(".")[0].lower() in _RESERVED:
        raise Refused(
            422,
            "this is no name for a memory",
            got=ascii(name)[:80],
            allowed="1 to 63 letters, digits, '.', '_' and '-', a letter or a digit first",
        )
    return name


def config_of(body: Any, pictures: Any = None) -> tuple[MemoryConfig, str, float | None]:
    """The configuration, the mode and its fraction that a body of PUT asks for.

    `pictures`: the encoders of the server, which make what is not given.
    """
    try:
        given = msgspec.convert(body, _Body)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MarcError(
            "this is no configuration of a memory",
            got=str(error)[:200],
            hint='{"method": {"name": "marc", "space": "s"}, "predictor": {"prototypes": [[...]], '
            '"logit_scale": 100}, "spaces": {"s": 768}}',
        ) from None
    one_of("mode", given.mode, MODES)
    if given.fraction is not None:
        number("fraction", given.fraction, 0, 1)
    given.limits.check()
    encoders = None
    if given.predictor is not None:
        predictor, spaces = _predictor(given.predictor), given.spaces or {}
    elif pictures is None or not given.classes:
        raise MarcError(
            "a memory needs the prototypes of its classes",
            hint='"predictor": {"prototypes": [[...], ...], "logit_scale": 100}, or '
            + ("the names of the classes" if pictures else "marc serve with --predictor"),
        )
    else:
        if given.spaces is not None and given.spaces != dict(pictures.spaces):
            raise MarcError("the spaces of pictures are those of the server's encoders",
                            got=given.spaces, allowed=dict(pictures.spaces))  # fmt: skip
        prototypes, scale = pictures.prototypes(given.classes)
        predictor, spaces = Predictor(unit(prototypes), float(scale)), dict(pictures.spaces)
        encoders = pictures.describe()
    n_classes = predictor.n_classes
    classes = tuple(given.classes or map(str, range(n_classes)))
    _check_classes(classes, n_classes)
    for space, dim in spaces.items():
        integer(f"the dimension of {space[:40]!r}", dim, 1, MOST_DIMS)
        check_spaces({space: np.ones((1, dim), dtype=np.float32)}, 1)
    method = {"name": given.method} if isinstance(given.method, str) else dict(given.method)
    _check_method(method.get("name"))
    config = MemoryConfig(method, classes, spaces, predictor, given.limits, encoders, time.time())
    config.check()
    return _with_defaults(config), given.mode, given.fraction


def _with_defaults(config: MemoryConfig) -> MemoryConfig:
    """With every setting of the method: a later release may have other defaults."""
    settings = dict(config.new_method().config())
    return dataclasses.replace(config, method={"name": settings.pop("method"), **settings})


def _predictor(given: _PredictorBody) -> Predictor:
    try:
        with np.errstate(over="ignore"):  # what is infinite is refused below
            prototypes = np.array(given.prototypes, dtype=np.float32)
    except ValueError:
        raise MarcError("all prototypes must have the same length") from None
    n_classes, dim = prototypes.shape if prototypes.ndim == 2 else (1, 1)
    integer("the number of classes", n_classes, 2, MOST_CLASSES)
    integer("the dimension of prototypes", dim, 1, MOST_DIMS)
    return Predictor(*check_predictor(prototypes, given.logit_scale, dim))


def _check_method(name: Any) -> None:
    """Refuse what would import code, read files of the server's, or grow: a request decides none.

    Nor does a request bring the networks that some methods learn in.
    """
    if not isinstance(name, str):
        raise MarcError("a method has a name", hint='"method": {"name": "class-means"}')
    beyond = {
        **dict.fromkeys(("shots", "unlabelled"), "reads images from a file"),
        **dict.fromkeys(("text-tower", "image-tower"), "learns in the predictor's networks"),
    }

    def reason(card: MethodCard) -> str | None:
        grows = "keeps something of every image" if card.grows else None
        return next((beyond[need] for need in card.needs if need in beyond), grows)

    if name in METHODS and (why := reason(METHODS[name])):
        raise MarcError(f"a server takes no method that {why}", got=name, hint='"class-means"')
    cards = {each: METHODS[each] for each in METHODS}
    one_of("method", name, [n for n, c in cards.items() if c.sees == "image" and not reason(c)])


def _check_classes(classes: tuple[str, ...], n_classes: int) -> None:
    if len(classes) != n_classes:
        raise MarcError("each prototype needs a class", got=len(classes), allowed=n_classes)
    if len(set(classes)) < n_classes or not all(name.strip() for name in classes):
        raise MarcError("classes must be named, and differently", got=visible(str(classes))[:80])
    for name in classes:
        if len(name) > _LONGEST_CLASS or re.search("[\ud800-\udfff]", name):
            raise MarcError(
                "this is no name for a class",
                got=ascii(name)[:80],
                allowed=f"text of at most {_LONGEST_CLASS} characters",
            )
