"""The paper's names of data sets and spaces, in the words of `marc list`."""

from __future__ import annotations

from marc_paper.printed.sheets import common

_DATASETS: dict[str, str] = common()["datasets"]
_A, _V2 = _DATASETS["A"], _DATASETS["V2"]

_STREAMS: dict[str, tuple[str, ...]] = {
    name: tuple(several) for name, several in common()["streams"].items()
}
_FAMILY, _ADDED, _SIX = _STREAMS["family"], _STREAMS["added"], _STREAMS["six"]
_CROSS_DOMAIN = _STREAMS["six and added"]

_SPACES: dict[str, str] = common()["spaces"]
_SIXTEEN = tuple(_SPACES.values())
_FIVE = tuple(common()["plans"]["five"]["spaces.controls"])
_EIGHT = tuple(common()["plans"]["eight"]["spaces.all"])

VIT, _RN50 = "clip-b16", "clip-rn50"
"""The two predictors."""


def prompts_of(dataset: str) -> str:
    """The prompt sets of a data set, joined by +.

    The paper does not list its prompts. These give its one-view accuracies without memory.

    >>> prompts_of("imagenet-a"), prompts_of("dtd")
    ('tip-7+cupl', 'dtd+cupl')
    """
    return f"{common()['templates'].get(dataset, 'tip-7')}+cupl"


def plain_prompts(text: str) -> frozenset[str]:
    """Prompt sets as they are compared: in any order, files by their name.

    >>> sorted(plain_prompts("texts/CuPL.json + tip-7"))
    ['cupl', 'tip-7']
    """
    parts = (part.strip().replace("\\", "/").rpartition("/")[2] for part in text.split("+"))
    return frozenset(part.lower().removesuffix(".json") for part in parts if part)


def plain_predictor(text: str) -> str:
    """A predictor by the name of its image encoder.

    >>> plain_predictor("clip-rn50-text")
    'clip-rn50'
    """
    return text.removesuffix("-text")
