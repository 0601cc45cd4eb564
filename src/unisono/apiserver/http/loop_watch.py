"""Measures how long each request keeps the event loop from everything else, and tells of those that do so too long."""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

if TYPE_CHECKING:
    from unisono.apiserver.http.exchange import Exchange
    from unisono.apiserver.http.metrics import RequestMetrics

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
