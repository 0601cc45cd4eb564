"""Tables of workloads, of what scales and serves them, and of volumes."""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.base import LabelSelector
from unisono.api.keys import DEFAULT_CLASS
from unisono.api.selecting import selector_text
from unisono.apiserver.encoding import to_stored
from unisono.apiserver.tables.values import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Layout,
    Row,
    age,
    age_of,
    duration,
    get,
    items,
    join,
    mapping,
    name_of,
    seconds_of,
    text,
    wide,
)

# Tables of ``apps/v1`` and ``batch/v1``, and of volumes and their classes.

_ACCESS = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_CONTAINERS = (wide("Containers"), wide("Images"))
_SELECTOR = wide("Selector")


def _number(obj: Row, *path: str) -> int:
    number = get(obj, *path)
    return number if isinstance(number, int) else 0


def _containers(template: Row) -> list[str]:
    containers = items(template, "spec", "containers")
    return [",".join(text(each, part) for each in containers) for part in ("name", "image")]


def _selector(obj: Row, *path: str) -> str:
    selector = get(obj, *path)
    return selector_text(msgspec.convert(selector, LabelSelector)) if isinstance(selector, dict) else NONE


def _template(obj: Row) -> Row:
    return mapping(obj, "spec", "template")


def _deployment(obj: Row, now: float) -> list[Any]:
    return [
        name_of(obj),
        f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}",
        _number(obj, "status", "updatedReplicas"),
        _number(obj, "status", "availableReplicas"),
        age_of(obj, now),
        *_containers(_template(obj)),
        _selector(obj, "spec", "selector"),
    ]


def _replica_set(obj: Row, now: float) -> list[Any]:
    return [
        name_of(obj),
        _number(obj, "spec", "replicas"),
        _number(obj, "status", "replicas"),
        _number(obj, "status", "readyReplicas"),
        age_of(obj, now),
        *_containers(_template(obj)),
        _selector(obj, "spec", "selector"),
    ]


def _stateful_set(obj: Row, now: float) -> list[Any]:
    ready = f"{_number(obj, 'status', 'readyReplicas')}/{_number(obj, 'spec', 'replicas')}"
    return [name_of(obj), ready, age_of(obj, now), *_containers(_template(obj))]


def _daemon_set(obj: Row, now: float) -> list[Any]:
    status = mapping(obj, "status")
    node_selector = mapping(_template(obj), "spec", "nodeSelector")
    return [
        name_of(obj),
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
        age_of(obj, now),
        *_containers(_template(obj)),
        _selector(obj, "spec", "selector"),
    ]


def _controller_revision(obj: Row, now: float) -> list[Any]:
    owners = [each for each in items(obj, "metadata", "ownerReferences") if each.get("controller")]
    owner = NONE
    if owners:
        group = text(owners[0], "apiVersion").partition("/")[0]
        owner = f"{text(owners[0], 'kind').lower()}.{group}/{text(owners[0], 'name')}"
    return [name_of(obj), owner, _number(obj, "revision"), age_of(obj, now)]


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
    succeeded, completions = _number(obj, "status", "succeeded"), get(obj, "spec", "completions")
    parallelism = _number(obj, "spec", "parallelism")
    if completions is not None:
        done = f"{succeeded}/{completions}"
    else:
        done = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    start, end = seconds_of(get(obj, "status", "startTime")), seconds_of(get(obj, "status", "completionTime"))
    took = "" if start is None else duration((now if end is None else end) - start)
    selector = _selector(obj, "spec", "selector")
    return [name_of(obj), _job_status(obj), done, took, age_of(obj, now), *_containers(_template(obj)), selector]


def _cron_job(obj: Row, now: float) -> list[Any]:
    spec, job = mapping(obj, "spec"), mapping(obj, "spec", "jobTemplate", "spec")
    last = get(obj, "status", "lastScheduleTime")
    return [
        name_of(obj),
        text(spec, "schedule"),
        text(spec, "timeZone", default=NONE),
        str(bool(spec.get("suspend"))),
        len(items(obj, "status", "active")),
        age(last, now) if last else NONE,
        age_of(obj, now),
        *_containers(mapping(job, "template")),
        _selector(job, "selector"),
    ]


def _volume(obj: Row, now: float) -> list[Any]:
    spec = mapping(obj, "spec")
    phase = "Terminating" if get(obj, "metadata", "deletionTimestamp") else text(obj, "status", "phase")
    claim = mapping(spec, "claimRef")
    return [
        name_of(obj),
        text(spec, "capacity", "storage"),
        join([_ACCESS.get(str(mode), str(mode)) for mode in items(spec, "accessModes")], ""),
        text(spec, "persistentVolumeReclaimPolicy"),
        phase,
        f"{text(claim, 'namespace')}/{text(claim, 'name')}" if claim else "",
        text(spec, "storageClassName"),
        text(spec, "volumeAttributesClassName", default=UNSET),
        text(obj, "status", "reason"),
        age_of(obj, now),
        text(spec, "volumeMode", default=UNSET),
    ]


def _storage_class(obj: Row, now: float) -> list[Any]:
    annotations = mapping(obj, "metadata", "annotations")
    default = annotations.get(DEFAULT_CLASS) == "true"
    return [
        f"{name_of(obj)} (default)" if default else name_of(obj),
        text(obj, "provisioner"),
        text(obj, "reclaimPolicy", default="Delete"),
        text(obj, "volumeBindingMode", default="Immediate"),
        str(bool(obj.get("allowVolumeExpansion"))).lower(),
        age_of(obj, now),
    ]


DEPLOYMENTS = Layout(
    (NAME, Column("Ready"), Column("Up-to-date"), Column("Available"), AGE, *_CONTAINERS, _SELECTOR), _deployment
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

# Tables of ReplicationControllers, HorizontalPodAutoscalers, Ingresses, their classes and CSINodes.

_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
_HOSTS_SHOWN = 3
_METRICS_SHOWN = 2
_ADDRESS_WIDTH = 16
_UNKNOWN = "<unknown>"
# Type of a metric to the field that holds it.
_SOURCES = {
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _replication_controller(obj: Row, now: float) -> list[Any]:
    selector = mapping(obj, "spec", "selector")
    containers = items(obj, "spec", "template", "spec", "containers")
    return [
        name_of(obj),
        get(obj, "spec", "replicas") or 0,
        get(obj, "status", "replicas") or 0,
        get(obj, "status", "readyReplicas") or 0,
        age_of(obj, now),
        *(",".join(text(each, part) for each in containers) for part in ("name", "image")),
        join([f"{key}={selector[key]}" for key in sorted(selector)]),
    ]


def _autoscaler(obj: Row, now: float) -> list[Any]:
    spec = mapping(obj, "spec")
    reference = f"{text(spec, 'scaleTargetRef', 'kind')}/{text(spec, 'scaleTargetRef', 'name')}"
    fewest = get(spec, "minReplicas")
    return [
        name_of(obj),
        reference,
        _metrics(items(spec, "metrics"), items(obj, "status", "currentMetrics")),
        UNSET if fewest is None else str(fewest),
        get(spec, "maxReplicas") or 0,
        get(obj, "status", "currentReplicas") or 0,
        age_of(obj, now),
    ]


def _autoscaler_v1(obj: Row, now: float) -> list[Any]:
    return _autoscaler(to_stored(obj), now)


def _metrics(wanted: list[Any], present: list[Any]) -> str:
    """Each metric as ``current/target``; the first two, and how many more there are."""
    if not wanted:
        return NONE
    texts = [_metric(metric, present[index] if index < len(present) else {}) for index, metric in enumerate(wanted)]
    shown = ", ".join(texts[:_METRICS_SHOWN])
    return f"{shown} + {len(texts) - _METRICS_SHOWN} more..." if len(texts) > _METRICS_SHOWN else shown


def _metric(metric: Any, present: Any) -> str:
    field = _SOURCES.get(text(metric, "type"))
    if field is None:
        return "<unknown type>"
    source, current = mapping(metric, field), mapping(present, field, "current")
    target = mapping(source, "target")
    average = get(target, "averageValue")
    if field in ("resource", "containerResource"):
        name = text(source, "name")
        if average is not None:
            return f"{name}: {text(current, 'averageValue', default=_UNKNOWN)}/{average}"
        return f"{name}: {_percent(current, _UNKNOWN)}/{_percent(target, '<auto>')}"
    if average is None:
        return f"{text(current, 'value', default=_UNKNOWN)}/{text(target, 'value')}"
    suffix = "" if field == "pods" else " (avg)"
    return f"{text(current, 'averageValue', default=_UNKNOWN)}/{average}{suffix}"


def _percent(value: Row, missing: str) -> str:
    percent = get(value, "averageUtilization")
    return missing if percent is None else f"{percent}%"


def _ingress(obj: Row, now: float) -> list[Any]:
    spec = mapping(obj, "spec")
    return [
        name_of(obj),
        text(spec, "ingressClassName", default=NONE),
        _hosts(items(spec, "rules")),
        _addresses(items(obj, "status", "loadBalancer", "ingress")),
        "80, 443" if items(spec, "tls") else "80",
        age_of(obj, now),
    ]


def _hosts(rules: list[Any]) -> str:
    """The first hosts; a star where no rule names one."""
    shown: list[str] = []
    more = False
    for rule in rules:
        more = more or len(shown) == _HOSTS_SHOWN
        if not more and text(rule, "host"):
            shown.append(text(rule, "host"))
    listed = ",".join(shown) or "*"
    return f"{listed} + {len(rules) - _HOSTS_SHOWN} more..." if more else listed


def _addresses(given: list[Any]) -> str:
    addresses = ",".join(sorted({text(each, "ip") or text(each, "hostname") for each in given} - {""}))
    return addresses if len(addresses) <= _ADDRESS_WIDTH else addresses[: _ADDRESS_WIDTH - 3] + "..."


def _ingress_class(obj: Row, now: float) -> list[Any]:
    default = mapping(obj, "metadata", "annotations").get(_DEFAULT_CLASS) == "true"
    parameters = mapping(obj, "spec", "parameters")
    group = text(parameters, "apiGroup")
    kind = f"{text(parameters, 'kind')}.{group}" if group else text(parameters, "kind")
    return [
        f"{name_of(obj)} (default)" if default else name_of(obj),
        text(obj, "spec", "controller"),
        f"{kind}/{text(parameters, 'name')}" if parameters else NONE,
        age_of(obj, now),
    ]


def _csi_node(obj: Row, now: float) -> list[Any]:
    return [name_of(obj), len(items(obj, "spec", "drivers")), age_of(obj, now)]


REPLICATION_CONTROLLERS = Layout(
    (
        NAME,
        Column("Desired", "integer"),
        Column("Current", "integer"),
        Column("Ready", "integer"),
        AGE,
        wide("Containers"),
        wide("Images"),
        wide("Selector"),
    ),
    _replication_controller,
)
_AUTOSCALER_COLUMNS = (
    NAME,
    Column("Reference"),
    Column("Targets"),
    Column("MinPods"),
    Column("MaxPods"),
    Column("Replicas"),
    AGE,
)
AUTOSCALERS = Layout(_AUTOSCALER_COLUMNS, _autoscaler)
AUTOSCALERS_V1 = Layout(_AUTOSCALER_COLUMNS, _autoscaler_v1)
INGRESSES = Layout((NAME, Column("Class"), Column("Hosts"), Column("Address"), Column("Ports"), AGE), _ingress)
INGRESS_CLASSES = Layout((NAME, Column("Controller"), Column("Parameters"), AGE), _ingress_class)
CSI_NODES = Layout((NAME, Column("Drivers", "integer"), AGE), _csi_node)
