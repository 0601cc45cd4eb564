"""Metrics over HTTP: those of the server for Prometheus, and the use of nodes and pods (metrics.k8s.io)."""

from __future__ import annotations

import math
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from unisono.api.core import Node, Pod
from unisono.api.groups.resource_metrics import NODE_METRICS, Amounts, Meter, Metered
from unisono.api.kind import Kind
from unisono.api.kinds import NODES, PODS
from unisono.api.node_usage import usage_in
from unisono.api.resources import resource_list
from unisono.api.times import rfc3339
from unisono.apiserver.failures import not_found
from unisono.apiserver.http.exchange import Exchange
from unisono.apiserver.http.query import ResourcePath
from unisono.errors import NotFound, Unavailable
from unisono.kube.metrics import RequestMeter

if TYPE_CHECKING:
    from unisono.apiserver.operations.service import ObjectService

# Counts and times of requests, under the names that Kubernetes' API server uses.

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
                result: T = end.value
                return result
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


# ``metrics.k8s.io``, as ``kubectl top`` and autoscalers read it: measured when it is asked for, never stored.

Document = dict[str, Any]
_NODE: msgspec.json.Decoder[Node] = msgspec.json.Decoder(Node)
_POD: msgspec.json.Decoder[Pod] = msgspec.json.Decoder(Pod)


class ResourceMetricsHandler:
    """Answers GET of nodes and pods of the group.

    Args:
        service: knows nodes and pods.
        meter: measures this machine; None where no node agent runs with this server.
        clock: Unix seconds.
    """

    def __init__(self, service: ObjectService, meter: Meter | None, clock: Callable[[], float]) -> None:
        self._service, self._meter, self._clock = service, meter, clock

    async def get(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """What one node or pod uses.

        Raises:
            NotFound: nothing of that name is measured.
        """
        measured = await self._read()
        of = NODES if kind.kind == NODE_METRICS.kind else PODS
        try:
            data = await self._service.get(of, path.namespace, str(path.name))
        except NotFound as error:
            raise not_found(kind, str(path.name)) from error
        metrics = _of(kind, data, measured)
        if metrics is None:
            raise not_found(kind, str(path.name))
        return await exchange.document(metrics)

    async def list(self, exchange: Exchange, kind: Kind[Any], path: ResourcePath) -> web.StreamResponse:
        """What all nodes use, or all pods, of a namespace or of all; those that are not measured are left out."""
        measured = await self._read()
        of, query = (NODES if kind.kind == NODE_METRICS.kind else PODS), exchange.query
        page = await self._service.list(
            of,
            path.namespace,
            label_selector=query.get("labelSelector", ""),
            field_selector=query.get("fieldSelector", ""),
        )
        items = [found for data in page.items if (found := _of(kind, data, measured)) is not None]
        head = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": {}}
        return await exchange.document(head | {"items": items})

    async def _read(self) -> Metered | None:
        if self._meter is None:
            return None
        try:
            return await self._meter.read()
        except OSError as error:
            raise Unavailable(f"the use of this machine cannot be measured: {error}") from error


def _of(kind: Kind[Any], data: bytes, measured: Metered | None) -> Document | None:
    if kind.kind == NODE_METRICS.kind:
        return node_metrics(_NODE.decode(data), measured)
    return pod_metrics(_POD.decode(data), measured)


def node_metrics(node: Node, measured: Metered | None) -> Document | None:
    """The NodeMetrics of a node: measured on this machine, or as a simulated or remote node says of itself."""
    if measured is not None and measured.node == node.metadata.name:
        return _document("NodeMetrics", node, measured.at, measured.seconds, usage=_usage(measured.machine))
    reported = usage_in(node.metadata.annotations or {})
    if reported is None:
        return None
    total = resource_list(node.status.capacity or node.status.allocatable)
    part = Amounts(_share(reported.cpu, total.get("cpu", 0)), _share(reported.memory, total.get("memory", 0)))
    return _document("NodeMetrics", node, reported.time, 0.0, usage=_usage(part))


def pod_metrics(pod: Pod, measured: Metered | None) -> Document | None:
    """The PodMetrics of a pod whose containers run on this machine; None for all others."""
    if measured is None or pod.spec.node_name != measured.node or pod.status.phase != "Running":
        return None
    used: Mapping[str, Amounts] = measured.pods.get(pod.metadata.uid or "", {})
    if not used:
        return None
    containers = [{"name": name, "usage": _usage(amounts)} for name, amounts in sorted(used.items())]
    return _document("PodMetrics", pod, measured.at, measured.seconds, containers=containers)


def _document(kind: str, obj: Node | Pod, at: float, seconds: float, **more: Any) -> Document:
    meta = obj.metadata
    shown = {"name": meta.name, "creationTimestamp": rfc3339(at)}
    if meta.namespace:
        shown["namespace"] = meta.namespace
    labels = {"labels": meta.labels} if meta.labels else {}
    head = {"kind": kind, "apiVersion": NODE_METRICS.api_version, "metadata": shown | labels}
    return head | {"timestamp": rfc3339(at), "window": f"{seconds:.3f}s"} | more


def _usage(amounts: Amounts) -> dict[str, str]:
    return {"cpu": f"{amounts.cpu}m", "memory": f"{math.ceil(amounts.memory / 1024)}Ki"}


def _share(percent: float, total: int) -> int:
    return max(0, round(percent / 100 * total))
