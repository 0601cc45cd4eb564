"""Defaults of Volcano's kinds, as its mutating webhooks set them."""

from __future__ import annotations

from unisono.api.groups.batch import CronJob, HyperJob, Job, JobSpec, TaskSpec
from unisono.api.groups.flow import RETAIN, JobFlow
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from unisono.api.membership import DEFAULT_QUEUE

# Defaults of jobs, as Volcano's mutating webhook sets them.

DEFAULT_SCHEDULER = "volcano"
DEFAULT_MAX_RETRY = 3

# Frameworks whose processes find each other by host name, or log in to each other.
_NEED_SVC = ("tensorflow", "mpi", "pytorch", "ray")
_NEED_SSH = ("mpi",)


def default_job(job: Job) -> None:
    """Queue, scheduler, retries, task names, gang sizes, and the plug-ins that other plug-ins need.

    An explicit 0 of ``minAvailable`` or ``maxRetry`` counts as absent, as in Volcano.
    """
    spec = job.spec
    spec.queue = spec.queue or DEFAULT_QUEUE
    spec.scheduler_name = spec.scheduler_name or DEFAULT_SCHEDULER
    spec.max_retry = spec.max_retry or DEFAULT_MAX_RETRY
    for index, task in enumerate(spec.tasks or ()):
        _default_task(task, index)
    if not spec.min_available and spec.tasks:
        spec.min_available = sum(task.min_available or 0 for task in spec.tasks)
    default_topology(spec.network_topology)
    _default_plugins(spec)


def settle_replicas(spec: JobSpec, old: JobSpec | None) -> None:
    """Bring ``spec.replicas``, which ``scale`` writes, and the replicas of the last task to one number.

    The one of the two that a writer has changed counts. A minimum of the task that has no effect, because the gang
    needs fewer pods than its tasks together, goes down with the replicas.

    Args:
        spec: of a job with its defaults; is changed.
        old: before an update, None for a new job.

    """
    if not spec.tasks:
        return
    task = spec.tasks[-1]
    given, number = spec.replicas, task.replicas or 0
    if given is not None and old is not None and (given != old.replicas or number == _last(old)):
        number = given
    _scale(spec, number)


def apply_scale(spec: JobSpec) -> None:
    """Give the last task the replicas that ``scale`` has written where no admission did so, never below its minimum."""
    if spec.replicas is None or not spec.tasks or spec.tasks[-1].partition_policy is not None:
        return
    _scale(spec, max(spec.replicas, fewest_replicas(spec)))


def fewest_replicas(spec: JobSpec) -> int:
    """Replicas that the last task needs for the gang, 0 without tasks; of a spec with its defaults."""
    if not spec.tasks:
        return 0
    task, others = spec.tasks[-1], sum(each.replicas or 0 for each in spec.tasks[:-1])
    own = (task.min_available or 0) if _tasks_bind(spec) else 0
    return max(own, (spec.min_available or 0) - others)


def _scale(spec: JobSpec, replicas: int) -> None:
    assert spec.tasks
    task = spec.tasks[-1]
    binding = _tasks_bind(spec) or task.replicas in (None, replicas)  # what nobody scales is left to validation
    spec.replicas = task.replicas = replicas
    if not binding and (task.min_available or 0) > replicas:
        task.min_available = replicas


def _tasks_bind(spec: JobSpec) -> bool:
    """Whether the minimums of single tasks count: where the gang is no smaller than they are together."""
    return (spec.min_available or 0) >= sum(task.min_available or 0 for task in spec.tasks or ())


def _last(spec: JobSpec) -> int:
    return (spec.tasks[-1].replicas or 0) if spec.tasks else 0


def _default_task(task: TaskSpec, index: int) -> None:
    task.name = task.name or f"default{index}"
    pod = task.template.spec
    if pod.host_network and not pod.dns_policy:
        pod.dns_policy = "ClusterFirstWithHostNet"
    partition = task.partition_policy
    if task.min_available is None:
        if partition is not None and partition.min_partitions:
            task.min_available = partition.min_partitions * partition.partition_size
        else:
            task.min_available = task.replicas or 0
    task.max_retry = task.max_retry or DEFAULT_MAX_RETRY
    if partition is not None:
        default_topology(partition.network_topology)


def _default_plugins(spec: JobSpec) -> None:
    if not spec.plugins:
        return
    if any(name in spec.plugins for name in _NEED_SVC):
        spec.plugins.setdefault("svc", [])
    if any(name in spec.plugins for name in _NEED_SSH):
        spec.plugins.setdefault("ssh", [])


def default_topology(topology: NetworkTopologySpec | None) -> None:
    """Topology constraints are hard unless they say otherwise."""
    if topology is not None:
        topology.mode = topology.mode or "hard"


# Defaults of cron jobs, job flows and hyper jobs; the jobs that they make get theirs when they are made.

SUCCESSFUL_KEPT = 3
FAILED_KEPT = 1


def default_cron_job(cron_job: CronJob) -> None:
    """Jobs side by side, three completed and one failed are kept."""
    spec = cron_job.spec
    spec.concurrency_policy = spec.concurrency_policy or "Allow"
    spec.suspend = bool(spec.suspend)
    if spec.successful_jobs_history_limit is None:
        spec.successful_jobs_history_limit = SUCCESSFUL_KEPT
    if spec.failed_jobs_history_limit is None:
        spec.failed_jobs_history_limit = FAILED_KEPT


def default_job_flow(job_flow: JobFlow) -> None:
    """Jobs are kept."""
    job_flow.spec.job_retain_policy = job_flow.spec.job_retain_policy or RETAIN


def default_hyper_job(hyper_job: HyperJob) -> None:
    """One job per replicated job."""
    for replicated in hyper_job.spec.replicated_jobs or ():
        if replicated.replicas is None:
            replicated.replicas = 1


# Defaults of pod groups and queues.

ROOT_QUEUE = "root"


def default_pod_group(group: PodGroup) -> None:
    """Queue ``default``; subgroups of one pod."""
    group.spec.queue = group.spec.queue or DEFAULT_QUEUE
    default_topology(group.spec.network_topology)
    for policy in group.spec.sub_group_policy or ():
        if policy.sub_group_size is None:
            policy.sub_group_size = 1
        default_topology(policy.network_topology)


def default_queue(queue: Queue) -> None:
    """Weight 1, reclaimable, a child of root; hierarchy annotations start at root."""
    spec = queue.spec
    # Zero means absent, as in Volcano.
    spec.weight = spec.weight or 1
    if spec.reclaimable is None:
        spec.reclaimable = queue.metadata.name != ROOT_QUEUE
    if queue.metadata.name != ROOT_QUEUE:
        spec.parent = spec.parent or ROOT_QUEUE
    spec.dequeue_strategy = spec.dequeue_strategy or "traverse"
    annotations = queue.metadata.annotations or {}
    path, weights = annotations.get(HIERARCHY), annotations.get(HIERARCHY_WEIGHTS)
    if path and weights and path.split("/")[0] != ROOT_QUEUE:
        annotations[HIERARCHY] = f"{ROOT_QUEUE}/{path}"
        annotations[HIERARCHY_WEIGHTS] = f"1/{weights}"
