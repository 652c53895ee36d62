"""Streams: an order over stored features, spaces seen through transforms, and kinds of orders."""

from marc.stream.features import (
    Features,
    LazySpaces,
    LazyViews,
    Views,
    digest,
    digest_of,
    end_digest,
)
from marc.stream.stream import Stream

__all__ = [
    "Features",
    "LazySpaces",
    "LazyViews",
    "Stream",
    "Views",
    "digest",
    "digest_of",
    "end_digest",
]
