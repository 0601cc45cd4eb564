"""``batch.volcano.sh``: Job."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Object
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.core.storage import PersistentVolumeClaimSpec
from unisono.api.fields import (
    LABEL_PATTERN,
    NAME_PATTERN,
    Int32,
    LongName,
    Natural,
    ObjectName,
    Positive,
    ShortName,
    Time,
)
from unisono.api.topology import NetworkTopologySpec

POLICY_EVENTS = (
    "*",
    "PodPending",
    "PodRunning",
    "PodFailed",
    "PodEvicted",
    "Unknown",
    "TaskCompleted",
    "OutOfSync",
    "CommandIssued",
    "JobUpdated",
    "TaskFailed",
)
JOB_PHASES = (
    "Pending",
    "Aborting",
    "Aborted",
    "Running",
    "Restarting",
    "Completing",
    "Completed",
    "Terminating",
    "Terminated",
    "Failed",
)
PolicyEvent = Annotated[str, Meta(extra_json_schema={"enum": list(POLICY_EVENTS)})]
JobPhase = Annotated[str, Meta(extra_json_schema={"enum": list(JOB_PHASES)})]
QueueName = Annotated[str, Meta(extra_json_schema={"maxLength": 253, "pattern": NAME_PATTERN, "default": "default"})]


class VolumeSpec(Base):
    """A volume mounted into every container of every task.

    Attributes:
        mount_path: where it appears; must not contain ":".
        volume_claim_name: an existing claim; generated when a claim is to be made.
        volume_claim: the claim to make.

    """

    mount_path: Annotated[
        str, Meta(extra_json_schema={"minLength": 1, "pattern": "^[^:]*$"}, extra={"required": True})
    ] = ""
    volume_claim_name: LongName | None = None
    volume_claim: PersistentVolumeClaimSpec | None = None


class LifecyclePolicy(Base):
    """What to do when an event happens or a pod ends with an exit code.

    Attributes:
        action: AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob, CompleteJob or ResumeJob.
        event: the event, or "*" for any.
        events: several events.
        exit_code: exit code of the first container.
        timeout: wait so long before acting, such as "5m".

    """

    action: str | None = None
    event: PolicyEvent | None = None
    events: list[PolicyEvent] | None = None
    exit_code: Int32 | None = None
    timeout: str | None = None


class DependsOn(Base):
    """Tasks that must be ready first.

    Attributes:
        name: names of tasks.
        iteration: "any" or "all" of them.

    """

    name: list[str] | None = None
    iteration: str | None = None


class PartitionPolicySpec(Base):
    """Splits a task into groups of equal size.

    Attributes:
        total_partitions: number of groups.
        partition_size: pods per group; total times size equals the task's replicas.
        network_topology: topology constraint of each group.
        min_partitions: groups that the gang needs.

    """

    total_partitions: Annotated[
        int, Meta(extra_json_schema={"format": "int32", "minimum": 1}, extra={"required": True})
    ] = 0
    partition_size: Annotated[
        int, Meta(extra_json_schema={"format": "int32", "minimum": 1}, extra={"required": True})
    ] = 0
    network_topology: NetworkTopologySpec | None = None
    min_partitions: Natural | None = None


class TaskSpec(Base):
    """A role of a job.

    Attributes:
        name: part of the pods' names; ``default<index>`` when absent.
        replicas: number of pods.
        min_available: pods of this task that the gang needs; replicas when absent.
        template: the pod.
        policies: override the job's policies.
        topology_policy: NUMA policy.
        max_retry: restarts of a pod's containers before the TaskFailed event.
        depends_on: tasks that must be ready first.
        partition_policy: groups within the task.

    """

    name: Annotated[str, Meta(extra_json_schema={"maxLength": 63, "pattern": LABEL_PATTERN})] = ""
    replicas: Natural | None = None
    min_available: Natural | None = None
    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)
    policies: list[LifecyclePolicy] | None = None
    topology_policy: (
        Annotated[str, Meta(extra_json_schema={"enum": ["none", "best-effort", "restricted", "single-numa-node"]})]
        | None
    ) = None
    max_retry: Natural | None = None
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicySpec | None = None


class JobSpec(Base):
    """A job: tasks that start together or not at all.

    Attributes:
        scheduler_name: scheduler of pods whose template names none.
        min_available: pods that must run together; the gang's size.
        replicas: pods of the last task, as the subresource ``scale`` reads and writes them; kept equal to the task's.
        volumes: mounted into every container.
        tasks: the roles.
        policies: what to do on events.
        plugins: plug-in name to its arguments.
        running_estimate: expected duration, such as "2h".
        queue: where the job waits.
        max_retry: restarts before the job fails.
        ttl_seconds_after_finished: delete the job so long after its end.
        priority_class_name: priority of the gang.
        min_success: the job is complete as soon as so many pods succeeded.
        network_topology: how close the pods must be.

    """

    scheduler_name: ShortName | None = None
    min_available: Natural | None = None
    replicas: Natural | None = None
    volumes: list[VolumeSpec] | None = None
    tasks: list[TaskSpec] | None = None
    policies: list[LifecyclePolicy] | None = None
    plugins: dict[str, list[str]] | None = None
    running_estimate: str | None = None
    queue: QueueName | None = None
    max_retry: Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 0, "default": 3})] | None = None
    ttl_seconds_after_finished: Natural | None = None
    priority_class_name: ObjectName | None = None
    min_success: Positive | None = None
    network_topology: NetworkTopologySpec | None = None


class JobState(Base):
    """Phase of a job and since when."""

    phase: JobPhase | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: Time | None = None


class TaskState(Base):
    """Pods of a task by pod phase."""

    phase: dict[str, Int32] | None = None


class JobCondition(Base):
    """A phase that the job went through; one entry per phase."""

    status: Annotated[str, Meta(extra_json_schema={"enum": list(JOB_PHASES)}, extra={"required": True})] = ""
    last_transition_time: Time | None = None


class JobStatus(Base):
    """State of a job.

    Attributes:
        state: current phase.
        min_available: copy of the spec's.
        task_status_count: pods by task and phase.
        version: grows with each kill of the whole job.
        retry_count: restarts so far.
        running_duration: written when the job is killed.
        controlled_resources: what the job's plug-ins and volumes made.
        replicas: pods of the last task that have not ended, for ``scale``.
        selector: label selector of these pods, as text, for ``scale``.

    """

    state: JobState = msgspec.field(default_factory=JobState)
    min_available: Natural | None = None
    task_status_count: dict[str, TaskState] | None = None
    pending: Natural | None = None
    running: Natural | None = None
    succeeded: Natural | None = None
    failed: Natural | None = None
    terminating: Natural | None = None
    unknown: Natural | None = None
    version: Natural | None = None
    retry_count: Natural | None = None
    running_duration: str | None = None
    controlled_resources: dict[str, str] | None = None
    conditions: list[JobCondition] | None = None
    replicas: Natural | None = None
    selector: str | None = None


class Job(Object):
    """A batch job of one or more tasks, run as a gang."""

    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)
