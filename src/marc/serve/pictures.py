"""Pictures into features, for many requests at once: decoded one by one, encoded together.

Decoding happens in processes of their own, see `marc.serve.picture_worker`. Encoding happens here,
in one thread: encoders see squares of pixels of one size, to which no stranger can do anything,
and the prototypes of new memories need them here anyway. Whatever was decoded while the encoders
were busy is their next batch; nothing waits for a batch to fill.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.embed.workers import Prepared
from marc.encoders import Encoder, TextEncoder
from marc.errors import integer
from marc.serve.picture_worker import Decoder, DecodingLimits
from marc.serve.refused import Refused
from marc.session.picture_encoders import PictureEncoders

_BATCH = 16
_MOST_WORKERS = 64
_MOST_BYTES = 256_000_000  # of encoded pictures that wait


@dataclass(frozen=True)
class Seen:
    """A picture as a memory takes it."""

    views: NDArray[np.float32]
    """The predictor's features, (1, D)."""
    keys: Mapping[str, NDArray[np.float32]]
    """(D_s,) by space."""
    thumbnail: bytes
    """A small WebP, at most 112 pixels on a side and 6 KB."""


@dataclass
class _Picture:
    """One that is on its way."""

    image: bytes
    seen: Future[Seen]
    prepared: Prepared | None = None
    thumbnail: bytes = b""


class Pictures:
    """The encoders of a server.

    A picture that is encoded alone has, bit for bit, the features that a `Session` or an embedded
    folder has of it. Together with others its last bits may differ, as those of any batch do.

    Args:
        predictor: the zero-shot classifier, a name of `marc list encoders` or an encoder.
        encoders: those of the spaces, likewise.
        prompts: prompt sets by name or file; by default those that the predictor knows.
        weights: weights on disk: a file, a folder with NAME.safetensors, or NAME=PATH.
        offline: never touch the network.
        device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
        workers: processes that decode.
        queue: pictures that are on their way at once; one more is refused.
        limits: what one picture may take.
    """

    def __init__(
        self,
        predictor: str | TextEncoder,
        encoders: Sequence[str | Encoder],
        *,
        prompts: Sequence[str] = (),
        weights: Sequence[str] = (),
        offline: bool = False,
        device: str = "auto",
        workers: int = 1,
        queue: int = 256,
        limits: DecodingLimits = DecodingLimits(),  # noqa: B008 (frozen)
    ) -> None:
        n_workers = integer("workers", workers, 1, _MOST_WORKERS)
        self.queue, self.limits = integer("queue", queue, 1, 10**5), limits
        self._encoders = PictureEncoders(
            predictor,
            encoders,
            prompts=prompts,
            weights=weights,
            offline=offline,
            device=device,
        )
        self._made: dict[str, Any] = json.loads(json.dumps(self._encoders.made))
        self._decoders = [Decoder(self._encoders.pixels, limits) for _ in range(n_workers)]
        self._waiting: SimpleQueue[_Picture | None] = SimpleQueue()
        self._decoded: SimpleQueue[_Picture | None] = SimpleQueue()
        self._decoding: list[threading.Thread] = []
        self._encoding: threading.Thread | None = None
        self._changing = threading.Lock()  # held while it starts or closes
        self._lock = threading.Lock()  # of the counts below
        self._open = False
        self._n_inside = self._n_bytes = self._n_encoded = self._n_batches = 0

    def start(self) -> None:
        """Start the processes and wait until they are ready: a second or two."""
        with self._changing:
            if not self._open:
                self._start()

    def _start(self) -> None:
        try:
            for decoder in self._decoders:
                decoder.start()
        except Refused:
            self._end_processes()
            raise
        self._decoding = [
            threading.Thread(target=self._decode_all, args=(one,), name="decoding", daemon=True)
            for one in self._decoders
        ]
        self._encoding = threading.Thread(target=self._encode_all, name="encoding", daemon=True)
        for thread in (*self._decoding, self._encoding):
            thread.start()
        self._open = True

    def close(self) -> None:
        """Refuse what waits to be decoded, and end the processes."""
        with self._changing:
            if self._open:
                self._close()

    def _close(self) -> None:
        with self._lock:
            self._open = False
        with contextlib.suppress(Empty):
            while True:
                self._leave(self._waiting.get_nowait(), _stopping())
        for decoder in self._decoders:
            self._waiting.put(None)
            decoder.kill()
        for thread in self._decoding:
            thread.join()
        self._decoded.put(None)
        assert self._encoding is not None
        self._encoding.join()
        self._end_processes()

    def _end_processes(self) -> None:
        for decoder in self._decoders:
            decoder.stop()

    async def features(self, image: bytes) -> Seen:
        """Of one picture; refused with a status if it is none, or if too many wait."""
        return await asyncio.wrap_future(self._admit(bytes(image)))

    def prototypes(self, classes: Sequence[str]) -> tuple[NDArray[np.float32], float]:
        """The classes as the predictor reads them, (C, D), and its logit scale."""
        return self._encoders.prototypes(classes).prototypes, self._encoders.logit_scale

    @property
    def spaces(self) -> dict[str, int]:
        """Dimensions by name."""
        return self._encoders.dims

    def describe(self) -> dict[str, Any]:
        """What the features and prototypes depend on, as plain data; equal after a restart."""
        return self._made

    def status(self) -> dict[str, Any]:
        """How it is."""
        with self._lock:
            return {
                "ready": self._open,
                "waiting": self._n_inside,
                "encoded_total": self._n_encoded,
                "batches_total": self._n_batches,
                "decoders_started_total": sum(one.n_started for one in self._decoders),
            }

    def _admit(self, image: bytes) -> Future[Seen]:
        if len(image) > self.limits.bytes:
            raise Refused(
                413,
                "this picture is too large",
                got=f"{len(image):,} bytes",
                allowed=f"{self.limits.bytes:,} bytes, the quota 'image_bytes'",
            )
        picture = _Picture(image, Future())
        with self._lock:
            if not self._open:
                raise _stopping()
            n_bytes = self._n_bytes + len(image)
            if self._n_inside >= self.queue or n_bytes > max(_MOST_BYTES, self.limits.bytes):
                raise Refused(
                    429,
                    "too many pictures wait for the encoders",
                    got=f"{self._n_inside} of {self._n_bytes / 1e6:.0f} MB",
                    allowed=f"{self.queue} of {_MOST_BYTES / 1e6:.0f} MB",
                    retry_after=1,
                )
            self._n_inside, self._n_bytes = self._n_inside + 1, n_bytes
            self._waiting.put(picture)
        return picture.seen

    def _leave(self, picture: _Picture | None, outcome: Seen | Refused | None) -> None:
        """A picture is done with; no outcome: nobody waits for it any more."""
        if picture is None:
            return
        with self._lock:
            self._n_inside -= 1
            self._n_bytes -= len(picture.image)
        if isinstance(outcome, Refused):
            with contextlib.suppress(Exception):  # it was cancelled meanwhile
                picture.seen.set_exception(outcome)
        elif outcome is not None:
            picture.seen.set_result(outcome)

    def _decode_all(self, decoder: Decoder) -> None:
        """In a thread for each process."""
        while (picture := self._waiting.get()) is not None:
            if not picture.seen.set_running_or_notify_cancel():
                self._leave(picture, None)
                continue
            try:
                picture.prepared, picture.thumbnail = decoder.decode(picture.image)
            except Refused as refused:
                self._leave(picture, refused if self._open else _stopping())
            except Exception as error:  # this thread must live, whatever it was
                self._leave(picture, _failed(error))
            else:
                self._decoded.put(picture)

    def _encode_all(self) -> None:
        """In the one thread of the encoders."""
        while (first := self._decoded.get()) is not None:
            batch = [first]
            with contextlib.suppress(Empty):
                while len(batch) < _BATCH:
                    if (another := self._decoded.get_nowait()) is None:
                        self._decoded.put(None)
                        break
                    batch.append(another)
            self._encode(batch)

    def _encode(self, batch: list[_Picture]) -> None:
        """Answer a batch; if it fails, each of it alone."""
        try:
            prepared = [each.prepared for each in batch if each.prepared is not None]
            views, keys = self._encoders.features(Prepared.joined(prepared))
        except Exception as error:  # of a library: whatever it is, say so
            if len(batch) == 1:
                return self._leave(batch[0], _failed(error))
            for each in batch:
                self._encode([each])
            return
        self._n_encoded, self._n_batches = self._n_encoded + len(batch), self._n_batches + 1
        for row, picture in enumerate(batch):
            own = {space: key[row].astype(np.float32) for space, key in keys.items()}
            seen = Seen(views[row].astype(np.float32), own, picture.thumbnail)
            self._leave(picture, seen)


def _failed(error: Exception) -> Refused:
    return Refused(
        500, "this picture could not be encoded", got=f"{type(error).__name__}: {error}"[:300]
    )


def _stopping() -> Refused:
    return Refused(503, "the encoders of this server are not running", retry_after=5)
