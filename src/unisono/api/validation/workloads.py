"""Rules of Deployments, ReplicaSets, StatefulSets, DaemonSets and ReplicationControllers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from unisono.api import names
from unisono.api.base import IntOrString, LabelSelector, Quantity
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.field_error import FieldError, duplicate, forbidden, invalid, not_supported, required
from unisono.api.groups.apps import (
    ControllerRevision,
    DaemonSet,
    Deployment,
    DeploymentStrategy,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    StatefulSetSpec,
)
from unisono.api.groups.autoscaling import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HPAScalingPolicy,
    HPAScalingRules,
    MetricIdentifier,
    MetricSpec,
    MetricTarget,
)
from unisono.api.keda import MOST_TRIGGERS, ScaledObject, mistakes
from unisono.api.knative import KnativeService, TrafficTarget
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.api.selecting import is_empty, selects
from unisono.api.validation.meta import (
    at_least,
    by,
    one_of,
    validate_amount,
    validate_labels,
    validate_selector,
    validate_template_meta,
)
from unisono.api.validation.pod import validate_pod_spec, validate_template, with_volumes

_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
    "regex used for validation is '[0-9]+%')"
)
_RETENTION = ("Retain", "Delete")
_STATEFUL_UPDATE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_STATEFUL_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "update_strategy",
    "revision_history_limit",
    "persistent_volume_claim_retention_policy",
    "min_ready_seconds",
)


def validate_deployment(deployment: Deployment, old: Deployment | None) -> Iterator[FieldError]:
    """Counts, selector, template and strategy."""
    spec = deployment.spec
    yield from at_least("spec.replicas", spec.replicas, 0)
    yield from validate_owner(spec.selector, spec.template, "deployment")
    yield from _deployment_strategy(spec.strategy)
    yield from at_least("spec.minReadySeconds", spec.min_ready_seconds, 0)
    yield from at_least("spec.revisionHistoryLimit", spec.revision_history_limit, 0)
    deadline = spec.progress_deadline_seconds
    if deadline is not None:
        yield from at_least("spec.progressDeadlineSeconds", deadline, 0)
        if deadline <= (spec.min_ready_seconds or 0):
            yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    yield from _same_selector(spec.selector, old.spec.selector if old else None, created=old is None)


def validate_replica_set(replica_set: ReplicaSet, old: ReplicaSet | None) -> Iterator[FieldError]:
    """Counts, selector and template."""
    spec = replica_set.spec
    yield from at_least("spec.replicas", spec.replicas, 0)
    yield from at_least("spec.minReadySeconds", spec.min_ready_seconds, 0)
    yield from validate_owner(spec.selector, spec.template, "deployment")
    yield from _same_selector(spec.selector, old.spec.selector if old else None, created=old is None)


def validate_stateful_set(stateful_set: StatefulSet, old: StatefulSet | None) -> Iterator[FieldError]:
    """Counts, selector, template, order and strategy; on an update also what may change."""
    spec = stateful_set.spec
    if old is None:
        # A pod is named after the set, and its name becomes a label and a host name.
        yield from by(names.dns_label, "metadata.name", stateful_set.metadata.name)
    yield from at_least("spec.replicas", spec.replicas, 0)
    yield from at_least("spec.minReadySeconds", spec.min_ready_seconds, 0)
    yield from at_least("spec.revisionHistoryLimit", spec.revision_history_limit, 0)
    if spec.ordinals is not None:
        yield from at_least("spec.ordinals.start", spec.ordinals.start, 0)
    if spec.pod_management_policy not in (None, "OrderedReady", "Parallel"):
        detail = "must be 'OrderedReady' or 'Parallel'"
        yield invalid("spec.podManagementPolicy", spec.pod_management_policy, detail)
    yield from _stateful_strategy(spec)
    template = with_volumes(spec.template, (claim.metadata.name for claim in spec.volume_claim_templates or ()))
    yield from validate_owner(spec.selector, template, "statefulset", kind="StatefulSet")
    retention = spec.persistent_volume_claim_retention_policy
    if retention is not None:
        path = "spec.persistentVolumeClaimRetentionPolicy"
        yield from one_of(f"{path}.whenDeleted", retention.when_deleted, _RETENTION)
        yield from one_of(f"{path}.whenScaled", retention.when_scaled, _RETENTION)
    if old is not None and _fixed(spec) != _fixed(old.spec):
        yield forbidden("spec", _STATEFUL_UPDATE)


def validate_daemon_set(daemon_set: DaemonSet, old: DaemonSet | None) -> Iterator[FieldError]:
    """Selector, template and strategy."""
    spec = daemon_set.spec
    yield from validate_owner(spec.selector, spec.template, "daemonset", kind="DaemonSet")
    yield from at_least("spec.minReadySeconds", spec.min_ready_seconds, 0)
    yield from at_least("spec.revisionHistoryLimit", spec.revision_history_limit, 0)
    strategy, path = spec.update_strategy, "spec.updateStrategy"
    yield from one_of(f"{path}.type", strategy.type, ("RollingUpdate", "OnDelete"))
    rolling = strategy.rolling_update
    if strategy.type == "RollingUpdate" and rolling is not None:
        path = f"{path}.rollingUpdate"
        yield from validate_rolling_amount(f"{path}.maxUnavailable", rolling.max_unavailable)
        yield from validate_rolling_amount(f"{path}.maxSurge", rolling.max_surge)
        unavailable, surge = not _is_zero(rolling.max_unavailable), not _is_zero(rolling.max_surge)
        if unavailable and surge:
            yield invalid(f"{path}.maxSurge", rolling.max_surge, "may not be set when maxUnavailable is non-zero")
        if not unavailable and not surge:
            yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    yield from _same_selector(spec.selector, old.spec.selector if old else None, created=old is None)


def validate_controller_revision(revision: ControllerRevision, old: ControllerRevision | None) -> Iterator[FieldError]:
    """Data that never changes, and a number that is not negative."""
    if revision.data is None:
        yield required("data", "data is mandatory")
    yield from at_least("revision", revision.revision, 0)
    if old is not None and revision.data != old.data:
        yield invalid("data", "", "field is immutable")


def validate_owner(
    selector: LabelSelector | None, template: PodTemplateSpec, word: str, *, kind: str = "ReplicaSet"
) -> Iterator[FieldError]:
    """Rules that tie a workload to pods that run for ever; ``word`` is how Kubernetes names the kind in them."""
    if selector is None:
        yield required("spec.selector")
    else:
        yield from validate_selector(selector, "spec.selector")
        if is_empty(selector):
            yield invalid("spec.selector", selector, f"empty selector is invalid for {word}")
        elif not selects(selector, template.metadata.labels):
            detail = "`selector` does not match template `labels`"
            yield invalid("spec.template.metadata.labels", template.metadata.labels, detail)
    yield from validate_template(template, "spec.template")
    if template.spec.restart_policy not in (None, "Always"):
        yield not_supported("spec.template.spec.restartPolicy", template.spec.restart_policy, ("Always",))
    if template.spec.active_deadline_seconds is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", detail)


def validate_rolling_amount(path: str, value: IntOrString | None) -> Iterator[FieldError]:
    """A number that is not negative, or a percentage up to 100%."""
    if isinstance(value, int):
        yield from at_least(path, value, 0)
    elif value is not None and not _PERCENT.fullmatch(value):
        yield invalid(path, value, _PERCENT_RULE)


def _deployment_strategy(strategy: DeploymentStrategy) -> Iterator[FieldError]:
    path, rolling = "spec.strategy", strategy.rolling_update
    yield from one_of(f"{path}.type", strategy.type, ("Recreate", "RollingUpdate"))
    if strategy.type == "Recreate" and rolling is not None:
        yield forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    if strategy.type != "RollingUpdate" or rolling is None:
        return
    path = f"{path}.rollingUpdate"
    yield from validate_rolling_amount(f"{path}.maxUnavailable", rolling.max_unavailable)
    yield from validate_rolling_amount(f"{path}.maxSurge", rolling.max_surge)
    yield from _at_most_all(f"{path}.maxUnavailable", rolling.max_unavailable)
    if _is_zero(rolling.max_unavailable) and _is_zero(rolling.max_surge):
        yield invalid(f"{path}.maxUnavailable", rolling.max_unavailable, "may not be 0 when `maxSurge` is 0")


def _stateful_strategy(spec: StatefulSetSpec) -> Iterator[FieldError]:
    strategy, path = spec.update_strategy, "spec.updateStrategy"
    if strategy.type not in (None, "RollingUpdate", "OnDelete"):
        yield invalid(path, strategy.type, "must be 'RollingUpdate' or 'OnDelete'")
    rolling = strategy.rolling_update
    if rolling is None:
        return
    if strategy.type == "OnDelete":
        yield invalid(f"{path}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")
        return
    yield from at_least(f"{path}.rollingUpdate.partition", rolling.partition, 0)
    if rolling.max_unavailable is not None:
        at = f"{path}.rollingUpdate.maxUnavailable"
        yield from validate_rolling_amount(at, rolling.max_unavailable)
        yield from _at_most_all(at, rolling.max_unavailable)
        if _is_zero(rolling.max_unavailable):
            yield invalid(at, rolling.max_unavailable, "cannot be 0")


def _at_most_all(path: str, value: IntOrString | None) -> Iterator[FieldError]:
    if isinstance(value, str) and _PERCENT.fullmatch(value) and int(value[:-1]) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def _is_zero(value: IntOrString | None) -> bool:
    """Zero, zero percent, or nothing."""
    if isinstance(value, str):
        return _PERCENT.fullmatch(value) is not None and not int(value[:-1])
    return not value


def _same_selector(new: LabelSelector | None, old: LabelSelector | None, *, created: bool) -> Iterator[FieldError]:
    if not created and new != old:
        yield invalid("spec.selector", new, "field is immutable")


def _fixed(spec: StatefulSetSpec) -> Any:
    """The spec without what an update may change."""
    return msgspec.structs.replace(spec, **dict.fromkeys(_STATEFUL_MUTABLE))


def validate_replication_controller(
    controller: ReplicationController, old: ReplicationController | None
) -> Iterator[FieldError]:
    """Counts, selector and template."""
    spec, status, path = controller.spec, controller.status, "spec.template"
    yield from at_least("spec.minReadySeconds", spec.min_ready_seconds, 0)
    if not spec.selector:
        yield required("spec.selector")
    yield from validate_labels(spec.selector, "spec.selector")
    yield from at_least("spec.replicas", spec.replicas, 0)
    template = spec.template
    if template is None:
        yield required(path)
    else:
        labels = template.metadata.labels or {}
        if any(labels.get(key) != value for key, value in (spec.selector or {}).items()):
            detail = "`selector` does not match template `labels`"
            yield invalid(f"{path}.metadata.labels", template.metadata.labels, detail)
        yield from validate_template(template, path)
        if template.spec.restart_policy not in (None, "Always"):
            yield not_supported(f"{path}.spec.restartPolicy", template.spec.restart_policy, ("Always",))
        if template.spec.active_deadline_seconds is not None:
            detail = "activeDeadlineSeconds in ReplicationController is not Supported"
            yield forbidden(f"{path}.spec.activeDeadlineSeconds", detail)
    counts = {
        "fullyLabeledReplicas": status.fully_labeled_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
    }
    yield from at_least("status.replicas", status.replicas, 0)
    for name, count in counts.items():
        yield from at_least(f"status.{name}", count, 0)
        if (count or 0) > (status.replicas or 0):
            yield invalid(f"status.{name}", count, "cannot be greater than status.replicas")


# Rules of what scales: HorizontalPodAutoscalers, ScaledObjects and Knative's Services.

_LONGEST_WINDOW = 3600
_LONGEST_PERIOD = 1800
# Field of a metric to the type that names it.
_SOURCES = {
    "object": "Object",
    "external": "External",
    "pods": "Pods",
    "resource": "Resource",
    "containerResource": "ContainerResource",
}
_QUANTITY = "must be a quantity such as 500m, 2 or 1Gi"
_MOST_REPLICAS = 50_000
_MOST_CONCURRENT = 1000
_WHOLE = 100


def validate_autoscaler(
    autoscaler: HorizontalPodAutoscaler, old: HorizontalPodAutoscaler | None
) -> Iterator[FieldError]:
    """Bounds, target, metrics and behaviour."""
    spec = autoscaler.spec
    yield from at_least("spec.minReplicas", spec.min_replicas, 1)
    if not spec.max_replicas:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    else:
        yield from at_least("spec.maxReplicas", spec.max_replicas, 1)
    if spec.min_replicas is not None and spec.max_replicas < spec.min_replicas:
        yield invalid("spec.maxReplicas", spec.max_replicas, "must be greater than or equal to `minReplicas`")
    yield from _reference(spec.scale_target_ref, "spec.scaleTargetRef")
    for index, metric in enumerate(spec.metrics or ()):
        yield from validate_metric(metric, f"spec.metrics[{index}]")
    if spec.behavior is not None:
        yield from _rules(spec.behavior.scale_up, "spec.behavior.scaleUp")
        yield from _rules(spec.behavior.scale_down, "spec.behavior.scaleDown")
    status = autoscaler.status
    yield from at_least("status.currentReplicas", status.current_replicas, 0)
    yield from at_least("status.desiredReplicas", status.desired_replicas, 0)


def _reference(reference: CrossVersionObjectReference, path: str) -> Iterator[FieldError]:
    for name, value in (("kind", reference.kind), ("name", reference.name)):
        if not value:
            yield required(f"{path}.{name}")
        else:
            yield from by(names.path_segment, f"{path}.{name}", value)
    version = reference.api_version or ""
    if version.count("/") > 1:
        yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")


def validate_metric(metric: MetricSpec, path: str) -> Iterator[FieldError]:
    """A metric of an autoscaler, or of what makes one."""
    present = [name for name in _SOURCES if _source(metric, name) is not None]
    if not metric.type:
        yield required(f"{path}.type", "must specify a metric source type")
    if metric.type not in _SOURCES.values():
        yield not_supported(f"{path}.type", metric.type, sorted(_SOURCES.values()))
    if present:
        # Of several sources only the first is looked at: the others must go anyway.
        yield from _CHECKS[present[0]](metric, f"{path}.{present[0]}")
    source = next((name for name, kind in _SOURCES.items() if kind == metric.type), "")
    if source and source not in present:
        yield required(f"{path}.{source}", "must populate information for the given metric source")
    if len(present) != 1:
        for name in present:
            if name != source:
                yield forbidden(f"{path}.{name}", "must populate the given metric source only")


def _source(metric: MetricSpec, name: str) -> object:
    return metric.container_resource if name == "containerResource" else getattr(metric, name)


def _object(metric: MetricSpec, path: str) -> Iterator[FieldError]:
    source = metric.object
    if source is None:
        return
    yield from _reference(source.described_object, f"{path}.describedObject")
    yield from _identifier(source.metric, f"{path}.metric")
    yield from _target(source.target, f"{path}.target")
    if source.target.value is None and source.target.average_value is None:
        yield required(f"{path}.target.averageValue", "must set either a target value or averageValue")


def _external(metric: MetricSpec, path: str) -> Iterator[FieldError]:
    source = metric.external
    if source is None:
        return
    yield from _identifier(source.metric, f"{path}.metric")
    yield from _target(source.target, f"{path}.target")
    value, average = source.target.value, source.target.average_value
    if value is None and average is None:
        detail = "must set either a target value for metric or a per-pod target"
        yield required(f"{path}.target.averageValue", detail)
    if value is not None and average is not None:
        yield forbidden(f"{path}.target.value", "may not set both a target value for metric and a per-pod target")


def _pods(metric: MetricSpec, path: str) -> Iterator[FieldError]:
    source = metric.pods
    if source is None:
        return
    yield from _identifier(source.metric, f"{path}.metric")
    yield from _target(source.target, f"{path}.target")
    if source.target.average_value is None:
        yield required(f"{path}.target.averageValue", "must specify a positive target averageValue")


def _resource(metric: MetricSpec, path: str) -> Iterator[FieldError]:
    source = metric.resource if path.endswith(".resource") else metric.container_resource
    if source is None:
        return
    if not source.name:
        yield required(f"{path}.name", "must specify a resource name")
    if metric.container_resource is not None and source is metric.container_resource:
        if not metric.container_resource.container:
            yield required(f"{path}.container", "must specify a container")
        else:
            yield from by(names.dns_label, f"{path}.container", metric.container_resource.container)
    yield from _target(source.target, f"{path}.target")
    percent, average = source.target.average_utilization, source.target.average_value
    if percent is None and average is None:
        detail = "must set either a target raw value or a target utilization"
        yield required(f"{path}.target.averageUtilization", detail)
    if percent is not None and average is not None:
        detail = "may not set both a target raw value and a target utilization"
        yield forbidden(f"{path}.target.averageValue", detail)


_CHECKS = {
    "object": _object,
    "external": _external,
    "pods": _pods,
    "resource": _resource,
    "containerResource": _resource,
}


def _identifier(metric: MetricIdentifier, path: str) -> Iterator[FieldError]:
    if not metric.name:
        yield required(f"{path}.name", "must specify a metric name")
    else:
        yield from by(names.path_segment, f"{path}.name", metric.name)
    yield from validate_selector(metric.selector, f"{path}.selector")


def _target(target: MetricTarget, path: str) -> Iterator[FieldError]:
    if not target.type:
        yield required(f"{path}.type", "must specify a metric target type")
    if target.type not in ("Utilization", "Value", "AverageValue"):
        yield invalid(f"{path}.type", target.type, "must be either Utilization, Value, or AverageValue")
    yield from _positive(target.value, f"{path}.value")
    yield from _positive(target.average_value, f"{path}.averageValue")
    if target.average_utilization is not None and target.average_utilization < 1:
        yield invalid(f"{path}.averageUtilization", target.average_utilization, "must be greater than 0")


def _positive(quantity: Quantity | None, path: str) -> Iterator[FieldError]:
    if quantity is None:
        return
    try:
        if parse_quantity(quantity) <= 0:
            yield invalid(path, quantity, "must be positive")
    except QuantityError:
        yield invalid(path, quantity, _QUANTITY)


def _rules(rules: HPAScalingRules | None, path: str) -> Iterator[FieldError]:
    if rules is None:
        return
    window = rules.stabilization_window_seconds
    if window is not None and window < 0:
        yield invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if window is not None and window > _LONGEST_WINDOW:
        detail = f"must be less than or equal to {_LONGEST_WINDOW}"
        yield invalid(f"{path}.stabilizationWindowSeconds", window, detail)
    yield from one_of(f"{path}.selectPolicy", rules.select_policy, ("Disabled", "Max", "Min"))
    if not rules.policies:
        yield required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.policies or ()):
        yield from _policy(policy, f"{path}.policies[{index}]")
    if rules.tolerance is not None:
        yield from validate_amount(f"{path}.tolerance", rules.tolerance)


def _policy(policy: HPAScalingPolicy, path: str) -> Iterator[FieldError]:
    if policy.type not in ("Pods", "Percent"):
        yield not_supported(f"{path}.type", policy.type, ("Percent", "Pods"))
    if policy.value <= 0:
        yield invalid(f"{path}.value", policy.value, "must be greater than zero")
    if policy.period_seconds <= 0:
        yield invalid(f"{path}.periodSeconds", policy.period_seconds, "must be greater than zero")
    if policy.period_seconds > _LONGEST_PERIOD:
        detail = f"must be less than or equal to {_LONGEST_PERIOD}"
        yield invalid(f"{path}.periodSeconds", policy.period_seconds, detail)


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
