"""Random failures of pods, nodes and topology domains; each draw depends on the seed alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from math import inf
from typing import TypeVar

from unisono.simulator.clusters.model import Cluster
from unisono.simulator.world.settings import NodeChange, Settings

T = TypeVar("T")


class Trouble:
    """When what fails; every node and domain draws from a stream of its own."""

    def __init__(self, cluster: Cluster, settings: Settings) -> None:
        self._failures = settings.failures
        self._seed = settings.seed
        self._until = inf if settings.until is None else settings.until
        self._names = [node.metadata.name for node in cluster.nodes]
        self._pods = random.Random(f"{settings.seed}/pods")  # nosec B311 # draws of a simulation, no secret
        self._streams: dict[str, random.Random] = {}
        self._domain_of: dict[str, str] = {}
        self._members: dict[str, list[str]] = {}
        tier = self._failures.tier
        for name in self._names if self._failures.domain else ():
            path = cluster.paths.get(name, ())
            if len(path) >= tier:
                self._domain_of[name] = path[tier - 1]
                self._members.setdefault(path[tier - 1], []).append(name)

    def _after(self, stream: str, mean: float) -> float:
        found = self._streams.get(stream)
        if found is None:
            found = self._streams[stream] = random.Random(f"{self._seed}/{stream}")  # nosec B311 # draws of a simulation, no secret
        return found.expovariate(1 / mean)

    def first(self) -> Iterator[NodeChange]:
        """The first failure of each node and domain."""
        if self._failures.node:
            for name in self._names:
                yield NodeChange(self._after(name, self._failures.node), name, up=False)
        for domain in self._members:
            yield from self._domain_failure(domain, 0.0)

    def _domain_failure(self, domain: str, now: float) -> Iterator[NodeChange]:
        at = now + self._after(f"domain {domain}", self._failures.domain)
        for name in self._members[domain]:
            yield NodeChange(at, name, up=False)

    def next(self, change: NodeChange, now: float) -> Iterator[NodeChange]:
        """What follows a change: a repair after a failure, the next failure after a repair."""
        failures = self._failures
        if not failures.node and not failures.domain:
            return
        name = change.node
        if not change.up:
            yield NodeChange(now + self._after(f"repair {name}", failures.repair), name, up=True)
            return
        if failures.node:
            yield NodeChange(now + self._after(name, failures.node), name, up=False)
        domain = self._domain_of.get(name)
        if domain is not None and name == self._members[domain][0]:
            yield from self._domain_failure(domain, now)

    def pod_failure(self, now: float, pods: int) -> float:
        """When the first of so many pods fails."""
        mean = self._failures.pod
        return now + self._pods.expovariate(pods / mean) if mean else inf

    def choice(self, options: Sequence[T]) -> T:
        """One of the options, each as likely."""
        return self._pods.choice(options)
