"""The words under the figures and beside the explorer."""

from __future__ import annotations

from collections.abc import Sequence

from marc.replay.sweep import Sweep
from marc.report.explorer import HUB, HUBS_MET, LOW_MARGIN
from marc.report.setting import NEIGHBORS, Subject
from marc.report.story import SELECTIONS
from marc.report.tables import weight_text

_RESERVATIONS = (
    "A laboratory in miniature: pictures and encoders are drawn and trained for it. Nothing here "
    "is evidence about photographs or about published models. The pairs and vicreg encoders know "
    "that two frames show one object, which is more than single images tell; labels has learned "
    "the very labels and is an upper reference; labels-half and labels-contrastive have learned "
    "24 and 36 of the 48, none of the twelve of the -12 streams; each encoder was trained once."
)


def weight_words(subject: Subject, others: Sequence[Sweep]) -> str:
    """The caption of gain against w."""
    orders = "mean over orders" if len(subject.seeds) > 1 else "one order"
    what = f"For every space, at K = {subject.method.capacity}, {orders}."
    if subject.labels is None:
        return f"{what} The mark is the setting of the run."
    words = [f"{word}: {SELECTIONS[word]}" for word in SELECTIONS if word != "held-out" or others]
    oracle = "An oracle chooses for each order, so its mark may stand off the mean curve."
    missing = "" if others else " No sweep of another stream was given, so nothing is held out."
    return f"{what} Marks are {'; '.join(words)}. {oracle}{missing}"


def purity_title(subject: Subject) -> str:
    """The heading of gain against purity."""
    return "Neighbours and change" if subject.labels is None else "Neighbours and gain"


def purity_words(subject: Subject) -> str:
    """The caption of gain against purity."""
    text = (
        f"Each mark is a space. Purity is the share of an image’s {NEIGHBORS} nearest neighbours "
        "with its label; pseudo-purity takes the predictor’s own answers for labels, so it can be "
        "known without any, and it also rewards a space that repeats the predictor’s mistakes."
    )
    return text if subject.labels is not None else text + " Labels are not known here."


def capacity_words(subject: Subject) -> str:
    """The caption of gain against K."""
    weight = weight_text(subject.weight)
    return f"For every space at w = {weight}: how many entries a class needs, or can bear."


def along_words(subject: Subject) -> str:
    """The caption of the warm-up."""
    text = "The stream in parts of equal length, in the order of arrival"
    text += ", mean over orders" if len(subject.seeds) > 1 else ""
    if subject.labels is not None and subject.against is not None:
        first = len(subject.right_beside) < len(subject.seeds)
        text += f" (“{subject.against}”: the first order)" if first else ""
    return f"{text}. A memory starts empty; one that learns does more in later parts."


def kinds_explained() -> str:
    """What the filters mean."""
    return (
        "Neighbour disagreement is the share of nearest entries whose pseudo-labels the two spaces "
        f"do not share. Low margin: the best two sums are among the closest {LOW_MARGIN:.0%} of "
        f"the stream. Hubs: at least {HUBS_MET} of the nearest entries are read {HUB:.0f} times as "
        "often as equal chances would give. A vote is alpha exp(−beta (1 − similarity)); the "
        "evidence L of a class is the sum of the votes of all its entries, shown or not. Bars "
        "start at the lowest base score of any class, which changes no answer; equal sums go to "
        "the lower class; ✓ marks the true class, where it is known."
    )


def caveat(subject: Subject) -> str:
    """What must stand beside the numbers of a stream, if anything."""
    return _RESERVATIONS if subject.inputs.source.startswith("lab/") else ""


def notes(subject: Subject) -> list[str]:
    """What a reader must know to read the figures rightly."""
    told = []
    if subject.sweep is None:
        told.append(
            f"What the policy {subject.method.admission.name} stores depends on its answers, so "
            "other weights, capacities and spaces would be other memories: their figures are left "
            "out, and the second space reads what this run stored."
        )
    elif not subject.plain:
        told.append(
            "The run adds more than the evidence of its memory to the scores; the figures over "
            "weights, capacities and spaces are of plain fusion, b + w L."
        )
    transformed = [space for space in subject.geometry if "+" in space]
    if transformed:
        told.append(
            f"Transductive: {', '.join(transformed)} was fitted on all images of the stream, the "
            "later ones included."
        )
    return told
