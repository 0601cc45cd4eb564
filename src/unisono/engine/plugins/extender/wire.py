"""What an extender is told: jobs, tasks, nodes and queues in the field names of Volcano's Go structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unisono.cluster.podclass import PodClass
from unisono.cluster.records import Task
from unisono.cluster.resources import CPU, MEMORY, PODS, ResourceRegistry, Vector
from unisono.cluster.status import TaskStatus

if TYPE_CHECKING:
    from unisono.engine.session.job_state import JobState, QueueState
    from unisono.engine.session.session import Session

Body = dict[str, Any]


def resource(vector: Vector, registry: ResourceRegistry) -> Body:
    """``MilliCPU``, ``Memory`` and, by name, the others."""
    amounts = registry.amounts(vector)
    scalars = {name: amount for name, amount in amounts.items() if name not in ("cpu", "memory")}
    return {
        "MilliCPU": int(vector[CPU]),
        "Memory": int(vector[MEMORY]),
        "ScalarResources": scalars,
        "MaxTaskNum": int(vector[PODS]),
    }


def task_of(task: Task, status: TaskStatus, registry: ResourceRegistry) -> Body:
    """One pod."""
    request = resource(task.pod_class.vector, registry)
    meta = {
        "name": task.name,
        "namespace": task.namespace,
        "uid": task.uid,
        "labels": dict(task.labels),
        "annotations": dict(task.annotations),
    }
    return {
        "UID": task.uid,
        "Job": task.job,
        "Name": task.name,
        "Namespace": task.namespace,
        "TaskRole": task.role,
        "Resreq": request,
        "InitResreq": request,
        "NodeName": task.node,
        "Status": status.volcano_number,
        "Priority": task.priority,
        "Preemptable": task.preemptable,
        "BestEffort": task.best_effort,
        "Pod": {"metadata": meta, "spec": {"nodeName": task.node, "priorityClassName": task.priority_class_name}},
    }


def node_of(session: Session, column: int) -> Body:
    """One node as the session sees it now."""
    nodes, registry = session.nodes, session.registry
    facts = nodes.table.facts[column]
    allocatable, used = nodes.allocatable[:, column], nodes.used[:, column]
    meta = {"name": facts.name, "uid": facts.uid, "labels": dict(facts.labels), "annotations": dict(facts.annotations)}
    return {
        "Name": facts.name,
        "Node": {"metadata": meta, "spec": {"unschedulable": facts.unschedulable}},
        "Releasing": resource(nodes.releasing[:, column], registry),
        "Pipelined": resource(nodes.pipelined[:, column], registry),
        "Idle": resource(allocatable - used, registry),
        "Used": resource(used, registry),
        "Allocatable": resource(allocatable, registry),
        "Capacity": resource(allocatable, registry),
    }


def job_of(job: JobState, registry: ResourceRegistry) -> Body:
    """One PodGroup with its pods."""
    record = job.record
    return {
        "UID": job.key,
        "PgUID": job.uid,
        "Name": job.name,
        "Namespace": job.namespace,
        "Queue": job.queue.name,
        "Priority": job.priority,
        "MinAvailable": job.min_member,
        "TaskMinAvailable": dict(job.min_task_member),
        "Allocated": resource(_wide(job.allocated, registry), registry),
        "TotalRequest": resource(_wide(record.request, registry), registry),
        "Tasks": {task.uid: task_of(task, job.status(task), registry) for task in record.tasks.values()},
        "PodGroup": {
            "metadata": {"name": job.name, "namespace": job.namespace, "annotations": dict(record.annotations)},
            "spec": {"minMember": job.min_member, "queue": job.queue.name},
            "status": {"phase": job.phase},
        },
    }


def queue_of(queue: QueueState) -> Body:
    """One queue."""
    record = queue.record
    return {
        "UID": queue.name,
        "Name": queue.name,
        "Weight": record.weight,
        "Queue": {
            "metadata": {"name": queue.name, "annotations": dict(record.annotations)},
            "spec": {"weight": record.weight, "reclaimable": record.reclaimable, "parent": record.parent},
            "status": {"state": record.state},
        },
    }


def _wide(vector: Vector, registry: ResourceRegistry) -> Vector:
    from unisono.cluster.resources import fitted

    return fitted(vector, len(registry))


def requests_any(pod_class: PodClass, names: frozenset[str]) -> bool:
    """Whether a class asks for one of the resources; of no resources: always."""
    return not names or not names.isdisjoint(pod_class.requests)
