"""The named streams of the lab: which object, under which shift, at which position.

`sketch`, `neon`, ... show all 48 classes in 2,000 pictures under one shift. `sketch-12`, ... show
twelve classes whose labels only the upper reference has learned (the predictor has read their
names in captions), in 500 pictures.
`mixed` shows one shift after another; in `drift` the clean world slides into neon. Seeds of these
streams were not looked at while the world was being made.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.errors import one_of
from marc_lab.classes import CLASS_NAMES, HELD_BACK
from marc_lab.world import SHIFTS, render

_FIRST_SEED = 26_001  # far from those of the training pictures
_DRIFT = ("clean", "neon")
_KINDS = (*SHIFTS, "mixed", "drift")
_FEW = "-12"


@dataclass(frozen=True)
class StreamPlan:
    """What a stream shows, picture by picture; nothing is drawn yet."""

    name: str
    seed: int
    classes: tuple[int, ...]  # of the 48, in the order of the stream's labels
    labels: NDArray[np.int64]  # (T,) indices into `classes`
    shifts: tuple[str, ...]  # T names

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def class_names(self) -> list[str]:
        """Names of the stream's classes."""
        return [CLASS_NAMES[label] for label in self.classes]

    @property
    def ids(self) -> list[str]:
        """A name for every picture that tells its row and its shift."""
        return [f"{self.name}/{row:04d}-{shift}" for row, shift in enumerate(self.shifts)]

    def picture(self, row: int) -> NDArray[np.uint8]:
        """Draw one picture, (64, 64, 3); one frame of each clip is shown."""
        label = self.classes[int(self.labels[row])]
        return render(self.seed, 2 * row, self.shifts[row], label).image


def list_lab_streams(pattern: str = "*") -> list[str]:
    """Names of the lab's streams.

    >>> list_lab_streams("s*")
    ['sketch', 'sketch-12']
    """
    names = [*_KINDS, *(kind + _FEW for kind in _KINDS)]
    return fnmatch.filter(names, pattern)


def plan_stream(name: str) -> StreamPlan:
    """The plan of a named stream.

    >>> plan = plan_stream("sketch-12")
    >>> len(plan), len(plan.classes), plan.class_names[:3]
    (500, 12, ['heart', 'house', 'fish'])
    """
    names = list_lab_streams()
    one_of("stream of the lab", name, names, hint="lab/sketch-12")
    kind, few = name.removesuffix(_FEW), name.endswith(_FEW)
    classes, n_images = (HELD_BACK, 500) if few else (tuple(range(len(CLASS_NAMES))), 2000)
    seed = _FIRST_SEED + names.index(name)
    generator = np.random.default_rng([seed, 0, 3])
    labels = generator.integers(len(classes), size=n_images)
    return StreamPlan(name, seed, classes, labels, _shifts(kind, n_images, generator))


def _shifts(kind: str, n_images: int, generator: np.random.Generator) -> tuple[str, ...]:
    if kind == "mixed":
        turn = np.arange(n_images) * len(SHIFTS) // n_images
        return tuple(SHIFTS[index] for index in turn)
    if kind == "drift":
        late = generator.random(n_images) < np.arange(n_images) / n_images
        return tuple(_DRIFT[int(each)] for each in late)
    return (kind,) * n_images
