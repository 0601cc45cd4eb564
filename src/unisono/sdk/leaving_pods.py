"""Pods that are being deleted and do not go, while their successors need their names (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unisono.api.core import Pod
from unisono.api.kind import Kind
from unisono.api.kind_families import KUBEFLOW_KINDS, STATEFUL_SETS
from unisono.api.kinds import JOBS
from unisono.api.times import parse_time

_FIXED_NAMES: tuple[Kind[Any], ...] = (JOBS, STATEFUL_SETS, *KUBEFLOW_KINDS)


def has_fixed_names(item: Mapping[str, Any]) -> bool:
    """Whether the object's pods have names of their own, so that a successor comes only when the old pod has gone."""
    api_version, kind = str(item.get("apiVersion", "")), str(item.get("kind", ""))
    return any(each.matches(api_version, kind) for each in _FIXED_NAMES)


def overdue_text(pods: Iterable[Pod], now: float) -> str:
    """Which pod should have gone and what holds it; empty where none is overdue.

    Args:
        pods: of one object whose pods have fixed names.
        now: seconds since the epoch, by the server's clock.

    """
    for pod in pods:
        due = pod.metadata.deletion_timestamp
        if due is None or parse_time(due) > now:
            continue
        held = ", ".join(pod.metadata.finalizers or ())
        if held:
            why = f"finalizers hold it ({held}): what set them has to take them away"
        else:
            why = f"its node {pod.spec.node_name} has not confirmed its end: see whether the node is there"
        return f"pod {pod.metadata.name} is being deleted and keeps its name until it has gone; {why}"
    return ""
