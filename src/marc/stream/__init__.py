"""Streams: an order over stored features, spaces seen through transforms, and kinds of orders."""

from marc.stream.features import Features as Features
from marc.stream.features import LazySpaces as LazySpaces
from marc.stream.features import LazyViews as LazyViews
from marc.stream.features import Views as Views
from marc.stream.features import digest as digest
from marc.stream.features import digest_of as digest_of
from marc.stream.features import end_digest as end_digest
from marc.stream.stream import Stream as Stream
