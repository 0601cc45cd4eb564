"""Rules of Deployments, ReplicaSets, StatefulSets, DaemonSets and ReplicationControllers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from unisono.api import names
from unisono.api.base import IntOrString, LabelSelector
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.field_error import FieldError, forbidden, invalid, not_supported, required
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
from unisono.api.selecting import is_empty, selects
from unisono.api.validation.meta import at_least, by, one_of, validate_labels, validate_selector
from unisono.api.validation.pod import validate_template, with_claims

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
    template = with_claims(spec.template, spec.volume_claim_templates or ())
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
