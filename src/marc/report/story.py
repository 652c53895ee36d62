"""The sentence at the top of a page and the numbers in it, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marc.replay.sweep import Sweep
from marc.report.curves import selections
from marc.report.setting import Subject
from marc.report.tables import count, percent, points, short_points, weight_text
from marc.stats import Interval, paired_difference

SELECTIONS = {
    "fixed": "not chosen with any label",
    "oracle": "chosen with the labels of this very stream",
    "held-out": "chosen on the labels of other streams",
}
"""What the three words mean wherever they stand."""


@dataclass(frozen=True)
class _Fact:
    """A number with its name, and a line that says what it is."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class Story:
    """The top of the page: a title, what happened, how it was chosen, and the numbers."""

    title: str
    sentences: tuple[str, ...]
    facts: tuple[_Fact, ...]

    @property
    def text(self) -> str:
        """All of it as one paragraph."""
        return " ".join(self.sentences)


def tell(subject: Subject, others: Sequence[Sweep]) -> Story:
    """The story of a subject, with or without labels."""
    return (
        _unlabelled_story(subject) if subject.labels is None else _labelled_story(subject, others)
    )


def _gain_of(subject: Subject) -> Interval:
    """The gain with its paired interval over images."""
    right = subject.right
    base = np.broadcast_to(subject.base_prediction == subject.labels, right.shape)
    return paired_difference(right, base)


def _gain_beside(subject: Subject) -> float | None:
    """The gain of the same memory in the other space: over all orders if a sweep has them."""
    space, truth = subject.against, subject.labels
    if space is None or truth is None:
        return None
    return float(subject.right_beside.mean() - (subject.base_prediction == truth).mean())


def _labelled_story(subject: Subject, others: Sequence[Sweep]) -> Story:
    """Gain, interval, matched baseline and the selection word."""
    gain, method = _gain_of(subject), subject.method
    base = float((subject.base_prediction == subject.labels).mean())
    if gain.low <= 0 <= gain.high:
        title = f"A memory read in “{method.space}” makes no clear difference"
    else:
        verb = "gains" if gain.estimate > 0 else "loses"
        title = f"A memory read in “{method.space}” {verb} {short_points(gain.estimate)} points"
    images, orders = count(len(subject.stream), "image"), count(len(subject.seeds), "order")
    accuracy = float(subject.right.mean())
    interval = f"{points(gain.low)} to {points(gain.high)}"
    sentences = [
        f"Without memory the predictor answers {percent(base)} % of {images} correctly; with the "
        f"memory it answers {percent(accuracy)} %.",
        f"The gain is {points(gain.estimate)} points, with a 95 % interval of {interval}, paired "
        f"over images, mean of {orders}.",
        "The baseline is matched: the same images, views, prompts and orders at weight 0.",
        _setting_sentence(subject),
        *_beside_sentences(subject),
        *_choice_sentences(subject, others),
    ]
    repaired = (subject.right & (subject.base_prediction != subject.labels)).sum(axis=1).mean()
    broken = (~subject.right & (subject.base_prediction == subject.labels)).sum(axis=1).mean()
    facts = (
        _Fact("without memory", f"{percent(base)} %", "matched baseline, w = 0"),
        _Fact("with memory", f"{percent(accuracy)} %", f"mean of {orders}"),
        _Fact("gain", points(gain.estimate), f"points; 95 % {interval}"),
        _Fact("repaired", f"{repaired:,.0f}", "wrong before, right now"),
        _Fact("broken", f"{broken:,.0f}", "right before, wrong now"),
    )
    return Story(title, tuple(sentences), facts)


def _unlabelled_story(subject: Subject) -> Story:
    """What can be said when nobody knows the right answers."""
    run, method = subject.inputs.run, subject.method
    assert run is not None  # a sweep has labels
    changed = float((run.arrays["prediction"] != subject.base_prediction).mean())
    images, orders = count(len(subject.stream), "image"), count(len(subject.seeds), "order")
    sentences = [
        f"The memory changes {percent(changed)} % of the predictor's answers to {images}, mean of "
        f"{orders}.",
        "The labels of this stream are not known, so the page says what changes and why, and not "
        "whether it is right.",
        "The baseline is matched: the same images, views, prompts and orders at weight 0.",
        _setting_sentence(subject),
    ]
    facts = [_Fact("answers changed", f"{percent(changed)} %", f"mean of {orders}")]
    if subject.against is not None:
        other = subject.answers[subject.against].prediction
        share = float((other != subject.prediction).mean())
        note = f"answers that differ in {subject.against}, first order"
        facts.append(_Fact("spaces disagree", f"{percent(share)} %", note))
    title = (
        f"A memory read in “{method.space}” changes {short_points(changed)}\u00a0% of the answers"
    )
    return Story(title, tuple(sentences), tuple(facts))


def _setting_sentence(subject: Subject) -> str:
    """Space, K and w, and the word that says how they were chosen."""
    method, word = subject.method, subject.selection.replace("_", "-")
    meaning = SELECTIONS.get(word, "as the run says")
    values = f"K = {method.capacity}, w = {weight_text(subject.weight)}"
    if subject.inputs.run is None:
        return (
            f"The setting is {word}: {values}, {meaning}; the space “{method.space}” is the one of "
            "highest pseudo-purity, which needs no labels."
        )
    return f"The setting is {word}: space “{method.space}”, {values}, {meaning}."


def _beside_sentences(subject: Subject) -> list[str]:
    """What the same memory does in the other space."""
    gain = _gain_beside(subject)
    if gain is None:
        return []
    verb = "gains" if gain >= 0 else "loses"
    return [
        f"Read in “{subject.against}” instead, the same memory {verb} {short_points(gain)} points."
    ]


def _choice_sentences(subject: Subject, others: Sequence[Sweep]) -> list[str]:
    """What other ways of choosing the weight would have given."""
    if subject.sweep is None or subject.method.space not in subject.sweep.spaces:
        return []
    scores = {word: row[subject.method.space] for word, row in selections(subject, others).items()}
    told = []
    if "oracle" in scores:
        best = points(scores["oracle"].gain)
        told.append(f"At this K, an oracle that chose w with the labels would have had {best}.")
    if "held-out" in scores:
        score = scores["held-out"]
        told.append(
            f"Chosen on “{score.chosen_on}” and applied here unchanged (held-out), "
            f"w = {weight_text(score.weights[0])} gives {points(score.gain)}."
        )
    return told
