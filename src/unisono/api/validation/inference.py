"""Rules of ScaledObjects and of Knative's Services."""

from __future__ import annotations

from collections.abc import Iterator

from unisono.api import names
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, required
from unisono.api.keda import MOST_TRIGGERS, ScaledObject
from unisono.api.knative import KnativeService, TrafficTarget
from unisono.api.triggers import mistakes
from unisono.api.validation.meta import at_least, by, validate_template_meta
from unisono.api.validation.pod import validate_pod_spec

_MOST_REPLICAS = 50_000
_MOST_CONCURRENT = 1000
_WHOLE = 100


def validate_scaled_object(scaled: ScaledObject, _old: ScaledObject | None) -> Iterator[FieldError]:
    """Target, bounds and triggers."""
    spec = scaled.spec
    if not spec.scale_target_ref.name:
        yield required("spec.scaleTargetRef.name")
    else:
        yield from by(names.path_segment, "spec.scaleTargetRef.name", spec.scale_target_ref.name)
    for name, value, lowest in (
        ("pollingInterval", spec.polling_interval, 1),
        ("cooldownPeriod", spec.cooldown_period, 0),
        ("initialCooldownPeriod", spec.initial_cooldown_period, 0),
        ("idleReplicaCount", spec.idle_replica_count, 0),
        ("minReplicaCount", spec.min_replica_count, 0),
        ("maxReplicaCount", spec.max_replica_count, 1),
    ):
        yield from at_least(f"spec.{name}", value, lowest)
    least, most = spec.min_replica_count or 0, 100 if spec.max_replica_count is None else spec.max_replica_count
    if most > _MOST_REPLICAS:
        yield invalid("spec.maxReplicaCount", most, f"must be less than or equal to {_MOST_REPLICAS}")
    if least > most:
        yield invalid("spec.minReplicaCount", least, "must be less than or equal to `maxReplicaCount`")
    if spec.idle_replica_count is not None and spec.idle_replica_count >= least:
        yield invalid("spec.idleReplicaCount", spec.idle_replica_count, "must be less than `minReplicaCount`")
    if not spec.triggers:
        yield required("spec.triggers", "must name at least one trigger")
    if len(spec.triggers) > MOST_TRIGGERS:
        yield invalid("spec.triggers", len(spec.triggers), f"must have at most {MOST_TRIGGERS} items")
    seen = set[str]()
    for at, trigger in enumerate(spec.triggers[:MOST_TRIGGERS]):
        yield from mistakes(trigger, f"spec.triggers[{at}]")
        if trigger.name and trigger.name in seen:
            yield duplicate(f"spec.triggers[{at}].name", trigger.name)
        seen.add(trigger.name or "")
    if spec.advanced is not None and spec.advanced.scaling_modifiers:
        yield forbidden("spec.advanced.scalingModifiers", "formulas are not supported here")


def validate_knative_service(service: KnativeService, _old: KnativeService | None) -> Iterator[FieldError]:
    """The pod, its concurrency, and the traffic."""
    template = service.spec.template
    yield from validate_template_meta(template.metadata, "spec.template.metadata")
    yield from validate_pod_spec(template.spec, "spec.template.spec")
    concurrency = template.spec.container_concurrency
    yield from at_least("spec.template.spec.containerConcurrency", concurrency, 0)
    if concurrency is not None and concurrency > _MOST_CONCURRENT:
        detail = f"must be less than or equal to {_MOST_CONCURRENT}"
        yield invalid("spec.template.spec.containerConcurrency", concurrency, detail)
    ports = [port for container in template.spec.containers or () for port in container.ports or ()]
    if len(ports) > 1:
        yield invalid("spec.template.spec.containers", len(ports), "one port at most receives requests")
    yield from _traffic(service.spec.traffic or [])


def _traffic(targets: list[TrafficTarget]) -> Iterator[FieldError]:
    if not targets:
        return
    for at, target in enumerate(targets):
        if target.revision_name or target.latest_revision is False:
            detail = "only the latest revision is kept here"
            yield forbidden(f"spec.traffic[{at}].revisionName", detail)
    total = sum(target.percent or 0 for target in targets)
    if total != _WHOLE:
        yield invalid("spec.traffic", total, f"percentages must add up to {_WHOLE}")
