"""``training.volcano.sh``: HyperJob."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Object
from unisono.api.batch import JobSpec, JobState
from unisono.api.fields import Int32, Natural, Required
from unisono.api.meta import Condition

STATIC, AUTO = "static", "auto"


class SplitPolicy(Base):
    """How a replicated job is spread over clusters.

    Attributes:
        mode: static: the accelerators are shared over ``replicas`` jobs; auto: as few jobs as there are places that can
            take the whole, which is one within one cluster.
        accelerators: accelerators that are needed in all; the template's own sizes hold without it.
        accelerator_type: resource name of them.

    """

    mode: Annotated[str, Meta(extra_json_schema={"enum": [STATIC, AUTO]})] | None = None
    accelerators: Int32 | None = None
    accelerator_type: str | None = None


class ReplicatedJob(Base):
    """A job, several times.

    Attributes:
        name: part of the jobs' names.
        template_spec: spec of the jobs.
        split_policy: how it is spread over clusters.
        replicas: how many jobs.
        cluster_names: members of a fleet that may take them; no effect within one cluster.

    """

    name: Required = ""
    template_spec: Annotated[JobSpec, Meta(extra={"required": True})] = msgspec.field(default_factory=JobSpec)
    split_policy: SplitPolicy | None = None
    replicas: Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 0, "default": 1})] | None = None
    cluster_names: list[str] | None = None


class HyperJobSpec(Base):
    """Jobs that make up one training run.

    Attributes:
        replicated_jobs: the jobs; each is a gang of its own.
        min_available: jobs that must complete; when that can no longer be, the others are terminated.
        max_domains: clusters over which the run may spread: on a hub 1 keeps it in one; no effect within one.
        plugins: for several clusters; no effect within one.

    """

    replicated_jobs: list[ReplicatedJob] | None = None
    min_available: Natural | None = None
    max_domains: Natural | None = None
    plugins: dict[str, list[str]] | None = None


class ReplicatedJobStatus(Base):
    """Jobs of one replicated job, and their pods in sum.

    Attributes:
        name: name of the replicated job.
        job_states: job name to its state; jobs that are gone after their end keep theirs.

    """

    name: Required = ""
    job_states: dict[str, JobState] | None = None
    pending: Natural | None = None
    running: Natural | None = None
    succeeded: Natural | None = None
    failed: Natural | None = None
    terminating: Natural | None = None
    unknown: Natural | None = None


class HyperJobStatus(Base):
    """State of a HyperJob.

    Attributes:
        conditions: Completed or Failed, once every job has ended.
        replicated_jobs_status: the replicated jobs.
        split_count: jobs in all.
        observed_generation: the spec that this status is about.

    """

    conditions: list[Condition] | None = None
    replicated_jobs_status: list[ReplicatedJobStatus] | None = None
    split_count: Natural | None = None
    observed_generation: int | None = None


class HyperJob(Object):
    """A training run of several jobs."""

    spec: HyperJobSpec = msgspec.field(default_factory=HyperJobSpec)
    status: HyperJobStatus = msgspec.field(default_factory=HyperJobStatus)
