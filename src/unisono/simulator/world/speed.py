"""How fast pods make progress: their number, the topology that joins them, and their GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from unisono.api.keys import GPU_PRODUCT
from unisono.simulator.clusters.model import Cluster
from unisono.simulator.world.settings import Settings


class SpeedModel:
    """Progress per second of pods at given places; 1.0 for all pods of a job without any slow-down."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        names = [node.metadata.name for node in cluster.nodes]
        self._paths = [cluster.paths.get(name, ()) for name in names]
        self._slowdown = dict(settings.topology_slowdown) if any(self._paths) else {}
        models = [(node.metadata.labels or {}).get(GPU_PRODUCT, "") for node in cluster.nodes]
        self._speeds = [settings.model_speed.get(model, 1.0) for model in models] if settings.model_speed else []

    def rate(self, nodes: Sequence[int], whole: int) -> float:
        """Progress of pods on ``nodes``, of a part of a job that has ``whole`` pods."""
        rate = len(nodes) / whole
        if self._speeds:
            rate *= min(self._speeds[node] for node in nodes)
        if self._slowdown and len(nodes) > 1:
            rate /= self._slowdown.get(self.tier(nodes), 1.0)
        return rate

    def tier(self, nodes: Sequence[int]) -> int:
        """Tier of the lowest domain that has all of the nodes; 0 for one node, one above the top where none has."""
        if len(set(nodes)) == 1:
            return 0
        paths = [self._paths[node] for node in nodes]
        height = max(len(path) for path in paths)
        for tier in range(1, height + 1):
            if len({path[tier - 1] if len(path) >= tier else None for path in paths}) == 1:
                return tier
        return height + 1
