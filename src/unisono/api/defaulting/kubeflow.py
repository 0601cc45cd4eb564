"""Defaults of training jobs, filled in by what runs the job: the stored object stays as it was submitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from unisono.api.core.container import Container, ContainerPort
from unisono.api.core.pod import PodSpec
from unisono.api.groups import kubeflow
from unisono.api.groups.batch import CronJob, HyperJob, Job, JobSpec, TaskSpec
from unisono.api.groups.budgets import HARD, Budget
from unisono.api.groups.flow import RETAIN, JobFlow
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.keys import HIERARCHY, HIERARCHY_WEIGHTS
from unisono.api.selecting import DEFAULT_QUEUE

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
    binding = _tasks_bind(spec) or task.replicas in (None, replicas)  # validation sees to what is not scaled
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


def default_budget(budget: Budget) -> None:
    """Hard, as the definition of the kind says."""
    budget.spec.mode = budget.spec.mode or HARD


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


CLEAN_NONE, CLEAN_RUNNING, CLEAN_ALL = "None", "Running", "All"
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class TrainingDefaults:
    """What a kind of training job has by default.

    Attributes:
        field: attribute of the spec that holds the replica specs.
        wire: the same on the wire.
        types: roles in the order in which they are looked at.
        container: name of the container that does the work.
        port_name: name of its port.
        port: number of its port.
        restart_policy: of roles that name none.
        strict: whether other roles are refused.
        replicas: number of pods of roles that name none, where that is not 1.
        volumes: names of the volumes that the controller gives all pods, which their containers may mount.
    """

    field: str
    wire: str
    types: tuple[str, ...]
    container: str
    port_name: str
    port: int
    restart_policy: str
    strict: bool = True
    replicas: Mapping[str, int] = dataclasses.field(default_factory=dict)
    volumes: tuple[str, ...] = ()


TRAINING: dict[type[kubeflow.AnyTrainingJob], TrainingDefaults] = {
    kubeflow.PyTorchJob: TrainingDefaults(
        "pytorch_replica_specs",
        "pytorchReplicaSpecs",
        ("Master", "Worker"),
        "pytorch",
        "pytorchjob-port",
        23456,
        "OnFailure",
    ),
    kubeflow.TFJob: TrainingDefaults(
        "tf_replica_specs",
        "tfReplicaSpecs",
        ("Chief", "Evaluator", "Master", "PS", "Worker"),
        "tensorflow",
        "tfjob-port",
        2222,
        "Never",
        strict=False,
    ),
    kubeflow.MPIJob: TrainingDefaults(
        "mpi_replica_specs",
        "mpiReplicaSpecs",
        ("Launcher", "Worker"),
        "mpi",
        "mpi-port",
        9999,
        "Never",
        replicas={"Worker": 0},
        volumes=("ssh-auth", "mpi-job-config"),
    ),
    kubeflow.XGBoostJob: TrainingDefaults(
        "xgb_replica_specs", "xgbReplicaSpecs", ("Master", "Worker"), "xgboost", "xgboostjob-port", 9999, "Never"
    ),
    kubeflow.PaddleJob: TrainingDefaults(
        "paddle_replica_specs", "paddleReplicaSpecs", ("Master", "Worker"), "paddle", "master", 36543, "OnFailure"
    ),
    kubeflow.JAXJob: TrainingDefaults(
        "jax_replica_specs", "jaxReplicaSpecs", ("Worker",), "jax", "jaxjob-port", 6666, "Never"
    ),
}


def run_policy(spec: kubeflow.TrainingSpec) -> kubeflow.RunPolicy:
    """The run policy in force: that of ``runPolicy``, else the same field of the spec itself, else the default."""
    official = spec.run_policy or kubeflow.RunPolicy()
    merged = kubeflow.RunPolicy(
        **{
            each: getattr(official, each) if getattr(official, each) is not None else getattr(spec, each)
            for each in kubeflow.RunPolicy.__struct_fields__
        }
    )
    merged.clean_pod_policy = merged.clean_pod_policy or CLEAN_NONE
    return merged


def replica_specs(job: kubeflow.AnyTrainingJob) -> dict[str, kubeflow.ReplicaSpec]:
    """The roles of a job with defaults, known ones first in their order; the job itself is not changed."""
    facts = TRAINING[type(job)]
    given: dict[str, kubeflow.ReplicaSpec] = getattr(job.spec, facts.field) or {}
    canonical = {name.lower(): name for name in facts.types}
    named: dict[str, kubeflow.ReplicaSpec] = {}
    for name, spec in given.items():
        named.setdefault(canonical.get(name.lower(), name), _complete(name, spec, facts))
    order = {name: position for position, name in enumerate(facts.types)}
    return dict(sorted(named.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def _complete(name: str, given: kubeflow.ReplicaSpec, facts: TrainingDefaults) -> kubeflow.ReplicaSpec:
    spec = msgspec.convert(msgspec.to_builtins(given), kubeflow.ReplicaSpec)
    if spec.replicas is None:
        spec.replicas = facts.replicas.get(name, 1)
    spec.restart_policy = spec.restart_policy or facts.restart_policy
    container = main_container(spec.template.spec, facts.container)
    # The constant of MPI jobs is a name only: their processes talk by ssh.
    if container is not None and facts.container != "mpi":
        add_port(container, facts.port_name, facts.port)
    return spec


def main_container(pod: PodSpec, name: str) -> Container | None:
    """The container of that name, else the first one; None without containers."""
    containers = pod.containers or []
    return next((each for each in containers if each.name == name), containers[0] if containers else None)


def add_port(container: Container, name: str, number: int) -> None:
    """Give the container the port unless it has one of that name."""
    ports = container.ports or []
    if not any(port.name == name for port in ports):
        container.ports = [*ports, ContainerPort(name=name, container_port=number)]


def elastic_limits(policy: kubeflow.ElasticPolicy | kubeflow.PaddleElasticPolicy, workers: int) -> tuple[int, int]:
    """Fewest and most workers: one limit alone counts for both, none means as many as there are."""
    low, high = policy.min_replicas, policy.max_replicas
    if low is None and high is None:
        return workers, workers
    low = low if low is not None else high or 0
    return low, high if high is not None else low
