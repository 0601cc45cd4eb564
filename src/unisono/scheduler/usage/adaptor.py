"""Node load from the custom metrics API, which an adapter serves behind the cluster's API server."""

from __future__ import annotations

from collections.abc import Mapping

from unisono.api.base import Base, Object
from unisono.api.core import ObjectReference
from unisono.api.fields import Quantity
from unisono.api.kind import Kind
from unisono.api.node_usage import NodeUsage
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.times import parse_time
from unisono.errors import NotFound
from unisono.kube.client import Client
from unisono.scheduler.usage.source import Names, UsageError

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
        found: dict[str, tuple[float, float]] = {}
        for item in listing.items:
            name = item.described_object.name if item.described_object is not None else None
            if name is None or name not in names or item.value is None or item.timestamp is None:
                continue
            try:
                found[names[name]] = float(parse_quantity(item.value)) * 100.0, parse_time(item.timestamp)
            except (QuantityError, ValueError):
                continue
        return found
