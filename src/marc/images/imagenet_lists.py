"""WordNet ids and class names of ImageNet, read from the files of timm and open_clip.

Both are read as data: neither package is imported, so this takes milliseconds and no torch.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from marc.errors import MarcError

_SYNSETS = {
    "imagenet": "imagenet_synsets.txt",
    "imagenet-a": "imagenet_a_synsets.txt",
    "imagenet-r": "imagenet_r_synsets.txt",
}


@cache
def wordnet_ids(classes: str) -> tuple[str, ...]:
    """The ids of `imagenet` (1000), `imagenet-a` or `imagenet-r` (200 each), in label order."""
    file = _package_file("timm", "data", "_info", _SYNSETS[classes])
    return tuple(file.read_text(encoding="utf-8").split())


@cache
def class_names() -> tuple[str, ...]:
    """The 1000 names in label order, as open_clip has them."""
    file = _package_file("open_clip", "zero_shot_metadata.py")
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and _target(statement) == "IMAGENET_CLASSNAMES":
            return tuple(ast.literal_eval(statement.value))
    raise MarcError(
        "this version of open_clip has no list of ImageNet's class names",
        got=file,
        hint="pip install --upgrade open_clip_torch",
    )


def labels_within_imagenet(classes: str) -> tuple[int, ...]:
    """The mask: which of the 1000 labels the classes are, in label order."""
    position = {wordnet_id: index for index, wordnet_id in enumerate(wordnet_ids("imagenet"))}
    return tuple(position[wordnet_id] for wordnet_id in wordnet_ids(classes))


def _target(statement: ast.Assign) -> str:
    target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def _package_file(package: str, *path: str) -> Path:
    spec = find_spec(package)
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    for folder in folders:
        file = Path(folder, *path)
        if file.is_file():
            return file
    raise MarcError(
        "the class list of ImageNet comes with timm and open_clip, and is not there",
        got=f"{package}: {'no ' + '/'.join(path) if folders else 'not installed'}",
        hint='pip install "marc-clip[encoders]"',
    )
