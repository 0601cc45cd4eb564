"""A pod keeps the pods of other namespaces away only where an administrator lets it.

Required anti-affinity holds in both directions: a pod that wants no other pod in its zone keeps all of them out of it.
With the namespaces of others in its term, and a label that all nodes have for its topology, it would stop the cluster.
As in a cluster whose quota admission limits ``CrossNamespacePodAffinity``, the namespace needs a ResourceQuota of that
scope, which only administrators write; ``kube-system`` needs none. A JobSet that has domains to itself needs none
either: the terms that its controller writes keep nothing away but pods of other JobSets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unisono.api.batch import Job
from unisono.api.core import Pod, PodAffinityTerm, PodSpec, ResourceQuota
from unisono.api.keys import JOBSET_JOB_KEY
from unisono.api.kinds import RESOURCE_QUOTAS
from unisono.api.quota.scopes import CROSS_NAMESPACE, has_scope
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.admission.system_priority import NAMESPACE
from unisono.apiserver.failures import forbidden


def check(request: Request, view: View) -> None:
    """Refuse a new pod or job with required anti-affinity to pods of other namespaces where that takes a quota.

    Raises:
        ApiError: 403 naming the scope.

    """
    if request.operation == "DELETE" or request.subresource or request.namespace == NAMESPACE:
        return
    if not _keeps_out(request.object, request.namespace) or _keeps_out(request.old, request.namespace):
        return
    quotas: list[ResourceQuota] = list(view.all(RESOURCE_QUOTAS, request.namespace))
    if not any(has_scope(quota, CROSS_NAMESPACE) for quota in quotas):
        why = (
            f"insufficient quota to match these scopes: [{{{CROSS_NAMESPACE} Exists}}]; required podAntiAffinity with "
            "namespaces or a namespaceSelector keeps pods of other namespaces out: name no other namespaces, prefer "
            "instead of requiring, or have an administrator give the namespace a ResourceQuota of this scope"
        )
        raise forbidden(request.kind, request.name, why)


def _keeps_out(obj: Any, namespace: str | None) -> bool:
    """Whether pods of other namespaces would be kept away."""
    for spec in _specs(obj):
        away = spec.affinity.pod_anti_affinity if spec.affinity is not None else None
        for term in (away.required_during_scheduling_ignored_during_execution if away is not None else None) or ():
            foreign = term.namespace_selector is not None or set(term.namespaces or ()) - {namespace}
            if foreign and not _concerns_job_sets_only(term):
                return True
    return False


def _concerns_job_sets_only(term: PodAffinityTerm) -> bool:
    """Whether the term is about pods that JobSets have made, and no others."""
    selector = term.label_selector
    wanted = (selector.match_expressions if selector is not None else None) or ()
    return any(one.key == JOBSET_JOB_KEY and one.operator == "Exists" for one in wanted)


def _specs(obj: Any) -> Iterator[PodSpec]:
    if isinstance(obj, Pod):
        yield obj.spec
    elif isinstance(obj, Job):
        for task in obj.spec.tasks or ():
            yield task.template.spec
