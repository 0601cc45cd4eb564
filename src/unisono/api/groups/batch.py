"""Volcano's jobs, and what makes and steers them: Job, CronJob, HyperJob and Command."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api import base
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.core.refs import ObjectReference
from unisono.api.core.volume import PersistentVolumeClaimSpec
from unisono.api.groups.topology import NetworkTopologySpec

# ``batch.volcano.sh``: Job.

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
QueueName = Annotated[
    str, Meta(extra_json_schema={"maxLength": 253, "pattern": base.NAME_PATTERN, "default": "default"})
]


class VolumeSpec(base.Base):
    """A volume mounted into every container of every task.

    Attributes:
        mount_path: where it appears; must not contain ":".
        volume_claim_name: an existing claim; generated when a claim is to be made.
        volume_claim: the claim to make.
    """

    mount_path: Annotated[
        str, Meta(extra_json_schema={"minLength": 1, "pattern": "^[^:]*$"}, extra={"required": True})
    ] = ""
    volume_claim_name: base.LongName | None = None
    volume_claim: PersistentVolumeClaimSpec | None = None


class LifecyclePolicy(base.Base):
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
    exit_code: base.Int32 | None = None
    timeout: str | None = None


class DependsOn(base.Base):
    """Tasks that must be ready first.

    Attributes:
        name: names of tasks.
        iteration: "any" or "all" of them.
    """

    name: list[str] | None = None
    iteration: str | None = None


class PartitionPolicySpec(base.Base):
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
    min_partitions: base.Natural | None = None


class TaskSpec(base.Base):
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

    name: Annotated[str, Meta(extra_json_schema={"maxLength": 63, "pattern": base.LABEL_PATTERN})] = ""
    replicas: base.Natural | None = None
    min_available: base.Natural | None = None
    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)
    policies: list[LifecyclePolicy] | None = None
    topology_policy: (
        Annotated[str, Meta(extra_json_schema={"enum": ["none", "best-effort", "restricted", "single-numa-node"]})]
        | None
    ) = None
    max_retry: base.Natural | None = None
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicySpec | None = None


class JobSpec(base.Base):
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

    scheduler_name: base.ShortName | None = None
    min_available: base.Natural | None = None
    replicas: base.Natural | None = None
    volumes: list[VolumeSpec] | None = None
    tasks: list[TaskSpec] | None = None
    policies: list[LifecyclePolicy] | None = None
    plugins: dict[str, list[str]] | None = None
    running_estimate: str | None = None
    queue: QueueName | None = None
    max_retry: Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 0, "default": 3})] | None = None
    ttl_seconds_after_finished: base.Natural | None = None
    priority_class_name: base.ObjectName | None = None
    min_success: base.Positive | None = None
    network_topology: NetworkTopologySpec | None = None


class JobState(base.Base):
    """Phase of a job and since when."""

    phase: JobPhase | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: base.Time | None = None


class TaskState(base.Base):
    """Pods of a task by pod phase."""

    phase: dict[str, base.Int32] | None = None


class JobCondition(base.Base):
    """A phase that the job went through; one entry per phase."""

    status: Annotated[str, Meta(extra_json_schema={"enum": list(JOB_PHASES)}, extra={"required": True})] = ""
    last_transition_time: base.Time | None = None


class JobStatus(base.Base):
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
    min_available: base.Natural | None = None
    task_status_count: dict[str, TaskState] | None = None
    pending: base.Natural | None = None
    running: base.Natural | None = None
    succeeded: base.Natural | None = None
    failed: base.Natural | None = None
    terminating: base.Natural | None = None
    unknown: base.Natural | None = None
    version: base.Natural | None = None
    retry_count: base.Natural | None = None
    running_duration: str | None = None
    controlled_resources: dict[str, str] | None = None
    conditions: list[JobCondition] | None = None
    replicas: base.Natural | None = None
    selector: str | None = None


class Job(base.Object):
    """A batch job of one or more tasks, run as a gang."""

    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)


# ``bus.volcano.sh``: Command.


class Command(base.Object):
    """A one-shot order to a job or queue; deleted before it is carried out.

    Attributes:
        action: such as AbortJob, ResumeJob, OpenQueue, CloseQueue.
        target: the job or queue.
        reason: why, for machines.
        message: why, for people.
    """

    action: str | None = None
    target: base.OwnerReference | None = None
    reason: str | None = None
    message: str | None = None


# ``batch.volcano.sh``: CronJob.

CONCURRENCY = ("Allow", "Forbid", "Replace")


class CronJobTemplate(base.Base):
    """The jobs that a cron job makes; of the metadata labels, annotations and finalizers are used."""

    metadata: base.ObjectMeta = msgspec.field(default_factory=base.ObjectMeta)
    spec: JobSpec = msgspec.field(default_factory=JobSpec)


class CronJobSpec(base.Base):
    """Which job is started when.

    Attributes:
        schedule: five cron fields, a descriptor such as ``@daily``, or ``@every 90m``.
        time_zone: zone of the IANA database in which the schedule is read; UTC when absent.
        starting_deadline_seconds: a start that is later than this is left out.
        concurrency_policy: Allow jobs side by side, Forbid a second one, or Replace the first.
        suspend: no further jobs are started.
        job_template: the job.
        successful_jobs_history_limit: completed jobs that are kept.
        failed_jobs_history_limit: failed and terminated jobs that are kept.
    """

    schedule: base.Required = ""
    time_zone: str | None = None
    starting_deadline_seconds: Annotated[int, Meta(extra_json_schema={"format": "int64", "minimum": 0})] | None = None
    concurrency_policy: (
        Annotated[str, Meta(extra_json_schema={"enum": list(CONCURRENCY), "default": "Allow"})] | None
    ) = None
    suspend: Annotated[bool, Meta(extra_json_schema={"default": False})] | None = None
    job_template: Annotated[CronJobTemplate, Meta(extra={"required": True})] = msgspec.field(
        default_factory=CronJobTemplate
    )
    successful_jobs_history_limit: (
        Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 0, "default": 3})] | None
    ) = None
    failed_jobs_history_limit: (
        Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 0, "default": 1})] | None
    ) = None


class CronJobStatus(base.Base):
    """State of a cron job.

    Attributes:
        active: jobs that have not finished.
        last_schedule_time: the scheduled time of the last job.
        last_successful_time: when a job completed last.
    """

    active: list[ObjectReference] | None = None
    last_schedule_time: base.Time | None = None
    last_successful_time: base.Time | None = None


class CronJob(base.Object):
    """Starts a job again and again."""

    spec: CronJobSpec = msgspec.field(default_factory=CronJobSpec)
    status: CronJobStatus = msgspec.field(default_factory=CronJobStatus)


# ``training.volcano.sh``: HyperJob.

STATIC, AUTO = "static", "auto"


class SplitPolicy(base.Base):
    """How a replicated job is spread over clusters.

    Attributes:
        mode: static: the accelerators are shared over ``replicas`` jobs; auto: as few jobs as there are places that can
            take the whole, which is one within one cluster.
        accelerators: accelerators that are needed in all; the template's own sizes hold without it.
        accelerator_type: resource name of them.
    """

    mode: Annotated[str, Meta(extra_json_schema={"enum": [STATIC, AUTO]})] | None = None
    accelerators: base.Int32 | None = None
    accelerator_type: str | None = None


class ReplicatedJob(base.Base):
    """A job, several times.

    Attributes:
        name: part of the jobs' names.
        template_spec: spec of the jobs.
        split_policy: how it is spread over clusters.
        replicas: how many jobs.
        cluster_names: members of a fleet that may take them; no effect within one cluster.
    """

    name: base.Required = ""
    template_spec: Annotated[JobSpec, Meta(extra={"required": True})] = msgspec.field(default_factory=JobSpec)
    split_policy: SplitPolicy | None = None
    replicas: Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 0, "default": 1})] | None = None
    cluster_names: list[str] | None = None


class HyperJobSpec(base.Base):
    """Jobs that make up one training run.

    Attributes:
        replicated_jobs: the jobs; each is a gang of its own.
        min_available: jobs that must complete; when that can no longer be, the others are terminated.
        max_domains: clusters over which the run may spread: on a hub 1 keeps it in one; no effect within one.
        plugins: for several clusters; no effect within one.
    """

    replicated_jobs: list[ReplicatedJob] | None = None
    min_available: base.Natural | None = None
    max_domains: base.Natural | None = None
    plugins: dict[str, list[str]] | None = None


class ReplicatedJobStatus(base.Base):
    """Jobs of one replicated job, and their pods in sum.

    Attributes:
        name: name of the replicated job.
        job_states: job name to its state; jobs that are gone after their end keep theirs.
    """

    name: base.Required = ""
    job_states: dict[str, JobState] | None = None
    pending: base.Natural | None = None
    running: base.Natural | None = None
    succeeded: base.Natural | None = None
    failed: base.Natural | None = None
    terminating: base.Natural | None = None
    unknown: base.Natural | None = None


class HyperJobStatus(base.Base):
    """State of a HyperJob.

    Attributes:
        conditions: Completed or Failed, once every job has ended.
        replicated_jobs_status: the replicated jobs.
        split_count: jobs in all.
        observed_generation: the spec that this status is about.
    """

    conditions: list[base.Condition] | None = None
    replicated_jobs_status: list[ReplicatedJobStatus] | None = None
    split_count: base.Natural | None = None
    observed_generation: int | None = None


class HyperJob(base.Object):
    """A training run of several jobs."""

    spec: HyperJobSpec = msgspec.field(default_factory=HyperJobSpec)
    status: HyperJobStatus = msgspec.field(default_factory=HyperJobStatus)
