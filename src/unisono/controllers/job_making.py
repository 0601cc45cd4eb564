"""Jobs that other kinds make: cron jobs, job flows and hyper jobs; also those that were deleted after their end."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

import msgspec

from unisono.api.annotations import handed_down
from unisono.api.base import Object, ObjectMeta
from unisono.api.groups.batch import Job, JobSpec
from unisono.api.kind import Kind
from unisono.controllers.job.view import FINISHED
from unisono.controllers.owners import controller_uids, keys_of, owned_by
from unisono.kube.client import EventType


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


# Jobs that ended and were deleted before their owner's status said how they ended.


class Departed:
    """The last sight of such jobs, by the UID of what made them.

    A time to live of 0 takes a job away the moment it ends. While the owner's status cannot be written, its end is
    known from here alone; after a restart of the process it is not known, and the job is made again.
    """

    def __init__(self, kind: Kind[Any], exists: Callable[[str], object | None]) -> None:
        """Make one for all owners of a kind.

        Args:
            kind: of the owners.
            exists: answers for the key of an owner whether it is there; the jobs of a deleted owner are forgotten.
        """
        self._kind, self._exists = kind, exists
        self._jobs: dict[str, dict[str, Job]] = {}

    def seen(self, event_type: EventType, new: Job, _old: Job | None) -> None:
        """A job has changed."""
        if event_type != "DELETED" or not has_ended(new):
            return
        if any(self._exists(key) is not None for key in keys_of(self._kind, new)):
            for uid in controller_uids(new):
                self._jobs.setdefault(uid, {})[new.metadata.name] = new

    def of(self, owner: Object, recorded: Container[str]) -> dict[str, Job]:
        """Jobs of an owner by name, but for those whose end is ``recorded`` in its status: they are forgotten."""
        return dict(self._keep(owner, lambda name, _job: name not in recorded))

    def written(self, owner: Object, jobs: Mapping[str, Job]) -> None:
        """The owner's status was written in sight of these jobs: nothing more is to be kept of them."""
        self._keep(owner, lambda name, job: jobs.get(name) is not job)

    def forget(self, owner: Object) -> None:
        """The owner is gone."""
        self._jobs.pop(owner.metadata.uid or "", None)

    def _keep(self, owner: Object, wanted: Callable[[str, Job], bool]) -> dict[str, Job]:
        uid = owner.metadata.uid or ""
        left = {name: job for name, job in self._jobs.pop(uid, {}).items() if wanted(name, job)}
        if left:
            self._jobs[uid] = left
        return left
