"""Data that jobs need: which clusters have them, and how long others take to get them (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from unisono.api.annotations import GIGABYTES
from unisono.api.propagation import DataSource, DataSourceClaim
from unisono.api.validation.fleet import amount_or_none
from unisono.fleet.policies.clusters import Cluster
from unisono.fleet.policies.subject import Subject

_BITS = 8.0


@dataclass(frozen=True, slots=True)
class DataWish:
    """Data that one job needs.

    Attributes:
        claim: name of its claim.
        source: name of the DataSource; empty while there is none.
        clusters: that have it.
        gigabytes: to bring to another; None where it cannot be brought.

    """

    claim: str
    source: str = ""
    clusters: tuple[str, ...] = ()
    gigabytes: float | None = None

    @property
    def can_move(self) -> bool:
        """Whether a cluster without the data may have the job."""
        return bool(self.source) and self.gigabytes is not None

    def outside(self, clusters: Sequence[Cluster], known: Mapping[str, str]) -> dict[str, str]:
        """Clusters that cannot have the job, and why, of those that could."""
        if self.can_move:
            return {}
        why = (
            f"does not have DataSource {self.source}"
            if self.source
            else f"no DataSource is bound to claim {self.claim}"
        )
        return {each.name: why for each in clusters if each.name not in known and each.name not in self.clusters}

    def seconds(self, clusters: Iterable[Cluster]) -> dict[str, float]:
        """How long each cluster takes to get the data."""
        size = (self.gigabytes or 0.0) * _BITS
        return {each.name: 0.0 if each.name in self.clusters else size / each.gigabits for each in clusters}


def source_of(claim: DataSourceClaim, sources: Iterable[DataSource]) -> DataSource | None:
    """The DataSource that a claim means: the first by name with all that it asks for."""
    asked = claim.spec
    found = [
        source
        for source in sources
        if (source.spec.system, source.spec.type, source.spec.name)
        == (asked.system, asked.data_source_type, asked.data_source_name)
        and (source.spec.attributes or {}) == (asked.attributes or {})
        and not source.metadata.deletion_timestamp
    ]
    return min(found, key=lambda source: source.metadata.name, default=None)


def is_about(claim: DataSourceClaim, subject: Subject) -> bool:
    """Whether a claim is a job's."""
    workload = claim.spec.workload
    return (
        claim.metadata.namespace == subject.namespace
        and workload.kind == subject.kind
        and workload.name == subject.name
        and workload.namespace in (None, "", subject.namespace)
        and (not workload.api_version or workload.api_version in subject.api_versions)
        and not claim.metadata.deletion_timestamp
    )


def wish_of(claim: DataSourceClaim, sources: Iterable[DataSource]) -> DataWish:
    """What a claim means for its job."""
    source = source_of(claim, sources)
    if source is None:
        return DataWish(claim.metadata.name)
    locality = source.spec.locality
    size = (source.metadata.annotations or {}).get(GIGABYTES, "")
    return DataWish(
        claim.metadata.name,
        source.metadata.name,
        tuple((locality.cluster_names if locality is not None else None) or ()),
        amount_or_none(size) if size else None,
    )
