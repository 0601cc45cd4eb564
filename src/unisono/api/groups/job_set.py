"""``jobset.x-k8s.io``: JobSet, and the templates of ``batch/v1`` Jobs that it is made of."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Condition, FreeObject, Int32, LabelSelector, Natural, Object, ObjectMeta, Required
from unisono.api.core.pod import PodTemplateSpec
from unisono.api.core.volume import PersistentVolumeClaim

VALUE_IMMUTABLE = "Value is immutable"
_FIXED: dict[str, Any] = {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": VALUE_IMMUTABLE}]}


def _one_of(*values: str) -> Meta:
    return Meta(extra_json_schema={"enum": list(values)})


class JobTemplateJobSpec(Base):
    """Spec of a ``batch/v1`` Job.

    Attributes:
        parallelism: pods that run at once.
        completions: pods that must succeed.
        active_deadline_seconds: fail the Job when it has been active for so long.
        pod_failure_policy: what failed pods mean, as in ``batch/v1``.
        success_policy: when the Job is complete before all indexes are, as in ``batch/v1``.
        backoff_limit: failed pods after which the Job fails.
        backoff_limit_per_index: failed pods of one index after which that index fails.
        max_failed_indexes: failed indexes after which the Job fails.
        selector: accepted.
        manual_selector: accepted.
        template: the pod.
        ttl_seconds_after_finished: accepted.
        completion_mode: Indexed or NonIndexed.
        suspend: accepted; the JobSet suspends its Jobs.
        pod_replacement_policy: accepted.
        managed_by: accepted.
    """

    parallelism: Natural | None = None
    completions: Natural | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: FreeObject | None = None
    success_policy: FreeObject | None = None
    backoff_limit: Natural | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: PodTemplateSpec = msgspec.field(default_factory=PodTemplateSpec)
    ttl_seconds_after_finished: Int32 | None = None
    completion_mode: Annotated[str, _one_of("Indexed", "NonIndexed")] | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None


class JobTemplateSpec(Base):
    """A ``batch/v1`` Job that is made many times."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobTemplateJobSpec = msgspec.field(default_factory=JobTemplateJobSpec)


class JobSetDependsOn(Base):
    """A replicated job that must be Ready or Complete first."""

    name: Required = ""
    status: Annotated[str, Meta(extra_json_schema={"enum": ["Ready", "Complete"]}, extra={"required": True})] = ""


class ReplicatedJob(Base):
    """Equal Jobs of a JobSet.

    Attributes:
        name: part of the Jobs' names.
        group_name: name of the group that the Jobs belong to.
        template: the Job.
        replicas: number of Jobs.
        depends_on: replicated jobs that must have come so far first.
    """

    name: Required = ""
    group_name: str | None = None
    template: JobTemplateSpec = msgspec.field(default_factory=JobTemplateSpec)
    replicas: Natural | None = None
    depends_on: list[JobSetDependsOn] | None = None


class Network(Base):
    """Names of pods.

    Attributes:
        enable_dns_hostnames: whether pods are reached by name; true when absent.
        subdomain: second part of the names; the JobSet's name when absent.
        publish_not_ready_addresses: whether names lead to pods that are not ready; true when absent.
    """

    enable_dns_hostnames: bool | None = msgspec.field(default=None, name="enableDNSHostnames")
    subdomain: str | None = None
    publish_not_ready_addresses: bool | None = None


class JobSetSuccessPolicy(Base):
    """When the JobSet is complete: All or Any of the Jobs of these replicated jobs (of all when none is named)."""

    operator: Annotated[str, Meta(extra_json_schema={"enum": ["All", "Any"]}, extra={"required": True})] = ""
    target_replicated_jobs: list[str] | None = None


class FailurePolicyRule(Base):
    """What to do when a Job fails for one of these reasons; the first rule that fits counts."""

    name: str | None = None
    action: Annotated[
        str,
        Meta(
            extra_json_schema={
                "enum": [
                    "FailJobSet",
                    "RestartJobSet",
                    "RestartJobSetAndIgnoreMaxRestarts",
                    "RestartJob",
                    "RestartJobAndIgnoreMaxRestarts",
                ]
            },
            extra={"required": True},
        ),
    ] = ""
    on_job_failure_reasons: list[str] | None = None
    on_job_failure_message_patterns: list[str] | None = None
    target_replicated_jobs: list[str] | None = None


class JobSetFailurePolicy(Base):
    """What happens when a Job fails.

    Attributes:
        max_restarts: restarts after which the JobSet fails.
        restart_strategy: Recreate, BlockingRecreate or InPlaceRestart (treated as Recreate).
        rules: exceptions from restarting the whole JobSet.
    """

    max_restarts: Natural | None = None
    restart_strategy: Annotated[str, _one_of("Recreate", "BlockingRecreate", "InPlaceRestart")] | None = None
    rules: list[FailurePolicyRule] | None = None


class StartupPolicy(Base):
    """The order in which replicated jobs start: AnyOrder or InOrder."""

    startup_policy_order: Annotated[
        str, Meta(extra_json_schema={"enum": ["AnyOrder", "InOrder"]}, extra={"required": True})
    ] = ""


class Coordinator(Base):
    """The pod whose address all pods are told."""

    replicated_job: Required = ""
    job_index: Int32 | None = None
    pod_index: Int32 | None = None


class VolumeRetentionPolicy(Base):
    """What happens to claims when the JobSet is deleted: Delete or Retain."""

    when_deleted: Annotated[str, _one_of("Delete", "Retain")] | None = None


class VolumeClaimPolicy(Base):
    """Claims that the JobSet makes and its pods share.

    Attributes:
        templates: the claims; they are named ``<template>-<JobSet>``.
        retention_policy: what happens to them in the end.
    """

    templates: list[PersistentVolumeClaim] | None = None
    retention_policy: VolumeRetentionPolicy | None = None


class JobSetSpec(Base):
    """Jobs that belong together.

    Attributes:
        replicated_jobs: the Jobs.
        network: names of pods.
        success_policy: when the JobSet is complete; when all Jobs are, without one.
        failure_policy: what happens when a Job fails; without one the JobSet fails.
        startup_policy: the order in which replicated jobs start.
        suspend: take all pods away until it is false again.
        coordinator: the pod whose address all pods are told.
        managed_by: who runs the JobSet.
        ttl_seconds_after_finished: delete the JobSet so long after its end.
        volume_claim_policies: claims that the pods share.
    """

    replicated_jobs: list[ReplicatedJob] | None = None
    network: Annotated[Network, Meta(extra_json_schema=_FIXED)] | None = None
    success_policy: Annotated[JobSetSuccessPolicy, Meta(extra_json_schema=_FIXED)] | None = None
    failure_policy: Annotated[JobSetFailurePolicy, Meta(extra_json_schema=_FIXED)] | None = None
    startup_policy: Annotated[StartupPolicy, Meta(extra_json_schema=_FIXED)] | None = None
    suspend: bool | None = None
    coordinator: Coordinator | None = None
    managed_by: str | None = None
    ttl_seconds_after_finished: Natural | None = None
    volume_claim_policies: list[VolumeClaimPolicy] | None = None


class ReplicatedJobStatus(Base):
    """Jobs of one replicated job by their state.

    Attributes:
        ready: Jobs whose pods are all ready or have succeeded.
        succeeded: Jobs that are complete.
        failed: Jobs that failed.
        active: Jobs that have pods.
        suspended: Jobs that wait for the JobSet to be resumed.
        job_restarts: restarts of single Jobs, by index.
        job_restarts_count_towards_max: those of them that count against the limit.
    """

    name: Required = ""
    ready: int = msgspec.field(default=0)
    succeeded: int = msgspec.field(default=0)
    failed: int = msgspec.field(default=0)
    active: int = msgspec.field(default=0)
    suspended: int = msgspec.field(default=0)
    job_restarts: list[Int32] | None = None
    job_restarts_count_towards_max: list[Int32] | None = None


class JobSetStatus(Base):
    """State of a JobSet.

    Attributes:
        conditions: Completed, Failed, Suspended, StartupPolicyInProgress and StartupPolicyCompleted.
        restarts: restarts of the whole JobSet.
        restarts_count_towards_max: those of them that count against the limit.
        terminal_state: Completed or Failed.
        replicated_jobs_status: by replicated job.
    """

    conditions: list[Condition] | None = None
    restarts: Int32 | None = None
    restarts_count_towards_max: Int32 | None = None
    terminal_state: str | None = None
    replicated_jobs_status: list[ReplicatedJobStatus] | None = None
    previous_in_place_restart_attempt: Int32 | None = None
    current_in_place_restart_attempt: Int32 | None = None


class JobSet(Object):
    """Jobs that start, restart and end together."""

    spec: JobSetSpec = msgspec.field(default_factory=JobSetSpec)
    status: JobSetStatus = msgspec.field(default_factory=JobSetStatus)
