"""The experiments, found in the modules of `tables` and `figures`, in the order of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from marc_paper.study import figures, tables
from marc_paper.study.artifacts import captions
from marc_paper.study.work import Experiment

_ORDER = list(captions()["experiments"])


def _in_modules(package: ModuleType) -> Iterator[Experiment]:
    for each in iter_modules(package.__path__, f"{package.__name__}."):
        for value in vars(import_module(each.name)).values():
            if isinstance(value, Experiment):
                yield value


_FOUND = (*_in_modules(figures), *_in_modules(tables))
EXPERIMENTS = tuple(sorted(_FOUND, key=lambda experiment: _ORDER.index(experiment.name)))
