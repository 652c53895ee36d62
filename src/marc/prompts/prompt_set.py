"""A prompt set: templates that take any class name, or sentences about each class."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from marc.errors import MarcError

PLACE = "{}"
"""Where the class name goes in a template."""

_FEW = 5  # names in a message


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
                tuple(template.replace(PLACE, name) for template in self.templates)
                for name in class_names
            )
        said = dict(self.sentences)
        missing = [name for name in dict.fromkeys(class_names) if name not in said]
        if missing:
            raise MarcError(
                f"{self.name} says nothing of {_counted(missing)} in the data set",
                got=_with_closest(missing, list(said)),
                allowed="a key for each class name, spelt exactly the same",
                hint="rename the keys of the file, or the classes",
            )
        return tuple(said[name] for name in class_names)

    def surplus(self, class_names: Sequence[str]) -> str:
        """A note on classes of this set that the data set does not have; empty if none."""
        known = set(class_names)
        surplus = [name for name, _ in self.sentences if name not in known]
        if not surplus:
            return ""
        names = _some([repr(name) for name in surplus])
        classes = _counted(surplus)
        return f"{self.name} also speaks of {classes} that the data set does not have: {names}"


def _check_template(name: str, template: str) -> None:
    braces = template.count("{") + template.count("}")
    if template.count(PLACE) != 1 or braces != 2:
        raise MarcError(
            f"a template of {name} must have one {PLACE} where the class name goes",
            got=repr(template),
            allowed=f"exactly one {PLACE}, and no other braces",
            hint=f'"a photo of a {PLACE}."',
        )


def _with_closest(missing: Sequence[str], known: Sequence[str]) -> str:
    spelt = {name.lower(): name for name in known}
    told = []
    for name in missing[:_FEW]:
        close = difflib.get_close_matches(name.lower(), spelt, n=1)
        told.append(f"{name!r} (there is {spelt[close[0]]!r})" if close else repr(name))
    return _some(told + [""] * (len(missing) - len(told)))


def _some(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _FEW} more" if len(texts) > _FEW else ""
    return ", ".join(texts[:_FEW]) + more


def _counted(names: Sequence[str]) -> str:
    return f"{len(names)} class" + ("" if len(names) == 1 else "es")
