"""The formats of other tools: what each is written of one order of a run, and how it is opened.

Rows are stored images. A parquet file says in its metadata, and a folder in a file `.marc-export`,
of what it was made.
"""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shlex import join
from typing import Any

import numpy as np

from marc.files import whole_file, write_json, write_whole
from marc.results.answers import AnswerTable, answers_of, optional
from marc.results.audit import distinct
from marc.results.remembered import Remembered
from marc.spaces.plane import lay_out
from marc.stream import Stream
from marc.types import Run, order_name

MARK = b"marc-export"
"""The key of a parquet file's metadata that holds the digest of what was exported."""
_NEAREST = 10  # earlier pictures that are named beside an answer
_GROUP = 256  # pictures of one group of rows: readers hold one group in memory
_MOST_MAPPED = 5_000  # pictures whose map t-SNE draws in a minute or two
_NEEDS = "marc-clip[hf]"


@dataclass(frozen=True)
class Content:
    """One order of a run, its stream in that order, and its pictures."""

    title: str
    run: Run
    stream: Stream
    spaces: Sequence[str]
    """What is drawn as a map; in the first the nearest earlier pictures are looked for."""
    picture: Callable[[int], Any | None]
    """A picture of PIL by stored row, or None where there is none."""
    digest: str

    @cached_property
    def table(self) -> AnswerTable:
        """What was answered."""
        return answers_of(self.run, self.stream)

    @cached_property
    def has_pictures(self) -> bool:
        """Whether there is any picture at all."""
        return any(self.picture(row) is not None for row in range(len(self.run.order)))

    @property
    def maps(self) -> bool:
        """Whether the spaces are drawn here; what is not is projected by who opens it."""
        few = 8 <= len(self.run.order) <= _MOST_MAPPED
        return few and importlib.util.find_spec("sklearn") is not None

    def jpeg(self, row: int) -> bytes | None:
        """A picture as the bytes of a file."""
        if (picture := self.picture(row)) is None:
            return None
        file = io.BytesIO()
        picture.save(file, format="JPEG", quality=90)
        return file.getvalue()


@dataclass(frozen=True)
class Format:
    """A format that a run can be exported to."""

    suffix: str
    """How the name of its file ends; none where it is a folder."""
    write: Callable[[Content, Path], int]
    """Writes it under a name, and gives how many pictures went into it."""
    opened: Callable[[Content, Path], Sequence[str]] = lambda content, path: ()
    """What one types to open it."""


def _write_csv(content: Content, path: Path) -> int:
    write_whole(path, content.table.csv())
    return 0


def _write_parquet(content: Content, path: Path) -> int:
    return _write_table(path, _answers(content), content, pictures=False)


def _answers(content: Content, numbers: Mapping[str, Any] | None = None) -> Any:
    """The answers as a table of pyarrow, some columns as numbers of classes."""
    arrow = optional("pyarrow", "a parquet file", _NEEDS)
    columns = {**content.table.as_unicode(), **(numbers or {})}
    of_none = {name: set(values) == {None} for name, values in columns.items()}  # of no type else
    kinds = {name: arrow.float64() if none else None for name, none in of_none.items()}
    return arrow.table({name: arrow.array(each, kinds[name]) for name, each in columns.items()})


def _write_atlas(content: Content, path: Path) -> int:
    """Answers, pictures, a map of each space, and the nearest of the pictures shown before."""
    arrow = optional("pyarrow", "a parquet file", _NEEDS)
    table = _answers(content)
    for space in content.spaces:
        keys = content.stream.features.keys(space)
        if content.maps:
            for axis, values in zip("xy", lay_out(keys)[0].T, strict=True):
                table = table.append_column(f"{axis}_{space}", arrow.array(values))
        else:
            vectors = arrow.FixedSizeListArray.from_arrays(keys.reshape(-1), keys.shape[1])
            table = table.append_column(f"vector_{space}", vectors)
    kind = {"ids": arrow.list_(arrow.int64()), "distances": arrow.list_(arrow.float32())}
    nearest = arrow.array(_nearest(content), arrow.struct(list(kind.items())))
    return _write_table(path, table.append_column("neighbors", nearest), content)


def _nearest(content: Content) -> list[dict[str, list[Any]]]:
    """By stored row: rows of the nearest pictures that came before, and 1 - cosine.

    A row names itself first, as this format has it, and again where fewer came before it: the
    lists must be of one length.
    """
    near, cosines = Remembered.of(content.stream).nearest(content.spaces[0], count=_NEAREST)
    found: list[dict[str, list[Any]]] = [{}] * len(near)
    for row, ids, cosine in zip(content.stream.order, near, cosines, strict=True):
        listed = np.where(ids >= 0, ids, row), np.where(ids >= 0, 1 - cosine, 0)
        rows, distances = (each.tolist() for each in listed)
        found[row] = {"ids": [int(row), *rows], "distances": [0.0, *distances]}
    return found


def _open_atlas(content: Content, path: Path) -> list[str]:
    space = content.spaces[0]
    words = ["embedding-atlas", str(path)]
    words += ["--image", "image"] if content.has_pictures else []
    place = ["--x", f"x_{space}", "--y", f"y_{space}"]
    words += place if content.maps else ["--vector", f"vector_{space}"]
    return [join([*words, "--neighbors", "neighbors"])]


def _write_table(
    path: Path,
    table: Any,
    content: Content,
    metadata: Mapping[bytes, bytes] | None = None,
    *,
    pictures: bool = True,
) -> int:
    """Write a table group by group, so that few pictures are in memory; gives their number."""
    arrow = optional("pyarrow", "a parquet file", _NEEDS)
    writer_of = optional("pyarrow.parquet", "a parquet file", _NEEDS).ParquetWriter
    pictures = pictures and content.has_pictures
    image = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    schema, n_pictures = table.schema, 0
    if pictures:
        schema = schema.insert(1, arrow.field("image", image))
    schema = schema.with_metadata({**(metadata or {}), MARK: content.digest.encode()})
    names = content.table.as_unicode()["file"]
    with whole_file(path) as file, writer_of(file, schema) as writer:
        for start in range(0, len(table), _GROUP):
            part = table.slice(start, _GROUP)
            if pictures:
                found = [content.jpeg(row) for row in range(start, start + len(part))]
                n_pictures += sum(each is not None for each in found)
                cells = [
                    None if each is None else {"bytes": each, "path": name}
                    for each, name in zip(found, names[start:], strict=False)
                ]
                part = part.add_column(1, "image", arrow.array(cells, image))
            writer.write_table(part.replace_schema_metadata(schema.metadata))
    return n_pictures


def _write_hub(content: Content, folder: Path) -> int:
    """A data set of Hugging Face: classes by number and name, and a card."""
    classes = distinct(content.stream.features.class_names)
    answers = content.run.by_image()
    numbers = {"base_answer": answers.base_predictions, "answer": answers.predictions}
    if answers.labels is not None:
        numbers["label"] = answers.labels
    table = _answers(content, numbers)
    features: dict[str, Any] = {"file": {"dtype": "string", "_type": "Value"}}
    if content.has_pictures:
        features["image"] = {"_type": "Image"}
    for field in list(table.schema)[1:]:
        kind = {"double": "float64"}.get(str(field.type), str(field.type))
        features[field.name] = {"dtype": kind, "_type": "Value"}
        if field.name in numbers:
            features[field.name] = {"names": classes, "_type": "ClassLabel"}
    about = json.dumps({"info": {"features": features}}).encode()
    path = folder / "data" / "test-00000-of-00001.parquet"
    n_pictures = _write_table(path, table, content, {b"huggingface": about})
    write_whole(folder / "README.md", _card(content, features).encode())
    return n_pictures


def _card(content: Content, features: Mapping[str, Any]) -> str:
    run = content.run
    method = ", ".join(f"{name} {value}" for name, value in run.method.items())
    order = order_name(run.seed, run.ordering)
    lines = [
        "---",
        f"pretty_name: {json.dumps(content.title)}",
        "task_categories:\n- image-classification",
        "configs:\n- config_name: default\n  data_files:\n  - split: test\n    path: data/test-*",
        "---",
        f"# {content.title}",
        f"Answers of zero-shot CLIP (`base_answer`) and of the same with a memory (`answer`) to "
        f"{len(run.order):,} pictures, in the order {order}. Settings: {method}.",
    ]
    if run.labels is not None:
        word = "weights chosen on these labels: oracle" if run.chosen else "settings fixed"
        lines.append(
            f"{100 * run.accuracy:.2f} % of the answers are right, without memory "
            f"{100 * run.base_accuracy:.2f} % ({word})."
        )
    lines += [f"Columns: {', '.join(f'`{name}`' for name in features)}.", "Written by MARC."]
    return "\n".join(lines[:5]) + "\n\n" + "\n\n".join(lines[5:]) + "\n"


def _open_hub(content: Content, path: Path) -> list[str]:
    return [f"datasets.load_dataset({json.dumps(str(path))}, split='test')"]


def _write_fiftyone(content: Content, folder: Path) -> int:
    """Samples with two predictions each; the pictures are files beside them."""
    (folder / "data").mkdir()
    n_pictures, samples = 0, []
    for row, sample in enumerate(_samples(content)):
        if (picture := content.jpeg(row)) is not None:
            (folder / sample["filepath"]).write_bytes(picture)
            n_pictures += 1
        samples.append(sample)
    run = content.run
    info = {
        "classes": list(content.stream.features.class_names),
        "method": run.method,
        "order": order_name(run.seed, run.ordering),
        "selection": "oracle" if run.chosen else "fixed",
    }
    write_json(folder / "metadata.json", {"media_type": "image", "info": info})
    write_json(folder / "samples.json", {"samples": samples})
    return n_pictures


def _samples(content: Content) -> Iterator[dict[str, Any]]:
    columns = content.table.as_unicode()
    kinds = {
        "base": ("base_answer", "base_confidence"),
        "memory": ("answer", "confidence"),
        "label": ("label", ""),
    }
    nothing = [None] * len(content.run.order)
    for row, name in enumerate(columns["file"]):
        sample: dict[str, Any] = {"filepath": f"data/{row:06}.jpg", "file": name}
        sample["tags"] = _tags({name: values[row] for name, values in columns.items()})
        for field, (label, confidence) in kinds.items():
            if label in columns:
                sure = columns.get(confidence, nothing)[row]
                sample[field] = {"_cls": "Classification", "label": columns[label][row]}
                sample[field] |= {} if sure is None else {"confidence": sure}
        yield sample


def _tags(answer: Mapping[str, Any]) -> list[str]:
    """What the memory did to an answer, as far as labels let one say."""
    tags = ["changed"] if answer["changed"] else []
    if answer.get("right") != answer.get("base_right"):
        tags.append("repaired" if answer["right"] else "broken")
    return tags


def _open_fiftyone(content: Content, path: Path) -> list[str]:
    kind = "fiftyone.types.LegacyFiftyOneDataset"
    create = ["--name", path.name, "--dataset-dir", str(path), "--type", kind]
    return [
        join(["fiftyone", "datasets", "create", *create]),
        join(["fiftyone", "app", "launch", path.name]),
    ]


FORMATS = {
    "atlas": Format(".parquet", _write_atlas, _open_atlas),
    "fiftyone": Format("", _write_fiftyone, _open_fiftyone),
    "hf": Format("", _write_hub, _open_hub),
    "parquet": Format(".parquet", _write_parquet),
    "csv": Format(".csv", _write_csv),
}
"""Formats by name."""
