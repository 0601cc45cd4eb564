"""A job as the rules see it (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unisono.api.base import Object
from unisono.api.core import Pod, PreferredSchedulingTerm
from unisono.api.kind import Kind


@dataclass(frozen=True, slots=True)
class Subject:
    """What decides where a job goes, beside its pods' requests.

    Attributes:
        kind, api_versions: of the job.
        namespace, name, labels, annotations: of it.
        preferred: preferred node affinity of its first pod.

    """

    kind: str
    api_versions: tuple[str, ...]
    namespace: str
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    preferred: Sequence[PreferredSchedulingTerm] = ()


def subject_of(kind: Kind[Any], job: Object, pods: Sequence[Pod] = ()) -> Subject:
    """The subject that a job is."""
    meta = job.metadata
    versions = tuple(f"{kind.group}/{each}" for each in (kind.version, *kind.alias_versions))
    affinity = pods[0].spec.affinity if pods else None
    nodes = affinity.node_affinity if affinity is not None else None
    preferred = nodes.preferred_during_scheduling_ignored_during_execution if nodes is not None else None
    return Subject(
        kind.kind, versions, meta.namespace or "", meta.name, meta.labels or {}, meta.annotations or {}, preferred or ()
    )
