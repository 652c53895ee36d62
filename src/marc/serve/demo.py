"""A live page to look at: drawn pictures stream into two memories, and some get a label.

One memory is the default, class means in good spaces, in shadow. The other one is the paper's with
a fixed weight in a space that means nothing, and it answers: it is there to be caught. Labels are
those that an audit asks for, given late, as a person would give them.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping
from typing import Any

from marc.errors import MarcError
from marc.serve.client.client import Client, RemoteMemory

SOURCE = "lab/sketch-12"
PREDICTOR, ENCODERS = "mini:captions", ("mini:pairs-large", "mini:masked-vit", "mini:random")
_GOOD = {"name": "class-means", "spaces": ["pairs-large", "masked-vit"]}
_BAD = {"name": "marc", "space": "random", "capacity": 16, "weight": 10.0}
MEMORIES: dict[str, tuple[dict[str, Any], str]] = {
    "sketches": (_GOOD, "shadow"),
    "wrong-space": (_BAD, "live"),
}
"""By name: the method, and who answers at first."""
_LABELS_EVERY, _LABELS = 12, 3  # steps between two audits, and cards of each


def _stream_lab(
    url: str,
    *,
    key: str | None = None,
    per_second: float = 8.0,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Send the pictures of a stream of the lab until they are over; how many were sent."""
    from marc.report.thumbnails import pictures_of
    from marc.sources import load_stream

    stream = load_stream(SOURCE).shuffled(0)
    features, labels = stream.features, stream.row_labels
    assert labels is not None  # the lab has drawn them
    picture = pictures_of(stream, SOURCE, None)
    truth = {features.ids[row]: features.class_names[labels[row]] for row in stream.order}
    client = Client(url, key)
    memories = [
        client.create(name, method=method, classes=list(features.class_names), mode=mode)
        for name, (method, mode) in MEMORIES.items()
    ]
    for count, row in enumerate(stream.order):
        if stop():
            return count
        started, image = time.monotonic(), _png(picture(int(row)))
        for memory in memories:
            memory.step(image=image, id=features.ids[row])
            if count % _LABELS_EVERY == _LABELS_EVERY - 1:
                _label(memory, truth)
        time.sleep(max(0.0, 1 / per_second - (time.monotonic() - started)))
    return len(stream)


def stream_beside(url: str, stop: Callable[[], bool]) -> None:
    """The same for a thread beside a server, which may stop at any time."""
    try:
        _stream_lab(url, stop=stop)
    except MarcError:
        if not stop():
            raise


def _label(memory: RemoteMemory, truth: Mapping[str, str]) -> None:
    """Label what an audit drew."""
    drawn = [each["id"] for each in memory.audit(_LABELS)["items"]]
    memory.label({name: truth[name] for name in drawn if name in truth})


def _png(pixels: Any) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()
