"""HorizontalPodAutoscalers in the words of ``autoscaling/v1``, which knows of one metric: the use of processors.

Everything else that ``autoscaling/v2`` says goes through annotations, under the names that Kubernetes gives them, so
that an object that is read and written by a client of v1 keeps all of it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.serving_kinds import HORIZONTAL_POD_AUTOSCALERS as V2
from unisono.api.serving_kinds import HORIZONTAL_POD_AUTOSCALERS_V1 as V1
from unisono.api.unreadable import UNREADABLE

Document = dict[str, Any]
_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _BEHAVIOR = f"{_PREFIX}metrics", f"{_PREFIX}behavior"
_CONDITIONS, _CURRENT = f"{_PREFIX}conditions", f"{_PREFIX}current-metrics"
_ANNOTATIONS = frozenset({_METRICS, _BEHAVIOR, _CONDITIONS, _CURRENT})


def from_stored(value: Document) -> Document:
    """An autoscaler of v2, which is not changed, as v1 tells it."""
    spec, status = dict(value.get("spec") or {}), dict(value.get("status") or {})
    metadata = dict(value.get("metadata") or {})
    others = []
    for metric in spec.pop("metrics", None) or ():
        percent = _processor(metric, "target")
        if percent is None or "targetCPUUtilizationPercentage" in spec:
            others.append(metric)
        else:
            spec["targetCPUUtilizationPercentage"] = percent
    current = status.pop("currentMetrics", None) or []
    for metric in current:
        percent = _processor(metric, "current")
        if percent is not None:
            status["currentCPUUtilizationPercentage"] = percent
    # v1 always tells both numbers.
    status = {"currentReplicas": 0, "desiredReplicas": 0, **status}
    told: dict[str, Any] = {
        _METRICS: others,
        _BEHAVIOR: spec.pop("behavior", None),
        _CONDITIONS: status.pop("conditions", None),
        _CURRENT: current,
    }
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in _ANNOTATIONS}
    annotations |= {key: msgspec.json.encode(each).decode() for key, each in told.items() if each}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return {**value, "apiVersion": V1.api_version, "metadata": metadata, "spec": spec, "status": status}


def to_stored(value: Document) -> Document:
    """An autoscaler of v1, which is not changed, as v2 tells it; annotations that cannot be read are left alone."""
    result = {**value, "apiVersion": V2.api_version}
    spec, status = dict(value.get("spec") or {}), dict(value.get("status") or {})
    metadata = dict(value.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    found = {key: _read(annotations.pop(key)) for key in _ANNOTATIONS & annotations.keys()}
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    status.pop("currentCPUUtilizationPercentage", None)
    metrics = list(found.get(_METRICS) or ())
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    for where, name, content in (
        (spec, "metrics", metrics),
        (spec, "behavior", found.get(_BEHAVIOR)),
        (status, "conditions", found.get(_CONDITIONS)),
        (status, "currentMetrics", found.get(_CURRENT)),
    ):
        if content:
            where[name] = content
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    for name, content in (("metadata", metadata), ("spec", spec), ("status", status)):
        if name in value or content:
            result[name] = content
    return result


def _processor(metric: Any, side: str) -> int | None:
    """The percentage of a metric of the processors, where it is one."""
    if not isinstance(metric, dict) or metric.get("type") != "Resource":
        return None
    resource = metric.get("resource") or {}
    percent: int | None = (resource.get(side) or {}).get("averageUtilization")
    return percent if resource.get("name") == "cpu" else None


def _read(text: Any) -> Any:
    try:
        return msgspec.json.decode(text)
    except (*UNREADABLE, TypeError):
        return None
