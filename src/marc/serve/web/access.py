"""Who may do what: keys with scopes for each memory, kept as digests in a file.

A key is 32 random bytes. The file has its SHA-256 alone, so it opens nothing for who reads it. It
is read again when it changes, so that a key can be taken back while the server runs.
"""

from __future__ import annotations

import fnmatch
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from marc.errors import MarcError, integer, one_of
from marc.files import locked, parse_json, read_bytes, user_path, write_json
from marc.serve.refused import Refused

SCOPES = ("read", "write", "admin")
"""What a key may do with a memory; each allows what those before it do.

Read: look at it. Write: send steps and labels. Admin: make, change, restore and delete it.
"""
_CHECK_EVERY = 1.0  # seconds between two looks at the key file
_log = logging.getLogger("marc.serve")


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One key, without the key itself."""

    name: str
    sha256: str
    memories: dict[str, str]
    """Scope by pattern of names: `{"cam-*": "write", "*": "read"}`."""
    steps_per_second: int | None = None

    def check(self) -> None:
        """Refuse what can never be used, or means something else than it seems."""
        if not self.name or len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise MarcError("a key has a name and the SHA-256 of its text", got=self.name[:80])
        for pattern, scope in self.memories.items():
            one_of("scope", scope, SCOPES)
            if not pattern:
                raise MarcError("the pattern of a key's memories is empty", got=repr(pattern),
                                hint="--memories 'cam-*'")  # fmt: skip
        if self.steps_per_second is not None:
            integer("steps_per_second", self.steps_per_second, 1)

    def may(self, memory: str, scope: str) -> bool:
        """Whether it reaches a memory with a scope."""
        given = [
            SCOPES.index(each)
            for pattern, each in self.memories.items()
            if fnmatch.fnmatchcase(memory, pattern)
        ]
        return bool(given) and max(given) >= SCOPES.index(scope)


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keys: list[Key]


_ANYBODY = Key("anybody", "", {"*": "admin"})


class Access:
    """The keys of a server; without a file, everybody on this machine may do everything."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._keys, self._version = ((), ()) if path is None else _read(path)
        self._looked, self._complaint = time.monotonic(), ""
        self._rates = SlidingWindowCounterRateLimiter(MemoryStorage())

    def __bool__(self) -> bool:
        """Whether a key is asked for."""
        return self.path is not None

    def identify(self, authorization: str | None) -> Key:
        """The key that a request comes with, compared in constant time with all there are."""
        if self.path is None:
            return _ANYBODY
        self._follow_file()
        scheme, _, text = (authorization or "").partition(" ")
        digest = _digest(text.strip())
        match = None
        for key in self._keys:
            if hmac.compare_digest(key.sha256, digest):
                match = key
        if match is None or scheme.lower() != "bearer":
            raise Refused(
                401,
                "this server asks for a key",
                got="another key" if text else "none",
                hint="Authorization: Bearer KEY",
            )
        return match

    def allow(self, key: Key, memory: str, scope: str) -> None:
        """Refuse a key without the scope, whether or not there is such a memory."""
        if not key.may(memory, scope):
            raise Refused(
                403,
                f"this key does not have the scope {scope!r} for this memory",
                got=f"{key.name} and {ascii(memory)[:80]}",
                hint="a key that has it: marc serve --key-file FILE --new-key NAME --scope ...",
            )

    def count_step(self, key: Key, memory: str, of_memory: int | None = None) -> None:
        """Refuse a step that comes too soon for its key, or for the memory."""
        both = ((key.steps_per_second, f"key {key.name}"), (of_memory, memory))
        limits = [(RateLimitItemPerSecond(most), whose) for most, whose in both if most is not None]
        for rate, whose in limits:  # all are asked before one is counted
            if not self._rates.test(rate, whose):
                raise Refused(
                    429,
                    "too many steps in this second",
                    allowed=f"{rate.amount} a second, the quota 'steps_per_second' of {whose}",
                    retry_after=1,
                )
        for rate, whose in limits:
            self._rates.hit(rate, whose)

    def _follow_file(self) -> None:
        """Read the file again if it changed; while it cannot be read, the keys stay."""
        if self.path is None or time.monotonic() - self._looked < _CHECK_EVERY:
            return
        self._looked = time.monotonic()
        try:
            if _version(self.path) != self._version:
                self._keys, self._version = _read(self.path)
            self._complaint = ""
        except (OSError, MarcError) as error:
            if str(error) != self._complaint:  # once, not once a second
                self._complaint = str(error)
                _log.error("the key file cannot be read; the keys stay as they were: %s", error)


def _version(path: Path) -> tuple[int, ...]:
    """Another for another content: a file that is written whole is another file."""
    facts = path.stat()
    return facts.st_mtime_ns, facts.st_size, facts.st_ino


def _read(path: Path) -> tuple[tuple[Key, ...], tuple[int, ...]]:
    if not path.exists():
        raise MarcError(
            "there is no key file",
            got=str(path),
            hint=f"marc serve --key-file {path} --new-key admin --scope admin",
        )
    version = _version(path)  # of before: what changes meanwhile is read again
    try:
        keys = msgspec.convert(parse_json(read_bytes(path), str(path)), _File).keys
    except msgspec.ValidationError as error:
        raise MarcError("this is no key file", got=f"{path}: {error}") from None
    for key in keys:
        key.check()
    if len({key.name for key in keys}) < len(keys):
        raise MarcError("two keys of a file have the same name", got=str(path))
    return tuple(keys), version


def new_key(
    path: str | Path,
    name: str,
    scope: str = "admin",
    memories: Iterable[str] = ("*",),
    steps_per_second: int | None = None,
) -> str:
    """Add a key to a file, which is made if there is none; its text, which is kept nowhere."""
    path = user_path(path)
    text = secrets.token_urlsafe(32)
    key = Key(name, _digest(text), dict.fromkeys(memories, scope), steps_per_second)
    key.check()
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    with locked(path, "another program changes this key file", lock, hint="try again"):
        keys = _read(path)[0] if path.exists() else ()
        if any(each.name == name for each in keys):
            raise MarcError("there is a key of this name", got=name, hint="another name")
        write_json(path, {"keys": [msgspec.to_builtins(each) for each in (*keys, key)]})
        path.chmod(0o600)
    return text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
