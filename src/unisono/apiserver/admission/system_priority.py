"""The system's priority classes belong to the system: a user who takes one would be served before all others.

As in a cluster whose quota admission limits ``system-*`` classes: outside ``kube-system`` a namespace needs a
ResourceQuota that is about the class, and only administrators write quotas.
"""

from __future__ import annotations

from typing import Any

from unisono.api.batch import Job
from unisono.api.core import Pod, ResourceQuota
from unisono.api.kinds import RESOURCE_QUOTAS
from unisono.api.quota.scopes import covers_class
from unisono.api.scheduling import PodGroup
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.failures import forbidden

NAMESPACE = "kube-system"
PREFIX = "system-"


def check(request: Request, view: View) -> None:
    """Refuse a pod, pod group or job that names a class of the system where its namespace may not.

    Raises:
        ApiError: 403 naming the class.

    """
    if request.operation == "DELETE" or request.subresource or request.namespace == NAMESPACE:
        return
    before = _classes(request.old)
    for name in sorted(_classes(request.object) - before):
        quotas: list[ResourceQuota] = list(view.all(RESOURCE_QUOTAS, request.namespace))
        if not any(covers_class(quota, name) for quota in quotas):
            why = (
                f"insufficient quota to match these scopes: [{{PriorityClass In [{name}]}}]; "
                f"use another priority class, or have an administrator give the namespace a ResourceQuota for this one"
            )
            raise forbidden(request.kind, request.name, why)


def _classes(obj: Any) -> set[str]:
    """Names of the system's classes that the object asks for."""
    named: list[str | None] = []
    if isinstance(obj, Pod | PodGroup | Job):
        named.append(obj.spec.priority_class_name)
    if isinstance(obj, Job):
        named += [task.template.spec.priority_class_name for task in obj.spec.tasks or ()]
    return {name for name in named if name and name.startswith(PREFIX)}
