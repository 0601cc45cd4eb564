"""Node load from Elasticsearch, by the documents of Metricbeat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from unisono.api.node_usage import NodeUsage
from unisono.scheduler.usage.source import Names, UsageError, Web, percent

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
        found: dict[str, NodeUsage] = {}
        for bucket in buckets if isinstance(buckets, list) else ():
            name = bucket.get("key") if isinstance(bucket, dict) else None
            if not isinstance(name, str) or name not in names:
                continue
            cpu, memory = percent(_value(bucket, "cpu")), percent(_value(bucket, "memory"))
            latest = percent(_value(bucket, "latest"))
            if cpu is not None and memory is not None:
                time = now if latest is None else min(latest / 1000.0, now)
                found[names[name]] = NodeUsage(cpu * 100.0, memory * 100.0, time)
        return found

    async def close(self) -> None:
        """Close all connections."""
        await self._web.close()


def _value(bucket: Mapping[str, Any], name: str) -> object:
    part = bucket.get(name)
    return part.get("value") if isinstance(part, dict) else None
