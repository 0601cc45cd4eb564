"""The PodGroup of a Job, and the resources of the smallest gang."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from unisono.api.annotations import GANG_PARTS
from unisono.api.core import LabelSelector
from unisono.api.gang_parts import Part, encode_parts
from unisono.api.groups.batch import PartitionPolicySpec
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, SubGroupPolicySpec
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.keys import JOB_VERSION, PARTITION_ID, TASK_SPEC
from unisono.api.kinds import JOBS
from unisono.controllers.job.view import JobView, TaskView
from unisono.controllers.pod_groups import pod_group_of_job, sum_usage

Priorities = Callable[[str | None], int]


def pod_group_for(view: JobView, version: int, priority: Priorities) -> PodGroup:
    """The pod group of the job at ``version``; ``priority`` gives the value of a priority class, 0 when unknown.

    While tasks wait for others, the job is seen without them (`JobView.only`): their pods are made when what they
    depend on is ready, and a gang that waited for them would wait for ever.
    """
    spec, marks = (
        pod_group_spec(view, priority),
        {JOB_VERSION: str(version), GANG_PARTS: encode_parts(_parts(view, priority))},
    )
    labels = view.job.metadata.labels
    return pod_group_of_job(JOBS, view.job, view.pod_group_name, spec, labels=labels, annotations=marks)


def pod_group_spec(view: JobView, priority: Priorities) -> PodGroupSpec:
    """What the gang of the job needs."""
    return PodGroupSpec(
        min_member=view.min_available,
        min_task_member={task.name: task.min_available for task in view.tasks},
        queue=view.queue,
        priority_class_name=view.spec.priority_class_name,
        min_resources={**min_resources(view, priority)},
        network_topology=_topology(view.spec.network_topology),
        sub_group_policy=[
            _sub_group(task, task.spec.partition_policy) for task in view.tasks if task.spec.partition_policy
        ]
        or None,
    )


def min_resources(view: JobView, priority: Priorities) -> dict[str, str]:
    """Quota usage of the pods that make up the smallest gang.

    Tasks of higher priority come first, equal ones in the order of the spec. If the gang is smaller than what the
    tasks need together, tasks are filled up one after the other; otherwise each task first gives what it needs, and
    what is missing then comes from the remaining replicas in the same order.
    """
    taken = smallest_gang(view, priority)
    return sum_usage((task.template.spec, taken[task.name]) for task in _by_priority(view, priority))


def smallest_gang(view: JobView, priority: Priorities) -> dict[str, int]:
    """How many pods of each task the smallest gang has, see `min_resources`."""
    order = _by_priority(view, priority)
    left = view.min_available
    taken = dict.fromkeys((task.name for task in order), 0)
    if view.min_available >= view.total_min_available:
        for task in order:
            taken[task.name] = min(left, task.min_available)
            left -= taken[task.name]
    for task in order:
        more = min(left, task.replicas - taken[task.name])
        taken[task.name] += max(0, more)
        left -= max(0, more)
    return taken


def _by_priority(view: JobView, priority: Priorities) -> list[TaskView]:
    return sorted(view.tasks, key=lambda task: -priority(_priority_class(view, task)))


def _parts(view: JobView, priority: Priorities) -> list[Part]:
    taken = smallest_gang(view, priority)
    return [Part(task.name, taken[task.name], task.replicas, spec=task.template.spec) for task in view.tasks]


def _priority_class(view: JobView, task: TaskView) -> str | None:
    return task.template.spec.priority_class_name or view.spec.priority_class_name


def _sub_group(task: TaskView, partition: PartitionPolicySpec) -> SubGroupPolicySpec:
    return SubGroupPolicySpec(
        name=task.name,
        label_selector=LabelSelector(match_labels={TASK_SPEC: task.name}),
        match_label_keys=[PARTITION_ID],
        sub_group_size=partition.partition_size,
        min_sub_groups=partition.min_partitions,
        network_topology=_topology(partition.network_topology),
    )


def _topology(given: NetworkTopologySpec | None) -> NetworkTopologySpec | None:
    """A copy in which a tier number excludes a tier name."""
    if given is None:
        return None
    by_number = given.highest_tier_allowed is not None
    return msgspec.structs.replace(given, highest_tier_name=None if by_number else given.highest_tier_name)
