"""Text prototypes: each class is the normalised mean of its normalised prompt embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import TextEncoder
from marc.errors import MarcError
from marc.prompts.prompt_set import PromptSet
from marc.scores import unit

OnProgress = Callable[[int, int], None]
"""Called with how many texts are embedded and how many there are."""

_PORTION = 256  # texts that are embedded at a time


@dataclass(frozen=True)
class Prototypes:
    """Text prototypes of C classes and the P prompts that they are means of."""

    prototypes: NDArray[np.float32]
    """(C, D), of unit length."""
    prompts: NDArray[np.float32]
    """(P, D), of unit length, class after class."""
    prompt_class: NDArray[np.int64]
    """(P,)"""
    texts: tuple[str, ...]
    notes: tuple[str, ...]
    """What a person should know: classes of one name, sentences that were not used."""


def prompts_of(
    class_names: Sequence[str], sets: Sequence[PromptSet]
) -> tuple[tuple[str, ...], ...]:
    """The prompts of each class: those of all sets, one after the other.

    All texts weigh the same in the mean, so a set with many sentences outweighs one with few, and
    a text that two sets share counts twice.

    >>> from marc.prompts import read_prompt_set
    >>> prompts_of(["cat", "dog"], [read_prompt_set("t1")])
    (('a photo of a cat.',), ('a photo of a dog.',))
    """
    _check_classes(class_names)
    if not sets:
        raise MarcError("there is no prompt set", got="none", hint="tip-7")
    pooled = zip(*(one.prompts(class_names) for one in sets), strict=True)
    return tuple(tuple(chain.from_iterable(of_class)) for of_class in pooled)


def embed_prompts(
    encoder: TextEncoder,
    class_names: Sequence[str],
    sets: Sequence[PromptSet],
    *,
    on_progress: OnProgress | None = None,
) -> Prototypes:
    """Text prototypes of classes, and the embedding of every prompt.

    Each distinct text is embedded once and each distinct list of prompts averaged once. Classes
    that share their name thus share every bit of their prototype, and the ties between them are
    exact on every machine.
    """
    _check_known(encoder, sets)
    by_class = prompts_of(class_names, sets)
    place = {text: n for n, text in enumerate(dict.fromkeys(chain.from_iterable(by_class)))}
    vectors = _embed(encoder, list(place), on_progress)
    rows = [[place[text] for text in texts] for texts in by_class]
    means = {
        tuple(row): _mean(vectors[row], name) for row, name in zip(rows, class_names, strict=True)
    }
    notes = [one.surplus(class_names) for one in sets]
    return Prototypes(
        prototypes=np.stack([means[tuple(row)] for row in rows]),
        prompts=vectors[np.concatenate(rows)],
        prompt_class=np.repeat(np.arange(len(rows)), [len(row) for row in rows]).astype(np.int64),
        texts=tuple(chain.from_iterable(by_class)),
        notes=(*_notes_on_twins(class_names, by_class), *(note for note in notes if note)),
    )


def _check_classes(class_names: Sequence[str]) -> None:
    if isinstance(class_names, str) or len(class_names) < 2:
        raise MarcError(
            "prototypes need at least two classes",
            got=repr(class_names) if isinstance(class_names, str) else f"{list(class_names)}",
            hint="a folder for each class, or --class-names FILE with one name a line",
        )
    nameless = [n for n, name in enumerate(class_names) if not str(name).strip()]
    if nameless:
        raise MarcError(
            "every class needs a name that a prompt can say",
            got=f"no name for class {', '.join(str(n) for n in nameless[:5])}",
        )


def _check_known(encoder: TextEncoder, sets: Sequence[PromptSet]) -> None:
    known = encoder.card.prompts
    strange = [one.name for one in sets if known and one.name not in known]
    if strange:
        raise MarcError(
            f"{encoder.card.name} was taught few words and cannot read these prompts",
            got=", ".join(strange),
            allowed=", ".join(known),
        )


def _embed(
    encoder: TextEncoder, texts: list[str], on_progress: OnProgress | None
) -> NDArray[np.float32]:
    report = on_progress or (lambda done, total: None)
    parts = []
    for start in range(0, len(texts), _PORTION):
        portion = texts[start : start + _PORTION]
        vectors = np.asarray(encoder.encode_text(portion), dtype=np.float32)
        _check_vectors(vectors, portion)
        parts.append(unit(vectors))
        report(start + len(portion), len(texts))
    return np.concatenate(parts)


def _check_vectors(vectors: NDArray[np.float32], texts: Sequence[str]) -> None:
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise MarcError(
            "the text encoder gave something other than a vector for each text",
            got=f"{vectors.shape} for {len(texts)} texts",
        )
    bad = ~np.isfinite(vectors).all(axis=1) | ~vectors.any(axis=1)
    if bad.any():
        raise MarcError(
            "the text encoder gave a vector that is zero or not finite",
            got=repr(texts[int(bad.argmax())]),
        )


def _mean(vectors: NDArray[np.float32], class_name: str) -> NDArray[np.float32]:
    mean = vectors.astype(np.float64).mean(axis=0)
    length = np.sqrt((mean * mean).sum())
    if length < 1e-6:
        raise MarcError("the prompts of a class cancel each other out", got=repr(class_name))
    return unit((mean / length).astype(np.float32))


def _notes_on_twins(class_names: Sequence[str], by_class: Sequence[tuple[str, ...]]) -> list[str]:
    """Classes with the same prompts cannot be told apart; ties go to the lowest index."""
    places: dict[tuple[str, ...], list[int]] = {}
    for n, texts in enumerate(by_class):
        places.setdefault(texts, []).append(n)
    notes = []
    for same in places.values():
        if len(same) > 1:
            names = " and ".join(dict.fromkeys(repr(class_names[n]) for n in same))
            listed = " and ".join(str(n) for n in same)
            lost = " and ".join(str(n) for n in same[1:])
            notes.append(
                f"classes {listed} have the same prompts ({names}): their prototypes are equal, "
                f"the lowest index wins every tie, and {lost} will never be predicted"
            )
    return notes
