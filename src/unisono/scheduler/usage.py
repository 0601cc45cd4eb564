"""Measured load of nodes: sources of metrics, and the collector that asks them."""

from __future__ import annotations

import asyncio
import math
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote

import aiohttp
import msgspec
import structlog

from unisono.api.base import Base, Object, Quantity
from unisono.api.core import ObjectReference
from unisono.api.kind import Kind
from unisono.api.node_usage import NodeUsage
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.times import parse_time
from unisono.engine.config.model import MetricsSource, metrics_source
from unisono.engine.plugins.common.annotations import FRESH_SECONDS
from unisono.errors import ConfigError, NotFound, UnisonoError
from unisono.kube.client import Client
from unisono.kube.clock import Clock
from unisono.kube.pace import Backoff
from unisono.scheduler.feed import Feed
from unisono.scheduler.metrics import Metrics

# What a source of node load is, and HTTP to those outside of the cluster's API server.

_LONGEST = 64 << 20
"""Bytes of an answer at most: some 10,000 nodes take 2 MB."""
_SHOWN = 200

Names = Mapping[str, str]
"""The nodes that the cluster has, by everything that they are known as: name, host name and addresses."""


class UsageError(UnisonoError):
    """A source did not say how busy nodes are."""


class UsageSource(Protocol):
    """Answers the load of nodes."""

    async def collect(self, names: Names, now: float) -> Mapping[str, NodeUsage]:
        """Latest load by node, for as many of ``names`` as are known to the source.

        Raises:
            UsageError: the answer cannot be used.
            UnisonoError, OSError, TimeoutError: there is none.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class Web:
    """JSON over HTTP to one address."""

    def __init__(self, address: str, *, insecure: bool = False, user: str = "", password: str = "") -> None:
        self.address = address
        self._insecure = insecure
        self._headers: dict[str, str] = {}
        if user:
            token = b64encode(f"{user}:{password}".encode()).decode("ascii")
            self._headers["Authorization"] = f"Basic {token}"
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None) -> Any:
        """The answer to one request, decoded; raises `UsageError`, or OSError without an answer."""
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=not self._insecure, limit=4)
            self._session = aiohttp.ClientSession(connector=connector, headers=self._headers)
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with self._session.request(
                method, self.address + path, params=params, data=data, headers=headers, allow_redirects=False
            ) as response:
                text = await self._read(response)
                status = response.status
        except aiohttp.ClientError as error:
            raise UsageError(f"{self.address} cannot be reached: {error or type(error).__name__}") from error
        if status != 200:
            detail = text[:_SHOWN].decode("utf-8", "replace")
            raise UsageError(f"{self.address}{path} answers status {status}: {detail}")
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{self.address}{path} answers no JSON; is the address right?") from error

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        read = bytearray()
        async for chunk in response.content.iter_chunked(1 << 16):
            read += chunk
            if len(read) > _LONGEST:
                raise UsageError(f"the answer of {self.address} is longer than {_LONGEST} bytes")
        return bytes(read)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def percent(value: object) -> float | None:
    """A measured percentage, at least 0; None for what is no number."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return max(number, 0.0) if math.isfinite(number) else None


# Node load from the custom metrics API, which an adapter serves behind the cluster's API server.

CPU, MEMORY = "node_cpu_usage_avg", "node_memory_usage_avg"


class _MetricIdentifier(Base):
    name: str = ""


class MetricValue(Object):
    """One measured value of one object (``custom.metrics.k8s.io``)."""

    described_object: ObjectReference | None = None
    metric_name: str | None = None
    metric: _MetricIdentifier | None = None
    timestamp: str | None = None
    window_seconds: int | None = None
    value: Quantity | None = None


def _kind(metric: str) -> Kind[MetricValue]:
    """What `Client.list` needs to read one metric of all nodes."""
    return Kind("custom.metrics.k8s.io", "v1beta1", "MetricValue", f"nodes/*/{metric}", MetricValue, namespaced=False)


class CustomMetrics:
    """Asks for two node metrics, parts of 1."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def collect(self, names: Names, now: float) -> Mapping[str, NodeUsage]:
        """Load of nodes for which both cpu and memory are known."""
        cpu, memory = await self._values(CPU, names), await self._values(MEMORY, names)
        return {
            name: NodeUsage(cpu[name][0], memory[name][0], min(cpu[name][1], memory[name][1], now))
            for name in cpu.keys() & memory.keys()
        }

    async def close(self) -> None:
        """The client is the scheduler's."""

    async def _values(self, metric: str, names: Names) -> dict[str, tuple[float, float]]:
        """Percent and time by node."""
        try:
            listing = await self._client.list(_kind(metric))
        except NotFound as error:
            raise UsageError(f"the API server has no metric {metric} of nodes; install prometheus-adapter") from error
        samples: dict[str, tuple[float, float]] = {}
        for item in listing.items:
            name = item.described_object.name if item.described_object is not None else None
            if name is None or name not in names or item.value is None or item.timestamp is None:
                continue
            try:
                samples[names[name]] = float(parse_quantity(item.value)) * 100.0, parse_time(item.timestamp)
            except (QuantityError, ValueError):
                continue
        return samples


# Node load from Elasticsearch, by the documents of Metricbeat.

_MOST = 20_000
"""Nodes in one answer."""


class Elasticsearch:
    """Asks for averages over the last ten minutes, all nodes at once."""

    def __init__(self, web: Web, index: str, host_field: str) -> None:
        self._web = web
        self._path = f"/{quote(index, safe='*,-')}/_search"
        self._body = {
            "size": 0,
            "query": {"bool": {"filter": [{"range": {"@timestamp": {"gte": "now-10m", "lte": "now"}}}]}},
            "aggs": {
                "nodes": {
                    "terms": {"field": host_field, "size": _MOST},
                    "aggs": {
                        "cpu": {"avg": {"field": "host.cpu.usage"}},
                        "memory": {"avg": {"field": "system.memory.actual.used.pct"}},
                        "latest": {"max": {"field": "@timestamp"}},
                    },
                }
            },
        }

    async def collect(self, names: Names, now: float) -> Mapping[str, NodeUsage]:
        """Load of nodes for which both cpu and memory are known; parts of 1 become percent."""
        answer = await self._web.ask("POST", self._path, body=self._body)
        try:
            buckets = answer["aggregations"]["nodes"]["buckets"]
        except (KeyError, TypeError) as error:
            raise UsageError(f"Elasticsearch at {self._web.address} answers no aggregation") from error
        usage: dict[str, NodeUsage] = {}
        for bucket in buckets if isinstance(buckets, list) else ():
            name = bucket.get("key") if isinstance(bucket, dict) else None
            if not isinstance(name, str) or name not in names:
                continue
            cpu, memory = percent(_value(bucket, "cpu")), percent(_value(bucket, "memory"))
            latest = percent(_value(bucket, "latest"))
            if cpu is not None and memory is not None:
                time = now if latest is None else min(latest / 1000.0, now)
                usage[names[name]] = NodeUsage(cpu * 100.0, memory * 100.0, time)
        return usage

    async def close(self) -> None:
        """Close all connections."""
        await self._web.close()


def _value(bucket: Mapping[str, Any], name: str) -> object:
    part = bucket.get(name)
    return part.get("value") if isinstance(part, dict) else None


# Node load from Prometheus, by the series of node_exporter, and of GPUs by those of DCGM's exporter.

# Averages over ten minutes, as Volcano asks for them; one question for all nodes instead of one for each.
CPU_QUERY = (
    "clamp_min(avg_over_time((100 - 100 * avg by (instance, node) "
    '(rate(node_cpu_seconds_total{mode="idle"}[5m])))[10m:30s]), 0)'
)
MEMORY_QUERY = (
    "100 * avg_over_time((1 - max by (instance, node) (node_memory_MemAvailable_bytes)"
    " / max by (instance, node) (node_memory_MemTotal_bytes))[10m:30s])"
)
# Of all cards of a node together. DCGM's exporter names the node in ``Hostname``.
GPU_QUERY = "avg_over_time((avg by (instance, node, Hostname) (DCGM_FI_DEV_GPU_UTIL))[10m:30s])"
GPU_MEMORY_QUERY = (
    "100 * avg_over_time((sum by (instance, node, Hostname) (DCGM_FI_DEV_FB_USED)"
    " / (sum by (instance, node, Hostname) (DCGM_FI_DEV_FB_USED)"
    " + sum by (instance, node, Hostname) (DCGM_FI_DEV_FB_FREE)))[10m:30s])"
)


class Prometheus:
    """Asks a Prometheus server. A series belongs to the node that its label ``node``, ``Hostname`` or ``instance``
    names, or is an address of.
    """

    def __init__(self, web: Web) -> None:
        self._web = web

    async def collect(self, names: Names, now: float) -> Mapping[str, NodeUsage]:
        """Load of nodes for which both cpu and memory are known, with that of their GPUs where it is measured."""
        cpu = await self._query(CPU_QUERY, names)
        memory = await self._query(MEMORY_QUERY, names)
        gpu = await self._query(GPU_QUERY, names, optional=True)
        held = await self._query(GPU_MEMORY_QUERY, names, optional=True)
        return {
            name: NodeUsage(
                cpu[name][0],
                memory[name][0],
                min(cpu[name][1], memory[name][1], now),
                gpu[name][0] if name in gpu else None,
                held[name][0] if name in held else None,
            )
            for name in cpu.keys() & memory.keys()
        }

    async def close(self) -> None:
        """Close all connections."""
        await self._web.close()

    async def _query(self, query: str, names: Names, *, optional: bool = False) -> dict[str, tuple[float, float]]:
        """Percent and time by node; with ``optional`` there may be none of our nodes."""
        answer = await self._web.ask("GET", "/api/v1/query", params={"query": query})
        if not isinstance(answer, dict) or answer.get("status") != "success":
            why = answer.get("error") if isinstance(answer, dict) else None
            raise UsageError(f"Prometheus at {self._web.address} refuses a query: {why or 'no reason given'}")
        data = answer.get("data")
        series = data.get("result") if isinstance(data, dict) else None
        if not isinstance(series, list):
            raise UsageError(f"Prometheus at {self._web.address} answers no vector")
        samples: dict[str, tuple[float, float]] = {}
        strange = ""
        for one in series:
            labels, sample = _parts(one)
            name = node_of(labels, names)
            value = percent(sample[1]) if name else None
            time = percent(sample[0])
            if name and value is not None and time is not None:
                samples[name] = value, time
            elif not name:
                strange = labels.get("instance", "")
        if not samples and names and not optional:
            seen = f"such as instance {strange!r}" if strange else "at all; is node_exporter scraped?"
            hint = " (it must be a node's name or address)" if strange else ""
            raise UsageError(f"Prometheus at {self._web.address} has no series of the nodes, {seen}{hint}")
        return samples


def node_of(labels: Mapping[str, str], names: Names) -> str:
    """The node that a series' labels name by its name or address, with or without a port; empty when it is none."""
    for key in ("node", "Hostname", "instance"):
        value = labels.get(key, "")
        for candidate in (value, value.rpartition(":")[0].strip("[]")):
            if candidate in names:
                return names[candidate]
    return ""


def _parts(one: Any) -> tuple[Mapping[str, str], tuple[object, object]]:
    labels = one.get("metric") if isinstance(one, dict) else None
    sample = one.get("value") if isinstance(one, dict) else None
    if not isinstance(labels, dict) or not isinstance(sample, list) or len(sample) != 2:
        return {}, (None, None)
    return labels, (sample[0], sample[1])


# Asks the configured source of node load again and again, and hands what it says to the cluster state.
#
# A source that fails is asked less and less often. What it said before stays until it is too old to be looked at; a
# failure is never taken for an idle node.

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
                usage = await source.collect(self._feed.nodes_known_as(), self._clock.time())
        except (UnisonoError, OSError, TimeoutError) as error:
            return self._failed(settings, str(error) or type(error).__name__)
        except Exception as error:
            _log.exception("usage.broken", type=settings.type)
            return self._failed(settings, str(error))
        if self._failures:
            _log.info("usage.recovered", type=settings.type, failures=self._failures)
        self._failures = 0
        self._metrics.usage_done.inc()
        self._feed.do(lambda: self._report(usage))
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
