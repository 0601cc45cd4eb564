"""How fast the parts of a job make progress, how far they have come, and what they lose when interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from unisono.api.keys import GPU_PRODUCT
from unisono.simulator.clusters.model import Cluster
from unisono.simulator.workload.job import Job
from unisono.simulator.world.outcome import Stretch
from unisono.simulator.world.settings import Settings


@dataclass(slots=True)
class Unit:
    """Pods that make progress together.

    Attributes:
        number: which part of its job.
        pods: numbers of its pods in the job.
        minimum: pods without which it makes none.
        left: seconds of progress until it ends, as of ``since``.
        done: seconds of progress made, as of ``since``.
        rate: progress per second.
        since: when progress was counted last, or begins.
        placed: node number by pod number, for the pods that have places.
        stretch: the open one, None while it does not run.
        version: grows with each change; an end that was foreseen before is void.
        over: it has ended.
        attempts: how often it has begun.
        attained: seconds for which it has held its places before the open stretch.

    """

    number: int
    pods: tuple[int, ...]
    minimum: int
    left: float
    done: float = 0.0
    rate: float = 0.0
    since: float = 0.0
    placed: dict[int, int] = field(default_factory=dict)
    stretch: Stretch | None = None
    version: int = 0
    over: bool = False
    attempts: int = 0
    attained: float = 0.0

    def settle(self, now: float) -> None:
        """Count the progress made until now."""
        if now > self.since:
            made = (now - self.since) * self.rate
            self.done += made
            self.left = max(0.0, self.left - made)
            self.since = now

    def end(self) -> float:
        """When it ends at this rate, infinite where it does not."""
        return self.since + self.left / self.rate if self.rate > 0 else inf

    def saved_at(self, now: float, checkpoint: float) -> float:
        """When it last saved its progress: all of it at any time where ``checkpoint`` is 0, or when it began."""
        made = self.done + max(now - self.since, 0.0) * self.rate
        beyond = made % checkpoint if checkpoint > 0 else 0.0
        return now - beyond / self.rate if self.rate > 0 else self.since

    def fall_back(self, checkpoint: float | None) -> float:
        """Lose the progress since the last checkpoint; answers how many seconds of it."""
        if checkpoint is None:
            kept = 0.0
        elif checkpoint > 0:
            kept = self.done // checkpoint * checkpoint
        else:
            kept = self.done
        lost = self.done - kept
        self.left += lost
        self.done = kept
        return lost


def units_of(job: Job) -> list[Unit]:
    """The parts of a job: one where its pods run together, else one for each pod."""
    pods = job.pods
    if job.elastic or job.minimum == pods:
        return [Unit(0, tuple(range(pods)), job.minimum, job.work)]
    return [Unit(number, (number,), 1, job.work) for number in range(pods)]


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
