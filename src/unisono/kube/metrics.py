"""What a process asks of its API server and how its watches fare, as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from unisono.kube.reflector import ReflectorStatistics

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_NO_ANSWER = "<error>"


class ClientMetrics:
    """Requests under client-go's names; ``observe`` is the observer of a ``Transport``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._meter = RequestMeter(
            registry,
            ("rest_client_requests", "rest_client_request_duration_seconds"),
            (
                "Requests by HTTP method, resource and status; <error> where no answer came.",
                "Time from a request to its answer, watches not counted.",
            ),
            "method",
            _BUCKETS,
        )

    def observe(self, method: str, path: str, status: int, seconds: float | None) -> None:
        """Count one try; ``status`` is 0 where no answer came, ``seconds`` None for streams."""
        self._meter.count(method, resource_of(path), str(status) if status else _NO_ANSWER, seconds)


class StreamMetrics(Collector):
    """The watches of a process at the moment of the scrape."""

    def __init__(self, streams: Callable[[], Mapping[str, ReflectorStatistics]]) -> None:
        """``streams`` answers statistics by resource."""
        self._streams = streams

    def collect(self) -> Iterable[Metric]:
        """One sample per resource and metric."""
        silent = GaugeMetricFamily(
            "unisono_watch_silent_seconds", "Time since the server was last heard of.", labels=["resource"]
        )
        failures = GaugeMetricFamily(
            "unisono_watch_failures", "Failures in a row, 0 when the watch is healthy.", labels=["resource"]
        )
        events = CounterMetricFamily("unisono_watch_events", "Changes received.", labels=["resource"])
        lists = CounterMetricFamily("unisono_watch_lists", "Complete lists read.", labels=["resource"])
        for resource, statistics in self._streams().items():
            silent.add_metric([resource], statistics.silent_seconds)
            failures.add_metric([resource], statistics.failures)
            events.add_metric([resource], statistics.events)
            lists.add_metric([resource], statistics.lists)
        return silent, failures, events, lists


def resource_of(path: str) -> str:
    """``pods`` or ``pods/binding`` from the path of a Kubernetes URL; the first segment for other paths."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        rest = parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        rest = parts[3:]
    else:
        return parts[0]
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        rest = rest[2:]
    return f"{rest[0]}/{rest[2]}" if len(rest) > 2 else rest[0]


class RequestMeter:
    """One counter by method (or verb), resource and code, and one histogram by verb.

    Args:
        registry: where the metrics are registered; other components of the process may share it.
        names: of the counter (``_total`` is added) and of the histogram of seconds.
        texts: what the two say, for ``# HELP``.
        method: the counter's name for what the histogram calls the verb.
        buckets: upper bounds of the histogram, in seconds.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        names: tuple[str, str],
        texts: tuple[str, str],
        method: str,
        buckets: tuple[float, ...],
    ) -> None:
        self._requests = Counter(names[0], texts[0], [method, "resource", "code"], registry=registry)
        self._seconds = Histogram(names[1], texts[1], ["verb"], buckets=buckets, registry=registry)

    def count(self, verb: str, resource: str, code: str, seconds: float | None) -> None:
        """Count one request; ``seconds`` is None for streams, whose length says nothing."""
        self._requests.labels(verb, resource, code).inc()
        if seconds is not None:
            self._seconds.labels(verb).observe(seconds)
