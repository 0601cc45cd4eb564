"""Tables of Workloads and Kubernetes' own PodGroups."""

from __future__ import annotations

from typing import Any

from unisono.api.workload import SCHEDULED
from unisono.apiserver.tables.columns import AGE, NAME, Column, Layout, Row
from unisono.apiserver.tables.values import NONE, age, get, items, text


def _policy(obj: Row) -> str:
    found = get(obj, "spec", "schedulingPolicy") or {}
    return "Gang" if "gang" in found else "Basic" if "basic" in found else NONE


def _status(obj: Row) -> str:
    conditions = (each for each in items(obj, "status", "conditions") if each.get("type") == SCHEDULED)
    return next((str(each.get("reason") or NONE) for each in conditions), NONE)


def _pod_group(obj: Row, now: float) -> list[Any]:
    workload = text(obj, "spec", "podGroupTemplateRef", "workload", "workloadName")
    created = age(get(obj, "metadata", "creationTimestamp"), now)
    return [text(obj, "metadata", "name"), _policy(obj), workload or NONE, _status(obj), created]


def _workload(obj: Row, now: float) -> list[Any]:
    return [text(obj, "metadata", "name"), age(get(obj, "metadata", "creationTimestamp"), now)]


POD_GROUPS = Layout((NAME, Column("Policy"), Column("Workload"), Column("Status"), AGE), _pod_group)
WORKLOADS = Layout((NAME, AGE), _workload)
