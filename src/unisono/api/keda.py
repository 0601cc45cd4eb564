"""``keda.sh/v1alpha1``: ScaledObject, which scales by events and metrics, with the fields of KEDA's kind."""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.base import Base, Condition, FreeObject, Int32, Natural, Object, Required, Time
from unisono.api.groups.autoscaling import HorizontalPodAutoscalerBehavior

MOST_TRIGGERS = 32


class ScaleTarget(Base):
    """What is scaled: an object of the same namespace with replicas; a Deployment without a kind."""

    name: Required = ""
    api_version: str | None = None
    kind: str | None = None
    env_source_container_name: str | None = None


class ScaleTrigger(Base):
    """One reason to scale.

    Attributes:
        type: such as ``prometheus`` or ``cron``.
        metadata: what the type needs, all as text.
        metric_type: ``AverageValue`` (per pod), ``Value`` or ``Utilization``.

    """

    type: Required = ""
    name: str | None = None
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    metric_type: str | None = None
    use_cached_metrics: bool | None = None
    authentication_ref: FreeObject | None = None


class Fallback(Base):
    """Replicas to go by when a trigger has failed so often in a row."""

    failure_threshold: Natural = 0
    replicas: Natural = 0
    behavior: str | None = None


class HpaConfig(Base):
    """What the HorizontalPodAutoscaler that is made gets besides."""

    name: str | None = None
    behavior: HorizontalPodAutoscalerBehavior | None = None


class AdvancedConfig(Base):
    """Rarely needed settings."""

    restore_to_original_replica_count: bool | None = None
    horizontal_pod_autoscaler_config: HpaConfig | None = None
    scaling_modifiers: FreeObject | None = None


class ScaledObjectSpec(Base):
    """What is scaled, by what, and between which bounds.

    Attributes:
        polling_interval: seconds between two looks at the triggers, 30 by default.
        cooldown_period: seconds after the last activity until the target is scaled to zero, 300 by default.
        idle_replica_count: replicas while no trigger is active; below ``min_replica_count``.
        min_replica_count: 0 by default; max_replica_count: 100 by default.

    """

    scale_target_ref: ScaleTarget = msgspec.field(default_factory=ScaleTarget)
    polling_interval: Int32 | None = None
    initial_cooldown_period: Int32 | None = None
    cooldown_period: Int32 | None = None
    idle_replica_count: Int32 | None = None
    min_replica_count: Int32 | None = None
    max_replica_count: Int32 | None = None
    advanced: AdvancedConfig | None = None
    triggers: list[ScaleTrigger] = msgspec.field(default_factory=list)
    fallback: Fallback | None = None


class ScaledObjectStatus(Base):
    """How the triggers stand."""

    scale_target_kind: str | None = None
    original_replica_count: Int32 | None = None
    last_active_time: Time | None = None
    external_metric_names: list[str] | None = None
    resource_metric_names: list[str] | None = None
    health: dict[str, Any] | None = None
    paused_replica_count: Int32 | None = None
    hpa_name: str | None = None
    triggers_types: str | None = None
    conditions: list[Condition] | None = None


class ScaledObject(Object):
    """Scales an object by triggers, to zero as well."""

    spec: ScaledObjectSpec = msgspec.field(default_factory=ScaledObjectSpec)
    status: ScaledObjectStatus = msgspec.field(default_factory=ScaledObjectStatus)
