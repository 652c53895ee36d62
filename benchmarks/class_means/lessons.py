"""What the numbers of class means teach, in words."""

from __future__ import annotations

from benchmarks.class_means.measure import Measured


def lessons(measured: Measured) -> list[str]:
    """At most ten sentences."""
    return ["todo"]


def drift_words(measured: Measured) -> str:
    """Which memory holds when the stream drifts."""
    return "todo"
