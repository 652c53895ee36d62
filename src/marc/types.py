"""The nouns: query, step, trajectory, run. The verbs live in their own files."""

from __future__ import annotations

import importlib.util
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, check_features, integer
from marc.scores import BINS, BaseScores, Certainty, Float, Int, score_views, softmax, unit

if TYPE_CHECKING:
    from marc.stream.predictor import Predictor

WEIGHTS = (0.0, 0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0, 15.0, 20.0, 30.0, 50.0, 75.0, 100.0)
"""The paper's weights."""
CAPACITIES = (1, 2, 3, 4, 8, 16, 32, 64)
"""The paper's capacities."""
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What a screen obeys, but tabs and new lines; and other directions of writing."""
OnProgress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


def visible(text: str) -> str:
    r"""A text that only writes: what would move, colour or hide on a screen is spelled out.

    >>> visible("a\x1b[31m.png")
    'a\\x1b[31m.png'
    """
    return _COMMANDS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


class Shown(ABC):
    """What streams and results share: plain data, a data frame, and few lines to look at."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The whole in a few numbers and names, as plain data."""

    @abstractmethod
    def _columns(self) -> dict[str, Any]:
        """What a data frame has, by column."""

    def to_frame(self) -> Any:
        """A data frame of pandas, or of polars if that is the one that is installed."""
        for library in ("pandas", "polars"):
            if importlib.util.find_spec(library) is not None:
                return importlib.import_module(library).DataFrame(self._columns())
        raise MarcError("a data frame needs pandas or polars", hint="pip install pandas")

    def __repr__(self) -> str:
        lines = [f"  {name}: {_short(value)}" for name, value in self.to_dict().items()]
        return "\n".join([type(self).__name__, *lines])

    def _repr_html_(self) -> str:
        rows = [(name, _short(value)) for name, value in self.to_dict().items()]
        cells = (f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in rows)
        return f"<table><caption>{type(self).__name__}</caption>{''.join(cells)}</table>"


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        value = [f"{name}={_short(each)}" for name, each in value.items()]
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(_short, value))
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 88 else f"{text[:85]}..."


@dataclass(frozen=True)
class Query:
    """One image as a method sees it. There is no label field: what is not here cannot leak."""

    item: int
    """Which image this is: its row in the stored features, or any id of a live stream."""
    views: NDArray[np.float32]
    """Unit predictor features (M, D); view 0 is the plain image."""
    base: BaseScores
    """What the predictor alone says of it."""
    keys: Mapping[str, NDArray[np.float32]]
    """Unit retrieval features by space, each (D_s,)."""
    predictor: Predictor
    pixels: Callable[..., NDArray[np.uint8]] | None = None
    """Reads the crops behind the views, (M, H, W, 3), where the pictures are at hand; `pixels(n)`
    those behind the first n."""
    generated: NDArray[np.float32] | None = None
    """Unit predictor features (G, D) of pictures that were generated from it, where there are any:
    for methods that ask for them, no views."""

    @classmethod
    def from_features(
        cls, views: Float, predictor: Predictor, keys: Mapping[str, Float], *, item: int
    ) -> Query:
        """A query of a live stream from raw features: views (M, D) or (D,), keys (D_s,) each."""
        views = np.atleast_2d(views)
        check_features(f"views of item {item}", views, ndim=2)
        dim, needed = views.shape[1], predictor.prototypes.shape[1]
        if dim != needed:
            problem = f"views of item {item} do not fit the prototypes"
            raise MarcError(problem, got=f"dimension {dim}", allowed=f"dimension {needed}")
        for space, key in keys.items():
            check_features(f"key {space!r} of item {item}", np.asarray(key), ndim=1)
        views = unit(views)
        units = {space: unit(key) for space, key in keys.items()}
        return cls(item, views, score_views(predictor.logits(views)), units, predictor)

    @property
    def clip_key(self) -> NDArray[np.float32]:
        """The predictor's feature of the plain image, (D,)."""
        return self.views[0]

    @property
    def view_logits(self) -> NDArray[np.float32]:
        """Logits of every view, (M, C)."""
        return self.predictor.logits(self.views)

    def key(self, space: str) -> NDArray[np.float32]:
        """The retrieval feature in `space`; `predictor` names the predictor's own space."""
        if space == "predictor":
            return self.clip_key
        try:
            return self.keys[space]
        except KeyError:
            known = ", ".join([*self.keys, "predictor"])
            name = space.partition("+")[0]
            raise MarcError(f"there is no space {name!r}", got=space, allowed=known) from None


@dataclass(frozen=True)
class Step:
    """One answer: `logits = base_weight x base + sum of weight x evidence`."""

    item: int
    base: NDArray[np.float32]
    """b_t: what the method's own pipeline says without memory, (C,)."""
    evidence: Mapping[str, NDArray[np.float64]]
    """Named evidence, (C,) each."""
    weights: Mapping[str, float]
    label: int
    """The pseudo-label that was offered to the memory."""
    priority: float
    base_weight: float = 1.0
    to_probabilities: Callable[[Float], NDArray[np.float64]] | None = softmax
    """From scores (..., C) to probabilities; None where they have none, as votes."""
    spaces: tuple[str, ...] = ()
    """Names of the evidence that comes from retrieval spaces, where there may be several."""

    @property
    def logits(self) -> NDArray[np.float64]:
        """The fused scores, (C,)."""
        total = self.base_weight * self.base.astype(np.float64)
        for name, evidence in self.evidence.items():
            total += self.weights[name] * evidence
        return total

    @property
    def space_weights(self) -> dict[str, float]:
        """The weight of what each of the retrieval spaces says."""
        return {space: self.weights[space] for space in self.spaces}

    @property
    def prediction(self) -> int:
        """The fused answer; the lowest class on ties."""
        return int(self.logits.argmax())

    @property
    def base_prediction(self) -> int:
        """The matched answer without memory."""
        return int(self.base.argmax())


@dataclass(frozen=True)
class Trajectory:
    """What was offered to the retrieval memory, arrival by arrival; all arrays are (T,)."""

    order: Int
    """The item that arrived at each position."""
    label: Int
    priority: NDArray[np.float64]
    varies_with: frozenset[str] = field(default=frozenset())
    """What would change this trajectory: empty if it holds for every space, capacity, weight."""

    def retained(self, position: int, capacity: int) -> dict[int, list[int]]:
        """Items by class, best first, that a memory of `capacity` holds when `position` reads."""
        integer("position", position, 0)
        integer("capacity", capacity, 0)
        before = np.arange(min(position, len(self.order)))
        ranked = before[np.lexsort((before, -self.priority[before]))]
        held: dict[int, list[int]] = {}
        for arrival in ranked:
            items = held.setdefault(int(self.label[arrival]), [])
            if len(items) < capacity:
                items.append(int(self.order[arrival]))
        return {label: held[label] for label in sorted(held) if held[label]}


class _Scored:
    """How often answers are right, with memory and without."""

    predictions: Int
    base_predictions: Int
    labels: Int | None
    certainty: Certainty | None
    base_certainty: Certainty | None

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether each answer with memory is right."""
        return self.predictions == self._known_labels

    @property
    def base_correct(self) -> NDArray[np.bool_]:
        """Whether each answer without memory is right."""
        return self.base_predictions == self._known_labels

    @property
    def accuracy(self) -> float:
        """Fraction of right answers, between 0 and 1."""
        return float(self.correct.mean())

    @property
    def base_accuracy(self) -> float:
        """The same images, views, prompts and order without memory."""
        return float(self.base_correct.mean())

    @property
    def gain(self) -> float:
        """`accuracy - base_accuracy`."""
        return self.accuracy - self.base_accuracy

    def calibration(self, bins: int = BINS) -> dict[str, float]:
        """`ece`, `brier`, `log_loss`, and `base_...` without memory; less where unknown."""
        bins = integer("bins", bins, 1)
        return {
            prefix + name: value
            for prefix, sure in (("", self.certainty), ("base_", self.base_certainty))
            if sure is not None and self.labels is not None
            for name, value in sure.measures(getattr(self, f"{prefix}correct"), bins).items()
        }

    @property
    def _known_labels(self) -> Int:
        if self.labels is None:
            problem = "this stream has no labels, so accuracy cannot be measured"
            raise MarcError(problem, hint="labels=... in Stream.from_arrays, or run.predictions")
        return self.labels


@dataclass(frozen=True)
class Answers(_Scored):
    """A run's answers by stored row, (N,) each: so runs over several orders are paired."""

    predictions: Int
    base_predictions: Int
    labels: Int | None
    order: Int
    """The row at each position of the stream."""
    chosen: Mapping[str, float] = field(default_factory=dict)
    """Weights that an oracle chose; empty where all were fixed in advance."""
    certainty: Certainty | None = None
    base_certainty: Certainty | None = None


@dataclass(frozen=True, repr=False)
class Run(_Scored, Shown):
    """A method's answers over a stream, and the matched answers without memory.

    Arrays are in stream order: position t holds the image `trajectory.order[t]`.
    """

    method: Mapping[str, Any]
    """The method's name and settings."""
    predictions: Int
    base_predictions: Int
    trajectory: Trajectory
    labels: Int | None
    """True labels in stream order, joined here for evaluation only; None if unknown."""
    weights: NDArray[np.float64]
    """The weight w_t of the retrieval evidence in each answer; 0 for a method without one."""
    space_weights: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """The part of each space in that weight, (T,) each, where a method reads several spaces."""
    seconds: float = math.nan
    """Time from the first query to the last answer, the shared base scores not counted."""
    memory_bytes: int | None = None
    """What the method remembers at the end, the arrays of its state; None where nothing tells."""
    seed: int | None = None
    """The seed that drew the order; None for any other order."""
    chosen: Mapping[str, float] = field(default_factory=dict)
    """Weights that an oracle chose on the labels; empty where all were fixed in advance."""
    ordering: str = "shuffled"
    """The kind of order, as `marc run --order` takes it."""
    certainty: Certainty | None = None
    """How sure each answer is, then without memory; None where there are no probabilities."""
    base_certainty: Certainty | None = None

    @property
    def order(self) -> Int:
        """The image at each position."""
        return self.trajectory.order

    @property
    def positions(self) -> Int:
        """When each image arrived, by stored row."""
        return np.argsort(self.order)

    def by_image(self) -> Answers:
        """The answers by stored row instead of by position."""
        at = self.positions
        labels = None if self.labels is None else self.labels[at]
        answers = self.predictions[at], self.base_predictions[at]
        both = (None if c is None else c.at(at) for c in (self.certainty, self.base_certainty))
        return Answers(*answers, labels, self.order, self.chosen, *both)

    @property
    def repairs(self) -> Int:
        """Items that the memory put right."""
        return self.order[self.correct & ~self.base_correct]

    @property
    def regressions(self) -> Int:
        """Items that the memory got wrong and the predictor alone had right."""
        return self.order[~self.correct & self.base_correct]

    def to_dict(self) -> dict[str, Any]:
        """The method, and where labels are known how right it was."""
        names = ("accuracy", "base_accuracy", "gain") if self.labels is not None else ()
        found = {name: getattr(self, name) for name in names}
        changed = float((self.predictions != self.base_predictions).mean())
        seconds = self.seconds if math.isfinite(self.seconds) else None
        sizes = {"n_images": len(self.order), "changed": changed, "seconds": seconds}
        sure = {"calibration": measures} if (measures := self.calibration()) else {}
        order = order_name(self.seed, self.ordering)
        return {"method": dict(self.method), **found, **sure, **sizes, "order": order}

    def _columns(self) -> dict[str, Any]:
        answers = {"prediction": self.predictions, "base_prediction": self.base_predictions}
        stored = {"pseudo_label": self.trajectory.label, "priority": self.trajectory.priority}
        known = {} if self.labels is None else {"label": self.labels}
        sure = {} if self.certainty is None else {"confidence": self.certainty.confidence}
        return {"item": self.order, **answers, **sure, **stored, "weight": self.weights, **known}


def order_name(seed: int | None, ordering: str = "shuffled") -> str:
    """An order in words.

    >>> order_name(0), order_name(None), order_name(2, "bursts:length=8")
    ('seed 0', 'as stored', 'bursts:length=8, seed 2')
    """
    name = "as stored" if seed is None else f"seed {seed}"
    return name if ordering == "shuffled" else f"{ordering}, {name}"
