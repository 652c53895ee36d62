"""Foreign data: every file is taken for damaged or hostile until it was looked at.

Plain files only; sizes are checked before anything is allocated; whatever is wrong is a `MarcError`
that names the file and the place in it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tomllib
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError

_MOST_TEXT = 2**30
"""Bytes of a list, a table or a record; a longer one is refused unread."""
_MOST_DOTS = 5000  # of a name in TOML, whose reader takes the square of their number
_PIECE = 2**20
_EXPANSION = 2**30, 100
"""Arrays of more bytes than this that are so many times as large as their file are refused."""
_KINDS = "biufUS"  # numbers and text: what is stored here never has another type

_T = TypeVar("_T")


def user_path(name: str | os.PathLike[str]) -> Path:
    """A path as a person types it: `~` is their home, if the system knows one."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 (pathlib's raises where there is none)


def refuse_odd_file(path: Path, what: str = "file") -> os.stat_result:
    """Facts of a plain file; folders, pipes, devices and files that are not there are refused."""
    try:
        facts = path.stat()
    except (OSError, ValueError) as error:  # ValueError: a null byte in a name
        if isinstance(error, PermissionError):
            raise
        raise MarcError(f"there is no such {what}", got=path, hint=f"ls {path.parent}") from error
    if not stat.S_ISREG(facts.st_mode):
        raise MarcError(f"this is no plain file, so no {what}", got=path)
    return facts


def read_bytes(path: Path, what: str = "file", *, at_most: int = _MOST_TEXT) -> bytes:
    """The content of a plain file that is not too long."""
    size, content = refuse_odd_file(path, what).st_size, b""
    if size <= at_most:
        with open(path, "rb", opener=_open_at_once) as file:
            content = file.read(size) or b""
            while len(content) <= at_most and (more := file.read(_PIECE)):
                content += more  # it grows, or the system does not say how long it is
    if max(size, len(content)) > at_most:
        raise MarcError(f"this {what} is too long", got=f"{path}: {size:,} bytes", allowed=at_most)
    return content


def open_plain(path: Path) -> BinaryIO:
    """A plain file to read in parts, without a buffer."""
    refuse_odd_file(path)
    return cast("BinaryIO", open(path, "rb", buffering=0, opener=_open_at_once))


def _open_at_once(path: str, flags: int) -> int:
    """Some files of the system pass for plain ones, and make a reader wait for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def file_digest(path: Path) -> str:
    """Of all bytes of a plain file."""
    refuse_odd_file(path)
    with path.open("rb") as file:
        return _digest(file)


def _digest(file: BinaryIO) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()[:32]  # type: ignore[arg-type]


def read_text(path: Path, what: str = "file") -> str:
    """The text of a plain file in UTF-8."""
    return as_text(read_bytes(path, what), path)


def as_text(content: bytes, where: object) -> str:
    """Bytes as UTF-8, with or without the mark at its beginning."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise MarcError(
            "the file is not text in UTF-8", got=f"{where}: byte {problem.start}", allowed="UTF-8"
        ) from None


def parse_json(
    content: str | bytes, where: object, *, allowed: str | None = None, infinite: bool = False
) -> Any:
    """A value from JSON; half of a pair of characters, as no text may have it, is refused.

    So is what Python writes for numbers that JSON does not have, unless they may be `infinite`.
    """
    text = as_text(content, where) if isinstance(content, bytes) else content
    constant = None if infinite else _refuse_constant
    return _parse("JSON", lambda text: _from_json(text, constant), text, where, allowed)


def _from_json(text: str, constant: Callable[[str], Any] | None) -> Any:
    value = json.loads(text, parse_constant=constant)
    if "\\u" in text:
        # or UnicodeEncodeError, a ValueError; bytes of file names of no encoding are written so
        json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def read_toml(path: Path, what: str = "file") -> dict[str, Any]:
    """The tables of a TOML file."""
    text = read_text(path, what)
    if max(line.count(".") for line in text.split("\n")) > _MOST_DOTS:
        raise MarcError("this file is not TOML", got=f"{path}: nested too deeply")
    return _parse("TOML", tomllib.loads, text, path)


def _parse(
    kind: str, parser: Callable[[str], _T], text: str, where: object, allowed: str | None = None
) -> _T:
    try:
        return parser(text)
    except RecursionError:
        problem = "nested too deeply"
    except (ValueError, OverflowError, MemoryError) as error:
        problem = str(error)[:200] or type(error).__name__
    raise MarcError(f"this file is not {kind}", got=f"{where}: {problem}", allowed=allowed)


def read_json(
    path: Path, shape: Any = dict[str, Any], *, digest: str | None = None
) -> dict[str, Any]:
    """A JSON object from a file, of the `shape` that a TypedDict tells.

    With `digest`, the bytes must be those that have it.
    """
    content = read_bytes(path)
    _check_digest(io.BytesIO(content), digest, path)
    value = parse_json(content, path)
    if not isinstance(value, dict):
        raise MarcError("this file is not a JSON object", got=f"{path}: {str(value)[:80]}")
    conform(value, shape, path)
    return value


def conform(value: Any, shape: Any, where: object, *, hint: str | None = None) -> None:
    """Refuse data that are not of a `shape`: a type, a TypedDict, or one with bounds."""
    import msgspec

    try:
        msgspec.convert(value, shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MarcError(
            "this file is not as marc writes it", got=f"{where}: {error}", hint=hint
        ) from error


def _check_digest(file: BinaryIO, digest: str | None, path: Path) -> None:
    if digest is not None and _digest(file) != digest:
        raise MarcError("this file is not what was written", got=path)


def read_arrays(
    path: Path,
    what: str,
    allowed: str | None = None,
    only: Collection[str] | None = None,
    *,
    digest: str | None = None,
) -> dict[str, NDArray[Any]]:
    """All arrays of a file, or `only` some.

    `what` names the file in the error, `allowed` says what it may be; with `digest`, the bytes must
    be those that have it.
    """
    size = refuse_odd_file(path).st_size
    with path.open("rb") as file:  # once: what is checked is what is read
        _check_digest(file, digest, path)
        return _read_arrays(file, size, path, what, allowed, only)


def _read_arrays(
    file: BinaryIO,
    n_bytes: int,
    path: Path,
    what: str,
    allowed: str | None,
    only: Collection[str] | None,
) -> dict[str, NDArray[Any]]:
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive, n_bytes)
            chosen = {name: m for name, m in members.items() if only is None or name in only}
            return {name: _read_member(archive, member) for name, member in chosen.items()}
    except Exception as error:  # archives and headers of bad bytes fail in every way there is
        problem = error.got if isinstance(error, MarcError) else str(error) or type(error).__name__
        raise MarcError(
            f"this file is not {what}", got=f"{path}: {problem}", allowed=allowed
        ) from error


def _members(archive: zipfile.ZipFile, n_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """Its arrays by name, refused before any is read where they could not be held."""
    entries = archive.infolist()
    members = {each.filename.removesuffix(".npy"): each for each in entries}
    if len(members) < len(entries):
        raise MarcError("damaged", got="it has an array twice")
    total = sum(each.file_size for each in entries)
    least, times = _EXPANSION
    if total > _memory() or (total > least and total > times * n_bytes):
        raise MarcError("too large", got=f"{n_bytes:,} bytes that would become {total:,}")
    return members


def _memory() -> int:
    """Bytes that this machine, or the limit of this process, has at all."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return there if limit == resource.RLIM_INFINITY else min(limit, there)
    except (ImportError, ValueError, OSError):  # not a Unix
        return 2**62


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """One array, whose header must tell just as many bytes as there are."""
    name = member.filename
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        header = {(1, 0): np.lib.format.read_array_header_1_0}.get(
            version, np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = header(file)
        rest = member.file_size - file.tell()
    if dtype.kind not in _KINDS or not dtype.itemsize:  # of no bytes there may be any number
        raise MarcError("damaged", got=f"{name} has the type {dtype}, not numbers or text")
    if dtype.itemsize * int(np.prod(shape, dtype=object)) != rest or min(shape, default=0) < 0:
        raise MarcError("damaged", got=f"{name} tells of {shape} {dtype}, and has {rest} bytes")
    with archive.open(member) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
    if dtype.kind == "U":
        array.tolist()  # or ValueError: characters that do not exist
    return array
