"""What to tell the writer of an object that is stored all the same, as far as the object itself tells."""

from __future__ import annotations

from typing import Any

from unisono.api.kind import Kind
from unisono.api.scheduling import Queue
from unisono.api.training_kinds import KUBEFLOW_KINDS
from unisono.api.validation.kubeflow import pods_lack


def object_warnings(kind: Kind[Any], obj: Any) -> list[str]:
    """One sentence for each field that a server stores, and that will not work."""
    if kind in KUBEFLOW_KINDS:
        return [f"{error.message()}: its pods are refused until it is corrected" for error in pods_lack(obj)]
    if isinstance(obj, Queue) and "pods" in (obj.spec.capability or {}):
        return ["spec.capability: pods is not enforced, as in Volcano; limit pods by a ResourceQuota of the namespace"]
    return []
