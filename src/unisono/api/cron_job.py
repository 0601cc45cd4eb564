"""``batch.volcano.sh``: CronJob."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from unisono.api.base import Base, Object, ObjectMeta
from unisono.api.batch import JobSpec
from unisono.api.core.refs import ObjectReference
from unisono.api.fields import Required, Time

CONCURRENCY = ("Allow", "Forbid", "Replace")


class CronJobTemplate(Base):
    """The jobs that a cron job makes; of the metadata labels, annotations and finalizers are used."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: JobSpec = msgspec.field(default_factory=JobSpec)


class CronJobSpec(Base):
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

    schedule: Required = ""
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


class CronJobStatus(Base):
    """State of a cron job.

    Attributes:
        active: jobs that have not finished.
        last_schedule_time: the scheduled time of the last job.
        last_successful_time: when a job completed last.

    """

    active: list[ObjectReference] | None = None
    last_schedule_time: Time | None = None
    last_successful_time: Time | None = None


class CronJob(Object):
    """Starts a job again and again."""

    spec: CronJobSpec = msgspec.field(default_factory=CronJobSpec)
    status: CronJobStatus = msgspec.field(default_factory=CronJobStatus)
