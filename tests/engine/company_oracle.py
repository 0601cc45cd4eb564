"""Small clusters and a gang whose pods look at each other, and by brute force whether the gang can start.

Nothing of the engine is used for that: the rules are those of kube-scheduler, pod after pod, in every order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from topology_world import hyper, wish

from support.build import cluster, group, node, pod
from unisono.api.base import LabelSelector
from unisono.api.core import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
)
from unisono.cluster.state import ClusterState

HOST, RACK, ZONE = "kubernetes.io/hostname", "rack", "zone"
KEYS = (HOST, RACK, ZONE)

Term = tuple[str, str]
"""Node label, and the ``app`` of the pods that are looked for."""


@dataclass(frozen=True)
class Place:
    """A node."""

    name: str
    cpu: int
    labels: tuple[tuple[str, str], ...]

    def of(self, key: str) -> str | None:
        return dict(self.labels).get(key)


@dataclass(frozen=True)
class Part:
    """Equal pods of the gang: ``spread`` is node label, ``app``, maxSkew and minDomains."""

    number: int
    cpu: int
    app: str
    near: Term | None = None
    away: Term | None = None
    spread: tuple[str, str, int, int] | None = None
    port: int = 0
    zone: str = ""


@dataclass(frozen=True)
class World:
    """Nodes, pods that run there as (node, class), and the gang.

    ``domains`` are HyperNodes of tier 1, by their nodes; where there are any, the gang must stay in one of them.
    """

    places: tuple[Place, ...]
    running: tuple[tuple[int, Part], ...]
    parts: tuple[Part, ...]
    minimum: int
    domains: tuple[tuple[int, ...], ...] = ()

    @property
    def size(self) -> int:
        return sum(part.number for part in self.parts)

    def state(self) -> ClusterState:
        things: list[Any] = [node(place.name, cpu=place.cpu, labels=dict(place.labels)) for place in self.places]
        things += [
            hyper(f"h{number}", 1, [self.places[at].name for at in inside])
            for number, inside in enumerate(self.domains)
        ]
        for number, (at, part) in enumerate(self.running):
            things += [group(f"r{number}", 1), member(f"r{number}-0", f"r{number}", part, node=self.places[at].name)]
        head = group("g", self.minimum)
        head.spec.network_topology = wish(1) if self.domains else None
        things.append(head)
        for number, part in enumerate(self.parts):
            things += [member(f"g-{number}-{at}", "g", part) for at in range(part.number)]
        made: ClusterState = cluster(*things)
        return made

    def starts(self) -> bool:
        """Whether as many pods of the gang as it needs find nodes, one after the other, in some order."""
        if not self.domains:
            return _most(self, tuple(range(len(self.places)))) >= self.minimum
        return any(_most(self, inside) >= self.minimum for inside in self.domains)


def member(name: str, owner: str, part: Part, **more: Any) -> Any:
    """A pod of a part."""
    near = [_term(part.near)] if part.near else None
    away = [_term(part.away)] if part.away else None
    affinity = Affinity(
        pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=near) if near else None,
        pod_anti_affinity=PodAntiAffinity(required_during_scheduling_ignored_during_execution=away) if away else None,
    )
    made = pod(
        name,
        owner,
        cpu=part.cpu,
        labels={"app": part.app},
        affinity=affinity if near or away else None,
        ports=[part.port] if part.port else (),
        selector={ZONE: part.zone} if part.zone else None,
        role=f"of-{part.app}",
        **more,
    )
    if part.spread:
        key, app, skew, least = part.spread
        made.spec.topology_spread_constraints = [
            TopologySpreadConstraint(
                max_skew=skew,
                topology_key=key,
                when_unsatisfiable="DoNotSchedule",
                label_selector=LabelSelector(match_labels={"app": app}),
                min_domains=least or None,
            )
        ]
    return made


def _term(term: Term) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=term[0], label_selector=LabelSelector(match_labels={"app": term[1]}))


def _most(world: World, allowed: tuple[int, ...]) -> int:
    """How many pods of the gang find nodes at most, up to its minimum."""

    @cache
    def best(there: tuple[tuple[int, Part], ...], left: tuple[int, ...]) -> int:
        found = 0
        for number, part in enumerate(world.parts):
            if not left[number]:
                continue
            for at in allowed:
                if not _fits(world.places, there, part, at):
                    continue
                rest = tuple(count - (other == number) for other, count in enumerate(left))
                found = max(found, 1 + best(tuple(sorted((*there, (at, part)), key=repr)), rest))
                if found + world.size - sum(left) >= world.minimum:
                    return found
        return found

    return best(tuple(sorted(world.running, key=repr)), tuple(part.number for part in world.parts))


def _fits(places: tuple[Place, ...], there: tuple[tuple[int, Part], ...], part: Part, at: int) -> bool:
    mine = places[at]
    if sum(other.cpu for where, other in there if where == at) + part.cpu > mine.cpu:
        return False
    if part.port and any(where == at and other.port == part.port for where, other in there):
        return False
    if part.zone and mine.of(ZONE) != part.zone:
        return False
    return all(_company(places, there, part, mine)) and (part.spread is None or _even(places, there, part, mine))


def _company(places: tuple[Place, ...], there: tuple[tuple[int, Part], ...], part: Part, mine: Place) -> Iterator[bool]:
    if part.near:
        key, app = part.near
        with_it = [places[where].of(key) for where, other in there if other.app == app]
        first = not any(value is not None for value in with_it) and part.app == app
        yield mine.of(key) is not None and (first or mine.of(key) in with_it)
    if part.away:
        key, app = part.away
        yield not any(
            other.app == app and mine.of(key) is not None and places[where].of(key) == mine.of(key)
            for where, other in there
        )
    for where, other in there:
        if other.away and other.away[1] == part.app:
            key = other.away[0]
            yield mine.of(key) is None or places[where].of(key) != mine.of(key)


def _even(places: tuple[Place, ...], there: tuple[tuple[int, Part], ...], part: Part, mine: Place) -> bool:
    assert part.spread is not None
    key, app, skew, least_domains = part.spread
    if mine.of(key) is None:
        return False
    counted = [place for place in places if place.of(key) is not None and part.zone in ("", place.of(ZONE))]
    sums = {place.of(key): 0 for place in counted}
    for where, other in there:
        if other.app == app and places[where] in counted:
            sums[places[where].of(key)] += 1
    least = min(sums.values()) if len(sums) >= least_domains else 0
    return sums[mine.of(key)] + (part.app == app) - least <= skew
