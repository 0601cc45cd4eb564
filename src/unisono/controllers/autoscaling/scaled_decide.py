"""What becomes of a ScaledObject: its autoscaler, and whether its target runs at all (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from unisono.api.base import LabelSelector, ObjectMeta
from unisono.api.groups.autoscaling import (
    CrossVersionObjectReference,
    ExternalMetricSource,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
    ResourceMetricSource,
)
from unisono.api.keda import ScaledObject, ScaleTrigger
from unisono.api.keys import KEDA_PAUSED, KEDA_PAUSED_REPLICAS, SCALED_OBJECT
from unisono.api.kind_families import SCALED_OBJECTS
from unisono.api.times import parse_time
from unisono.api.triggers import CRON, REDIS, number, of_metric
from unisono.controllers.autoscaling.reading import by_resource, metric_name
from unisono.controllers.owners import owned_by

POLLING_SECONDS, COOLDOWN_SECONDS, MOST_REPLICAS = 30.0, 300.0, 100
_DEFAULT_TARGET: Final = ("apps/v1", "Deployment")


def target_of(scaled: ScaledObject) -> tuple[str | None, str]:
    """Version and kind of what is scaled."""
    reference = scaled.spec.scale_target_ref
    if reference.kind is None and reference.api_version is None:
        return _DEFAULT_TARGET
    return reference.api_version, reference.kind or _DEFAULT_TARGET[1]


def bounds_of(scaled: ScaledObject) -> tuple[int, int]:
    """Fewest and most replicas."""
    spec = scaled.spec
    most = MOST_REPLICAS if spec.max_replica_count is None else spec.max_replica_count
    return spec.min_replica_count or 0, most


def paused_at(scaled: ScaledObject) -> int | None:
    """The replicas at which it is held; -1 for those that there are; None where it is not paused."""
    notes = scaled.metadata.annotations or {}
    held = number(notes.get(KEDA_PAUSED_REPLICAS, ""))
    if held is not None:
        return int(held)
    return -1 if notes.get(KEDA_PAUSED, "false") == "true" else None


def autoscaler_of(scaled: ScaledObject) -> HorizontalPodAutoscaler:
    """The HorizontalPodAutoscaler that works for it while its target runs."""
    least, most = bounds_of(scaled)
    version, kind = target_of(scaled)
    config = scaled.spec.advanced.horizontal_pod_autoscaler_config if scaled.spec.advanced else None
    name = (config.name if config else None) or f"keda-hpa-{scaled.metadata.name}"
    meta = ObjectMeta(
        name=name,
        namespace=scaled.metadata.namespace,
        labels={SCALED_OBJECT: scaled.metadata.name, "app.kubernetes.io/managed-by": "keda-operator"},
        owner_references=[owned_by(SCALED_OBJECTS, scaled)],
    )
    reference = CrossVersionObjectReference(kind=kind, name=scaled.spec.scale_target_ref.name, api_version=version)
    spec = HorizontalPodAutoscalerSpec(
        scale_target_ref=reference,
        min_replicas=max(least, 1),
        max_replicas=max(most, 1),
        metrics=[_metric(scaled, at, trigger) for at, trigger in enumerate(scaled.spec.triggers)],
        behavior=config.behavior if config else None,
    )
    return HorizontalPodAutoscaler(metadata=meta, spec=spec)


def _metric(scaled: ScaledObject, at: int, trigger: ScaleTrigger) -> MetricSpec:
    if by_resource(trigger):
        value = trigger.metadata.get("value", "")
        target = MetricTarget(type="Utilization", average_utilization=int(number(value) or 1))
        if trigger.metric_type == "AverageValue":
            target = MetricTarget(type="AverageValue", average_value=value)
        return MetricSpec(type="Resource", resource=ResourceMetricSource(name=trigger.type, target=target))
    wanted = "1" if trigger.type == CRON else trigger.metadata.get("threshold", "1")
    if trigger.type == REDIS:
        wanted = _plain(of_metric(trigger, 0.0).target)
    target = MetricTarget(type="AverageValue", average_value=wanted)
    if trigger.metric_type == "Value":
        target = MetricTarget(type="Value", value=wanted)
    selector = LabelSelector(match_labels={SCALED_OBJECT: scaled.metadata.name})
    identifier = MetricIdentifier(name=metric_name(at, trigger), selector=selector)
    return MetricSpec(type="External", external=ExternalMetricSource(metric=identifier, target=target))


def _plain(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


@dataclass(frozen=True, slots=True)
class Step:
    """What to do with the target.

    Attributes:
        replicas: give it so many; None: leave it to the autoscaler.
        active: some trigger needs it.

    """

    replicas: int | None
    active: bool


def step(scaled: ScaledObject, replicas: int, active: Sequence[bool | None], now: float) -> Step:
    """Wake the target, let it be, or put it to rest.

    Args:
        scaled: the ScaledObject with its status.
        replicas: of the target now.
        active: what each trigger says; None where it says nothing.
        now: seconds since 1970.

    """
    held = paused_at(scaled)
    needed = any(active) or None in active  # what is not known must not put to rest what serves
    if held is not None:
        return Step(held if held not in (-1, replicas) else None, needed)
    least, most = bounds_of(scaled)
    idle = scaled.spec.idle_replica_count
    rest = idle if idle is not None else least
    if any(active):
        return Step(min(max(least, 1), most) if replicas < max(least, 1) else None, active=True)
    if needed:
        return Step(None, active=True)
    if rest >= max(least, 1) or replicas == rest:
        return Step(rest if replicas < rest else None, active=False)
    cooldown = COOLDOWN_SECONDS if scaled.spec.cooldown_period is None else float(scaled.spec.cooldown_period)
    last = scaled.status.last_active_time or scaled.metadata.creation_timestamp or ""
    since = parse_time(last) if last else now
    if replicas > rest and now - since < cooldown:
        return Step(None, active=False)
    return Step(rest, active=False)
