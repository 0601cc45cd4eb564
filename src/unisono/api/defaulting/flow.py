"""Defaults of cron jobs, job flows and hyper jobs; the jobs that they make get theirs when they are made."""

from __future__ import annotations

from unisono.api.cron_job import CronJob
from unisono.api.flow import RETAIN, JobFlow
from unisono.api.hyper_job import HyperJob

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
