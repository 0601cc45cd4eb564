"""Counts and times of requests, under the names that Kubernetes' API server uses."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from unisono.kube.metrics import RequestMeter

if TYPE_CHECKING:
    from unisono.apiserver.http.exchange import Exchange

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


# Measures how long each request keeps the event loop from everything else, and tells of those that do so too long.

log = structlog.get_logger(__name__)
T = TypeVar("T")

TOO_LONG = 0.05
"""Seconds that one request may hold the loop at a time."""
_TOLD_AGAIN = 60.0
_MOST_CAUSES = 256


class LoopWatch:
    """Times every step of the requests of one server; a step is what runs between two waits.

    Args:
        metrics: counts the steps that took too long.
        clock: seconds of a clock that only goes forward.

    """

    def __init__(self, metrics: RequestMetrics, clock: Callable[[], float]) -> None:
        self._metrics, self._clock = metrics, clock
        self._told: dict[tuple[str, str, str], float] = {}

    @types.coroutine
    def timed(self, exchange: Exchange, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run ``work``, and tell of every step that holds the loop too long."""
        step: Callable[[], Any] = lambda: work.send(None)  # noqa: E731
        while True:
            begun = self._clock()
            try:
                waiting = step()
            except StopIteration as end:
                found: T = end.value
                return found
            finally:
                seconds = self._clock() - begun
                if seconds > TOO_LONG:
                    self._tell(exchange, seconds)
            try:
                sent = yield waiting
            except GeneratorExit:
                work.close()
                raise
            except BaseException as error:
                step = _throwing(work, error)
            else:
                step = _sending(work, sent)

    def _tell(self, exchange: Exchange, seconds: float) -> None:
        self._metrics.held_loop(exchange.verb or "other", exchange.resource, seconds)
        cause = (exchange.verb, exchange.resource, exchange.user.name)
        now = self._clock()
        if now - self._told.get(cause, -_TOLD_AGAIN) < _TOLD_AGAIN:
            return
        if len(self._told) >= _MOST_CAUSES:
            self._told.clear()
        self._told[cause] = now
        request = exchange.request
        log.warning(
            "request held the event loop",
            verb=exchange.verb,
            method=request.method,
            path=request.path[:256],
            user=exchange.user.name,
            bytes=request.content_length,
            milliseconds=round(seconds * 1000),
        )


def _sending(work: Coroutine[Any, Any, Any], value: Any) -> Callable[[], Any]:
    return lambda: work.send(value)


def _throwing(work: Coroutine[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: work.throw(error)
