"""From a pod on the wire to a `Task`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import inf
from sys import intern

from unisono.api.annotations import NOTICE_GIVEN, RUN_SECONDS
from unisono.api.base import Quantity
from unisono.api.core import Container, ContainerStatus, Pod, PodSpec, ResourceRequirements
from unisono.api.extended_devices import limit_claim
from unisono.api.keys import PREEMPTABLE, TASK_PRIORITY, TASK_SPEC
from unisono.api.kinds import JOBS
from unisono.api.quantity import QuantityError, to_int
from unisono.api.selecting import pod_group_name
from unisono.api.times import parse_time, time_or
from unisono.cluster.interning import PodClasses
from unisono.cluster.podclass import PodClass, PodRelations, check_volumes
from unisono.cluster.records import Failure, Task
from unisono.cluster.selectors import NO_TERMS, has_terms, terms_of
from unisono.cluster.status import PREEMPTABLE_STATES, TaskStatus

_HIGHEST = 2**31 - 1
"""Priorities are int32 on the wire; annotations must not go beyond."""
_DIGITS = 9
"""Digits of a number at the end of a name that are looked at: more name no pod of a task."""

_COMPARED = tuple(name for name in Task.__slots__ if name != "told")
_NOTHING: Mapping[str, str] = {}
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_RARE = frozenset((TASK_PRIORITY, PREEMPTABLE, RUN_SECONDS))
"""Annotations that few pods have: one question rules all of them out."""
_FINISHED = {"Succeeded": TaskStatus.SUCCEEDED, "Failed": TaskStatus.FAILED, "Unknown": TaskStatus.UNKNOWN}


_seconds = lru_cache(maxsize=4096)(parse_time)
"""Pods of one job are made within a second or two, and many jobs at once."""


def task_of(pod: Pod, classes: PodClasses, scheduler_names: frozenset[str]) -> Task:
    """The record of a pod; whether its job, queue or node exist does not matter."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    annotations, labels = meta.annotations or _NOTHING, meta.labels or _NOTHING
    task = Task(meta.namespace or "", meta.name, meta.uid or "", class_of(pod, classes))
    group = pod_group_name(annotations, spec)
    task.job = f"{task.namespace}/{group}" if group else ""
    if spec.scheduling_group is not None:
        task.part = spec.scheduling_group.pod_group_name or ""
    task.role = annotations.get(TASK_SPEC) or labels.get(TASK_SPEC) or ""
    notes = _NOTHING if _RARE.isdisjoint(annotations) else annotations
    if notes:
        task.priority = _priority(notes, spec.priority)
    elif spec.priority is not None:
        task.priority = spec.priority
    task.priority_class_name = spec.priority_class_name or ""
    task.created = _seconds(meta.creation_timestamp) if meta.creation_timestamp else 0.0
    task.ordinal = _ordinal(meta.name)
    task.node = spec.node_name or ""
    task.status = _status(status.phase or "Pending", task.node, deleting=meta.deletion_timestamp is not None)
    if spec.scheduling_gates:
        task.gated, task.gates = True, tuple(intern(gate.name) for gate in spec.scheduling_gates)
    if meta.owner_references:
        task.remade = any(owner.controller for owner in meta.owner_references)
    preemptable = notes.get(PREEMPTABLE) if PREEMPTABLE in notes else labels.get(PREEMPTABLE)
    task.preemptable = preemptable is None or preemptable in _TRUE
    task.never_preempts = spec.preemption_policy == "Never"
    task.nominated_node = status.nominated_node_name or ""
    task.owned = not spec.scheduler_name or spec.scheduler_name in scheduler_names
    if not task.owned and task.nominated_node and task.status is TaskStatus.PENDING and not task.gated:
        # Its scheduler keeps that place for it, perhaps after preempting others there; a pod that takes the place makes
        # it preempt again, without end.
        task.node, task.status = task.nominated_node, TaskStatus.BINDING
    task.labels, task.annotations = labels, annotations
    scheduled = status.start_time
    for condition in status.conditions or ():
        if condition.type == NOTICE_GIVEN and condition.status == "True" and task.status in PREEMPTABLE_STATES:
            task.status, task.noticed = TaskStatus.RELEASING, time_or(condition.last_transition_time, task.created)
        if condition.type != "PodScheduled":
            continue
        if condition.status == "False":
            task.told = (intern(condition.reason or ""), intern(condition.message or ""))
        elif condition.status == "True":
            scheduled = condition.last_transition_time or scheduled
    if notes or spec.active_deadline_seconds:
        task.run_seconds = _run_seconds(notes, spec.active_deadline_seconds)
    task.since = _seconds(scheduled) if scheduled and task.node else 0.0
    if task.status is TaskStatus.BOUND and not scheduled:
        task.named_node = task.node
    if task.status is TaskStatus.FAILED and meta.deletion_timestamp is None:
        task.failure = _failure(pod)
    return task


def _failure(pod: Pod) -> Failure:
    status, owners = pod.status, pod.metadata.owner_references or ()
    own = (status.reason,) if status.reason else ()
    return Failure(
        reasons=frozenset((*own, *_reasons(status.container_statuses or ()))),
        init_reasons=frozenset(_reasons(status.init_container_statuses or ())),
        owners=frozenset(owner.kind for owner in owners),
        policies=any(owner.controller and owner.api_version.partition("/")[0] == JOBS.group for owner in owners),
    )


def _reasons(containers: Iterable[ContainerStatus]) -> Iterator[str]:
    """Why containers wait or have ended."""
    for container in containers:
        for state in (container.state.waiting, container.state.terminated):
            if state is not None and state.reason:
                yield state.reason


def blind_task(pod: Pod, classes: PodClasses) -> Task:
    """The record of a pod that cannot be read and has a node: it occupies that, and nothing may be done with it.

    Requests count as far as they can be read.
    """
    meta, spec = pod.metadata, pod.spec
    readable = PodSpec(
        containers=[_readable(container) for container in spec.containers or ()],
        init_containers=[_readable(container) for container in spec.init_containers or ()] or None,
    )
    task = Task(meta.namespace or "", meta.name, meta.uid or "", classes.intern(readable))
    task.node, task.owned, task.preemptable = spec.node_name or "", False, False
    task.status = TaskStatus.RUNNING if meta.deletion_timestamp is None else TaskStatus.RELEASING
    return task


def _readable(container: Container) -> Container:
    """A container with those of its resources that are quantities."""
    sides = (container.resources.requests, container.resources.limits)
    requests, limits = ({name: each for name, each in (side or {}).items() if _is_quantity(each)} for side in sides)
    return Container(
        name=container.name,
        resources=ResourceRequirements(requests=requests, limits=limits),
        restart_policy=container.restart_policy,
    )


def _is_quantity(value: Quantity) -> bool:
    try:
        to_int(value)
    except QuantityError:
        return False
    return True


def class_of(pod: Pod, classes: PodClasses) -> PodClass:
    """The class of a pod; pods that nothing ties to others have that of their spec."""
    meta, spec = pod.metadata, pod.spec
    selectors, namespace, labels = classes.selectors, meta.namespace or "", meta.labels or _NOTHING
    if spec.volumes:
        check_volumes(spec)
    base = classes.intern(spec, meta.annotations, namespace)
    terms = terms_of(spec, namespace, labels, selectors) if has_terms(spec) else NO_TERMS
    if not selectors.all and not spec.volumes and not spec.resource_claims and limit_claim(pod) is None:
        return base
    matched = selectors.matching(namespace, labels)
    ties = PodRelations(terms, matched, _volume_claims(pod), _device_claims(pod), _claim_templates(pod))
    return classes.refine(base, ties)


def _volume_claims(pod: Pod) -> tuple[str, ...]:
    """Keys of the claims that the pod's volumes name, or that are made for it (``POD-VOLUME``)."""
    found: dict[str, None] = {}
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            found[f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"] = None
        elif volume.ephemeral is not None:
            found[f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}"] = None
    return tuple(found)


def _device_claims(pod: Pod) -> tuple[str, ...]:
    """Keys of the pod's resource claims; those made for it, by templates or limits, stand in its status."""
    made = {status.name: status for status in pod.status.resource_claim_statuses or ()}
    found: dict[str, None] = {}
    for claim in pod.spec.resource_claims or ():
        name = claim.resource_claim_name
        status = made.get(claim.name)
        if name is None and status is not None:
            name = status.resource_claim_name
            if name is None:  # the claim's driver says that none is needed
                continue
        if name is None:  # no claim can be called so
            name = f"{claim.resource_claim_template_name or ''}/"
        found[f"{pod.metadata.namespace}/{name}"] = None
    if (name := limit_claim(pod)) is not None:
        found[f"{pod.metadata.namespace}/{name}"] = None
    return tuple(found)


def _claim_templates(pod: Pod) -> tuple[tuple[str, str], ...]:
    """Keys of the resource claims that were made for the pod, each with its ResourceClaimTemplate."""
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses or ()}
    return tuple(
        (f"{pod.metadata.namespace}/{made[claim.name]}", claim.resource_claim_template_name)
        for claim in pod.spec.resource_claims or ()
        if claim.resource_claim_template_name and made.get(claim.name)
    )


def same_task(one: Task, other: Task) -> bool:
    """Whether an event changed nothing that decisions depend on; what the pod was told is not looked at."""
    return all(getattr(one, name) == getattr(other, name) for name in _COMPARED)


def _status(phase: str, node: str, *, deleting: bool) -> TaskStatus:
    if phase == "Running" and not deleting:  # most are
        return TaskStatus.RUNNING
    finished = _FINISHED.get(phase)
    if finished is not None:
        return finished
    if deleting:
        return TaskStatus.RELEASING
    return TaskStatus.BOUND if node else TaskStatus.PENDING


def _priority(annotations: Mapping[str, str], spec_priority: int | None) -> int:
    text = annotations.get(TASK_PRIORITY)
    if text is not None:
        try:
            return max(-_HIGHEST, min(_HIGHEST, int(text)))
        except ValueError:
            pass
    return 1 if spec_priority is None else spec_priority


def _run_seconds(annotations: Mapping[str, str], deadline: int | None) -> float:
    text = annotations.get(RUN_SECONDS)
    try:
        stated = 0.0 if text is None else float(text)
    except ValueError:
        stated = 0.0
    limits = [limit for limit in (stated, float(deadline or 0)) if 0 < limit < inf]
    return min(limits, default=0.0)


def _ordinal(name: str) -> int:
    """Number after the last ``-`` of ``job-role-3``; -1 when the name is not of that form."""
    head, _, tail = name.rpartition("-")
    return int(tail) if len(tail) <= _DIGITS and tail.isascii() and tail.isdigit() and "-" in head else -1
