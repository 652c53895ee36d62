"""Audits: which disagreements to label, and the labels that come back."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from marc.errors import MarcError, integer
from marc.files import csv_bytes, read_bytes, unquoted, write_whole

Labels = Mapping[Any, Any] | str | Path | Sequence[str | Path]
"""Classes by image id, or .csv files with the columns `id` and `label`."""
_HEADER = ["id", "one_answer", "other_answer", "label"]
_NEITHER = "neither"


class Disagreement(NamedTuple):
    """An image to which the adapted and the base answer differ."""

    row: int
    id: str
    base_answer: str
    answer: str
    result: int | None
    """1 if the adapted answer is right, -1 if the base answer is, 0 if none is, None: no label."""

    @property
    def blind(self) -> list[str]:
        """Both answers in an order that does not say whose they are: who labels must not know."""
        return sorted([self.base_answer, self.answer])


def read_labels(
    labels: Labels, ids: Sequence[str], names: Sequence[str], *, named: bool
) -> dict[int, int]:
    """The class of each labelled row, -1 for neither; what is not known or conflicts is refused.

    A class is given by its name or its number; a text that is both is a name. Of classes that are
    not `named`, any number is taken: only those that were ever an answer are known.
    """
    rows = {image: row for row, image in enumerate(ids)}
    numbers = {_NEITHER: -1} | {name: number for number, name in enumerate(names)}
    limit = len(names) if named else sys.maxsize
    truth: dict[int, int] = {}
    for where, image, given in _pairs(labels):
        if image not in rows:
            got, hint = f"{image!r} in {where}", f"ids such as {ids[0]!r}"
            raise MarcError("the run has no image of this id", got=got, hint=hint)
        if isinstance(given, str):
            number = numbers.get(
                given, int(given) if given.isdecimal() and len(given) < 19 else limit
            )
        else:
            number = integer("the number of a class", given, 0)
        if number >= limit:
            raise MarcError(
                "the run has no such class",
                got=f"{given!r} for {image} in {where}",
                allowed=f"names such as {names[0]!r}, 0 to {len(names) - 1}, or {_NEITHER!r}",
            )
        if truth.setdefault(rows[image], number) != number:
            got = f"{image}: {given!r} in {where}, and another before"
            raise MarcError("an image has two labels that differ", got=got)
    return truth


def _pairs(labels: Labels) -> Iterator[tuple[str, str, Any]]:
    """Where a label stands, the image and the class; what is left empty is no label."""
    if isinstance(labels, Mapping):
        for image, given in labels.items():
            if given is not None and given != "":
                yield "labels", str(image), given
        return
    for path in [labels] if isinstance(labels, str | Path) else labels:
        for number, row in enumerate(_read_table(Path(path)), start=2):
            if text := (row["label"] or "").strip():
                yield f"{path}, row {number}", unquoted(row["id"]), unquoted(text)


def _read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a .csv file of labels."""
    if not path.is_file():
        raise MarcError("there is no such file of labels", got=path, hint="--labels audit.csv")
    text = read_bytes(path).decode("utf-8-sig", "surrogateescape")  # spreadsheets begin with a BOM
    try:
        table = csv.DictReader(io.StringIO(text, newline=""))
        rows = list(table)
    except csv.Error as error:
        raise MarcError("this file is not a table", got=f"{path}: {error}") from error
    if not {"id", "label"} <= set(table.fieldnames or ()) and text.strip():
        found = ", ".join(table.fieldnames or ())[:80]
        needed = "comma-separated values with a header that has id and label"
        raise MarcError("this is not a file of labels", got=f"{path}: {found}", allowed=needed)
    for number, row in enumerate(rows, start=2):
        if None in row:
            hint = "quotes around a name that has a comma"
            raise MarcError("a row is longer than the header", got=f"{path}, {number}", hint=hint)
    return rows


def distinct(names: Sequence[str]) -> list[str]:
    """Names of classes that each name one.

    >>> distinct(["crane", "cat", "crane"])
    ['crane (0)', 'cat', 'crane (2)']
    """
    times = Counter(names)
    return [name if times[name] == 1 else f"{name} ({i})" for i, name in enumerate(names)]


def write_audit(
    path: Path, disagreements: Sequence[Disagreement], n: int, seed: int
) -> list[Disagreement]:
    """Write the next disagreements to label into a .csv file; gives them.

    A seed puts all disagreements into one random order, and an audit takes the next of it that are
    not labelled: batches of one seed follow each other, and together are one uniform draw. A file
    that holds labels, or is not ours, is left alone.
    """
    _refuse_filled(path)
    order = np.random.default_rng(integer("seed", seed, 0)).permutation(len(disagreements))
    unlabelled = [disagreements[i] for i in order if disagreements[i].result is None]
    drawn = unlabelled[: integer("audit", n, 1)]
    if not drawn:
        raise MarcError("no disagreement is left to label", got=f"{len(disagreements)} in all")
    rows = ([each.id, *each.blind, ""] for each in drawn)
    write_whole(path, csv_bytes([_HEADER, *rows]))
    return drawn


def _refuse_filled(path: Path) -> None:
    if path.suffix != ".csv":
        raise MarcError("an audit is a .csv file", got=path, hint="-o audit.csv")
    if not path.exists():
        return
    if path.is_file() and read_bytes(path).startswith(",".join(_HEADER).encode()):
        filled = list(_pairs(path))
        if not filled:
            return
        hint = f"--labels {path} to use them, and another -o FILE.csv"
        raise MarcError("this audit holds labels", got=f"{path}: {len(filled)}", hint=hint)
    raise MarcError("this path is not an audit, so it is left alone", got=path, hint="-o FILE.csv")
