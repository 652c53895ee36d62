"""Prompt sets, by name or from a file, and the text prototypes of classes that come of them.

A set has templates that take any class name, or sentences about each class.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import TextEncoder
from marc.errors import MarcError
from marc.files import parse_json, read_text
from marc.scores import unit

_PLACE = "{}"
"""Where the class name goes in a template."""

_SETS = Path(__file__).with_name("prompt_sets")
_FEW = 5  # names in a message
_T80 = "t80"
_T80_SUMMARY = "the 80 templates for ImageNet that were published with CLIP (needs open_clip)"
_T80_SOURCE = "open_clip's own list; TDA on ImageNet-R and Sketch"
_SUFFIXES = (".txt", ".json")
_FIELDS = {"name", "version", "summary", "source", "templates"}
_FORMS = (
    "a .txt with one template per line; a .json with a list of templates, with "
    '{"templates": [...]}, or with {class name: [sentences]}'
)
# Published runs use general templates on these two sets, and not the same ones.
_WITHOUT_THEIR_OWN = ("caltech101", "sun397")

_OnProgress = Callable[[int, int], None]
"""Called with how many texts are embedded and how many there are."""

_PORTION = 256  # texts that are embedded at a time


@dataclass(frozen=True)
class PromptSet:
    """Either `templates`, or `sentences` of each class (as CuPL has them)."""

    name: str
    version: str
    templates: tuple[str, ...] = ()
    sentences: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Class names and what is said of each."""
    summary: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if bool(self.templates) == bool(self.sentences):
            raise MarcError(
                "a prompt set has templates or sentences by class, not both and not neither",
                got=f"{self.name}: {len(self.templates)} templates, "
                f"sentences of {len(self.sentences)} classes",
            )
        for template in self.templates:
            _check_template(self.name, template)
        for class_name, texts in self.sentences:
            if not texts or not all(text.strip() for text in texts):
                raise MarcError(
                    f"every class of {self.name} needs sentences, none of them empty",
                    got=f"{class_name!r}: {list(texts)[:_FEW]}",
                )

    @property
    def digest(self) -> str:
        """Of the texts alone: the same texts under another name have the same digest."""
        texts = json.dumps([self.templates, self.sentences])
        return hashlib.sha256(texts.encode()).hexdigest()

    def prompts(self, class_names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """The prompts of each class."""
        if self.templates:
            return tuple(
                tuple(template.replace(_PLACE, name) for template in self.templates)
                for name in class_names
            )
        known = dict(self.sentences)
        missing = [name for name in dict.fromkeys(class_names) if name not in known]
        if missing:
            raise MarcError(
                f"{self.name} says nothing of {_counted(missing)} in the data set",
                got=_with_closest(missing, list(known)),
                allowed="a key for each class name, spelt exactly the same",
                hint="rename the keys of the file, or the classes",
            )
        return tuple(known[name] for name in class_names)

    def surplus(self, class_names: Sequence[str]) -> str:
        """A note on classes of this set that the data set does not have; empty if none."""
        known = set(class_names)
        surplus = [name for name, _ in self.sentences if name not in known]
        if not surplus:
            return ""
        names = _some([repr(name) for name in surplus])
        classes = _counted(surplus)
        return f"{self.name} also speaks of {classes} that the data set does not have: {names}"

    @staticmethod
    def available() -> dict[str, str]:
        """The prompt sets that can be asked for by name, and what each is for.

        >>> PromptSet.available()["t1"]
        'one plain sentence'
        """
        shipped = {name: PromptSet.read(name).summary for name in _shipped_names()}
        return dict(sorted({**shipped, _T80: _T80_SUMMARY}.items()))

    @staticmethod
    def read(spec: str) -> PromptSet:
        """A prompt set by its name, or from a file whose path ends in `.txt` or `.json`.

        >>> PromptSet.read("t1").templates
        ('a photo of a {}.',)
        """
        if spec.lower().endswith(_SUFFIXES):
            return _read_file(Path(spec))
        name = spec.lower()
        if name == _T80:
            return _read_t80()
        if name in _shipped_names():
            return _from_json(json.loads((_SETS / f"{name}.json").read_text("utf-8")), name)
        general = f"{name} has no templates of its own: tip-7 as in TDA and COSMIC, t1 as in CoOp"
        raise MarcError(
            "there is no such prompt set",
            got=repr(spec),
            allowed=f"{', '.join(sorted([*_shipped_names(), _T80]))}, or a path to {_FORMS}",
            hint=general if name in _WITHOUT_THEIR_OWN else "tip-7, or ./prompts.txt",
        )

    @staticmethod
    def pooled(
        class_names: Sequence[str], sets: Sequence[PromptSet]
    ) -> tuple[tuple[str, ...], ...]:
        """The prompts of each class: those of all sets, one after the other.

        All texts weigh the same in the mean, so a set with many sentences outweighs one with few,
        and a text that two sets share counts twice.

        >>> PromptSet.pooled(["cat", "dog"], [PromptSet.read("t1")])
        (('a photo of a cat.',), ('a photo of a dog.',))
        """
        _check_classes(class_names)
        if not sets:
            raise MarcError("there is no prompt set", got="none", hint="tip-7")
        pooled = zip(*(one.prompts(class_names) for one in sets), strict=True)
        return tuple(tuple(chain.from_iterable(of_class)) for of_class in pooled)


def _check_template(name: str, template: str) -> None:
    braces = template.count("{") + template.count("}")
    if template.count(_PLACE) != 1 or braces != 2:
        raise MarcError(
            f"a template of {name} must have one {_PLACE} where the class name goes",
            got=repr(template),
            allowed=f"exactly one {_PLACE}, and no other braces",
            hint=f'"a photo of a {_PLACE}."',
        )


def _with_closest(missing: Sequence[str], known: Sequence[str]) -> str:
    spelt = {name.lower(): name for name in known}
    named = []
    for name in missing[:_FEW]:
        close = difflib.get_close_matches(name.lower(), spelt, n=1)
        named.append(f"{name!r} (there is {spelt[close[0]]!r})" if close else repr(name))
    return _some(named + [""] * (len(missing) - len(named)))


def _some(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _FEW} more" if len(texts) > _FEW else ""
    return ", ".join(texts[:_FEW]) + more


def _counted(names: Sequence[str]) -> str:
    return f"{len(names)} class" + ("" if len(names) == 1 else "es")


def _shipped_names() -> list[str]:
    files = _SETS.iterdir()
    return sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))


def _read_t80() -> PromptSet:
    if find_spec("open_clip") is None:
        raise MarcError(
            "the 80 templates come with open_clip, which is not installed",
            got=_T80,
            hint="pip install 'marc-clip[encoders]', or the prompt set tip-7",
        )
    from marc.encoders.torch_runtime import import_libraries

    import_libraries("open_clip")
    published = import_module("open_clip.zero_shot_metadata").OPENAI_IMAGENET_TEMPLATES
    templates = tuple(template(_PLACE) for template in published)
    return PromptSet(_T80, "1", templates, summary=_T80_SUMMARY, source=_T80_SOURCE)


def _read_file(path: Path) -> PromptSet:
    text = read_text(path, "file of prompts")
    if path.suffix.lower() == ".txt":
        lines = [line.strip() for line in text.splitlines()]
        return _from_json([line for line in lines if line], path.name)
    parse_json(text, path, allowed=_FORMS)  # what is no good JSON is refused here
    return _from_json(json.loads(text, object_pairs_hook=_without_repeats), path.name)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of two keys that are the same one would be lost in silence."""
    counts = Counter(key for key, _ in pairs)
    repeated = sorted(key for key, count in counts.items() if count > 1)
    if repeated:
        raise MarcError("a class has two entries in the file of prompts", got=", ".join(repeated))
    return dict(pairs)


def _from_json(content: Any, name: str) -> PromptSet:
    if isinstance(content, dict) and "templates" in content and {*content} <= _FIELDS:
        return PromptSet(
            str(content.get("name", name)),
            str(content.get("version", "file")),
            templates=_texts(content["templates"], name),
            summary=str(content.get("summary", "")),
            source=str(content.get("source", "")),
        )
    if isinstance(content, list) and content:
        return PromptSet(name, "file", templates=_texts(content, name))
    if isinstance(content, dict) and content:
        sentences = tuple((key, _texts(texts, name)) for key, texts in content.items())
        return PromptSet(name, "file", sentences=sentences)
    kind = "nothing" if content in ([], {}) else type(content).__name__
    raise MarcError("there are no prompts in the file", got=f"{name}: {kind}", allowed=_FORMS)


def _texts(texts: Any, name: str) -> tuple[str, ...]:
    is_list = isinstance(texts, Sequence) and not isinstance(texts, str)
    if not is_list or not texts or not all(isinstance(text, str) for text in texts):
        raise MarcError(
            "prompts are lists of texts", got=f"{name}: {str(texts)[:80]}", allowed=_FORMS
        )
    return tuple(texts)


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

    @classmethod
    def embed(
        cls,
        encoder: TextEncoder,
        class_names: Sequence[str],
        sets: Sequence[PromptSet],
        *,
        on_progress: _OnProgress | None = None,
    ) -> Prototypes:
        """Embed every prompt, and average those of each class.

        Each distinct text is embedded once and each distinct list of prompts averaged once. Classes
        that share their name thus share every bit of their prototype, and the ties between them are
        exact on every machine.
        """
        _check_known(encoder, sets)
        by_class = PromptSet.pooled(class_names, sets)
        place = {text: n for n, text in enumerate(dict.fromkeys(chain.from_iterable(by_class)))}
        vectors = _embed(encoder, list(place), on_progress)
        rows = [[place[text] for text in texts] for texts in by_class]
        means = {
            tuple(row): _mean(vectors[row], name)
            for row, name in zip(rows, class_names, strict=True)
        }
        notes = [one.surplus(class_names) for one in sets]
        return cls(
            prototypes=np.stack([means[tuple(row)] for row in rows]),
            prompts=vectors[np.concatenate(rows)],
            prompt_class=np.repeat(np.arange(len(rows)), [len(row) for row in rows]).astype(
                np.int64
            ),
            texts=tuple(chain.from_iterable(by_class)),
            notes=(*_notes_on_twins(class_names, by_class), *(note for note in notes if note)),
        )


def _check_classes(class_names: Sequence[str]) -> None:
    if isinstance(class_names, str) or len(class_names) < 2:
        raise MarcError(
            "prototypes need at least two classes",
            got=repr(class_names) if isinstance(class_names, str) else f"{list(class_names)}",
            hint="a folder for each class, or --class-names FILE with one name per line",
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
    encoder: TextEncoder, texts: list[str], on_progress: _OnProgress | None
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
