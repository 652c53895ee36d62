"""What Prometheus reads: the memories as they are, and how long requests took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from marc.serve.memory.config import MODES

if TYPE_CHECKING:
    from marc.serve.service import Service

_STATES = ("opening", "recovering", "ready", "draining", "quarantined")
_GAUGES = {
    "seq": "The number of the last step.",
    "durable_seq": "The number of the last step that is on disk.",
    "n_seen": "Images that the memory learned from.",
    "queue_length": "Requests that wait for the memory.",
    "oldest_age": "Seconds that the oldest of them has waited.",
    "commit_seconds": "How long the last write to the log took.",
    "listeners": "Who listens to the events of the memory.",
}
_COUNTERS = {
    "steps_total": "Steps since the trial of the memory began.",
    "disagreements_total": "Those in which memory and base answered differently.",
    "admitted_total": "Images that were stored.",
}
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The metrics of one server."""

    def __init__(self, service: Service) -> None:
        self._service, self._registry = service, CollectorRegistry()
        labels = ["route", "status"]
        self.requests = Counter(
            "marc_requests", "Requests that were answered.", labels, registry=self._registry
        )
        self.seconds = Histogram(
            "marc_step_seconds",
            "From a step's arrival to its answer.",
            buckets=_SECONDS,
            registry=self._registry,
        )

    def text(self, may: Callable[[str], bool]) -> bytes:
        """In the form that Prometheus reads; of the memories that may be read."""
        names = filter(may, self._service.names())
        memories = CollectorRegistry()
        memories.register(_Memories([self._service.status(name) for name in names]))
        return generate_latest(self._registry) + generate_latest(memories)


class _Memories(Collector):
    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def collect(self) -> Iterable[Metric]:
        """The memories at this moment."""
        rows = self._rows
        for kind, names in ((GaugeMetricFamily, _GAUGES), (CounterMetricFamily, _COUNTERS)):
            for name, words in names.items():
                metric = kind(f"marc_{name}", words, labels=["memory"])
                for row in rows:
                    if row.get(name) is not None:
                        metric.add_metric([row["name"]], float(row[name]))
                yield metric
        yield from _one_of("state", "What a memory is doing.", _STATES, rows)
        yield from _one_of("mode", "Who answers for a memory.", MODES, rows)


def _one_of(
    name: str, words: str, values: Iterable[str], rows: list[dict[str, Any]]
) -> Iterator[Metric]:
    """A gauge for each value that something may have: 1 for the one that it has."""
    metric = GaugeMetricFamily(f"marc_{name}", words, labels=["memory", name])
    for row in rows:
        for value in values:
            metric.add_metric([row["name"], value], float(row.get(name) == value))
    yield metric
