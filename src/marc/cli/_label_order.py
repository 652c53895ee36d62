"""The permuted-label test: do the labels and the predictor's answers count classes alike?

Folders named 0, 1, ..., 999 and read in text order (0, 1, 10, 100, ...) give labels that are
valid and wrong. Accuracy then falls to chance, which looks like a weak predictor. The two are told
apart here: under the right order of the classes a permuted set is good again, a weak one is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import MarcError, integer

_Int = NDArray[np.int64]
_Status = Literal["fine", "permuted", "cannot tell"]

_TEXT = "text order"
_UNLIKELY = 1e-5  # a difference or an accuracy that chance gives less often is believed
_UNLIKELY_CLASS = 3e-3  # one class is looked at, and only a remark follows
_KNOWN_GAIN = 1.5  # so many times the accuracy makes a usual mistake the explanation
_FITTED_GAIN = 2.0  # a fitted order also learns honest confusions, so more is asked of it
_LARGEST = 4000  # classes; the fit needs a square table of them


@dataclass(frozen=True)
class _LabelOrder:
    """What the permuted-label test found."""

    status: _Status
    accuracy: float
    """As the labels are given."""
    chance: float
    """What answers that know nothing of the labels would have, as often as each is given."""
    best: str
    """The other order of the classes that fits best; empty if none was tried."""
    best_accuracy: float
    """Under that order; of a fitted one, on images it was not fitted on."""
    moved: tuple[tuple[str, str], ...]
    """Classes of a sound order that are better answered by another class: their names."""
    order: tuple[int, ...]
    """If permuted: the class that each label stands for. `np.array(order)[labels]` mends them."""
    message: str
    fix: str
    """What to type; empty if nothing need be done."""


@dataclass(frozen=True)
class _Candidate:
    """An order of the classes, and which images are answered rightly under it."""

    name: str
    order: _Int
    """The class that each label stands for."""
    right: NDArray[np.bool_]
    gain: float
    """How many times the given accuracy it must have to be believed."""


def check_label_order(
    answers: ArrayLike, labels: ArrayLike, n_classes: int, class_names: Sequence[str] = ()
) -> _LabelOrder:
    """Compare the given order of the classes with usual mistakes and with the best one-to-one.

    Args:
        answers: the predictor's class of each image, (N,).
        labels: the true class of each image, (N,).
        n_classes: C.
        class_names: C names in the order of the predictor's classes; may be empty.

    >>> truth = np.arange(400) % 20
    >>> in_text_order = np.argsort(sorted(range(20), key=str))
    >>> check_label_order(truth, in_text_order[truth], 20).status
    'permuted'
    """
    said, true = _checked(answers, labels, n_classes)
    names = tuple(class_names) or tuple(map("class {}".format, range(n_classes)))
    right = said == true
    chance = _chance(said, true, n_classes)
    candidates = [
        _Candidate(name, order, said == order[true], _KNOWN_GAIN)
        for name, order in _usual_mistakes(n_classes, names)
    ]
    fitted = _fitted(said, true, n_classes) if n_classes <= _LARGEST else None
    believed = [each for each in candidates if _explains(each, right, chance)]
    if not believed and fitted is not None and _explains(fitted, right, chance):
        believed = [fitted]
    if believed:
        best = max(believed, key=lambda each: int(each.right.sum()))
        return _permuted(best, right, chance)
    tried = [*candidates, *([] if fitted is None else [fitted])]
    best_other = max(tried, key=lambda each: int(each.right.sum()), default=None)
    moved = () if fitted is None else _moved(fitted, said, true, names)
    return _not_permuted(best_other, right, chance, moved)


def _usual_mistakes(n_classes: int, class_names: Sequence[str]) -> Iterator[tuple[str, _Int]]:
    """Orders that labels are often given in by mistake: name, and the class of each label."""
    identity = np.arange(n_classes)
    by_text = np.array(sorted(range(n_classes), key=str))
    from_one = np.array(sorted(range(n_classes), key=lambda number: str(number + 1)))
    by_name = np.array(sorted(range(n_classes), key=lambda place: class_names[place]))
    no_case = np.array(sorted(range(n_classes), key=lambda place: class_names[place].lower()))
    named = [
        (f"{_TEXT} of the numbers 0, 1, 10, ...", by_text),
        (f"{_TEXT} of the numbers 1, 10, 100, ...", from_one),
        ("order of the sorted class names", by_name),
        ("order of the class names, sorted without regard to case", no_case),
        ("reversed order", identity[::-1]),
        ("order shifted by one", np.roll(identity, 1)),
    ]
    seen = {tuple(identity)}
    for name, order in named:
        for each in (order, np.argsort(order)):  # either side may be the one that was permuted
            if tuple(each) not in seen:
                seen.add(tuple(each))
                yield name, each


def _checked(answers: ArrayLike, labels: ArrayLike, n_classes: int) -> tuple[_Int, _Int]:
    integer("n_classes", n_classes, 2)
    said, true = np.asarray(answers), np.asarray(labels)
    for name, values in (("answers", said), ("labels", true)):
        if values.ndim != 1 or values.dtype.kind not in "iu" or len(values) != len(true):
            raise MarcError(
                f"{name} must be one whole number per image",
                got=f"{values.dtype} {values.shape}",
                allowed=f"({len(true)},)",
            )
        if values.size == 0 or values.min() < 0 or values.max() >= n_classes:
            got = f"{values.min()} to {values.max()}" if values.size else "no images"
            raise MarcError(f"{name} must be classes", got=got, allowed=f"0 to {n_classes - 1}")
    return said.astype(np.int64), true.astype(np.int64)


def _chance(said: _Int, true: _Int, n_classes: int) -> float:
    """The accuracy of the same answers on images drawn without looking."""
    shares = (np.bincount(each, minlength=n_classes) / len(each) for each in (said, true))
    return float(np.prod([*shares], axis=0).sum())


def _explains(candidate: _Candidate, right: NDArray[np.bool_], chance: float) -> bool:
    """Whether an order is far better than the given one, and not by luck."""
    better = int((candidate.right & ~right).sum())
    worse = int((right & ~candidate.right).sum())
    much = candidate.right.sum() >= candidate.gain * right.sum()
    by_luck = _at_least(better, better + worse, 0.5)
    known = _at_least(int(candidate.right.sum()), len(right), chance)
    return bool(much and by_luck < _UNLIKELY and known < _UNLIKELY)


def _at_least(hits: int, draws: int, share: float) -> float:
    """The probability of so many hits or more."""
    from scipy import stats

    return float(stats.binom.sf(hits - 1, draws, share))


def _fitted(said: _Int, true: _Int, n_classes: int) -> _Candidate:
    """The best one-to-one order; each image is judged by an order fitted on the other half."""
    half = _halves(true)
    right = np.zeros(len(true), dtype=bool)
    for part in (0, 1):
        order = _best_one_to_one(said[half != part], true[half != part], n_classes)
        right[half == part] = (said == order[true])[half == part]
    order = _best_one_to_one(said, true, n_classes)
    return _Candidate("another order of the classes", order, right, _FITTED_GAIN)


def _halves(true: _Int) -> _Int:
    """0 or 1 for each image, in turn within each class: few images a class are split well."""
    by_class = np.argsort(true, kind="stable")
    starts = np.searchsorted(true[by_class], true[by_class])
    half = np.empty(len(true), dtype=np.int64)
    half[by_class] = (np.arange(len(true)) - starts) % 2
    return half


def _best_one_to_one(said: _Int, true: _Int, n_classes: int) -> _Int:
    """The class of each label under which most answers are right, no class taken twice.

    Where the images do not tell, a label keeps its class if it can.
    """
    from scipy.optimize import linear_sum_assignment

    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (true, said), 1.0)
    np.fill_diagonal(
        counts, counts.diagonal() + 0.5 / n_classes
    )  # all of them: less than one image
    return np.asarray(linear_sum_assignment(counts, maximize=True)[1])


def _moved(
    fitted: _Candidate, said: _Int, true: _Int, names: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Classes that the fit moves for good reason: most of their images say so, few the given."""
    found = []
    for label in np.flatnonzero(fitted.order != np.arange(len(names))).tolist():
        answers = said[true == label]
        there = int((answers == fitted.order[label]).sum())
        here = int((answers == label).sum())
        if 2 * there > len(answers) and _at_least(there, there + here, 0.5) < _UNLIKELY_CLASS:
            found.append((names[label], names[fitted.order[label]]))
    return tuple(found)


def _permuted(best: _Candidate, right: NDArray[np.bool_], chance: float) -> _LabelOrder:
    accuracy, best_accuracy = float(right.mean()), float(best.right.mean())
    message = (
        f"the labels count the classes in another order than the predictor: "
        f"{_percent(accuracy)} of the answers are right as given, {_percent(best_accuracy)} in the "
        f"{best.name.removeprefix('another ')}"
    )
    if best.name.startswith(_TEXT):
        fix = (
            "read ImageNet-V2 as imagenet-v2 --root DIR, and other numbered folders as "
            "folder/DIR: both take folders in the order of the numbers"
        )
    else:
        fix = "put class names and labels in one order; labels = np.array(order)[labels] does it"
    order = tuple(int(each) for each in best.order)
    return _LabelOrder(
        "permuted", accuracy, chance, best.name, best_accuracy, (), order, message, fix
    )


def _not_permuted(
    best: _Candidate | None,
    right: NDArray[np.bool_],
    chance: float,
    moved: tuple[tuple[str, str], ...],
) -> _LabelOrder:
    accuracy = float(right.mean())
    fix = ""
    if _at_least(int(right.sum()), len(right), chance) >= _UNLIKELY:
        status: _Status = "cannot tell"
        message = (
            f"{_percent(accuracy)} of the answers are right, chance is {_percent(chance)}: too "
            "close to tell whether labels and predictor count the classes alike"
        )
        fix = "more labelled images, or a look at a few pictures of class 0 and of the last class"
    else:
        status = "fine"
        message = (
            f"labels and predictor count the classes alike: {_percent(accuracy)} of the answers "
            f"are right, chance is {_percent(chance)}"
        )
    if status == "fine" and moved:
        pairs = ", ".join(f"{label!r} is answered {other!r}" for label, other in moved[:5])
        more = f" and {len(moved) - 5} more" if len(moved) > 5 else ""
        message += f"; but mostly {pairs}{more}"
        fix = "look at the names of these classes: they may be exchanged, or mean something else"
    name, share = ("", 0.0) if best is None else (best.name, float(best.right.mean()))
    return _LabelOrder(status, accuracy, chance, name, share, moved, (), message, fix)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
