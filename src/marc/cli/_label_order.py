"""The permuted-label test of `marc check`: do labels and predictor count the classes alike?

Folders named 0, 1, ..., 999 and read in text order (0, 1, 10, 100, ...) give labels that are
valid and wrong. Accuracy then falls to chance, which looks like a weak predictor. Under the right
order of the classes a permuted set is good again, a weak predictor is not.

A predictor that knows nothing still answers the pictures of one class alike: each class has an
answer of its own, drawn at random. Some order fits that by luck, and the luck is counted in
classes, not in pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from marc.scores import Int

_TEXT = "text order"
_UNLIKELY = 1e-5  # a difference or an accuracy that chance gives less often is believed
_UNLIKELY_CLASSES = 0.05  # by the number of classes: the luck that an order may have with them
_TRIED = 10  # usual mistakes, of which any may fit
_CHANCE = 0.01  # an accuracy that chance gives more often is not told from it
_MANY = 20  # answers that are all the same are worth a word
_UNLIKELY_CLASS = 3e-3  # one class is looked at, and only a remark follows
_KNOWN_GAIN = 1.5  # so many times the accuracy makes a usual mistake the explanation
_FITTED_GAIN = 2.0  # a fitted order also learns honest confusions, so more is asked of it
_LARGEST = 4000  # classes; the fit needs a square table of them


@dataclass(frozen=True)
class _LabelOrder:
    status: Literal["fine", "permuted", "cannot tell"]
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
    name: str
    order: Int
    """The class that each label stands for."""
    right: NDArray[np.bool_]
    """Which images are answered rightly under it."""
    gain: float
    """How many times the given accuracy it must have to be believed."""
    fitted: bool = False
    """Whether it was chosen among all orders."""

    def fits_classes(self, answers: Int, labels: Int) -> bool:
        """Whether it fits more classes than luck does where each has one answer, at random."""
        n_classes = len(self.order)
        counts = np.zeros((n_classes, n_classes), dtype=np.int32)
        np.add.at(counts, (labels, answers), 1)
        there = np.unique(labels)
        hits = int((counts[there, self.order[there]] == counts[there].max(axis=1)).sum())
        each = 1 / n_classes
        if self.fitted:
            return _at_least_distinct(hits, len(there), each) < _UNLIKELY_CLASSES * each
        return _at_least(hits, len(there), each) * _TRIED < _UNLIKELY_CLASSES * each

    def explains(self, right: NDArray[np.bool_], chance: float) -> bool:
        """Whether the order is far better than the given one, and not by luck."""
        better, worse = int((self.right & ~right).sum()), int((right & ~self.right).sum())
        hits = int(self.right.sum())
        lucky = _at_least(better, better + worse, 0.5), _at_least(hits, len(right), chance)
        return bool(hits >= self.gain * right.sum() and max(lucky) < _UNLIKELY)


def check_label_order(
    answers: Int,
    labels: Int,
    n_classes: int,
    class_names: Sequence[str] = (),
    ids: Sequence[str] = (),
) -> _LabelOrder:
    """Compare the given order of the classes with usual mistakes and with the best one-to-one.

    `ids` tell whether folders are numbers: only then can numbers have been sorted as text.

    >>> truth = np.arange(400) % 20
    >>> in_text_order = np.argsort(sorted(range(20), key=str))
    >>> check_label_order(truth, in_text_order[truth], 20).status
    'permuted'
    """
    names = tuple(class_names) or tuple(map("class {}".format, range(n_classes)))
    right = answers == labels
    chance = _chance(answers, labels, n_classes)
    usual = [
        _Candidate(name, order, answers == order[labels], _KNOWN_GAIN)
        for name, order in _usual_mistakes(n_classes, names, numbered=not _in_words(ids))
    ]
    fitted = [_fitted(answers, labels, n_classes)] if n_classes <= _LARGEST else []
    better = [each for each in (*usual, *fitted) if each.explains(right, chance)]
    sure = [each for each in better if each.fits_classes(answers, labels)]
    believed = [each for each in sure if not each.fitted] or sure
    tried = believed or [*usual, *fitted]
    best = max(tried, key=lambda each: int(each.right.sum()), default=None)
    name, best_accuracy = (best.name, float(best.right.mean())) if best else ("", 0.0)
    accuracy = float(right.mean())
    numbers = accuracy, chance, name, best_accuracy
    if believed and best:
        message = (
            "the labels count the classes in another order than the predictor: "
            f"{_percent(accuracy)} of the answers are right as given, {_percent(best_accuracy)} in "
            f"the {name.removeprefix('another ')}"
        )
        fix = "put class names and labels in one order; labels = np.array(order)[labels] does it"
        if name.startswith(_TEXT):
            fix = (
                "read ImageNet-V2 as imagenet-v2 --root DIR, and other numbered folders as "
                "folder/DIR: both take folders in the order of the numbers"
            )
        return _LabelOrder("permuted", *numbers, (), tuple(best.order.tolist()), message, fix)
    moved = tuple(pair for each in fitted for pair in _moved(each.order, answers, labels, names))
    if _at_least(int(right.sum()), len(right), chance) < _UNLIKELY:
        return _LabelOrder("fine", *numbers, moved, (), *_fine(accuracy, chance, moved))
    message = (
        f"{_percent(accuracy)} of the answers are right, chance is {_percent(chance)}: too close "
        "to tell whether labels and predictor count the classes alike"
    )
    fix = "more labelled images, or a look at a few pictures of class 0 and of the last class"
    if better:
        message += (
            f"; {_percent(best_accuracy)} would be right in the {name.removeprefix('another ')}, "
            "as can be if the predictor does not know these classes"
        )
        fix = "the class names, the weights of the encoder, a few pictures of class 0 and the last"
    return _LabelOrder("cannot tell", *numbers, moved, (), message, fix)


def chance_notes(
    answers: Int, labels: Int | None, class_names: Sequence[str], source: str
) -> list[str]:
    """What to say of a predictor that is no better than chance; nothing if it is better.

    Without labels it is one that answers every picture alike.
    """
    if labels is None:
        if len(answers) < _MANY or (answers != answers[0]).any():
            return []
        said = class_names[answers[0]] if len(class_names) else f"class {answers[0]}"
        return [f"without memory every image is answered {said!r}: {_look(source)}"]
    n_classes = int(max(answers.max(), labels.max())) + 1
    chance, hits = _chance(answers, labels, n_classes), int((answers == labels).sum())
    # too few images where even one that is right half-way from chance to always may have so few
    halfway = (1 + chance) / 2
    few = _at_least(len(labels) - hits, len(labels), 1 - halfway) >= _CHANCE
    if few or _at_least(hits, len(labels), chance) < _CHANCE:
        return []
    part = f"{_percent(hits / len(labels))} of the answers are right, chance is {_percent(chance)}"
    return [f"without memory {part}: {_look(source)}"]


def _look(source: str) -> str:
    what = "class names, the order of the labels, the weights of the encoder"
    return f"{what} may be wrong; try: marc check {quote(source)}"


def _chance(answers: Int, labels: Int, n_classes: int) -> float:
    """The accuracy of answers that know nothing of the labels, each given as often as it is."""
    rates = (np.bincount(each, minlength=n_classes) / len(each) for each in (answers, labels))
    return float(np.prod([*rates], axis=0).sum())


def _in_words(ids: Sequence[str]) -> bool:
    """Whether images lie in folders, none of which is a number."""
    folders = [each.rpartition("/")[0] for each in ids]
    return (
        bool(folders)
        and all(folders)
        and not any(part.isdecimal() for folder in {*folders} for part in folder.split("/"))
    )


def _fine(accuracy: float, chance: float, moved: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Message and fix."""
    message = (
        f"labels and predictor count the classes alike: {_percent(accuracy)} of the answers "
        f"are right, chance is {_percent(chance)}"
    )
    if not moved:
        return message, ""
    pairs = ", ".join(f"{label!r} is answered {other!r}" for label, other in moved[:5])
    more = f" and {len(moved) - 5} more" if len(moved) > 5 else ""
    fix = "look at the names of these classes: they may be exchanged, or mean something else"
    return f"{message}; but mostly {pairs}{more}", fix


def _usual_mistakes(
    n_classes: int, class_names: Sequence[str], *, numbered: bool = True
) -> Iterator[tuple[str, Int]]:
    """Orders that labels are often given in by mistake: name, and the class of each label."""
    lower = [name.lower() for name in class_names]
    keys: dict[str, Callable[[int], Any]] = {
        f"{_TEXT} of the numbers 0, 1, 10, ...": str,
        f"{_TEXT} of the numbers 1, 10, 100, ...": lambda label: str(label + 1),
        "order of the sorted class names": class_names.__getitem__,
        "order of the class names, sorted without regard to case": lower.__getitem__,
        "reversed order": lambda label: -label,
        "order shifted by one": lambda label: (label + 1) % n_classes,
    }
    seen = {tuple(range(n_classes))}
    for name, key in keys.items():
        if name.startswith(_TEXT) and not numbered:
            continue
        order = np.array(sorted(range(n_classes), key=key))
        for each in (order, np.argsort(order)):  # either side may be the one that was permuted
            if tuple(each) not in seen:
                seen.add(tuple(each))
                yield name, each


def _fitted(answers: Int, labels: Int, n_classes: int) -> _Candidate:
    """The best one-to-one order; each image is judged by an order fitted on the other half."""
    by_class = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[by_class], labels[by_class])
    half = np.empty(len(labels), dtype=np.int64)
    half[by_class] = (np.arange(len(labels)) - starts) % 2  # in turn within each class
    right = np.zeros(len(labels), dtype=bool)
    for part in (0, 1):
        order = _best_one_to_one(answers[half != part], labels[half != part], n_classes)
        right[half == part] = (answers == order[labels])[half == part]
    order = _best_one_to_one(answers, labels, n_classes)
    return _Candidate("another order of the classes", order, right, _FITTED_GAIN, fitted=True)


def _best_one_to_one(answers: Int, labels: Int, n_classes: int) -> Int:
    """The class of each label under which most answers are right, no class taken twice.

    Where the images do not tell, a label keeps its class if it can.
    """
    from scipy.optimize import linear_sum_assignment

    counts = np.zeros((n_classes, n_classes))
    np.add.at(counts, (labels, answers), 1.0)
    counts += 0.5 / n_classes * np.eye(n_classes)  # all of them: less than one image
    return np.asarray(linear_sum_assignment(counts, maximize=True)[1])


def _moved(
    order: Int, answers: Int, labels: Int, names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Classes that a fit moves for good reason: most of their images say so, few the given."""
    for label in np.flatnonzero(order != np.arange(len(names))).tolist():
        given = answers[labels == label]
        there, here = int((given == order[label]).sum()), int((given == label).sum())
        if 2 * there > len(given) and _at_least(there, there + here, 0.5) < _UNLIKELY_CLASS:
            yield names[label], names[order[label]]


def _at_least(hits: int, draws: int, probability: float) -> float:
    """The probability of so many hits or more."""
    from scipy import stats

    return float(stats.binom.sf(hits - 1, draws, probability))


def _at_least_distinct(hits: int, draws: int, probability: float) -> float:
    """The probability that so many draws from equally probable things give so many or more."""
    chances = np.zeros(draws + 1)
    chances[0] = 1.0
    seen = np.arange(draws + 1) * probability  # the part of the things that was drawn before
    for _ in range(draws):
        again = chances * seen
        chances[1:] = again[1:] + chances[:-1] * (1 - seen[:-1])
        chances[0] = 0.0
    return float(chances[hits:].sum())


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"
