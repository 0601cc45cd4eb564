"""Pods that are being deleted and do not go, while their successors need their names (pure)."""

from __future__ import annotations

from collections.abc import Iterable

from unisono.api.core import Pod
from unisono.api.times import parse_time

# Kinds whose pods have names of their own, so that a successor comes only when the old pod has gone.
FIXED_NAMES = frozenset(
    {"StatefulSet", "PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "Job.batch.volcano.sh"}
)


def overdue_text(pods: Iterable[Pod], now: float) -> str:
    """Which pod should have gone and what holds it; empty where none is overdue.

    Args:
        pods: of one object of `FIXED_NAMES`.
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
