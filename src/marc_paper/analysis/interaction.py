"""How memory and views share their work: substitution, repair sets, warm-up and margins.

And Proposition 1: which answers cannot change when one retrieval space is swapped for another. Both
spaces share what is stored, so their evidence differs at most by D_c, the kernel's slope times the
change of cosines over the retained items of class c. Where the winner leads by more than
w (D_winner + max of the other D), no swap can change the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import MarcError, integer
from marc.method import MARC
from marc.replay.evidence import KernelValues, read_all
from marc.replay.lifetimes import History
from marc.replay.replay import admit
from marc.scores import Float, Int, fuse
from marc.stream import Stream
from marc.types import Run


def substitution(few: Run, many: Run) -> float:
    """Sub(M1, M2): gain of the memory at M2 views minus its gain at M1; below 0 they overlap.

    Both runs must be over the same images in the same order, seen through different views.
    """
    if not np.array_equal(few.order, many.order):
        raise MarcError("the two runs must share one stream order", hint="stream.with_views(M)")
    return many.gain - few.gain


@dataclass(frozen=True)
class RepairSets:
    """Which errors of a reference each source repairs, and which right answers it breaks."""

    repairs: Mapping[str, NDArray[np.bool_]]
    """By source, (T,): wrong in the reference, right in the source."""
    regressions: Mapping[str, NDArray[np.bool_]]
    """By source, (T,): right in the reference, wrong in the source."""
    coverage: float
    """Accuracy of an oracle that keeps every answer that some source gets right."""

    def shared_repairs(self, first: str, second: str) -> int:
        """Images that both sources repair."""
        return int((self.repairs[first] & self.repairs[second]).sum())

    def shared_regressions(self, first: str, second: str) -> int:
        """Images that both sources break."""
        return int((self.regressions[first] & self.regressions[second]).sum())

    def accuracy_change(self, source: str) -> float:
        """(|R| - |B|) / T: exactly the source's accuracy minus the reference's."""
        right, wrong = self.repairs[source], self.regressions[source]
        return (int(right.sum()) - int(wrong.sum())) / len(right)

    @classmethod
    def of(cls, reference: ArrayLike, sources: Mapping[str, ArrayLike]) -> RepairSets:
        """Account for every change against a reference; all arrays are 0/1 over the same images."""
        before = np.asarray(reference, dtype=bool)
        after = {name: np.asarray(correct, dtype=bool) for name, correct in sources.items()}
        for name, correct in after.items():
            if correct.shape != before.shape:
                raise MarcError(
                    f"{name!r} is not over the images of the reference",
                    got=correct.shape,
                    allowed=before.shape,
                )
        return RepairSets(
            repairs={name: correct & ~before for name, correct in after.items()},
            regressions={name: ~correct & before for name, correct in after.items()},
            coverage=float(np.any(list(after.values()), axis=0).mean()),
        )

    def shared_fraction(self, first: str, second: str) -> float:
        """Fraction of what the first source repairs that the second does too; nan where none."""
        repaired = int(self.repairs[first].sum())
        return self.shared_repairs(first, second) / repaired if repaired else float("nan")


@dataclass(frozen=True)
class WarmUp:
    """Accuracy along the stream, part by part; a memory that learns gains more in later parts."""

    accuracy: NDArray[np.float64]
    base_accuracy: NDArray[np.float64]

    @property
    def gain(self) -> NDArray[np.float64]:
        """Gain in each part."""
        return self.accuracy - self.base_accuracy

    @classmethod
    def of(cls, run: Run, n_parts: int = 10) -> WarmUp:
        """Cut the stream into equal parts, deciles by default."""
        if integer("n_parts", n_parts, 1) > len(run.order):
            raise MarcError("more parts than images", got=n_parts, allowed=f"1 to {len(run.order)}")

        def parts(correct: NDArray[np.bool_]) -> NDArray[np.float64]:
            return np.array([part.mean() for part in np.array_split(correct, n_parts)])

        return WarmUp(parts(run.correct), parts(run.base_correct))


@dataclass(frozen=True)
class Margins:
    """Margins of the true class in stream order, (T,): fusion is right where mu + w delta > 0."""

    base: NDArray[np.float64]
    """mu_t: base logit of the true class minus the best other."""
    memory: NDArray[np.float64]
    """delta_t: the same of the evidence."""

    @classmethod
    def of(cls, method: MARC, stream: Stream) -> Margins:
        """Base and memory margins of every image; needs labels."""
        features = stream.features
        labels = stream.row_labels
        if labels is None:
            raise MarcError(
                "margins of the true class need labels", hint="labels=... in the stream"
            )
        [admitted] = admit(method, [stream], [method.seed])
        base = Margins.true(features.base.logits, labels)
        memory = np.empty(len(labels))

        def judge(order: int, items: Int, evidence: NDArray[np.float32]) -> None:
            memory[items] = Margins.true(evidence[0].T, labels[items])

        values = KernelValues(features.keys(method.space), method.alpha, method.beta)
        history = History.trace(admitted.trajectory, (method.capacity,), stream.n_classes)
        read_all(values, [history], judge)
        return Margins(base[stream.order], memory[stream.order])

    @staticmethod
    def true(scores: Float, labels: Int) -> NDArray[np.float64]:
        """Score of the true class minus the best other, from scores (n, C)."""
        rivals = np.array(scores, dtype=np.float64)
        own = labels[:, np.newaxis]
        true = np.take_along_axis(rivals, own, axis=-1)[:, 0]
        np.put_along_axis(rivals, own, -np.inf, axis=-1)
        return true - rivals.max(axis=-1)


@dataclass(frozen=True)
class Stability:
    """Per image in stream order, (T,): how far the winner leads and how much a swap can move."""

    gap: NDArray[np.float64]
    """Fused score of the winner minus the best other, in the first space."""
    bound: NDArray[np.float64]
    """w (D_winner + max of the other D)."""

    @property
    def certain(self) -> NDArray[np.bool_]:
        """Images whose answer is the same in both spaces, proved without asking the second."""
        return self.gap > self.bound

    @classmethod
    def of(cls, method: MARC, stream: Stream, other: str) -> Stability:
        """Bound the change of every answer when `method.space` is replaced by the space `other`."""
        if method.weight == "auto":
            raise MarcError(
                "the bound holds for one weight, and this one is learned from the first space",
                got="weight='auto'",
                hint="weight=10.0",
            )
        weight, features = method.weight, stream.features
        [admitted] = admit(method, [stream], [method.seed])
        history = History.trace(admitted.trajectory, (method.capacity,), stream.n_classes)
        size = len(features.ids)
        winner = np.empty(size, dtype=np.int64)
        gap, bound = np.empty(size), np.empty(size)

        def lead(order: int, items: Int, evidence: NDArray[np.float32]) -> None:
            logits = fuse(features.base.logits[items], evidence[0].T, weight)
            winner[items] = logits.argmax(axis=-1)
            top = np.partition(logits, -2, axis=-1)
            gap[items] = top[:, -1] - top[:, -2]

        def move(order: int, items: Int, changes: NDArray[np.float32]) -> None:
            change = changes[0].T.astype(np.float64)
            own = winner[items][:, np.newaxis]
            most = np.take_along_axis(change, own, axis=-1)[:, 0]
            np.put_along_axis(change, own, -np.inf, axis=-1)
            bound[items] = weight * (most + change.max(axis=-1))

        keys, other_keys = features.keys(method.space), features.keys(other)
        read_all(KernelValues(keys, method.alpha, method.beta), [history], lead)
        read_all(_CosineChanges(keys, other_keys, method.alpha * method.beta), [history], move)
        return Stability(gap[stream.order], bound[stream.order])


@dataclass(frozen=True)
class _CosineChanges:
    """alpha beta |u - u'| between items and queries of two spaces."""

    keys: NDArray[np.float32]
    other: NDArray[np.float32]
    slope: float

    @property
    def shape(self) -> tuple[int, ...]:
        return len(self.keys), self.keys.shape[1] + self.other.shape[1]

    def rows(self, images: Int) -> NDArray[np.float32]:
        return np.hstack([self.keys[images], self.other[images]])

    def multiply(self, items: Float, queries: Float) -> NDArray[np.float32]:
        dim = self.keys.shape[1]  # two products, so that of a space with itself nothing is left
        here, there = items[:, :dim] @ queries[:, :dim].T, items[:, dim:] @ queries[:, dim:].T
        return np.subtract(here, there, out=here)

    def finish(self, products: Float) -> None:
        np.abs(products, out=products)
        products *= np.float32(self.slope)
