"""Node load from Prometheus, by the series of node_exporter, and of GPUs by those of DCGM's exporter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unisono.api.node_usage import NodeUsage
from unisono.scheduler.usage.source import Names, UsageError, Web, percent

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
        found: dict[str, tuple[float, float]] = {}
        strange = ""
        for one in series:
            labels, sample = _parts(one)
            name = node_of(labels, names)
            value = percent(sample[1]) if name else None
            time = percent(sample[0])
            if name and value is not None and time is not None:
                found[name] = value, time
            elif not name:
                strange = labels.get("instance", "")
        if not found and names and not optional:
            seen = f"such as instance {strange!r}" if strange else "at all; is node_exporter scraped?"
            hint = " (it must be a node's name or address)" if strange else ""
            raise UsageError(f"Prometheus at {self._web.address} has no series of the nodes, {seen}{hint}")
        return found


def node_of(labels: Mapping[str, str], names: Names) -> str:
    """The node that a series' labels name by its name or address, with or without a port; empty when it is none."""
    for key in ("node", "Hostname", "instance"):
        value = labels.get(key, "")
        for known in (value, value.rpartition(":")[0].strip("[]")):
            if known in names:
                return names[known]
    return ""


def _parts(one: Any) -> tuple[Mapping[str, str], tuple[object, object]]:
    labels = one.get("metric") if isinstance(one, dict) else None
    sample = one.get("value") if isinstance(one, dict) else None
    if not isinstance(labels, dict) or not isinstance(sample, list) or len(sample) != 2:
        return {}, (None, None)
    return labels, (sample[0], sample[1])
