"""``metrics.k8s.io``, as ``kubectl top`` and autoscalers read it: measured when it is asked for, never stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

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

if TYPE_CHECKING:
    from unisono.apiserver.operations.service import ObjectService

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
        found = _of(kind, data, measured)
        if found is None:
            raise not_found(kind, str(path.name))
        return await exchange.document(found)

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
    told = usage_in(node.metadata.annotations or {})
    if told is None:
        return None
    total = resource_list(node.status.capacity or node.status.allocatable)
    part = Amounts(_share(told.cpu, total.get("cpu", 0)), _share(told.memory, total.get("memory", 0)))
    return _document("NodeMetrics", node, told.time, 0.0, usage=_usage(part))


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
