"""Prompt sets by name, those that ship with us, or by path, those of a user."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from importlib import import_module, resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.prompts.prompt_set import PLACE, PromptSet

T80 = "t80"
_T80_SUMMARY = "the 80 templates for ImageNet that were published with CLIP (needs open_clip)"
_T80_SOURCE = "open_clip's own list; TDA on ImageNet-R and Sketch"
_SUFFIXES = (".txt", ".json")
_FIELDS = {"name", "version", "summary", "source", "templates"}
_FORMS = (
    "a .txt with a template a line; a .json with a list of templates, with "
    '{"templates": [...]}, or with {class name: [sentences]}'
)
# Published runs use general templates on these two sets, and not the same ones.
_WITHOUT_THEIR_OWN = ("caltech101", "sun397")


def list_prompt_sets() -> dict[str, str]:
    """The prompt sets that can be asked for by name, and what each is for.

    >>> list_prompt_sets()["t1"]
    'one plain sentence'
    """
    shipped = {name: read_prompt_set(name).summary for name in _shipped_names()}
    return dict(sorted({**shipped, T80: _T80_SUMMARY}.items()))


def read_prompt_set(spec: str) -> PromptSet:
    """A prompt set by its name, or from a file whose path ends in `.txt` or `.json`.

    >>> read_prompt_set("t1").templates
    ('a photo of a {}.',)
    """
    if spec.lower().endswith(_SUFFIXES):
        return _read_file(Path(spec))
    name = spec.lower()
    if name == T80:
        return _read_t80()
    if name in _shipped_names():
        return _shipped(name)
    general = f"{name} has no templates of its own: tip-7 as in TDA and COSMIC, t1 as in CoOp"
    raise MarcError(
        "there is no such prompt set",
        got=repr(spec),
        allowed=f"{', '.join(sorted([*_shipped_names(), T80]))}, or a path to {_FORMS}",
        hint=general if name in _WITHOUT_THEIR_OWN else "tip-7, or ./prompts.txt",
    )


def _shipped_names() -> list[str]:
    files = (resources.files("marc.prompts") / "sets").iterdir()
    return sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))


def _shipped(name: str) -> PromptSet:
    text = (resources.files("marc.prompts") / "sets" / f"{name}.json").read_text(encoding="utf-8")
    return _from_json(json.loads(text), name)


def _read_t80() -> PromptSet:
    if find_spec("open_clip") is None:
        raise MarcError(
            "the 80 templates come with open_clip, which is not installed",
            got=T80,
            hint="pip install 'marc-clip[encoders]', or the prompt set tip-7",
        )
    from marc.encoders.torch_runtime import import_libraries

    import_libraries("open_clip")
    published = import_module("open_clip.zero_shot_metadata").OPENAI_IMAGENET_TEMPLATES
    templates = tuple(template(PLACE) for template in published)
    return PromptSet(T80, "1", templates, summary=_T80_SUMMARY, source=_T80_SOURCE)


def _read_file(path: Path) -> PromptSet:
    if not path.is_file():
        raise MarcError("there is no such file of prompts", got=path, hint=f"ls {path.parent}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise MarcError("a file of prompts must be UTF-8", got=f"{path}: {error}") from error
    if path.suffix.lower() == ".txt":
        lines = [line.strip() for line in text.splitlines()]
        return _from_json([line for line in lines if line], path.name)
    try:
        content = json.loads(text, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        raise MarcError("the file of prompts is not JSON", got=f"{path}: {error}") from error
    return _from_json(content, path.name)


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
        said = tuple((key, _texts(texts, name)) for key, texts in content.items())
        return PromptSet(name, "file", sentences=said)
    kind = "nothing" if content in ([], {}) else type(content).__name__
    raise MarcError("there are no prompts in the file", got=f"{name}: {kind}", allowed=_FORMS)


def _texts(texts: Any, name: str) -> tuple[str, ...]:
    is_list = isinstance(texts, Sequence) and not isinstance(texts, str)
    if not is_list or not texts or not all(isinstance(text, str) for text in texts):
        raise MarcError(
            "prompts are lists of texts", got=f"{name}: {str(texts)[:80]}", allowed=_FORMS
        )
    return tuple(texts)
