"""Metrics of components that may restart, behind one registry."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector


class PartMetrics(Collector):
    """Shows the metrics of each part's latest start; register it once."""

    def __init__(self) -> None:
        self._registries: dict[str, CollectorRegistry] = {}

    def renew(self, part: str = "") -> CollectorRegistry:
        """An empty registry for the part that starts now; ``part`` is its name where there are several."""
        registry = self._registries[part] = CollectorRegistry()
        return registry

    def collect(self) -> Iterable[Metric]:
        """Metrics of the latest starts."""
        for registry in self._registries.values():
            yield from registry.collect()
