"""Asks the configured source of node load again and again, and hands what it says to the cluster state.

A source that fails is asked less and less often. What it said before stays until it is too old to be looked at; a
failure is never taken for an idle node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from unisono.api.node_usage import NodeUsage
from unisono.engine.config.metrics import MetricsSource, metrics_source
from unisono.engine.plugins.common.measured_load import FRESH_SECONDS
from unisono.errors import ConfigError, UnisonoError
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.kube.pace import Backoff
from unisono.scheduler.feed import Feed
from unisono.scheduler.metrics import Metrics
from unisono.scheduler.usage.source import UsageSource

_log = structlog.get_logger(__name__)

_TIMEOUT_SECONDS = 60.0
_LONGEST_WAIT = 300.0
FIRST_SECONDS = 10.0
"""How long the first cycle waits for the first answer at most."""
_LOOK_SECONDS = 5.0
"""How soon another configuration is noticed."""

Opener = Callable[[MetricsSource, Client], UsageSource]


def open_source(settings: MetricsSource, client: Client) -> UsageSource:
    """The source that the configuration means; connections are made when it is asked."""
    from unisono.scheduler.usage.source import CustomMetrics, Elasticsearch, Prometheus, Web

    if settings.type == "prometheus_adaptor":
        return CustomMetrics(client)
    web = Web(settings.address, insecure=settings.insecure, user=settings.user, password=settings.password)
    if settings.type == "prometheus":
        return Prometheus(web)
    return Elasticsearch(web, settings.index, settings.host_field)


class UsageCollector:
    """Collects until cancelled; while the configuration names no source it does nothing."""

    def __init__(
        self,
        client: Client,
        feed: Feed,
        section: Callable[[], Mapping[str, str]],
        metrics: Metrics,
        clock: Clock,
        opener: Opener = open_source,
    ) -> None:
        """``section`` answers the configuration's ``metrics`` as it is now."""
        self._client, self._feed, self._section = client, feed, section
        self._metrics, self._clock, self._opener = metrics, clock, opener
        self._settings: MetricsSource | None = None
        self._source: UsageSource | None = None
        self._failures = 0
        self._asked = asyncio.Event()

    async def run(self) -> None:
        """Ask, wait, and ask again."""
        try:
            while True:
                await self._follow_configuration()
                wait = await self._once() if self._source is not None else _LOOK_SECONDS
                self._asked.set()
                await self._pause(wait)
        finally:
            await self._close()

    async def first(self) -> None:
        """Return when the source has answered or failed once, when there is none, or after `FIRST_SECONDS`.

        What is placed before anything has been measured is placed as if all nodes were idle.
        """
        timer = self._clock.call_later(FIRST_SECONDS, self._asked.set)
        try:
            await self._asked.wait()
        finally:
            timer.cancel()

    async def _follow_configuration(self) -> None:
        settings = self._wanted()
        if settings == self._settings:
            return
        await self._close()
        self._settings, self._failures = settings, 0
        if settings is None:
            self._feed.do(lambda: self._feed.state.report_usage({}))
            return
        self._source = self._opener(settings, self._client)
        _log.info("usage.source", type=settings.type, address=settings.address, interval=settings.interval)

    def _wanted(self) -> MetricsSource | None:
        try:
            return metrics_source(self._section())
        except ConfigError:  # a file with such a section is refused; one that a program made has no source
            return None

    async def _once(self) -> float:
        """Ask once; seconds until the next time."""
        settings, source = self._settings, self._source
        assert settings is not None
        assert source is not None
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                found = await source.collect(self._feed.nodes_known_as(), self._clock.time())
        except (UnisonoError, OSError, TimeoutError) as error:
            return self._failed(settings, str(error) or type(error).__name__)
        except Exception as error:
            _log.exception("usage.broken", type=settings.type)
            return self._failed(settings, str(error))
        if self._failures:
            _log.info("usage.recovered", type=settings.type, failures=self._failures)
        self._failures = 0
        self._metrics.usage_done.inc()
        self._feed.do(lambda: self._report(found))
        return settings.interval

    def _failed(self, settings: MetricsSource, why: str) -> float:
        self._failures += 1
        self._metrics.usage_failed.inc()
        if self._failures == 1:
            _log.warning("usage.failed", type=settings.type, error=why)
        self._feed.do(lambda: self._report({}))
        backoff = Backoff(base=settings.interval, cap=max(_LONGEST_WAIT, settings.interval), jitter=0.0)
        return backoff.delay(self._failures)

    def _report(self, found: Mapping[str, NodeUsage]) -> None:
        """Latest values, and older ones of nodes that the source says nothing of this time, while they are fresh."""
        state, oldest = self._feed.state, self._clock.time() - FRESH_SECONDS
        kept = {
            name: usage
            for name, usage in state.node_usage.items()
            if usage.time >= oldest and name in self._feed.nodes and name not in found
        }
        state.report_usage({**kept, **found})
        self._metrics.usage_nodes.set(len(state.node_usage))

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until another configuration is there."""
        left = seconds
        while left > 0 and self._wanted() == self._settings:
            step = min(left, _LOOK_SECONDS)
            await self._clock.sleep(step)
            left -= step

    async def _close(self) -> None:
        if self._source is not None:
            source, self._source = self._source, None
            await source.close()
