"""Where a pod may run: node and pod affinity, tolerations, taints, spreading."""

from __future__ import annotations

from unisono.api.base import Base
from unisono.api.fields import Int32, Required, Time
from unisono.api.meta import LabelSelector


class NodeSelectorRequirement(Base):
    """``key operator values``; operators are In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: Required = ""
    operator: Required = ""
    values: list[str] | None = None


class NodeSelectorTerm(Base):
    """All requirements must hold; a term without any matches nothing."""

    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Base):
    """One of the terms must match."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Base):
    """A node preference; weight 1 to 100."""

    weight: Int32 | None = None
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Base):
    """Required and preferred nodes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(Base):
    """Pods that a pod wants near or far, per topology domain."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topology_key: Required = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Base):
    """A pod preference; weight 1 to 100."""

    weight: Int32 | None = None
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Base):
    """Pods to be near to."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class PodAntiAffinity(Base):
    """Pods to be away from."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(Base):
    """Scheduling constraints of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Base):
    """Taints that a pod endures; no key with operator Exists endures all."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class Taint(Base):
    """What keeps pods away from a node; effects are NoSchedule, PreferNoSchedule, NoExecute."""

    key: Required = ""
    value: str | None = None
    effect: Required = ""
    time_added: Time | None = None


class TopologySpreadConstraint(Base):
    """How evenly matching pods are spread over topology domains."""

    max_skew: Int32 | None = None
    topology_key: Required = ""
    when_unsatisfiable: Required = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None
