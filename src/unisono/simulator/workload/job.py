"""One job of a workload: what it asks for, when it comes, how long it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import msgspec
from msgspec.structs import replace

from unisono.api.annotations import ONE_OF, ONE_OF_BY
from unisono.api.gang_affinity import said
from unisono.api.keys import GPU_COUNT, NVIDIA_GPU
from unisono.api.one_of import kinds_of, way_of
from unisono.api.resources import resource_list
from unisono.simulator.abilities import JOB_NOTES, unknown_note
from unisono.simulator.clusters import Cluster
from unisono.simulator.files import InputError

WHOLE_GPU = 1000
"""Thousandths of a whole GPU."""

MOST_JOBS = 5_000_000
"""Jobs of one workload."""
MOST_PODS = 100_000
"""Pods of one job."""
_LONGEST = 1e10
"""Seconds; about 300 years."""


class WorkloadError(InputError):
    """A workload breaks a rule; the message names file, line and field."""


class Role(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Equal pods of a job.

    Attributes:
        name: name of the role.
        count: pods.
        cpu_milli: CPU of one pod, in thousandths of a core.
        memory_mib: memory of one pod, in MiB.
        gpus: GPUs of one pod.
        gpu_milli: thousandths of each GPU; less than 1000 only with one GPU.
        gpu_models: models that the pod can use; empty means any.
        resources: further resources of one pod, as Kubernetes quantities.
        node_labels: labels that the pod's node must have.
    """

    name: str = "worker"
    count: int = 1
    cpu_milli: int = 0
    memory_mib: int = 0
    gpus: int = 0
    gpu_milli: int = WHOLE_GPU
    gpu_models: tuple[str, ...] = ()
    resources: Mapping[str, str] = {}
    node_labels: Mapping[str, str] = {}

    @property
    def gpu_demand(self) -> int:
        """Thousandths of GPUs of one pod."""
        return self.gpus * self.gpu_milli


class Job(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One job. Times are seconds; ``submit`` counts from the beginning of the workload.

    Attributes:
        name: unique in the workload.
        submit: when it arrives.
        run_seconds: how long it runs at full speed with all of its pods; None means until the end of the simulation.
        roles: its pods.
        gang: pods that must run together before any starts; None means all.
        elastic: the pods share the job's work, and it runs with any number from ``gang`` on. Without it and with
            ``gang`` below the number of pods, each pod has work of ``run_seconds`` of its own.
        queue: queue in which it waits.
        user: who submits it; also the namespace, by which run times are learnt.
        priority: value of its priority class.
        preemptable: its pods may be evicted.
        estimate: run time that the user states, which is also the limit that the scheduler is told.
        deadline: seconds after ``submit`` until which it should have ended.
        job_class: free text by which metrics are split, such as ``strict``.
        annotations: of its PodGroup and its pods, for plug-ins that go by them.
        checkpoint: seconds of progress between checkpoints; None means that it starts from zero when interrupted, and
            0 that nothing is lost.
        restart_overhead: seconds that it needs after an interruption before it makes progress.
        max_retries: failures after which it is given up; None means never.
        topology_tier: highest tier of the topology tree that may join its pods.
        topology_hard: that tier is required, not only preferred.
        after: name of a job that must have ended before it arrives.
        think_seconds: how long after that end it arrives; None: at once, but not before ``submit``.
        censored: its end was not seen when it was recorded, so that ``run_seconds`` is assumed.
    """

    name: str
    submit: float
    run_seconds: float | None
    roles: tuple[Role, ...]
    gang: int | None = None
    elastic: bool = False
    queue: str = "default"
    user: str = ""
    priority: int = 0
    preemptable: bool = True
    estimate: float | None = None
    deadline: float | None = None
    job_class: str = ""
    annotations: Mapping[str, str] = {}
    checkpoint: float | None = None
    restart_overhead: float = 0.0
    max_retries: int | None = None
    topology_tier: int | None = None
    topology_hard: bool = True
    after: str = ""
    think_seconds: float | None = None
    censored: bool = False

    @property
    def pods(self) -> int:
        """Number of pods."""
        return sum(role.count for role in self.roles)

    @property
    def minimum(self) -> int:
        """Pods that must run together."""
        return self.pods if self.gang is None else self.gang

    @property
    def gpu_demand(self) -> int:
        """Thousandths of GPUs of all pods."""
        return sum(role.count * role.gpu_demand for role in self.roles)

    @property
    def cpu_demand(self) -> int:
        """Thousandths of cores of all pods."""
        return sum(role.count * role.cpu_milli for role in self.roles)

    @property
    def work(self) -> float:
        """Seconds of progress until it ends; infinite where none are stated."""
        return inf if self.run_seconds is None else self.run_seconds


def check(job: Job) -> str:
    """What is wrong with a job, as ``field: problem``; empty when nothing is."""
    if not job.name or len(job.name) > 200 or "/" in job.name:
        return "name: give 1 to 200 characters without '/'"
    for name in ("submit", "run_seconds", "estimate", "deadline", "checkpoint", "restart_overhead", "think_seconds"):
        value = getattr(job, name)
        if value is not None and not 0 <= value <= _LONGEST:
            return f"{_camel(name)}: {value!r} is not between 0 and {_LONGEST:.0f} seconds"
    if not job.roles:
        return "roles: give at least one"
    for number, role in enumerate(job.roles):
        problem = _check_role(role)
        if problem:
            return f"roles[{number}].{problem}"
    if len({role.name for role in job.roles}) < len(job.roles):
        return "roles: two have the same name"
    if job.pods > MOST_PODS:
        return f"roles: {job.pods} pods are too many, at most {MOST_PODS}"
    if job.gang is not None and not 0 < job.gang <= job.pods:
        return f"gang: {job.gang} is not between 1 and the job's {job.pods} pods"
    if problem := unknown_note(job.annotations, JOB_NOTES):
        return f"annotations: {problem}"
    if problem := _kinds_of_nodes(job.annotations) or _where_it_stands(job.annotations):
        return f"annotations: {problem}"
    if job.max_retries is not None and job.max_retries < 0:
        return "maxRetries: must not be negative"
    if job.think_seconds is not None and not job.after:
        return "thinkSeconds: name the job that is waited for in after"
    return ""


def check_order(jobs: Sequence[Job]) -> str:
    """What is wrong with the jobs that others wait for; ``jobs`` in order of submission."""
    seen: set[str] = set()
    for job in jobs:
        if job.after and job.after not in seen:
            return f"job {job.name}: after: no job {job.after} is submitted before it"
        seen.add(job.name)
    return ""


def _kinds_of_nodes(annotations: Mapping[str, str]) -> str:
    """What is wrong with the kinds of nodes of which a job takes one; empty where nothing is."""
    try:
        kinds, _ = kinds_of(annotations.get(ONE_OF, "")), way_of(annotations.get(ONE_OF_BY, ""))
    except ValueError as error:
        return f"{ONE_OF}: {error}"
    if any(kind.times != 1 for kind in kinds):
        return f"{ONE_OF}: pods of a simulation take the same amounts on all nodes: leave out the * and its number"
    return ""


def _where_it_stands(annotations: Mapping[str, str]) -> str:
    """What is wrong with where a job stands in relation to others; empty where nothing is."""
    try:
        wishes = said(annotations)
    except ValueError as error:
        return str(error)
    named = next((one.word for one in wishes if one.labels or one.by), "")
    return f"{named}: pods of a simulation have no labels: write none before the @" if named else ""


def _check_role(role: Role) -> str:
    if role.count < 1:
        return f"count: {role.count} is not 1 or more"
    for name in ("cpu_milli", "memory_mib", "gpus"):
        if not 0 <= getattr(role, name) <= 10**12:
            return f"{_camel(name)}: {getattr(role, name)} is not between 0 and 10^12"
    if not 0 < role.gpu_milli <= WHOLE_GPU:
        return f"gpuMilli: {role.gpu_milli} is not between 1 and {WHOLE_GPU}"
    if role.gpu_milli < WHOLE_GPU and role.gpus > 1:
        return "gpuMilli: less than 1000 is allowed with one GPU only"
    return ""


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


# How jobs of traces that count processors and GPUs are cut into pods.


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The largest node of a cluster: pods are no larger. A cluster of one node makes one pod of each job.

    Attributes:
        gpus: GPUs.
        cpus: whole CPUs.
    """

    gpus: int = 8
    cpus: int = 96


def largest(cluster: Cluster) -> NodeShape:
    """The shape by which jobs are cut for a cluster."""
    amounts = [resource_list(node.status.allocatable) for node in cluster.nodes]
    gpus = max((max(each.get(NVIDIA_GPU, 0), each.get(GPU_COUNT, 0)) for each in amounts), default=0) // 1000
    cpus = max((each.get("cpu", 0) for each in amounts), default=0) // 1000
    return NodeShape(max(gpus, 1), max(cpus, 1))


def gpu_roles(gpus: int, shape: NodeShape) -> tuple[Role, ...]:
    """Pods of a job of ``gpus`` GPUs: one where a node has so many, else whole nodes, and one pod with the rest.

    A job without GPUs gets one CPU, so that it is placed at all.
    """
    if not gpus:
        return (Role(cpu_milli=1000),)
    whole, rest = divmod(gpus, shape.gpus)
    return _roles(
        Role(count=max(whole, 1), gpus=shape.gpus) if whole else None, Role(name="rest", gpus=rest) if rest else None
    )


def cpu_roles(cpus: int, shape: NodeShape, memory_mib: int = 0) -> tuple[Role, ...]:
    """The same for processors; ``memory_mib`` is per processor."""
    whole, rest = divmod(cpus, shape.cpus)
    full = Role(count=max(whole, 1), cpu_milli=1000 * shape.cpus, memory_mib=memory_mib * shape.cpus)
    part = Role(name="rest", cpu_milli=1000 * rest, memory_mib=memory_mib * rest)
    return _roles(full if whole else None, part if rest else None)


def _roles(*roles: Role | None) -> tuple[Role, ...]:
    given = tuple(role for role in roles if role is not None)
    return given if len(given) > 1 else (replace(given[0], name="worker"),)
