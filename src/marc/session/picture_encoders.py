"""The encoders that turn pictures into features and names of classes into prototypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.embed.plan import EmbeddingPlan, EncoderSpec, Job
from marc.embed.workers import Prepared
from marc.encoders import Encoder, TextEncoder
from marc.encoders.prompts import Prototypes
from marc.pictures.image_set import ImageSet
from marc.pictures.listing import with_class_names

_ANY_CLASSES = ("one class", "another class")


class PictureEncoders:
    """A predictor and the encoders of some spaces, loaded.

    Args:
        predictor: the zero-shot classifier, a name of `marc list encoders` or an encoder.
        spaces: the encoders of the spaces, likewise.
        classes: names that the prompts are checked with before weights are fetched; where the
            classes are not known yet, any two.
        prompts: prompt sets by name or file; by default those that the predictor knows.
        weights: weights on disk: a file, a folder with NAME.safetensors, or NAME=PATH.
        offline: never touch the network.
        device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
    """

    def __init__(
        self,
        predictor: str | TextEncoder,
        spaces: Sequence[str | Encoder],
        *,
        classes: Sequence[str] = _ANY_CLASSES,
        prompts: Sequence[str] = (),
        weights: Sequence[str] = (),
        offline: bool = False,
        device: str = "auto",
    ) -> None:
        first, *others = EncoderSpec.of_all(
            [predictor, *spaces], weights, offline=offline, device=device
        )
        plan = EmbeddingPlan(
            images=_no_pictures(classes),
            store=Path(),
            spaces=tuple(others),
            predictor=first,
            prompts=tuple(prompts),
        )
        jobs = plan.load()
        assert jobs.text is not None  # the plan has a predictor
        self._jobs, self._text, self._prompt_sets = list(jobs), jobs.text, plan.prompt_sets()
        self.pixels = Job.pixels(self._jobs, upright=True)
        """What must be made of each picture."""
        self.logit_scale: float = jobs.text.logit_scale

    @staticmethod
    def class_names(classes: Sequence[str]) -> tuple[str, ...]:
        """Names of classes, refused where they name none, or two alike."""
        return _no_pictures(classes).class_names

    @property
    def names(self) -> tuple[str, ...]:
        """Of the encoders, the predictor's first."""
        return tuple(job.encoder.card.name for job in self._jobs)

    @property
    def dims(self) -> dict[str, int]:
        """Dimensions of the spaces, by name."""
        return {_space(job): job.encoder.card.dim for job in self._jobs[1:]}

    @property
    def made(self) -> dict[str, Any]:
        """All that the features and prototypes depend on, beside pictures and classes."""
        return {
            "prompts": [[one.name, one.version, one.digest] for one in self._prompt_sets],
            "encoders": {job.array: job.made for job in self._jobs},
        }

    def prototypes(self, classes: Sequence[str]) -> Prototypes:
        """The classes as the predictor reads them."""
        return Prototypes.embed(self._text, self.class_names(classes), self._prompt_sets)

    def features(
        self, prepared: Prepared
    ) -> tuple[NDArray[np.floating], Mapping[str, NDArray[np.floating]]]:
        """Of n pictures: the predictor's (n, M, D), and (n, D) by space.

        Bit for bit those of an embedded folder. The last bits of a vector depend on how many
        pictures are encoded together.
        """
        views, *keys = (job.encode(prepared) for job in self._jobs)
        return views, dict(zip(self.dims, keys, strict=True))


def _space(job: Job) -> str:
    return job.array.partition("/")[2]


def _no_pictures(classes: Sequence[str]) -> ImageSet:
    return with_class_names(ImageSet("a session", (), ()), classes)
