"""One row per picture: what was answered without memory and with it, and how sure either is."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from marc.errors import MarcError, instance
from marc.files import csv_bytes
from marc.scores import Certainty
from marc.stream import Stream
from marc.types import Run


def optional(module: str, what: str, install: str) -> Any:
    """A library that is not always installed, or an error that says what to type."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        problem = f"{what} needs the package {package}, which is not installed"
        raise MarcError(problem, hint=f'pip install "{install}"') from None


@dataclass(frozen=True)
class AnswerTable:
    """Columns of equal length, by stored row: `file`, `base_answer`, `answer`, ..."""

    columns: Mapping[str, Sequence[Any]]

    def csv(self) -> bytes:
        """As a spreadsheet reads it; truth is written true and false, what is unknown is empty."""
        words = {True: "true", False: "false", None: ""}
        named = {
            name: [words[v] if v is None or v is True or v is False else v for v in values]
            for name, values in self.columns.items()
        }
        return csv_bytes([list(named), *zip(*named.values(), strict=True)])

    def parquet(self) -> bytes:
        """As data frames and databases read it; needs pyarrow."""
        arrow = optional("pyarrow", "a parquet file", "marc-clip[hf]")
        writer = optional("pyarrow.parquet", "a parquet file", "marc-clip[hf]")
        file = io.BytesIO()
        writer.write_table(arrow.table(self.as_unicode()), file)
        return file.getvalue()

    def as_unicode(self) -> dict[str, Sequence[Any]]:
        """The columns with text that Unicode has: odd bytes of a file's name are spelled out."""
        return {name: _as_text(values) for name, values in self.columns.items()}


def _as_text(values: Sequence[Any]) -> Sequence[Any]:
    if not any(isinstance(value, str) for value in values):
        return values
    return [v.encode("utf-8", "backslashreplace").decode() if v is not None else v for v in values]


def answers_of(
    run: Run, stream: Stream, more: Mapping[str, Sequence[Any]] | None = None
) -> AnswerTable:
    """The answers of one order, a row per stored image.

    Args:
        run: one order, of any kind.
        stream: what was run over, in any order.
        more: further columns, a value per stored image.
    """
    instance("run", run, Run)
    instance("stream", stream, Stream)
    features, answers = stream.features, run.by_image()
    if len(run.order) != len(features.ids):
        got = f"{len(run.order)} answers, {len(features.ids)} images"
        raise MarcError("this run is of another stream", got=got)
    names = features.class_names
    both = {"base_answer": answers.base_predictions, "answer": answers.predictions}
    columns: dict[str, Sequence[Any]] = {"file": list(features.ids)}
    columns |= {name: [names[label] for label in labels] for name, labels in both.items()}
    columns |= {
        "base_confidence": _confidence(answers.base_certainty, len(run.order)),
        "confidence": _confidence(answers.certainty, len(run.order)),
        "changed": (answers.predictions != answers.base_predictions).tolist(),
    }
    if answers.labels is not None:
        columns["label"] = [names[label] for label in answers.labels]
        columns["right"] = answers.correct.tolist()
        columns["base_right"] = answers.base_correct.tolist()
    for name, values in (more or {}).items():
        if name in columns or len(values) != len(run.order):
            raise MarcError("this is no further column", got=f"{name}: {len(values)} values")
        columns[name] = values
    return AnswerTable(columns)


def _confidence(certainty: Certainty | None, size: int) -> list[float | None]:
    """The probability of each answer; None where a method gives none."""
    if certainty is None:
        return [None] * size
    return [round(float(p), 6) for p in np.asarray(certainty.confidence)]
