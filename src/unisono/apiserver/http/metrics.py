"""Counts and times of requests, under the names that Kubernetes' API server uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from unisono.kube.metrics import RequestMeter

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class RequestMetrics:
    """Metrics of one server.

    Args:
        registry: where they are registered; other components of the process may share it.
        more: metrics of other processes, as text, which are shown with them; None for none.

    """

    def __init__(self, registry: CollectorRegistry, more: Callable[[], Awaitable[bytes]] | None = None) -> None:
        self._registry, self._more = registry, more
        self._meter = RequestMeter(
            registry,
            ("apiserver_request", "apiserver_request_duration_seconds"),
            (
                "Requests by verb, resource and HTTP status.",
                "Time from a request's arrival to its answer, watches and followed logs not counted.",
            ),
            "verb",
            _BUCKETS,
        )
        self._streams = Gauge(
            "apiserver_longrunning_requests",
            "Watches and followed logs that are open.",
            ["verb", "resource"],
            registry=registry,
        )
        self._held = Histogram(
            "apiserver_request_held_loop_seconds",
            "Times for which one request kept the event loop from all others, where they were above 50 ms.",
            ["verb", "resource"],
            registry=registry,
            buckets=(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
        )
        self._rejected = Counter(
            "apiserver_request_rejected",
            "Requests and connections that were refused or dropped because there were too many, or too slow.",
            ["what"],
            registry=registry,
        )

        self._history = Gauge(
            "apiserver_watch_history_bytes",
            "Encoded objects of the changes that are kept for watches, at most 256 MiB.",
            registry=registry,
        )

    def answered(self, verb: str, resource: str, code: int, seconds: float | None) -> None:
        """Count an answer; ``seconds`` is None for streams."""
        self._meter.count(verb, resource, str(code), seconds)

    def stream(self, verb: str, resource: str, change: int) -> None:
        """Count a stream that opens (+1) or ends (-1)."""
        self._streams.labels(verb, resource).inc(change)

    def held_loop(self, verb: str, resource: str, seconds: float) -> None:
        """Count a time for which a request has kept all others waiting."""
        self._held.labels(verb, resource).observe(seconds)

    def rejected(self, what: str) -> None:
        """Count a refusal."""
        self._rejected.labels(what).inc()

    def history(self, size: Callable[[], float]) -> None:
        """Show what the changes take that are kept for watches; ``size`` tells the bytes of their objects."""
        self._history.set_function(size)

    async def text(self) -> bytes:
        """All metrics of the registry, and those of other processes, as Prometheus text."""
        more = b"" if self._more is None else await self._more()
        return generate_latest(self._registry) + more
