"""`wds/SHARDS`: pictures in plain tar files, as webdataset writes them."""

from __future__ import annotations

import glob
import os
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from marc.errors import MarcError
from marc.files import as_text, parse_json, refuse_odd_file
from marc.pictures.image_set import FileBytes, ImageSet
from marc.pictures.listing import as_label, made_distinct, printable, read_labels, read_names

_PICTURES = ("jpg", "jpeg", "png", "webp")
_LABELS = ("cls", "json", "txt")
_FIELDS = ("label", "cls", "class", "class_name")
_PACKED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_BLOCK = 512
_MOST_SHARDS = 100_000
_MOST_LABEL_BYTES = 2**20


@dataclass(frozen=True)
class _Picture:
    id: str
    place: FileBytes
    label: str | None


def open_wds(pattern: str, name: str) -> ImageSet:
    """Pictures of tar shards: one folder, a pattern `{000..003}`, or `*`; in the order within.

    Labels are in `.cls` (a number), `.json` (a field `label` or `cls`) or `.txt` (a name) beside
    each picture. `classnames.txt` beside the shards names the classes, one per line.
    """
    shards = _shards(pattern)
    parent = os.path.commonpath([str(Path(shard).parent) for shard in shards])
    found: list[_Picture] = []
    passed_over: list[tuple[str, str]] = []
    notes: list[str] = []
    for shard in shards:
        _read_shard(shard, Path(shard).relative_to(parent).as_posix(), found, passed_over, notes)
    if not found:
        raise MarcError(
            "there are no pictures in the shards",
            got=f"{len(shards)} shards, first {shards[0]}",
            allowed=", ".join(f".{suffix}" for suffix in _PICTURES),
        )
    ids, repeated = made_distinct(picture.id for picture in found)
    if repeated:
        notes.append(f"{repeated} names occur more than once in a shard")
    labels, class_names = _labels(found, Path(parent), pattern)
    if len(class_names) > max(20, len(found) // 2):
        notes.append(f"{len(class_names)} different labels: are these captions?")
    places = tuple(picture.place for picture in found)
    skipped = tuple(passed_over)
    return ImageSet(name, ids, places, labels, class_names, passed_over=skipped, notes=tuple(notes))


def _expand_braces(pattern: str) -> list[str]:
    """All names that a pattern stands for.

    >>> _expand_braces("s-{08..10}.tar"), _expand_braces("{a,b}{0..1}")
    (['s-08.tar', 's-09.tar', 's-10.tar'], ['a0', 'a1', 'b0', 'b1'])
    """
    names = [""]
    for place, part in enumerate(re.split(r"\{([^{}]*)\}", pattern)):
        choices = _choices(part) if place % 2 else [part]  # between braces, and beside them
        if len(names) * len(choices) > _MOST_SHARDS:
            raise MarcError(
                "a pattern stands for too many shards", got=pattern, allowed=_MOST_SHARDS
            )
        names = [name + choice for name in names for choice in choices]
    return names


def _choices(inside: str) -> Sequence[str]:
    ends = re.fullmatch(r"(\d{1,12})\.\.(\d{1,12})", inside)
    if ends is None:
        return inside.split(",")
    low, high, width = int(ends[1]), int(ends[2]), len(ends[1])
    if not low <= high < low + _MOST_SHARDS:
        raise MarcError("a pattern of shards counts wrongly", got=f"{{{inside}}}")
    return [str(number).zfill(width) for number in range(low, high + 1)]


def _shards(pattern: str) -> list[str]:
    if Path(pattern).is_dir():
        inside = sorted(str(path) for path in Path(pattern).iterdir())
        shards = [path for path in inside if re.search(r"\.(tar(\.\w+)?|tgz)$", path)]
    elif any(sign in pattern for sign in "*?["):
        shards = sorted(path for name in _expand_braces(pattern) for path in glob.glob(name))  # noqa: PTH207
    else:
        shards = _expand_braces(pattern)
        missing = [path for path in shards if not Path(path).is_file()]
        if missing:
            raise MarcError(
                f"{len(missing)} of {len(shards)} shards are missing",
                got=f"first {missing[0]}",
                hint=f"ls {Path(missing[0]).parent}",
            )
    if not shards:
        raise MarcError(
            "there are no shards", got=pattern, allowed="DIR with .tar files, or DIR/{000..003}.tar"
        )
    return shards


def _read_shard(
    shard: str,
    short: str,
    found: list[_Picture],
    passed_over: list[tuple[str, str]],
    notes: list[str],
) -> None:
    """Add the pictures of one shard, by reading its headers and small label files only."""
    _refuse_packed(shard)
    samples: dict[str, dict[str, FileBytes]] = {}
    end = 0
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                end = member.offset_data + -(-member.size // _BLOCK) * _BLOCK
                if not member.isreg() or member.issparse():
                    if not member.isdir():
                        passed_over.append((printable(f"{short}/{member.name}"), _kind(member)))
                    continue
                if Path(member.name).name.startswith("."):
                    passed_over.append((printable(f"{short}/{member.name}"), ImageSet.HIDDEN))
                    continue
                key, suffix = _key(member.name)
                place = FileBytes(shard, member.offset_data, member.size)
                parts = samples.setdefault(key, {})
                while suffix in parts:  # the same name again: a sample of its own
                    key += "#"
                    parts = samples.setdefault(key, {})
                parts[suffix] = place
    except Exception as problem:  # headers of bad bytes fail in every way there is
        raise MarcError(
            "a shard is no tar file, or is cut off",
            got=f"{shard}: {str(problem) or type(problem).__name__}",
            hint="fetch or write it again",
        ) from None
    notes += _check_end(shard, short, end)
    for key, parts in samples.items():
        _add_sample(f"{short}/{key}", parts, found, passed_over)


def _kind(member: tarfile.TarInfo) -> str:
    return "a link" if member.issym() or member.islnk() else "no plain file"


def _key(member: str) -> tuple[str, str]:
    """Everything up to the first dot of the file name, and what follows, in small letters."""
    folder, slash, file = member.rpartition("/")
    stem, _, suffix = file.partition(".")
    return folder + slash + stem, suffix.lower()


def _add_sample(
    key: str,
    parts: dict[str, FileBytes],
    found: list[_Picture],
    passed_over: list[tuple[str, str]],
) -> None:
    pictures = [suffix for suffix in _PICTURES if suffix in parts]
    label = next((suffix for suffix in _LABELS if suffix in parts), None)
    if not pictures:
        passed_over += [(printable(f"{key}.{suffix}"), "no picture") for suffix in parts]
        return
    for suffix in parts:
        if suffix not in (pictures[0], *_LABELS):
            passed_over.append((printable(f"{key}.{suffix}"), "beside a picture, not used"))
    text = _label_text(key, label, parts[label]) if label is not None else None
    found.append(_Picture(printable(f"{key}.{pictures[0]}"), parts[pictures[0]], text))


def _label_text(key: str, kind: str, place: FileBytes) -> str | None:
    if place.n_bytes() > _MOST_LABEL_BYTES:
        raise MarcError("a label file is too large", got=f"{key}.{kind}: {place.n_bytes()} bytes")
    text = as_text(place.read(), f"{key}.{kind}")
    if kind != "json":
        return text.strip()
    fields = parse_json(text, f"{key}.{kind}")
    known = fields if isinstance(fields, dict) else {}
    value = next((known[name] for name in _FIELDS if name in known), None)
    return None if value is None else as_label(value, f"{key}.{kind}").strip()


def _labels(
    found: list[_Picture], folder: Path, pattern: str
) -> tuple[tuple[int, ...] | None, tuple[str, ...]]:
    written = [picture.label for picture in found if picture.label is not None]
    names_file = folder / "classnames.txt"
    names = read_names(names_file) if names_file.exists() else []
    if not written:
        return None, tuple(names)
    if len(written) < len(found):
        first = next(picture.id for picture in found if picture.label is None)
        raise MarcError(
            "some pictures have labels and some have none",
            got=f"{len(found) - len(written)} of {len(found)} have none, first {first}",
        )
    return read_labels(written, [picture.id for picture in found], pattern, (names, names_file))


def _refuse_packed(shard: str) -> None:
    try:
        refuse_odd_file(Path(shard), "shard")
        with Path(shard).open("rb") as file:
            start = file.read(8)
    except OSError as problem:
        raise MarcError("a shard cannot be opened", got=f"{shard}: {problem.strerror}") from None
    kind = next((name for magic, name in _PACKED.items() if start.startswith(magic)), None)
    if kind is not None:
        raise MarcError(
            f"a shard is compressed with {kind}; pictures are found by their place in a plain tar",
            got=shard,
            allowed="uncompressed .tar",
            hint=f"unpack it first: {'gunzip' if kind == 'gzip' else kind + ' -d'} {shard}",
        )


def _check_end(shard: str, short: str, end: int) -> list[str]:
    """A tar without its end mark is noted; one that goes on with something else is damaged."""
    with Path(shard).open("rb") as file:
        file.seek(end)
        rest = file.read(_BLOCK)
        size = file.seek(0, os.SEEK_END)
    if len(rest) == _BLOCK and not rest.strip(b"\0"):
        return []
    if end >= size or not rest.strip(b"\0"):
        return [f"{short} has no end mark: it may have been cut off"]
    raise MarcError(
        "a shard is damaged",
        got=f"{shard}: no header at byte {end} of {size}",
        hint="fetch or write it again",
    )
