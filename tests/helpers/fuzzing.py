"""Many tries of one kind, each known by its seed: what every one of them must end in."""

import os
import resource
import signal
from contextlib import contextmanager
from pathlib import Path

import numpy as np

_FIRST = int(os.environ.get("MARC_FUZZ_SEED", "0"))
_SECONDS = 30
_BYTES = 3 * 2**30  # that a try may ask for beyond what is there
_UNFORESEEN = ("Traceback", "was not prepared for")


class Tries:
    """Counts how tries ended: with the same numbers, with those of changed input, or refused."""

    def __init__(self, target, record_property):
        self.target, self._record = target, record_property
        self.counts = {"same": 0, "other": 0, "refused": 0}

    def __call__(self, n):
        """Generators for `n` tries; what goes wrong in one is told with its seed."""
        for seed in range(_FIRST, _FIRST + n):
            self.seed = seed
            yield np.random.default_rng([seed, *self.target.encode()])
        self._record("fuzz", [self.target, _FIRST, n, self.counts])

    @contextmanager
    def one(self, words):
        """A try that is described by `words`: it ends in time and memory, and failures name it."""
        before = signal.signal(signal.SIGALRM, _too_slow)
        signal.alarm(_SECONDS)
        limits = resource.getrlimit(resource.RLIMIT_AS)
        try:
            resource.setrlimit(resource.RLIMIT_AS, (_memory() + _BYTES, limits[1]))
            yield
        except BaseException as error:
            error.add_note(f"{self.target}, MARC_FUZZ_SEED={self.seed}: {words}")
            raise
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)

    def refused(self, outcome):
        """Whether a command failed, which it must do in a few clear lines."""
        assert not any(word in outcome.err for word in _UNFORESEEN), outcome.err
        assert outcome.status in (0, 1, 2), outcome
        if outcome.status:
            assert "error" in outcome.err.lower(), outcome
            self.counts["refused"] += 1
        return bool(outcome.status)


def _memory():
    """Bytes of memory that this process has asked for."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


class _TooSlow(BaseException):
    """No `Exception`: nothing that is tried may take it for trouble of its own."""


def _too_slow(*_):
    raise _TooSlow(f"no end within {_SECONDS} s")
