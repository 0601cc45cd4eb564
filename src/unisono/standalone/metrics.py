"""Metrics of parts that may start anew, behind one registry."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector


class PartMetrics(Collector):
    """Shows the metrics of a part's latest start; register it once."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

    def renew(self) -> CollectorRegistry:
        """An empty registry for the part that starts now."""
        self._registry = CollectorRegistry()
        return self._registry

    def collect(self) -> Iterable[Metric]:
        """Metrics of the latest start."""
        return self._registry.collect()
