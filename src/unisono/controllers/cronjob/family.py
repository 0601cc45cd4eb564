"""The two families of cron jobs: Volcano's, and Kubernetes' own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from unisono.api.base import ObjectMeta
from unisono.api.groups.batch import CronJob, Job
from unisono.api.groups.batch_v1 import BatchCronJob, BatchJob, BatchJobSpec
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_CRON_JOBS, BATCH_JOBS, CRON_JOBS
from unisono.api.kinds import JOBS
from unisono.api.submitters import handed_down
from unisono.controllers.job import phases
from unisono.controllers.job_making import make_job, phase_of
from unisono.controllers.owners import owned_by

AnyCronJob = CronJob | BatchCronJob
AnyJob = Job | BatchJob

COMPLETED = "completed"
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Family:
    """What differs between the families.

    Attributes:
        name: of the controller.
        cron_jobs: kind of the cron jobs.
        jobs: kind of the jobs that they make.
        scheduled: annotation of a job with the time for which it was due.
        outcome: completed or failed, empty while the job goes on.
        ended: when a job that completed did so.
        make: makes a job from the cron job, a name and annotations.

    """

    name: str
    cron_jobs: Kind[Any]
    jobs: Kind[Any]
    scheduled: str
    outcome: Callable[[Any], str]
    ended: Callable[[Any], str | None]
    make: Callable[[Any, str, Mapping[str, str]], Any]


def _outcome(job: Job) -> str:
    phase = phase_of(job)
    if phase == phases.COMPLETED:
        return COMPLETED
    return FAILED if phase in phases.FINISHED else ""


def _ended(job: Job) -> str | None:
    return job.status.state.last_transition_time


def _make(cron_job: CronJob, name: str, annotations: Mapping[str, str]) -> Job:
    template = cron_job.spec.job_template
    return make_job(
        CRON_JOBS,
        cron_job,
        name,
        template.spec,
        labels=template.metadata.labels,
        annotations={**(template.metadata.annotations or {}), **annotations},
        finalizers=template.metadata.finalizers,
    )


def _batch_outcome(job: BatchJob) -> str:
    true = {each.type for each in job.status.conditions or () if each.status == "True"}
    return COMPLETED if "Complete" in true else FAILED if "Failed" in true else ""


def _batch_ended(job: BatchJob) -> str | None:
    return job.status.completion_time


def _batch_make(cron_job: BatchCronJob, name: str, annotations: Mapping[str, str]) -> BatchJob:
    template = cron_job.spec.job_template
    return BatchJob(
        metadata=ObjectMeta(
            name=name,
            namespace=cron_job.metadata.namespace,
            labels=dict(template.metadata.labels or {}) or None,
            annotations=handed_down(
                cron_job.metadata.annotations, {**(template.metadata.annotations or {}), **annotations}
            ),
            owner_references=[owned_by(BATCH_CRON_JOBS, cron_job)],
        ),
        spec=msgspec.json.decode(msgspec.json.encode(template.spec), type=BatchJobSpec),
    )


VOLCANO = Family(
    "cronjob-controller", CRON_JOBS, JOBS, "volcano.sh/cronjob-scheduled-timestamp", _outcome, _ended, _make
)
KUBERNETES = Family(
    "batch-cronjob-controller",
    BATCH_CRON_JOBS,
    BATCH_JOBS,
    "batch.kubernetes.io/cronjob-scheduled-timestamp",
    _batch_outcome,
    _batch_ended,
    _batch_make,
)
