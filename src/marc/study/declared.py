"""Whether a stream is what the plan says of it, where its store can tell.

A pack or the lab cannot be asked. A store knows its predictor and its prompts, and a plan that says
otherwise would have its numbers compared with those of another protocol.
"""

from __future__ import annotations

from pathlib import Path

from marc.errors import MarcError
from marc.prompts import list_prompt_sets
from marc.sources import default_store, is_pictures
from marc.store import FeatureStore, is_store
from marc.stored_stream import PROTOTYPES
from marc.study.plan import Plan


def check_declared(plan: Plan, name: str) -> None:
    """Refuse a stream whose store was made with another predictor or other prompts."""
    entry = plan.streams[name]
    path = store_of(entry.source)
    if path is None or not is_store(path):
        return
    words = FeatureStore(path).attributes(PROTOTYPES).get("made")
    if words is None:
        return  # opening it says that it is not whole
    predictor, prompts = entry.predictor or plan.predictor, entry.prompts or plan.prompts
    if words["encoder"]["name"] != predictor:
        raise MarcError(
            "the plan names another predictor than the store has",
            got=f"{predictor}; {path} has {words['encoder']['name']}",
            hint=f'predictor = "{words["encoder"]["name"]}" in the plan',
        )
    stored = [str(row[0]) for row in words["prompts"]]
    if prompts and not same_prompts(prompts, stored):
        raise MarcError(
            "the plan names other prompts than the store has",
            got=f"{prompts}; {path} has {'+'.join(stored)}",
            hint="the prompt sets by name, joined by +, with a name of yours for each file",
        )


def store_of(source: str) -> Path | None:
    """The folder of the store behind a source, if it is one of those."""
    kind, _, path = source.partition("/")
    if kind == "store":
        return Path(path).expanduser()
    return default_store(source) if is_pictures(source) else None


def same_prompts(declared: str, stored: list[str]) -> bool:
    """Whether as many sets are declared as stored, and those that have a name here are the same.

    >>> same_prompts("tip-7+cupl", ["tip-7", "imagenet"]), same_prompts("tip-7+cupl", ["tip-7"])
    (True, False)
    """
    names, known = declared.split("+"), list_prompt_sets()
    same = {name for name in names if name in known} == {name for name in stored if name in known}
    return same and len(names) == len(stored)
