"""Pods: scheduler, service account, runtime class, priority, devices, and other namespaces' pods."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from unisono.api import core, field_error, messages
from unisono.api.base import ResourceList
from unisono.api.field_error import FieldError
from unisono.api.field_error import forbidden as forbidden_field
from unisono.api.groups.batch import Job
from unisono.api.groups.scheduling import PodGroup
from unisono.api.groups.workload import CompositePodGroupSpec, WorkloadPodGroupSpec
from unisono.api.keys import ADMIN_ACCESS, JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, JOBSET_JOB_KEY, MASTERS
from unisono.api.kinds import (
    JOBS,
    NAMESPACES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
    SERVICE_ACCOUNTS,
)
from unisono.api.quota import CROSS_NAMESPACE, covers_class, has_scope
from unisono.api.resources import resource_list
from unisono.api.selecting import controller_of, pod_group_name, with_keys
from unisono.apiserver.admission.request import Request, View
from unisono.apiserver.custom.kinds import as_job, as_json
from unisono.apiserver.failures import forbidden, invalid
from unisono.jobkinds.paths import walk

# Rules for pods that Volcano schedules.

_BUDGETS = (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE)
_SCHEDULER = "volcano"


def check_disruption_budget(request: Request, view: View) -> None:
    """The job disruption budget annotations are positive integers or percentages, and at most one is there.

    Raises:
        Invalid: an annotation breaks that.
    """
    pod: core.Pod = request.object
    if request.operation != "CREATE" or pod.spec.scheduler_name != _SCHEDULER:
        return
    annotations = pod.metadata.annotations or {}
    problems = [
        field_error.invalid(f"metadata.annotations[{key}]", annotations[key], why)
        for key in _BUDGETS
        if key in annotations and (why := _fault(key, annotations[key]))
    ]
    if all(key in annotations for key in _BUDGETS):
        problems.append(field_error.forbidden("metadata.annotations", messages.several_budgets(_BUDGETS)))
    if problems:
        raise invalid(request.kind, request.name, problems)


def _fault(key: str, value: str) -> str:
    if re.fullmatch(r"[0-9]{1,9}%", value):
        if 0 < int(value[:-1]) < 100:
            return ""
        return f'invalid value <"{value}"> for {key}, {messages.BUDGET_SHARE}'
    if re.fullmatch(r"[0-9]{1,9}", value) and int(value) > 0:
        return ""
    return f'invalid value <"{value}"> for {key}, {messages.BUDGET_NUMBER}'


# Pods run under a service account that exists.

# Every namespace gets this one, if only a moment after it was made.
_ALWAYS_THERE = "default"


def check_exists(request: Request, view: View) -> None:
    """Refuse a new pod whose service account is missing.

    Raises:
        ApiError: 403 that names it.
    """
    pod: core.Pod = request.object
    name = pod.spec.service_account_name or _ALWAYS_THERE
    if request.operation != "CREATE" or request.subresource or name == _ALWAYS_THERE:
        return
    if view.find(SERVICE_ACCOUNTS, name, request.namespace) is None:
        why = f'error looking up service account {request.namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden(request.kind, request.name, why)


# RuntimeClass: a pod that names one gets its overhead, its node selector and its tolerations.

_OTHER_OVERHEAD = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_OWN_OVERHEAD = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def complete(request: Request, view: View) -> None:
    """Merge what the pod's class says into a new pod.

    Raises:
        ApiError: 403 when the class does not exist, or the pod says otherwise.
    """
    if request.operation != "CREATE" or request.subresource:
        return
    pod: core.Pod = request.object
    runtime_class = _runtime_class(request, view)
    overhead = _overhead(runtime_class)
    if overhead is not None:
        if pod.spec.overhead and not _same(pod.spec.overhead, overhead):
            raise forbidden(request.kind, request.name, _OTHER_OVERHEAD)
        pod.spec.overhead = dict(overhead)
    if runtime_class is not None and runtime_class.scheduling is not None:
        _select_nodes(request, pod, runtime_class.scheduling.node_selector or {})
        merged = merge_tolerations((*(pod.spec.tolerations or ()), *(runtime_class.scheduling.tolerations or ())))
        pod.spec.tolerations = merged or None


def merge_label_keys(request: Request, _: View) -> None:
    """Add what ``matchLabelKeys`` and ``mismatchLabelKeys`` of a new pod stand for to the selectors beside them."""
    if request.operation != "CREATE" or request.subresource:
        return
    pod: core.Pod = request.object
    labels, affinity = pod.metadata.labels or {}, pod.spec.affinity
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ():
        preferred = (side.preferred_during_scheduling_ignored_during_execution if side is not None else None) or ()
        weighed = [one.pod_affinity_term for one in preferred if one.pod_affinity_term is not None]
        required = (side.required_during_scheduling_ignored_during_execution if side is not None else None) or ()
        for term in (*required, *weighed):
            term.label_selector = with_keys(
                term.label_selector, labels, term.match_label_keys, term.mismatch_label_keys
            )
    for one in pod.spec.topology_spread_constraints or ():
        one.label_selector = with_keys(one.label_selector, labels, one.match_label_keys)


def check_overhead(request: Request, view: View) -> None:
    """Overhead is the class's alone, whatever webhooks made of the pod.

    Raises:
        ApiError: 403 when a new pod has another one.
    """
    if request.operation != "CREATE" or request.subresource:
        return
    own: ResourceList | None = request.object.spec.overhead
    overhead = _overhead(_runtime_class(request, view))
    if overhead is None and own:
        raise forbidden(request.kind, request.name, _OWN_OVERHEAD)
    if overhead is not None and not _same(own, overhead):
        raise forbidden(request.kind, request.name, _OTHER_OVERHEAD)


def _runtime_class(request: Request, view: View) -> core.RuntimeClass | None:
    name: str | None = request.object.spec.runtime_class_name
    if name is None:
        return None
    runtime_class = view.find(RUNTIME_CLASSES, name)
    if runtime_class is None:
        raise forbidden(request.kind, request.name, f'pod rejected: RuntimeClass "{name}" not found')
    return runtime_class


def _overhead(found: core.RuntimeClass | None) -> ResourceList | None:
    if found is None or found.overhead is None:
        return None
    return found.overhead.pod_fixed or {}


def _same(one: ResourceList | None, other: ResourceList) -> bool:
    return resource_list(one) == resource_list(other)


def _select_nodes(request: Request, pod: core.Pod, wanted: dict[str, str]) -> None:
    own = pod.spec.node_selector or {}
    for key, value in wanted.items():
        if own.get(key, value) != value:
            why = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
            why += f"pod.spec.nodeSelector[{key}] = {own[key]}"
            raise forbidden(request.kind, request.name, why)
    if wanted:
        pod.spec.node_selector = {**own, **wanted}


def merge_tolerations(given: tuple[core.Toleration, ...]) -> list[core.Toleration]:
    """Those that no other one covers; of equal ones the first."""
    return list(_needed(given))


def _needed(given: tuple[core.Toleration, ...]) -> Iterator[core.Toleration]:
    for at, one in enumerate(given):
        before = any(_covers(other, one) for other in given[:at])
        if not before and not any(other != one and _covers(other, one) for other in given[at + 1 :]):
            yield one


def _covers(wide: core.Toleration, narrow: core.Toleration) -> bool:
    """Whether ``wide`` endures every taint that ``narrow`` endures, for as long."""
    if wide == narrow:
        return True
    exists = wide.operator == "Exists"
    if (wide.key or "") != (narrow.key or "") and not (exists and not wide.key):
        return False
    if wide.effect and wide.effect != narrow.effect:
        return False
    if wide.toleration_seconds is not None and (
        narrow.toleration_seconds is None or narrow.toleration_seconds > wide.toleration_seconds
    ):
        return False
    return exists or (
        (narrow.operator or "Equal") == (wide.operator or "Equal") == "Equal"
        and (narrow.value or "") == (wide.value or "")
    )


# PriorityClass: names become numbers when a pod is created.

SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
DEFAULT_PREEMPTION = "PreemptLowerPriority"


def resolve(request: Request, view: View) -> None:
    """Set ``spec.priority`` and ``spec.preemptionPolicy`` from the pod's class, the global default, or 0.

    Raises:
        ApiError: 403 when the class does not exist, or the pod's own numbers contradict it.
    """
    if request.operation != "CREATE":
        return
    pod: core.Pod = request.object
    priority_class = _priority_class(request, pod, view)
    value = (priority_class.value or 0) if priority_class else 0
    policy = (priority_class.preemption_policy if priority_class else None) or DEFAULT_PREEMPTION
    if pod.spec.priority is not None and pod.spec.priority != value:
        why = f"the integer value of priority ({pod.spec.priority}) must not be provided in pod spec; "
        why += f"priority admission controller computed {value} from the given PriorityClass name"
        raise forbidden(request.kind, request.name, why)
    pod.spec.priority = value
    if pod.spec.preemption_policy is None:
        pod.spec.preemption_policy = policy
    elif pod.spec.preemption_policy != policy:
        why = f"the string value of PreemptionPolicy ({pod.spec.preemption_policy}) must not be provided in pod spec; "
        why += f"priority admission controller computed {policy} from the given PriorityClass name"
        raise forbidden(request.kind, request.name, why)


def resolve_group(request: Request, view: View) -> None:
    """Set ``spec.priority`` of one of Kubernetes' groups from its class; without one it has none but 0.

    Raises:
        ApiError: 403 when the class does not exist, or the group's own number contradicts it.
    """
    if request.operation != "CREATE":
        return
    spec: WorkloadPodGroupSpec | CompositePodGroupSpec = request.object.spec
    name = spec.priority_class_name
    priority_class = view.find(PRIORITY_CLASSES, name) if name else None
    if name and priority_class is None:
        raise forbidden(request.kind, request.name, messages.priority_class_not_found(name))
    value = (priority_class.value or 0) if priority_class else 0
    if spec.priority is not None and spec.priority != value:
        why = f"the integer value of priority ({spec.priority}) must not be provided in the spec; "
        why += f"priority admission controller computed {value} from the given PriorityClass name"
        raise forbidden(request.kind, request.name, why)
    spec.priority = value if priority_class else spec.priority


def _priority_class(request: Request, pod: core.Pod, view: View) -> core.PriorityClass | None:
    name = pod.spec.priority_class_name
    if name:
        priority_class = view.find(PRIORITY_CLASSES, name)
        if priority_class is None:
            raise forbidden(request.kind, request.name, messages.priority_class_not_found(name))
        return priority_class
    defaults = [one for one in view.all(PRIORITY_CLASSES) if one.global_default]
    if not defaults:
        return None
    # Two defaults can only come from a race; like Kubernetes, the lower one counts.
    chosen = min(defaults, key=lambda one: (one.value or 0, one.metadata.name))
    pod.spec.priority_class_name = chosen.metadata.name
    return chosen


def protect(request: Request, view: View) -> None:
    """One global default only, and the system's classes stay.

    Raises:
        ApiError: 403 for a second global default or the deletion of a system class.
    """
    if request.operation == "DELETE":
        if request.name in SYSTEM:
            raise forbidden(request.kind, request.name, "this is a system priority class and cannot be deleted")
        return
    new: core.PriorityClass = request.object
    if new.global_default:
        others = (one.metadata.name for one in view.all(PRIORITY_CLASSES) if one.global_default)
        other = next((name for name in others if name != request.name), None)
        if other is not None:
            why = f"PriorityClass {other} is already marked as default. Only one default can exist"
            raise forbidden(request.kind, request.name, why)
    if request.name.startswith("system-") and request.operation == "CREATE" and request.name not in SYSTEM:
        detail = "priority class names with 'system-' prefix are reserved for system use only"
        raise invalid(request.kind, request.name, [field_error.forbidden("metadata.name", detail)])


# A pod that holds a node stays in its gang: for the gang's queue and user it counts.


def check_same_group(request: Request, _: View) -> None:
    """Refuse to take a pod that has a node out of its PodGroup: it would count for no queue, user or budget.

    Raises:
        ApiError: 403 naming the PodGroup.
    """
    if request.operation != "UPDATE" or request.subresource or not request.user or MASTERS in request.groups:
        return
    old: core.Pod = request.old
    before = pod_group_name(old.metadata.annotations, old.spec)
    if before and old.spec.node_name and before != pod_group_name(request.object.metadata.annotations, old.spec):
        raise forbidden(request.kind, request.name, f"metadata.annotations: {messages.same_group(before)}")


# The system's priority classes belong to the system: a user who takes one would be served before all others.
#
# As in a cluster whose quota admission limits ``system-*`` classes: outside ``kube-system`` a namespace needs a
# ResourceQuota that is about the class, and only administrators write quotas.

NAMESPACE = "kube-system"
PREFIX = "system-"


def check_system_priority(request: Request, view: View) -> None:
    """Refuse a pod, pod group or job that names a class of the system where its namespace may not.

    Raises:
        ApiError: 403 naming the class.
    """
    if request.operation == "DELETE" or request.subresource or request.namespace == NAMESPACE:
        return
    before = _classes(request.old)
    for name in sorted(_classes(request.object) - before):
        if not _may_have(name, request.namespace, view):
            why = f"insufficient quota to match these scopes: [{{PriorityClass In [{name}]}}]; {_OTHER_CLASS}"
            raise forbidden(request.kind, request.name, why)


_OTHER_CLASS = "use another priority class, or have an administrator give the namespace a ResourceQuota for this one"


def _may_have(name: str, namespace: str | None, view: View) -> bool:
    quotas: list[core.ResourceQuota] = list(view.all(RESOURCE_QUOTAS, namespace))
    return any(covers_class(quota, name) for quota in quotas)


def unusable_classes(request: Request, view: View) -> list[str]:
    """What to tell the writer of a job whose pods or PodGroup will be refused for their class, or have none."""
    kind = as_job(request.kind)
    if kind is None or request.kind is PODS or request.namespace is None or controller_of(request.object) is not None:
        return []
    shown, warnings = as_json(request.object), []
    of_pods = tuple(f"{each}.spec.priorityClassName" for each in kind.templates)
    # The class of a job of ours is its pods' class, too.
    refusing = of_pods + (kind.priorities if JOBS in (kind.kind, *kind.makes) else ())
    for place in (*kind.priorities, *of_pods):
        then = "pods that have it are refused" if place in refusing else "the gang counts as one without a class"
        for path, name in walk(shown, place):
            if not isinstance(name, str) or not name:
                continue
            reserved = name.startswith(PREFIX) and request.namespace != NAMESPACE
            if view.find(PRIORITY_CLASSES, name) is None:
                warnings.append(f'{path}: there is no PriorityClass "{name}", and until there is one {then}')
            elif reserved and not _may_have(name, request.namespace, view):
                warnings.append(f'{path}: what has the class "{name}" is refused in this namespace: {_OTHER_CLASS}')
    return warnings


def _classes(obj: Any) -> set[str]:
    """Names of the system's classes that the object asks for."""
    named: list[str | None] = []
    if isinstance(obj, core.Pod | PodGroup | Job):
        named.append(obj.spec.priority_class_name)
    if isinstance(obj, Job):
        named += [task.template.spec.priority_class_name for task in obj.spec.tasks or ()]
    return {name for name in named if name and name.startswith(PREFIX)}


# A pod keeps the pods of other namespaces away only where an administrator lets it.
#
# Required anti-affinity holds in both directions: a pod that wants no other pod in its zone keeps all of them out of
# it. With the namespaces of others in its term, and a label that all nodes have for its topology, it would stop the
# cluster. As in a cluster whose quota admission limits ``CrossNamespacePodAffinity``, the namespace needs a
# ResourceQuota of that scope, which only administrators write; ``kube-system`` needs none. A JobSet that has domains to
# itself needs none either: the terms that its controller writes keep nothing away but pods of other JobSets.


def check_foreign_pods(request: Request, view: View) -> None:
    """Refuse a new pod or job with required anti-affinity to pods of other namespaces where that takes a quota.

    Raises:
        ApiError: 403 naming the scope.
    """
    if request.operation == "DELETE" or request.subresource or request.namespace == NAMESPACE:
        return
    if not _keeps_out(request.object, request.namespace) or _keeps_out(request.old, request.namespace):
        return
    quotas: list[core.ResourceQuota] = list(view.all(RESOURCE_QUOTAS, request.namespace))
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


def _concerns_job_sets_only(term: core.PodAffinityTerm) -> bool:
    """Whether the term is about pods that JobSets have made, and no others."""
    selector = term.label_selector
    expressions = (selector.match_expressions if selector is not None else None) or ()
    return any(one.key == JOBSET_JOB_KEY and one.operator == "Exists" for one in expressions)


def _specs(obj: Any) -> Iterator[core.PodSpec]:
    if isinstance(obj, core.Pod):
        yield obj.spec
    elif isinstance(obj, Job):
        for task in obj.spec.tasks or ():
            yield task.template.spec


# ResourceClaims: who may ask for devices that others use.


def check_admin_access(request: Request, view: View) -> None:
    """Only namespaces that an administrator has labelled may have claims with ``adminAccess``, as in Kubernetes.

    Raises:
        Invalid: the namespace has no such label.
    """
    if request.operation == "DELETE" or request.subresource:
        return
    errors = list(_asking(request.object))
    if not errors:
        return
    namespace = view.find(NAMESPACES, request.namespace or "")
    if namespace is None or (namespace.metadata.labels or {}).get(ADMIN_ACCESS) != "true":
        raise invalid(request.kind, request.name, errors)


def _asking(obj: core.ResourceClaim | core.ResourceClaimTemplate) -> Iterator[FieldError]:
    path, spec = ("spec.spec", obj.spec.spec) if isinstance(obj, core.ResourceClaimTemplate) else ("spec", obj.spec)
    assert isinstance(spec, core.ResourceClaimSpec)
    for number, device_request in enumerate(spec.devices.requests or ()):
        if device_request.exactly is not None and device_request.exactly.admin_access:
            yield forbidden_field(
                f"{path}.devices.requests[{number}].exactly.adminAccess",
                f"admin access to devices requires the `{ADMIN_ACCESS}: true` label on the containing namespace",
            )
