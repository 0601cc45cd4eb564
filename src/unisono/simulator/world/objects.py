"""From jobs of a workload to the PodGroups and pods that the scheduler sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unisono.api import core
from unisono.api.annotations import CHECKPOINT_TIME, GANG_PARTS, RUN_SECONDS, USER
from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.gang_parts import Part, encode_parts
from unisono.api.groups.scheduling import PodGroup, PodGroupCondition, PodGroupSpec, PodGroupStatus
from unisono.api.groups.topology import NetworkTopologySpec
from unisono.api.keys import GPU_COUNT, GPU_MILLI, GPU_PRODUCT, GROUP_NAME, NVIDIA_GPU, PREEMPTABLE, TASK_SPEC
from unisono.api.kinds import JOBS
from unisono.api.times import rfc3339, rfc3339_micro
from unisono.engine.decisions import PodGroupUpdate
from unisono.simulator.workload.job import Job, Role

SCHEDULER = "volcano"
_MOST_SPECS = 50_000


class ObjectMaker:
    """Makes the objects of one world; equal pods share their specs.

    Args:
        shared: GPUs are asked for by thousandths.
        run_times, epoch: as in `Settings`.
    """

    def __init__(self, *, shared: bool, run_times: str, epoch: float) -> None:
        self._epoch = epoch
        self._shared = shared
        self._run_times = run_times
        self._specs: dict[tuple[Any, ...], core.PodSpec] = {}
        self._texts: dict[tuple[Any, ...], str] = {}  # of gangs, whose specs stay in the table above
        self._owner: tuple[Job, list[OwnerReference]] | None = None  # of the last job: its pods come together
        self._placed: dict[
            tuple[int, str], tuple[core.PodSpec, core.PodSpec]
        ] = {}  # the first keeps its id from being reused

    def group(self, job: Job, number: int) -> PodGroup:
        """The PodGroup of the ``number``-th job; jobs of one moment are told apart by microseconds."""
        name = job.name
        notes = {**job.annotations, **self._told(job), **({USER: job.user} if job.user else {}), **self._parts(job)}
        topology = None
        if job.topology_tier is not None:
            mode = "hard" if job.topology_hard else "soft"
            topology = NetworkTopologySpec(mode=mode, highest_tier_allowed=job.topology_tier)
        spec = PodGroupSpec(
            min_member=job.minimum,
            queue=job.queue,
            priority_class_name=priority_class(job.priority) if job.priority else None,
            min_resources=self._least(job),
            network_topology=topology,
        )
        created = rfc3339_micro(self._epoch + job.submit + number % 1_000_000 * 1e-6)
        meta = ObjectMeta(
            name=name, namespace=namespace_of(job), uid=name, creation_timestamp=created, annotations=notes or None
        )
        return PodGroup(metadata=meta, spec=spec, status=PodGroupStatus(phase="Pending"))

    def _told(self, job: Job) -> dict[str, str]:
        seconds = {"exact": job.run_seconds, "estimate": job.estimate}.get(self._run_times)
        return {RUN_SECONDS: f"{seconds:.3f}"} if seconds else {}

    def _parts(self, job: Job) -> dict[str, str]:
        """What its pods will ask for, where nodes are told apart by more than amounts: as controllers say it."""
        if not any(role.gpu_models or role.node_labels for role in job.roles):
            return {}
        left, counts = job.minimum, []
        for role in job.roles:
            counts.append(min(left, role.count))
            left -= counts[-1]
        specs = [self._spec(role, job.priority) for role in job.roles]
        key = tuple((role.name, role.count, id(spec)) for role, spec in zip(job.roles, specs, strict=True)), *counts
        text = self._texts.get(key)
        if text is None:
            parts = zip(job.roles, counts, specs, strict=True)
            text = encode_parts(Part(role.name, count, role.count, spec=spec) for role, count, spec in parts)
            self._texts[key] = text
        return {GANG_PARTS: text}

    def _least(self, job: Job) -> dict[str, str | int | float]:
        """What the smallest gang asks for, the first pods; resources of any other form do not count."""
        total: dict[str, str | int | float] = {}
        left = job.minimum
        for role in job.roles:
            count = min(left, role.count)
            left -= count
            for name, amount in self._amounts(role).items():
                suffix = {"cpu": "m", "memory": "Mi"}.get(name, "")
                before = int(str(total.get(name, 0)).removesuffix(suffix)) if suffix else int(total.get(name, 0))
                total[name] = f"{before + count * amount}{suffix}" if suffix else before + count * amount
        return total

    def _amounts(self, role: Role) -> dict[str, int]:
        """Amounts of one pod: CPU in thousandths, memory in MiB."""
        amounts = {"cpu": role.cpu_milli, "memory": role.memory_mib}
        if role.gpus and self._shared:
            amounts[GPU_MILLI] = role.gpu_milli
            if role.gpus > 1:
                amounts[GPU_COUNT] = role.gpus
        elif role.gpus:
            amounts[NVIDIA_GPU] = role.gpus
        return {name: amount for name, amount in amounts.items() if amount}

    def pod(self, job: Job, role: Role, name: str, now: float) -> core.Pod:
        """A pod that waits for a node; its UID is its name, and so names must not come back."""
        notes = {**job.annotations, GROUP_NAME: job.name, TASK_SPEC: role.name}
        if not job.preemptable:
            notes[PREEMPTABLE] = "false"
        created = rfc3339(self._epoch + now)
        meta = ObjectMeta(
            name=name,
            namespace=namespace_of(job),
            uid=name,
            creation_timestamp=created,
            annotations=notes,
            owner_references=self._owners(job),
        )
        return core.Pod(metadata=meta, spec=self._spec(role, job.priority), status=core.PodStatus(phase="Pending"))

    def _owners(self, job: Job) -> list[OwnerReference]:
        """Its controller, which makes a new pod for each that is gone."""
        if self._owner is None or self._owner[0] is not job:
            owner = OwnerReference(
                api_version=JOBS.api_version, kind=JOBS.kind, name=job.name, uid=f"job-{job.name}", controller=True
            )
            self._owner = job, [owner]
        return self._owner[1]

    def _spec(self, role: Role, priority: int) -> core.PodSpec:
        extra = tuple(sorted(role.resources.items())) if role.resources else ()
        labels = tuple(sorted(role.node_labels.items())) if role.node_labels else ()
        key = (role.cpu_milli, role.memory_mib, role.gpus, role.gpu_milli, role.gpu_models, extra, labels, priority)
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = self._make_spec(role, priority)
        return spec

    def _make_spec(self, role: Role, priority: int) -> core.PodSpec:
        suffixes = {"cpu": "m", "memory": "Mi"}
        requests: dict[str, str | int | float] = {
            name: f"{amount}{suffixes.get(name, '')}" for name, amount in self._amounts(role).items()
        }
        requests |= role.resources
        affinity = None
        if role.gpu_models:
            models = core.NodeSelectorRequirement(key=GPU_PRODUCT, operator="In", values=list(role.gpu_models))
            terms = core.NodeSelector(node_selector_terms=[core.NodeSelectorTerm(match_expressions=[models])])
            affinity = core.Affinity(
                node_affinity=core.NodeAffinity(required_during_scheduling_ignored_during_execution=terms)
            )
        return core.PodSpec(
            scheduler_name=SCHEDULER,
            priority=priority or None,
            priority_class_name=priority_class(priority) if priority else None,
            affinity=affinity,
            node_selector=dict(role.node_labels) or None,
            containers=[core.Container(name="main", resources=core.ResourceRequirements(requests=requests))],
        )

    def running(self, pod: core.Pod, node: str, now: float, annotations: Mapping[str, str]) -> core.Pod:
        """The pod as it runs on its node."""
        status = core.PodStatus(phase="Running", start_time=rfc3339(self._epoch + now))
        if annotations:
            notes = {**(pod.metadata.annotations or {}), **annotations}
            pod.metadata.annotations = notes
        return core.Pod(metadata=pod.metadata, spec=self._on(pod.spec, node), status=status)

    def again(self, pod: core.Pod, name: str, now: float) -> core.Pod:
        """A pod like another one that has ended or was evicted; it waits for a node."""
        meta = msgspec.structs.replace(
            pod.metadata, name=name, uid=name, creation_timestamp=rfc3339(self._epoch + now), deletion_timestamp=None
        )
        spec = pod.spec if not pod.spec.node_name else msgspec.structs.replace(pod.spec, node_name=None)
        return core.Pod(metadata=meta, spec=spec, status=core.PodStatus(phase="Pending"))

    def nominated(self, pod: core.Pod, node: str) -> core.Pod:
        """The pod with a node that it waits for."""
        status = core.PodStatus(phase="Pending", nominated_node_name=node)
        return core.Pod(metadata=pod.metadata, spec=pod.spec, status=status)

    def _on(self, spec: core.PodSpec, node: str) -> core.PodSpec:
        key = (id(spec), node)
        cached = self._placed.get(key)
        if cached is None:
            if len(self._placed) >= _MOST_SPECS:
                self._placed.clear()
            cached = self._placed[key] = spec, msgspec.structs.replace(spec, node_name=node)
        return cached[1]


def succeeded(pod: core.Pod, at: float) -> core.Pod:
    """A running pod at its end, ``at`` seconds since 1970."""
    ended = core.ContainerState(terminated=core.ContainerStateTerminated(exit_code=0, finished_at=rfc3339(at)))
    status = core.PodStatus(
        phase="Succeeded",
        start_time=pod.status.start_time,
        container_statuses=[core.ContainerStatus(name="main", state=ended)],
    )
    return core.Pod(metadata=pod.metadata, spec=pod.spec, status=status)


def with_status(group: PodGroup, update: PodGroupUpdate) -> PodGroup:
    """The PodGroup after the scheduler has written its status."""
    conditions = [
        PodGroupCondition(type=one.type, status=one.status, reason=one.reason, message=one.message)
        for one in update.conditions
    ]
    status = PodGroupStatus(
        phase=update.phase,
        running=update.running or None,
        succeeded=update.succeeded or None,
        failed=update.failed or None,
        conditions=conditions or None,
    )
    notes = {**(group.metadata.annotations or {}), **update.notes}
    meta = msgspec.structs.replace(group.metadata, annotations=notes) if update.notes else group.metadata
    return PodGroup(metadata=meta, spec=group.spec, status=status)


def with_checkpoint(group: PodGroup, at: float) -> PodGroup:
    """The PodGroup of a job that has saved its work, ``at`` seconds since 1970."""
    notes = {**(group.metadata.annotations or {}), CHECKPOINT_TIME: rfc3339_micro(at)}
    meta = msgspec.structs.replace(group.metadata, annotations=notes)
    return PodGroup(metadata=meta, spec=group.spec, status=group.status)


def namespace_of(job: Job) -> str:
    """A user's jobs stand in a namespace of their own: run times are learnt by namespace."""
    return job.user or "default"


def priority_class(value: int) -> str:
    """Name of the PriorityClass of a value."""
    return f"priority-{value}"


def priority_object(value: int) -> core.PriorityClass:
    """The PriorityClass of a value."""
    name = priority_class(value)
    return core.PriorityClass(metadata=ObjectMeta(name=name, uid=name), value=value)
