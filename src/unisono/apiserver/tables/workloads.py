"""Tables of ``apps/v1`` and ``batch/v1``, and of volumes and their classes."""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.keys import DEFAULT_CLASS
from unisono.api.meta import LabelSelector
from unisono.api.selecting import selector_text
from unisono.apiserver.tables.columns import AGE, NAME, Column, Layout, Row, wide
from unisono.apiserver.tables.values import NONE, UNSET, age, duration, get, items, join, mapping, seconds_of, text

_ACCESS = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_CONTAINERS = (wide("Containers"), wide("Images"))
_SELECTOR = wide("Selector")


def _name(obj: Row) -> str:
    return text(obj, "metadata", "name")


def _age(obj: Row, now: float) -> str:
    return age(get(obj, "metadata", "creationTimestamp"), now)


def _number(obj: Row, *path: str) -> int:
    found = get(obj, *path)
    return found if isinstance(found, int) else 0


def _containers(template: Row) -> list[str]:
    containers = items(template, "spec", "containers")
    return [",".join(text(each, part) for each in containers) for part in ("name", "image")]


def _selector(obj: Row, *path: str) -> str:
    found = get(obj, *path)
    return selector_text(msgspec.convert(found, LabelSelector)) if isinstance(found, dict) else NONE


def _template(obj: Row) -> Row:
    return mapping(obj, "spec", "template")


def _deployment(obj: Row, now: float) -> list[Any]:
    return [
        _name(obj),
        f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}",
        _number(obj, "status", "updatedReplicas"),
        _number(obj, "status", "availableReplicas"),
        _age(obj, now),
        *_containers(_template(obj)),
        _selector(obj, "spec", "selector"),
    ]


def _replica_set(obj: Row, now: float) -> list[Any]:
    return [
        _name(obj),
        _number(obj, "spec", "replicas"),
        _number(obj, "status", "replicas"),
        _number(obj, "status", "readyReplicas"),
        _age(obj, now),
        *_containers(_template(obj)),
        _selector(obj, "spec", "selector"),
    ]


def _stateful_set(obj: Row, now: float) -> list[Any]:
    ready = f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}"
    return [_name(obj), ready, _age(obj, now), *_containers(_template(obj))]


def _daemon_set(obj: Row, now: float) -> list[Any]:
    status = mapping(obj, "status")
    node_selector = mapping(_template(obj), "spec", "nodeSelector")
    return [
        _name(obj),
        *(
            _number(status, name)
            for name in (
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "numberReady",
                "updatedNumberScheduled",
                "numberAvailable",
            )
        ),
        join([f"{key}={node_selector[key]}" for key in sorted(node_selector)], NONE),
        _age(obj, now),
        *_containers(_template(obj)),
        _selector(obj, "spec", "selector"),
    ]


def _controller_revision(obj: Row, now: float) -> list[Any]:
    owners = [each for each in items(obj, "metadata", "ownerReferences") if each.get("controller")]
    owner = NONE
    if owners:
        group = text(owners[0], "apiVersion").partition("/")[0]
        owner = f"{text(owners[0], 'kind').lower()}.{group}/{text(owners[0], 'name')}"
    return [_name(obj), owner, _number(obj, "revision"), _age(obj, now)]


def _job_status(obj: Row) -> str:
    true = {text(each, "type") for each in items(obj, "status", "conditions") if each.get("status") == "True"}
    for name in ("Complete", "Failed"):
        if name in true:
            return name
    if get(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if name in true:
            return name
    return "Running"


def _job(obj: Row, now: float) -> list[Any]:
    succeeded, wanted = _number(obj, "status", "succeeded"), get(obj, "spec", "completions")
    parallelism = _number(obj, "spec", "parallelism")
    if wanted is not None:
        done = f"{succeeded}/{wanted}"
    else:
        done = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    start, end = seconds_of(get(obj, "status", "startTime")), seconds_of(get(obj, "status", "completionTime"))
    took = "" if start is None else duration((now if end is None else end) - start)
    selector = _selector(obj, "spec", "selector")
    return [_name(obj), _job_status(obj), done, took, _age(obj, now), *_containers(_template(obj)), selector]


def _cron_job(obj: Row, now: float) -> list[Any]:
    spec, job = mapping(obj, "spec"), mapping(obj, "spec", "jobTemplate", "spec")
    last = get(obj, "status", "lastScheduleTime")
    return [
        _name(obj),
        text(spec, "schedule"),
        text(spec, "timeZone", default=NONE),
        str(bool(spec.get("suspend"))),
        len(items(obj, "status", "active")),
        age(last, now) if last else NONE,
        _age(obj, now),
        *_containers(mapping(job, "template")),
        _selector(job, "selector"),
    ]


def _volume(obj: Row, now: float) -> list[Any]:
    spec = mapping(obj, "spec")
    phase = "Terminating" if get(obj, "metadata", "deletionTimestamp") else text(obj, "status", "phase")
    claim = mapping(spec, "claimRef")
    return [
        _name(obj),
        text(spec, "capacity", "storage"),
        join([_ACCESS.get(str(mode), str(mode)) for mode in items(spec, "accessModes")], ""),
        text(spec, "persistentVolumeReclaimPolicy"),
        phase,
        f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else "",
        text(spec, "storageClassName"),
        text(spec, "volumeAttributesClassName", default=UNSET),
        text(obj, "status", "reason"),
        _age(obj, now),
        text(spec, "volumeMode", default=UNSET),
    ]


def _storage_class(obj: Row, now: float) -> list[Any]:
    annotations = mapping(obj, "metadata", "annotations")
    default = annotations.get(DEFAULT_CLASS) == "true"
    return [
        f"{_name(obj)} (default)" if default else _name(obj),
        text(obj, "provisioner"),
        text(obj, "reclaimPolicy", default="Delete"),
        text(obj, "volumeBindingMode", default="Immediate"),
        str(bool(obj.get("allowVolumeExpansion"))).lower(),
        _age(obj, now),
    ]


DEPLOYMENTS = Layout(
    (
        NAME,
        Column("Ready"),
        Column("Up-to-date"),
        Column("Available"),
        AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    _deployment,
)
REPLICA_SETS = Layout(
    (
        NAME,
        Column("Desired", "integer"),
        Column("Current", "integer"),
        Column("Ready", "integer"),
        AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    _replica_set,
)
STATEFUL_SETS = Layout((NAME, Column("Ready"), AGE, *_CONTAINERS), _stateful_set)
DAEMON_SETS = Layout(
    (
        NAME,
        *(Column(name, "integer") for name in ("Desired", "Current", "Ready", "Up-to-date", "Available")),
        Column("Node Selector"),
        AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    _daemon_set,
)
CONTROLLER_REVISIONS = Layout((NAME, Column("Controller"), Column("Revision", "integer"), AGE), _controller_revision)
JOBS = Layout((NAME, Column("Status"), Column("Completions"), Column("Duration"), AGE, *_CONTAINERS, _SELECTOR), _job)
CRON_JOBS = Layout(
    (
        NAME,
        Column("Schedule"),
        Column("Timezone"),
        Column("Suspend", "boolean"),
        Column("Active", "integer"),
        Column("Last Schedule"),
        AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    _cron_job,
)
VOLUMES = Layout(
    (
        NAME,
        *(
            Column(name)
            for name in (
                "Capacity",
                "Access Modes",
                "Reclaim Policy",
                "Status",
                "Claim",
                "StorageClass",
                "VolumeAttributesClass",
                "Reason",
            )
        ),
        AGE,
        wide("VolumeMode"),
    ),
    _volume,
)
STORAGE_CLASSES = Layout(
    (
        NAME,
        Column("Provisioner"),
        Column("ReclaimPolicy"),
        Column("VolumeBindingMode"),
        Column("AllowVolumeExpansion"),
        AGE,
    ),
    _storage_class,
)
