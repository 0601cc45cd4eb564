"""Jobs that other kinds make: cron jobs, job flows and hyper jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from unisono.api.base import Object, ObjectMeta
from unisono.api.groups.batch import Job, JobSpec
from unisono.api.kind import Kind
from unisono.api.submitters import handed_down
from unisono.controllers.job.phases import FINISHED
from unisono.controllers.owners import owned_by


def make_job(
    kind: Kind[Any],
    owner: Object,
    name: str,
    spec: JobSpec,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: list[str] | None = None,
) -> Job:
    """A job of the owner's namespace and user, which goes when the owner goes; ``spec`` is copied."""
    return Job(
        metadata=ObjectMeta(
            name=name,
            namespace=owner.metadata.namespace,
            labels=dict(labels) if labels else None,
            annotations=handed_down(owner.metadata.annotations, annotations) or None,
            finalizers=finalizers,
            owner_references=[owned_by(kind, owner)],
        ),
        spec=msgspec.json.decode(msgspec.json.encode(spec), type=JobSpec),
    )


def phase_of(job: Job) -> str:
    """The job's phase; one without a status yet is Pending."""
    return job.status.state.phase or "Pending"


def has_ended(job: Job) -> bool:
    """Completed, failed or terminated: a suspended job has not ended."""
    return phase_of(job) in FINISHED
