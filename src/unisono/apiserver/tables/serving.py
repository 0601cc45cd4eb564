"""Tables of ReplicationControllers, HorizontalPodAutoscalers, Ingresses, their classes and CSINodes."""

from __future__ import annotations

from typing import Any

from unisono.apiserver.encoding.autoscaling_v1 import to_stored
from unisono.apiserver.tables.columns import AGE, NAME, Column, Layout, Row, wide
from unisono.apiserver.tables.values import NONE, UNSET, age, get, items, join, mapping, text

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


def _name(obj: Row) -> str:
    return text(obj, "metadata", "name")


def _age(obj: Row, now: float) -> str:
    return age(get(obj, "metadata", "creationTimestamp"), now)


def _replication_controller(obj: Row, now: float) -> list[Any]:
    selector = mapping(obj, "spec", "selector")
    containers = items(obj, "spec", "template", "spec", "containers")
    return [
        _name(obj),
        get(obj, "spec", "replicas") or 0,
        get(obj, "status", "replicas") or 0,
        get(obj, "status", "readyReplicas") or 0,
        _age(obj, now),
        *(",".join(text(each, part) for each in containers) for part in ("name", "image")),
        join([f"{key}={selector[key]}" for key in sorted(selector)]),
    ]


def _autoscaler(obj: Row, now: float) -> list[Any]:
    spec = mapping(obj, "spec")
    reference = f"{text(spec, 'scaleTargetRef', 'kind')}/{text(spec, 'scaleTargetRef', 'name')}"
    fewest = get(spec, "minReplicas")
    return [
        _name(obj),
        reference,
        _metrics(items(spec, "metrics"), items(obj, "status", "currentMetrics")),
        UNSET if fewest is None else str(fewest),
        get(spec, "maxReplicas") or 0,
        get(obj, "status", "currentReplicas") or 0,
        _age(obj, now),
    ]


def _autoscaler_v1(obj: Row, now: float) -> list[Any]:
    return _autoscaler(to_stored(obj), now)


def _metrics(wanted: list[Any], present: list[Any]) -> str:
    """Each metric as ``current/target``; the first two, and how many more there are."""
    if not wanted:
        return NONE
    told = [_metric(metric, present[index] if index < len(present) else {}) for index, metric in enumerate(wanted)]
    shown = ", ".join(told[:_METRICS_SHOWN])
    return f"{shown} + {len(told) - _METRICS_SHOWN} more..." if len(told) > _METRICS_SHOWN else shown


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
    found = get(value, "averageUtilization")
    return missing if found is None else f"{found}%"


def _ingress(obj: Row, now: float) -> list[Any]:
    spec = mapping(obj, "spec")
    return [
        _name(obj),
        text(spec, "ingressClassName", default=NONE),
        _hosts(items(spec, "rules")),
        _addresses(items(obj, "status", "loadBalancer", "ingress")),
        "80, 443" if items(spec, "tls") else "80",
        _age(obj, now),
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
    found = ",".join(sorted({text(each, "ip") or text(each, "hostname") for each in given} - {""}))
    return found if len(found) <= _ADDRESS_WIDTH else found[: _ADDRESS_WIDTH - 3] + "..."


def _ingress_class(obj: Row, now: float) -> list[Any]:
    default = mapping(obj, "metadata", "annotations").get(_DEFAULT_CLASS) == "true"
    parameters = mapping(obj, "spec", "parameters")
    group = text(parameters, "apiGroup")
    kind = f"{text(parameters, 'kind')}.{group}" if group else text(parameters, "kind")
    return [
        f"{_name(obj)} (default)" if default else _name(obj),
        text(obj, "spec", "controller"),
        f"{kind}/{text(parameters, 'name')}" if parameters else NONE,
        _age(obj, now),
    ]


def _csi_node(obj: Row, now: float) -> list[Any]:
    return [_name(obj), len(items(obj, "spec", "drivers")), _age(obj, now)]


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
