"""The kinds that make jobs: cron jobs, job flows with their templates, and hyper jobs; ``api.kinds`` lists them."""

from __future__ import annotations

from typing import Any

from unisono.api import cron_job, flow, hyper_job
from unisono.api.kind import Kind

CRON_JOBS: Kind[cron_job.CronJob] = Kind(
    "batch.volcano.sh",
    "v1alpha1",
    "CronJob",
    "cronjobs",
    cron_job.CronJob,
    short_names=("cronvcjob", "cronvj"),
    status_subresource=True,
)
JOB_FLOWS: Kind[flow.JobFlow] = Kind(
    "flow.volcano.sh", "v1alpha1", "JobFlow", "jobflows", flow.JobFlow, short_names=("jf",), status_subresource=True
)
JOB_TEMPLATES: Kind[flow.JobTemplate] = Kind(
    "flow.volcano.sh",
    "v1alpha1",
    "JobTemplate",
    "jobtemplates",
    flow.JobTemplate,
    short_names=("jt",),
    status_subresource=True,
)
HYPER_JOBS: Kind[hyper_job.HyperJob] = Kind(
    "training.volcano.sh",
    "v1alpha1",
    "HyperJob",
    "hyperjobs",
    hyper_job.HyperJob,
    short_names=("hj",),
    status_subresource=True,
)

FLOW_KINDS: tuple[Kind[Any], ...] = (CRON_JOBS, JOB_FLOWS, JOB_TEMPLATES, HYPER_JOBS)
