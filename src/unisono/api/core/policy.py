"""LimitRange and ResourceQuota (v1), PodDisruptionBudget (policy/v1)."""

from __future__ import annotations

import msgspec

from unisono.api.base import Base, Condition, Int32, IntOrString, LabelSelector, Object, Required, ResourceList, Time


class ScopedResourceSelectorRequirement(Base):
    """``scopeName operator values``; operators are In, NotIn, Exists, DoesNotExist."""

    scope_name: Required = ""
    operator: Required = ""
    values: list[str] | None = None


class ScopeSelector(Base):
    """Which pods a quota counts, by properties such as their priority class."""

    match_expressions: list[ScopedResourceSelectorRequirement] | None = None


class ResourceQuotaSpec(Base):
    """What a namespace may use.

    Attributes:
        hard: the most of each resource, in quota names (``cpu``, ``requests.cpu``, ``limits.cpu``, ``count/pods``).
        scopes: count only objects that match all of these.
        scope_selector: the same, with values.

    """

    hard: ResourceList | None = None
    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Base):
    """What is in force, and used; a quota controller writes it."""

    hard: ResourceList | None = None
    used: ResourceList | None = None


class ResourceQuota(Object):
    """A limit on what a namespace uses in all."""

    spec: ResourceQuotaSpec = msgspec.field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = msgspec.field(default_factory=ResourceQuotaStatus)


class PodDisruptionBudgetSpec(Base):
    """How many pods must stay.

    Attributes:
        min_available: pods that must stay healthy, as a number or a percentage.
        max_unavailable: pods that may be missing, as a number or a percentage; excludes the other.
        selector: the pods; without one none, with an empty one all of the namespace.
        unhealthy_pod_eviction_policy: IfHealthyBudget or AlwaysAllow.

    """

    min_available: IntOrString | None = None
    selector: LabelSelector | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Base):
    """State of a budget; a disruption controller writes it.

    Attributes:
        disrupted_pods: pods whose eviction is on its way, by name.
        disruptions_allowed: how many more pods may go now.

    """

    observed_generation: int | None = None
    disrupted_pods: dict[str, Time] | None = None
    disruptions_allowed: Int32 | None = None
    current_healthy: Int32 | None = None
    desired_healthy: Int32 | None = None
    expected_pods: Int32 | None = None
    conditions: list[Condition] | None = None


class PodDisruptionBudget(Object):
    """How many pods of a group may be missing at a time by choice."""

    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


class LimitRangeItem(Base):
    """Bounds on one type of thing.

    Attributes:
        type: Container, Pod or PersistentVolumeClaim.
        max: the most of each resource.
        min: the least of each resource.
        default: limits of containers that give none.
        default_request: requests of containers that give none.
        max_limit_request_ratio: how many times its request a limit may be.

    """

    type: Required = ""
    max: ResourceList | None = None
    min: ResourceList | None = None
    default: ResourceList | None = None
    default_request: ResourceList | None = None
    max_limit_request_ratio: ResourceList | None = None


class LimitRangeSpec(Base):
    """All bounds of a LimitRange."""

    limits: list[LimitRangeItem] = msgspec.field(default_factory=list)


class LimitRange(Object):
    """Defaults and bounds for what single containers, pods and claims of a namespace ask for."""

    spec: LimitRangeSpec = msgspec.field(default_factory=LimitRangeSpec)
