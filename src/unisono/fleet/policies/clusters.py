"""What rules know of a member, and which members an affinity of a policy means (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from unisono.api.annotations import BANDWIDTH, DRAINED
from unisono.api.fleet import AttachedCluster
from unisono.api.keys import TOPOLOGY_ZONE
from unisono.api.meta import LabelSelector
from unisono.api.propagation import ClusterAffinity
from unisono.api.selecting import selects
from unisono.api.validation.fleet import amount_or_none
from unisono.fleet.jobs.translation import region_of

PROVIDER = "provider"
"""Label of an AttachedCluster: whose machines they are."""
_GIGABITS = 1.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A member.

    Attributes:
        name: of it.
        labels: of its AttachedCluster.
        gone: it is lost or drained.
        gigabits: per second at which it gets data.

    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    gone: bool = False
    gigabits: float = _GIGABITS

    @property
    def fields(self) -> dict[str, str]:
        """Provider, region and zone, as far as they are known."""
        labels = self.labels
        found = {
            "provider": labels.get(PROVIDER, ""),
            "region": region_of(labels),
            "zone": labels.get(TOPOLOGY_ZONE, ""),
        }
        return {key: value for key, value in found.items() if value}


def cluster_of_object(attached: AttachedCluster, *, lost: bool) -> Cluster:
    """A member as its AttachedCluster describes it."""
    marks = attached.metadata.annotations or {}
    return Cluster(
        attached.metadata.name,
        attached.metadata.labels or {},
        lost or marks.get(DRAINED) == "true",
        amount_or_none(marks.get(BANDWIDTH, "")) or _GIGABITS,
    )


def meant(affinity: ClusterAffinity | None, clusters: Iterable[Cluster]) -> list[str]:
    """Names of the clusters that meet an affinity; all of them without one."""
    return [each.name for each in clusters if affinity is None or _meets(affinity, each)]


def _meets(affinity: ClusterAffinity, cluster: Cluster) -> bool:
    if cluster.name in (affinity.exclude or ()):
        return False
    if affinity.cluster_names and cluster.name not in affinity.cluster_names:
        return False
    if affinity.label_selector is not None and not selects(affinity.label_selector, cluster.labels):
        return False
    wanted = affinity.field_selector.match_expressions if affinity.field_selector is not None else None
    return not wanted or selects(LabelSelector(match_expressions=wanted), cluster.fields)
