"""Requests to a server: sent again where that is safe, and refused in the server's own words."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from marc.errors import MarcError, integer, number
from marc.results.answers import optional
from marc.serve.refused import Refused
from marc.types import visible

_EXTRA = "marc-clip[serve]"
_JSON = "application/json"
_BUSY = (429, 503)  # nothing was done yet
_BETWEEN = (502, 504)  # from a proxy: nobody knows what was done
_FULL = 507
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_LONGEST_WAIT = 30.0
"""Seconds: a server that asks for more patience has a problem that a person should see."""
_PIECE = 2**16
_CONNECTIONS = 32  # that are kept open, for as many threads


class NoAnswerError(MarcError):
    """The server cannot be reached, or is gone; what it was asked may be asked again."""


@dataclass(frozen=True)
class Call:
    """One request, as it is sent however often."""

    method: str
    path: str
    body: bytes | None = None
    kind: str = _JSON
    accept: str = _JSON
    repeatable: bool = True
    """Whether it may be sent again although the first may have been done."""
    within: float | None = None
    """Seconds until nobody needs the answer any more."""
    retries: int | None = None
    """How often it is sent again, if not as often as the connection does it."""


class Connection:
    """Connections to one server, for any number of threads."""

    def __init__(self, url: str, key: str | None, timeout: float, retries: int) -> None:
        library = optional("urllib3", "a client of marc serve", _EXTRA)
        self._json = optional("orjson", "a client of marc serve", _EXTRA)
        self._errors, self._timeout = library.exceptions, library.Timeout
        self.url = _checked_url(url, library)
        self.timeout = number("timeout", timeout, 0.001, 86_400)
        self.retries = integer("retries", retries, 0, 1000)
        self._headers = {} if key is None else {"Authorization": f"Bearer {_checked_key(key)}"}
        self._pool = library.PoolManager(maxsize=_CONNECTIONS)
        self._after = library.Retry().get_retry_after

    def __repr__(self) -> str:
        return f"Connection({self.url!r})"  # the key is nobody's to read

    def ask(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        """Send JSON, and read the JSON that comes."""
        content = None if body is None else self.dumps(body)
        return self.loads(self.open(Call(method, path, content, **how)).data)

    def dumps(self, body: Any) -> bytes:
        """As JSON."""
        try:
            return bytes(self._json.dumps(body))
        except TypeError as error:  # odd text, or a type of another library
            raise MarcError("this cannot be written as JSON", got=str(error)[:200]) from None

    def loads(self, content: bytes) -> Any:
        """From JSON."""
        try:
            return self._json.loads(content)
        except ValueError:
            raise self._another(content) from None

    def open(self, call: Call, *, whole: bool = True) -> Any:
        """The answer to a request, tried again while there is hope.

        Here and not in `urllib3.Retry`: a wait is never longer than a person would bear unasked,
        and ends with the time in which the answer is of use.

        Args:
            call: the request.
            whole: read all of the answer; without, it is read by the caller, who closes it.
        """
        ends = None if call.within is None else time.monotonic() + call.within
        retries = self.retries if call.retries is None else call.retries
        for attempt in itertools.count():
            problem: MarcError
            try:
                response = self._once(call, ends, whole=whole)
            except self._errors.HTTPError as failure:
                problem, again, after = self._lost(failure), self._may_resend(call, failure), None
            else:
                if 200 <= response.status < 300:
                    return response
                problem = refused = self._refused(response)
                again, after = self._may_repeat(call, refused), refused.retry_after
            pause = _pause(attempt) + (after or 0.0)
            late = ends is not None and time.monotonic() + pause > ends
            if not again or late or attempt >= retries or pause > _LONGEST_WAIT:
                raise problem
            time.sleep(pause)
        raise AssertionError("counting ended")

    def wait(self, attempt: int, after: float | None = None) -> None:
        """Let a busy server be for a while."""
        time.sleep(_pause(attempt) + min(after or 0.0, _LONGEST_WAIT))

    def pieces(self, response: Any, size: int | None = None) -> Iterator[bytes]:
        """The content of an answer that is read by and by, in pieces of a size or as it comes."""
        try:
            if size is not None:
                yield from response.stream(size)
            while size is None and (piece := response.read1(_PIECE)):
                yield piece
        except self._errors.HTTPError as failure:
            raise self._lost(failure) from failure
        finally:
            response.close()

    def refusal(self, told: Any, after: float | None = None) -> Refused:
        """A problem in the server's words, as an error."""
        parts = {name: told.get(name) for name in ("got", "allowed", "hint")}
        return Refused(int(told["status"]), str(told["problem"]), **parts, retry_after=after)

    def _once(self, call: Call, ends: float | None, *, whole: bool) -> Any:
        left = self.timeout if ends is None else max(0.001, ends - time.monotonic())
        read = min(self.timeout, left)
        headers = {**self._headers, "Accept": call.accept}
        if call.body is not None:
            headers["Content-Type"] = call.kind
        return self._pool.request(
            call.method,
            self.url + call.path,
            body=call.body,
            headers=headers,
            timeout=self._timeout(connect=min(read, 10.0), read=read),
            retries=False,
            redirect=False,  # the key is for this server alone
            preload_content=whole,
        )

    def _may_resend(self, call: Call, failure: Exception) -> bool:
        unsent = self._errors.NewConnectionError, self._errors.ConnectTimeoutError
        if isinstance(failure, self._errors.SSLError | self._errors.LocationValueError):
            return False
        return call.repeatable or isinstance(failure, unsent)

    def _may_repeat(self, call: Call, refused: Refused) -> bool:
        between = refused.status in _BETWEEN and call.repeatable and call.within is None
        return passes(refused) or between

    def _lost(self, failure: Exception) -> MarcError:
        return NoAnswerError(
            f"there is no answer from {self.url}",
            got=f"{type(failure).__name__}: {str(failure).rpartition(': ')[2]}"[:200],
            hint="marc serve, or another URL",
        )

    def _refused(self, response: Any) -> Refused:
        try:
            after = self._after(response)
        except self._errors.HTTPError:  # a header that nobody can read
            after = None
        try:
            told = self._json.loads(response.data)  # whole or not, a refusal is read at once
        except (ValueError, self._errors.HTTPError):
            told = None
        if isinstance(told, dict) and "problem" in told:
            if response.status == 401:
                told["hint"] = "Client(url, key); marc send takes it from MARC_KEY or --key-file"
            return self.refusal({**told, "status": response.status}, after)
        if 300 <= response.status < 400:
            where = visible(str(response.headers.get("Location")))[:200]
            return Refused(response.status, "this server is elsewhere now", got=where)
        got = f"{response.status} {visible(str(response.reason))[:80]}"
        hint = f"is {self.url} a marc serve?"
        return Refused(response.status, "the server refused", got=got, hint=hint, retry_after=after)

    def _another(self, content: bytes) -> MarcError:
        got = visible(content[:80].decode("utf-8", "replace"))
        hint = f"is {self.url} a marc serve?"
        return MarcError("this is no answer of marc serve", got=got, hint=hint)


def passes(refused: Refused) -> bool:
    """Whether nothing was done, and another time it may be."""
    if refused.status == _FULL:  # a quota has no time after which it is another
        return refused.retry_after is not None
    return refused.status in _BUSY


def _pause(attempt: int) -> float:
    """Seconds before the next try: twice as long each time, and not in step with others."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(attempt, 20)) * random.uniform(0.5, 1)


def _checked_url(url: str, library: Any) -> str:
    hint = "http://127.0.0.1:8123"
    try:
        parts = library.util.parse_url(url)
    except (TypeError, AttributeError, library.exceptions.HTTPError):
        raise MarcError("this is no URL of a server", got=repr(url)[:80], hint=hint) from None
    if parts.auth is not None:  # never repeated: it may be a secret
        raise MarcError("a URL holds no key", hint="key=..., or --key-file FILE")
    if parts.scheme not in ("http", "https") or not parts.host or parts.query or parts.fragment:
        raise MarcError("this is no URL of a server", got=repr(url)[:80], hint=hint)
    return str(parts).rstrip("/")


def _checked_key(key: str) -> str:
    """A key as a header can have it; an error does not repeat it."""
    if not isinstance(key, str) or not key.isascii() or not key.isprintable() or " " in key:
        raise MarcError("a key is one line of letters, digits and signs", got="something else")
    if not key:
        raise MarcError("the key is empty", hint="key=None where the server asks for none")
    return key
