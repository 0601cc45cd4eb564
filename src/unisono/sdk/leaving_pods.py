"""Pods that are being deleted and do not go, while their successors need their names (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unisono.api.core import Pod
from unisono.api.times import parse_time
from unisono.jobkinds.registry import job_kind_of


def has_fixed_names(item: Mapping[str, Any]) -> bool:
    """Whether the object's pods have names of their own, so that a successor comes only when the old pod has gone."""
    kind = job_kind_of(item)
    return kind is not None and kind.fixed_names


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
