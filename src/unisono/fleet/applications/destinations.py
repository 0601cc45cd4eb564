"""Which policy of an Application goes to which cluster: a function of the Application, its Fleet and the clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from unisono.api.application import Application, SyncPolicy
from unisono.api.fleet import AttachedCluster, Fleet
from unisono.api.times import duration_or_none

DEFAULT_INTERVAL: Final = 600.0
"""Seconds between two looks at what a policy brought, where the policy names no interval."""
SHORTEST_INTERVAL: Final = 10.0
MOST_PLACES: Final = 4000
"""Policies times clusters of one Application: its status names each."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One policy in one cluster.

    Attributes:
        cluster: name of the AttachedCluster.
        policy: name of the policy, or ``NAME-INDEX`` where it has none.

    """

    cluster: str
    policy: str


@dataclass(frozen=True, slots=True)
class Destinations:
    """What goes where.

    Attributes:
        places: with the index of each place's policy, in the order of the policies, and of the clusters in the Fleet.
        problem: why nothing can be said, such as a Fleet that does not exist; then there are no places, and what was
            brought before stays.

    """

    places: Mapping[Place, int] = field(default_factory=dict)
    problem: str = ""

    def of(self, cluster: str) -> list[Place]:
        """The places in one cluster, in the order of the policies."""
        return [each for each in self.places if each.cluster == cluster]


def destinations(
    application: Application,
    fleets: Callable[[str], Fleet | None],
    clusters: Callable[[str], AttachedCluster | None],
) -> Destinations:
    """Where the policies go.

    Args:
        application: what to bring.
        fleets: finds a Fleet by its key.
        clusters: finds an AttachedCluster by its key.

    """
    namespace = application.metadata.namespace
    places: dict[Place, int] = {}
    for index, policy in enumerate(application.spec.sync_policies or ()):
        destination = policy.destination or application.spec.destination
        name = destination.fleet if destination is not None else ""
        fleet = fleets(f"{namespace}/{name}")
        if destination is None or fleet is None:
            return Destinations(problem=f'there is no Fleet "{name}" in the namespace {namespace}')
        labels = (destination.cluster_selector.match_labels if destination.cluster_selector else None) or {}
        for cluster in _chosen(fleet, labels, clusters):
            places.setdefault(Place(cluster, policy_name(application, index)), index)
    if len(places) > MOST_PLACES:
        return Destinations(problem=f"its policies go to {len(places)} places, more than {MOST_PLACES}: divide it")
    return Destinations(places)


def policy_name(application: Application, index: int) -> str:
    """Name of a policy; unnamed ones are called as Kurator calls them."""
    policy = (application.spec.sync_policies or ())[index]
    return policy.name or f"{application.metadata.name}-{index}"


def interval(policy: SyncPolicy) -> float:
    """Seconds after which a policy's source is read again and its objects are compared with the cluster's."""
    written = policy.helm.interval if policy.helm else policy.kustomization.interval if policy.kustomization else None
    return max(SHORTEST_INTERVAL, duration_or_none(written) or DEFAULT_INTERVAL)


def prunes(policy: SyncPolicy) -> bool:
    """Whether objects that are no longer wanted are deleted: yes, unless the policy says ``prune: false``."""
    return policy.kustomization is None or policy.kustomization.prune is not False


def suspended(application: Application, policy: SyncPolicy) -> bool:
    """Whether the policy, or the source of the Application, is suspended."""
    source = application.spec.source
    sources = (source.helm_repository, source.git_repository, source.oci_repository)
    parts = (policy.helm, policy.kustomization, *sources)
    return any(part is not None and part.suspend is True for part in parts)


def waits_for(policy: SyncPolicy) -> list[str]:
    """Names of the policies that must be in a cluster before this one (``dependsOn``)."""
    part = policy.helm or policy.kustomization
    listed = (part.depends_on if part is not None else None) or ()
    return [str(each["name"]) for each in listed if isinstance(each, Mapping) and each.get("name")]


def _chosen(
    fleet: Fleet, labels: Mapping[str, str], clusters: Callable[[str], AttachedCluster | None]
) -> Iterator[str]:
    for member in fleet.spec.clusters or ():
        if not labels:
            yield member.name or ""
            continue
        cluster = clusters(f"{fleet.metadata.namespace}/{member.name}")
        found = (cluster.metadata.labels or {}) if cluster is not None else {}
        if all(found.get(key) == value for key, value in labels.items()):
            yield member.name or ""
