"""The table of classes: what the memory did to each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marc.report.setting import Subject
from marc.report.tables import percent, points


@dataclass(frozen=True)
class _Cell:
    """A cell as it is printed, and the value it is sorted by."""

    text: str
    value: str


@dataclass(frozen=True)
class _ClassTable:
    """One row per class, the most gaining first."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[_Cell, ...], ...]


def class_table(subject: Subject) -> _ClassTable:
    """Accuracy by true class; without labels, how often each class is the answer."""
    return _answers(subject) if subject.labels is None else _accuracy(subject)


def _accuracy(subject: Subject) -> _ClassTable:
    truth, n_classes = subject.labels, subject.stream.n_classes
    assert truth is not None
    sizes = np.bincount(truth, minlength=n_classes)
    base = np.bincount(truth, subject.base_prediction == truth, minlength=n_classes)
    after = np.bincount(truth, subject.right.mean(axis=0), minlength=n_classes)
    present = np.flatnonzero(sizes)
    gains = (after - base)[present] / sizes[present]
    rows = []
    for number in present[np.argsort(-gains, kind="stable")]:
        shares = base[number] / sizes[number], after[number] / sizes[number]
        rows.append(
            (
                _name(subject, number),
                *(_Cell(percent(share), repr(float(share))) for share in shares),
                _Cell(points(shares[1] - shares[0]), repr(float(shares[1] - shares[0]))),
                _Cell(str(sizes[number]), str(sizes[number])),
            )
        )
    caption = "Right answers in percent of the images of a class, and the gain in points."
    columns = ("class", "without", "with", "gain", "images")
    return _ClassTable(caption, columns, tuple(rows))


def _answers(subject: Subject) -> _ClassTable:
    run, n_classes = subject.inputs.run, subject.stream.n_classes
    assert run is not None  # a sweep has labels
    base = np.bincount(subject.base_prediction, minlength=n_classes)
    answers = run.arrays["prediction"]
    after = np.bincount(answers.reshape(-1), minlength=n_classes) / len(answers)
    given = np.flatnonzero(base + after)
    rows = []
    for number in given[np.argsort(-(after - base)[given], kind="stable")]:
        change = float(after[number] - base[number])
        rows.append(
            (
                _name(subject, number),
                _Cell(str(base[number]), str(base[number])),
                _Cell(f"{after[number]:.1f}", repr(float(after[number]))),
                _Cell(f"{change:+.1f}".replace("-", "−"), repr(change)),
            )
        )
    caption = "How often each class is the answer, without and with the memory, mean over orders."
    return _ClassTable(caption, ("class", "without", "with", "change"), tuple(rows))


def _name(subject: Subject, number: int) -> _Cell:
    name = subject.stream.features.class_names[number]
    return _Cell(name, name)
