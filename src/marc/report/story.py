"""What a page says in words: the story at its top, captions, notes, and the table of classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from marc.peers.registry import METHODS
from marc.replay.sweep import Sweep
from marc.report.answered import Answered
from marc.report.setting import Subject
from marc.report.stepped import Stepped
from marc.report.text import count, percent, points, score, worst
from marc.stats import paired_difference, worst_tenth

_percent, _points = partial(percent, page=True), partial(points, page=True)
_RESERVATIONS = (
    "A laboratory in miniature: pictures and encoders are drawn and trained for it. Nothing here "
    "is evidence about photographs or about published models. The pairs and vicreg encoders know "
    "that two frames show one object, which is more than single images tell; labels has learned "
    "the very labels and is an upper reference; labels-half and labels-contrastive have learned "
    "24 and 36 of the 48, none of the twelve of the -12 streams; each encoder was trained once."
)
_NAMED = 3  # spaces that a sentence names
_SELECTIONS = {
    "fixed": "not chosen with any label",
    "oracle": "chosen with the labels of this very stream",
    "held-out": "chosen on the labels of other streams",
}
"""What the three words mean wherever they are."""


@dataclass(frozen=True)
class Story:
    """What a page says: a title, what happened, how it was chosen, the numbers; and captions."""

    title: str
    sentences: tuple[str, ...]
    facts: tuple[tuple[str, str, str], ...]
    """Numbers: a name, the number, and a line that says what it is."""
    captions: Mapping[str, tuple[str, str]]
    """Title and caption by name of a figure."""
    notes: tuple[str, ...]
    """What a reader must know to read the figures rightly."""
    caveat: str
    """What must be beside the numbers of this stream, if anything."""
    classes: dict[str, Any]
    """A table with one row per class, the most gaining first: caption, columns, and rows of cells,
    each as it is printed and as it is sorted."""

    @classmethod
    def of(cls, subject: Subject | Stepped, others: Sequence[Sweep]) -> Story:
        """The story of a subject, with or without labels."""
        known = subject.labels is not None
        title, sentences, facts = _labelled(subject, others) if known else _unlabelled(subject)
        return cls(
            title,
            tuple(sentences),
            tuple(facts),
            captions=_captions(subject, others),
            notes=tuple(_notes(subject)),
            caveat=_RESERVATIONS if subject.inputs.source.startswith("lab/") else "",
            classes=_accuracy_by_class(subject) if known else _answers_by_class(subject),
        )

    @property
    def text(self) -> str:
        """The sentences as one paragraph."""
        return " ".join(self.sentences)


_Texts = tuple[str, list[str], list[tuple[str, str, str]]]
"""Title, sentences and facts of a story."""


def _size(difference: float) -> str:
    """The size of a difference in points with one digit, for a sentence."""
    return f"{abs(100 * difference):.1f}"


def _mean_of(orders: str) -> str:
    """Over what a number is a mean; of one order it is none."""
    return orders if orders.startswith("1 order") else f"mean of {orders}"


def _memory(subject: Subject | Stepped) -> str:
    """What a title is about."""
    if isinstance(subject, Stepped):
        card = METHODS.get(subject.name)
        stores = card is None or card.sees != "image" or card.reads_before_writes is not None
        return (
            f"The memory of “{subject.name}”" if stores else f"“{subject.name}” has no memory: it"
        )
    return f"A memory read in “{subject.method.space}”"


def _baseline(subject: Subject | Stepped) -> str:
    off = "without memory" if isinstance(subject, Stepped) else "at weight 0"
    return f"The baseline is matched: the same images, views, prompts and orders {off}."


def _labelled(subject: Subject | Stepped, others: Sequence[Sweep]) -> _Texts:
    """Gain, interval, matched baseline and the selection word."""
    right, base_right = subject.right, subject.base_prediction == subject.labels
    gain = paired_difference(right, np.broadcast_to(base_right, right.shape))
    base, accuracy = float(base_right.mean()), float(right.mean())
    if gain.low <= 0 <= gain.high:
        clear = "clear " if gain.low < gain.high else ""
        title = f"{_memory(subject)} makes no {clear}difference"
    else:
        verb = "gains" if gain.estimate > 0 else "loses"
        title = f"{_memory(subject)} {verb} {_size(gain.estimate)} points"
    images, orders = count(len(subject.stream), "image"), count(len(subject.seeds), "order")
    kind, interval = subject.stream.ordering, f"{_points(gain.low)} to {_points(gain.high)}"
    orders += "" if kind.kind == "shuffled" else f" of the kind {kind.name}"
    mean, few = _mean_of(orders), worst_tenth(right.mean(axis=1) - base)
    sentences = [
        f"Without memory the predictor answers {_percent(base)} % of {images} correctly; with "
        f"the memory it answers {_percent(accuracy)} %.",
        f"The gain is {_points(gain.estimate)} points, with a 95 % interval of {interval}, "
        f"paired over images, {mean}"
        + (f"; in {worst(len(right))} it is {_points(few)}." if len(right) > 1 else "."),
        _baseline(subject),
        _setting_sentence(subject),
    ]
    if isinstance(subject, Stepped):
        sentences += _believed(subject)
    else:
        sentences += [*_beside_sentences(subject), *_choice_sentences(subject, others)]
    matched = "matched baseline" + ("" if isinstance(subject, Stepped) else ", w = 0")
    facts = [
        ("without memory", f"{_percent(base)} %", matched),
        ("with memory", f"{_percent(accuracy)} %", mean),
        ("gain", _points(gain.estimate), f"points; 95 % {interval}"),
        (
            "repaired",
            subject.mean_count("repaired"),
            f"wrong before, right now; {mean}",
        ),
        ("broken", subject.mean_count("broken"), f"right before, wrong now; {mean}"),
    ]
    return title, sentences, facts


def _unlabelled(subject: Subject | Stepped) -> _Texts:
    run = subject.inputs.run
    assert run is not None  # a sweep has labels
    changed = float((run.arrays["prediction"] != subject.base_prediction).mean())
    images, orders = count(len(subject.stream), "image"), count(len(subject.seeds), "order")
    sentences = [
        f"The memory changes {_percent(changed)} % of the predictor's answers to {images}, "
        f"{_mean_of(orders)}.",
        "The labels of this stream are not known, so the page says what changes and why, and not "
        "whether it is right.",
        _baseline(subject),
        _setting_sentence(subject),
    ]
    facts = [("answers changed", f"{_percent(changed)} %", _mean_of(orders))]
    if isinstance(subject, Stepped):
        sentences += _believed(subject)
    elif subject.against is not None:
        other = subject.answers[subject.against].prediction
        fraction = float((other != subject.prediction).mean())
        note = f"answers that differ in {subject.against}, first order"
        facts.append(("spaces disagree", f"{_percent(fraction)} %", note))
    title = f"{_memory(subject)} changes {_size(changed)}\u00a0% of the answers"
    return title, sentences, facts


def _setting_sentence(subject: Subject | Stepped) -> str:
    """Space, K and w, and the word that says how they were chosen."""
    word = subject.selection.replace("_", "-")
    meaning = _SELECTIONS.get(word, "as the run says")
    if isinstance(subject, Stepped):
        return f"The settings, which are listed at the end, are {word}: {meaning}."
    method = subject.method
    values = f"K = {method.capacity}, w = {subject.weight:.4g}"
    if subject.inputs.run is None:
        return (
            f"The setting is {word}: {values}, {meaning}; the space “{method.space}” is the one of "
            "highest pseudo-purity, which needs no labels."
        )
    return f"The setting is {word}: space “{method.space}”, {values}, {meaning}."


def _believed(subject: Stepped) -> list[str]:
    """Which spaces had the weight at the end, mean over orders, where there are several."""
    assert subject.inputs.run is not None
    orders = subject.inputs.run.metrics.get("final_space_weights")
    if not orders:
        return []
    means = {space: np.mean([order[space] for order in orders]) for space in orders[0]}
    whole = sum(means.values()) or 1.0
    heavy = sorted(means, key=lambda space: -means[space])[:_NAMED]
    words = ", ".join(f"“{space}” ({100 * means[space] / whole:.0f} %)" for space in heavy)
    rest = count(len(means) - len(heavy), "other space")
    others = f", the rest to {rest}" if len(means) > len(heavy) else ""
    return [f"In the last tenth of the stream the weight goes to {words}{others}."]


def _beside_sentences(subject: Subject) -> list[str]:
    if subject.against is None:
        return []
    gain = float(subject.right_beside.mean() - (subject.base_prediction == subject.labels).mean())
    verb = "gains" if gain >= 0 else "loses"
    first = " in the first order" if len(subject.right_beside) < len(subject.seeds) else ""
    said = f"the same memory {verb} {_size(gain)} points{first}"
    return [f"Read in “{subject.against}” instead, {said}."]


def _choice_sentences(subject: Subject, others: Sequence[Sweep]) -> list[str]:
    """What other ways of choosing the weight would have given."""
    if subject.sweep is None or subject.method.space not in subject.sweep.spaces:
        return []
    scores = {word: row[subject.method.space] for word, row in subject.selections(others).items()}
    sentences = []
    if "oracle" in scores:
        best = _points(scores["oracle"].gain)
        sentences.append(
            f"At this K, an oracle that chose w with the labels would have had {best}."
        )
    if "held-out" in scores:
        score = scores["held-out"]
        sentences.append(
            f"Chosen on “{score.chosen_on}” and applied here unchanged (held-out), "
            f"w = {score.weights[0]:.4g} gives {_points(score.gain)}."
        )
    return sentences


def _captions(subject: Subject | Stepped, others: Sequence[Sweep]) -> dict[str, tuple[str, str]]:
    shared = {
        "warm-up": ("Along the stream", _along_caption(subject)),
        "reliability": ("Confidence and accuracy", _reliability_caption(subject)),
    }
    if isinstance(subject, Stepped):
        weights = (
            "What each space counts in the sum, along the first order. A weight is learned from "
            "the stream alone: of a space that does not agree with the predictor, it goes to zero."
        )
        return {**shared, "weights": ("Whom it believed", weights)}
    gain = "change" if subject.labels is None else "gain"
    capacity = (
        f"For every space at w = {subject.weight:.4g}: how many entries a class needs, or can bear."
    )
    return {
        **shared,
        "by-weight": ("Every weight", _weight_caption(subject, others)),
        "by-purity": (f"Neighbours and {gain}", _purity_caption(subject)),
        "by-capacity": ("Every capacity", capacity),
    }


def _weight_caption(subject: Subject, others: Sequence[Sweep]) -> str:
    orders = "mean over orders" if len(subject.seeds) > 1 else "one order"
    what = f"For every space, at K = {subject.method.capacity}, {orders}."
    if subject.labels is None:
        return f"{what} The mark is the setting of the run."
    words = [f"{word}: {_SELECTIONS[word]}" for word in _SELECTIONS if word != "held-out" or others]
    oracle = "An oracle chooses for each order, so its mark may stand off the mean curve."
    missing = "" if others else " No sweep of another stream was given, so nothing is held out."
    return f"{what} Marks are {'; '.join(words)}. {oracle}{missing}"


def _purity_caption(subject: Subject) -> str:
    text = (
        f"Each mark is a space. Purity is the share of an image’s {subject.neighbors} nearest "
        "neighbours with its label; pseudo-purity takes the predictor’s own answers for labels, so "
        "it can be known without any, and it also rewards a space that repeats the predictor’s "
        "mistakes."
    )
    return text if subject.labels is not None else text + " Labels are not known here."


def _along_caption(subject: Subject | Stepped) -> str:
    text = "The stream in parts of equal length, in the order of arrival"
    text += ", mean over orders" if len(subject.seeds) > 1 else ""
    known = subject.labels is not None
    if known and isinstance(subject, Subject) and subject.against is not None:
        first = len(subject.right_beside) < len(subject.seeds)
        text += f" (“{subject.against}”: the first order)" if first else ""
    return f"{text}. A memory starts empty; one that learns does more in later parts."


def _reliability_caption(subject: Answered) -> str:
    """What the diagram shows, and the three measures over all orders."""
    if not subject.is_measured:
        return ""
    run = subject.inputs.run
    assert run is not None
    found = run.metrics["calibration"]
    names = {"ece": f"ECE ({found['bins']} equal-width bins)", "brier": "Brier score"}
    names["log_loss"] = "log-loss in nats"
    words = [
        f"{title} {score(found[f'base_{name}'])} without memory, {score(found[name])} with it"
        for name, title in names.items()
    ]
    return (
        "Answers of the first order by how sure they are; on the diagonal they are right as often "
        f"as they claim, below it they claim too much. Mean over orders, less is better: "
        f"{'; '.join(words)}."
    )


def _notes(subject: Subject | Stepped) -> Iterator[str]:
    if isinstance(subject, Stepped):
        assert subject.inputs.run is not None
        if subject.inputs.run.config["transductive"]:
            yield "Transductive: the method used the whole stream, the later images included."
        return
    if subject.sweep is None:
        yield (
            f"What the policy {subject.method.admission.name} stores depends on its answers, so "
            "other weights, capacities and spaces would be other memories: their figures are left "
            "out, and the second space reads what this run stored."
        )
    elif not subject.plain:
        yield (
            "The run adds more than the evidence of its memory to the scores; the figures over "
            "weights, capacities and spaces are of plain fusion, b + w L."
        )
    transformed = [space for space in subject.geometry if "+" in space]
    if transformed:
        yield (
            f"Transductive: {', '.join(transformed)} was fitted on all images of the stream, the "
            "later ones included."
        )


def _accuracy_by_class(subject: Answered) -> dict[str, Any]:
    truth, names = subject.labels, subject.stream.features.class_names
    assert truth is not None
    sizes = np.bincount(truth, minlength=len(names))
    base = np.bincount(truth, subject.base_prediction == truth, minlength=len(names))
    after = np.bincount(truth, subject.right.mean(axis=0), minlength=len(names))
    present = np.flatnonzero(sizes)
    gains = (after - base)[present] / sizes[present]
    rows = []
    for number in present[np.argsort(-gains, kind="stable")]:
        rates = base[number] / sizes[number], after[number] / sizes[number]
        gain, size = rates[1] - rates[0], str(sizes[number])
        cells = [*((_percent(rate), repr(float(rate))) for rate in rates)]
        cells += [(_points(gain), repr(float(gain))), (size, size)]
        rows.append([(names[number], names[number]), *cells])
    return {
        "caption": "Right answers in percent of the images of a class, and the gain in points.",
        "columns": ("class", "without", "with", "gain", "images"),
        "rows": rows,
    }


def _answers_by_class(subject: Answered) -> dict[str, Any]:
    """How often each class is the answer, where labels are not known."""
    run, names = subject.inputs.run, subject.stream.features.class_names
    assert run is not None  # a sweep has labels
    base = np.bincount(subject.base_prediction, minlength=len(names))
    answers = run.arrays["prediction"]
    after = np.bincount(answers.reshape(-1), minlength=len(names)) / len(answers)
    given = np.flatnonzero(base + after)
    rows = []
    for number in given[np.argsort(-(after - base)[given], kind="stable")]:
        change, before = float(after[number] - base[number]), str(base[number])
        cells = [(before, before), (f"{after[number]:.1f}", repr(float(after[number])))]
        cells += [(f"{change:+.1f}".replace("-", "−"), repr(change))]
        rows.append([(names[number], names[number]), *cells])
    return {
        "caption": "How often each class is the answer, without and with the memory, mean over "
        "orders.",
        "columns": ("class", "without", "with", "change"),
        "rows": rows,
    }
