"""What a page says in words: the story at its top, captions, notes, and the table of classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from marc.replay.sweep import Sweep
from marc.report.setting import Subject
from marc.report.text import count, page_percent, page_points, short_points, weight_text
from marc.stats import Interval, paired_difference

_RESERVATIONS = (
    "A laboratory in miniature: pictures and encoders are drawn and trained for it. Nothing here "
    "is evidence about photographs or about published models. The pairs and vicreg encoders know "
    "that two frames show one object, which is more than single images tell; labels has learned "
    "the very labels and is an upper reference; labels-half and labels-contrastive have learned "
    "24 and 36 of the 48, none of the twelve of the -12 streams; each encoder was trained once."
)
_SELECTIONS = {
    "fixed": "not chosen with any label",
    "oracle": "chosen with the labels of this very stream",
    "held-out": "chosen on the labels of other streams",
}
"""What the three words mean wherever they are."""


@dataclass(frozen=True)
class _Fact:
    """A number with its name, and a line that says what it is."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class Story:
    """What a page says: a title, what happened, how it was chosen, the numbers; and captions."""

    title: str
    sentences: tuple[str, ...]
    facts: tuple[_Fact, ...]
    captions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Title and caption by name of a figure."""
    notes: tuple[str, ...] = ()
    """What a reader must know to read the figures rightly."""
    caveat: str = ""
    """What must be beside the numbers of this stream, if anything."""

    @property
    def text(self) -> str:
        """The sentences as one paragraph."""
        return " ".join(self.sentences)


def tell(subject: Subject, others: Sequence[Sweep]) -> Story:
    """The story of a subject, with or without labels."""
    known = subject.labels is not None
    story = _labelled_story(subject, others) if known else _unlabelled_story(subject)
    return replace(
        story,
        captions=_captions(subject, others),
        notes=tuple(_notes(subject)),
        caveat=_RESERVATIONS if subject.inputs.source.startswith("lab/") else "",
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
    interval = f"{page_points(gain.low)} to {page_points(gain.high)}"
    sentences = [
        f"Without memory the predictor answers {page_percent(base)} % of {images} correctly; with "
        f"the memory it answers {page_percent(accuracy)} %.",
        f"The gain is {page_points(gain.estimate)} points, with a 95 % interval of {interval}, "
        f"paired over images, mean of {orders}.",
        "The baseline is matched: the same images, views, prompts and orders at weight 0.",
        _setting_sentence(subject),
        *_beside_sentences(subject),
        *_choice_sentences(subject, others),
    ]
    repaired = (subject.right & (subject.base_prediction != subject.labels)).sum(axis=1).mean()
    broken = (~subject.right & (subject.base_prediction == subject.labels)).sum(axis=1).mean()
    facts = (
        _Fact("without memory", f"{page_percent(base)} %", "matched baseline, w = 0"),
        _Fact("with memory", f"{page_percent(accuracy)} %", f"mean of {orders}"),
        _Fact("gain", page_points(gain.estimate), f"points; 95 % {interval}"),
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
        f"The memory changes {page_percent(changed)} % of the predictor's answers to {images}, "
        f"mean of {orders}.",
        "The labels of this stream are not known, so the page says what changes and why, and not "
        "whether it is right.",
        "The baseline is matched: the same images, views, prompts and orders at weight 0.",
        _setting_sentence(subject),
    ]
    facts = [_Fact("answers changed", f"{page_percent(changed)} %", f"mean of {orders}")]
    if subject.against is not None:
        other = subject.answers[subject.against].prediction
        fraction = float((other != subject.prediction).mean())
        note = f"answers that differ in {subject.against}, first order"
        facts.append(_Fact("spaces disagree", f"{page_percent(fraction)} %", note))
    title = (
        f"A memory read in “{method.space}” changes {short_points(changed)}\u00a0% of the answers"
    )
    return Story(title, tuple(sentences), tuple(facts))


def _setting_sentence(subject: Subject) -> str:
    """Space, K and w, and the word that says how they were chosen."""
    method, word = subject.method, subject.selection.replace("_", "-")
    meaning = _SELECTIONS.get(word, "as the run says")
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
    scores = {word: row[subject.method.space] for word, row in subject.selections(others).items()}
    sentences = []
    if "oracle" in scores:
        best = page_points(scores["oracle"].gain)
        sentences.append(
            f"At this K, an oracle that chose w with the labels would have had {best}."
        )
    if "held-out" in scores:
        score = scores["held-out"]
        sentences.append(
            f"Chosen on “{score.chosen_on}” and applied here unchanged (held-out), "
            f"w = {weight_text(score.weights[0])} gives {page_points(score.gain)}."
        )
    return sentences


def _captions(subject: Subject, others: Sequence[Sweep]) -> dict[str, tuple[str, str]]:
    """Title and caption of every figure."""
    gain = "change" if subject.labels is None else "gain"
    capacity = (
        f"For every space at w = {weight_text(subject.weight)}: how many entries a class needs, "
        "or can bear."
    )
    return {
        "by-weight": ("Every weight", _weight_caption(subject, others)),
        "by-purity": (f"Neighbours and {gain}", _purity_caption(subject)),
        "by-capacity": ("Every capacity", capacity),
        "warm-up": ("Along the stream", _along_caption(subject)),
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


def _along_caption(subject: Subject) -> str:
    text = "The stream in parts of equal length, in the order of arrival"
    text += ", mean over orders" if len(subject.seeds) > 1 else ""
    if subject.labels is not None and subject.against is not None:
        first = len(subject.right_beside) < len(subject.seeds)
        text += f" (“{subject.against}”: the first order)" if first else ""
    return f"{text}. A memory starts empty; one that learns does more in later parts."


def _notes(subject: Subject) -> Iterator[str]:
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
        rates = base[number] / sizes[number], after[number] / sizes[number]
        rows.append(
            (
                _name(subject, number),
                *(_Cell(page_percent(rate), repr(float(rate))) for rate in rates),
                _Cell(page_points(rates[1] - rates[0]), repr(float(rates[1] - rates[0]))),
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
