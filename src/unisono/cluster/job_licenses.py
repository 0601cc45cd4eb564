"""What jobs hold of floating resources as a whole, once for all their pods; their sums follow."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unisono.cluster.records import Job
from unisono.cluster.resources import ResourceRegistry, Vector, add
from unisono.cluster.status import ALLOCATED_STATES, TaskStatus, count

_STAYING = (*ALLOCATED_STATES, TaskStatus.UNKNOWN)


def keeps_places(job: Job) -> bool:
    """Whether a pod of the job is on a node and does not terminate."""
    return any(job.counts[status] for status in _STAYING)


def holds_licenses(job: Job) -> bool:
    """Whether a pod of the job is on a node: then it holds what it asks for as a whole."""
    return bool(job.releasing_on_node) or keeps_places(job)


def leave_together(job: Job) -> bool:
    """Whether all pods of the job that are on a node terminate, and there are some."""
    return bool(job.releasing_on_node) and not keeps_places(job)


class JobLicenses:
    """The jobs of one book that ask for some.

    Attributes:
        jobs: by key.
    """

    def __init__(self, registry: ResourceRegistry) -> None:
        self.registry = registry
        self.jobs: dict[str, Job] = {}
        self._counted: dict[str, tuple[Vector, bool]] = {}

    def put(self, job: Job, licenses: Mapping[str, int]) -> None:
        """The job asks for these from now on (engine units by resource name); for none where they are empty."""
        if not licenses and not job.licenses:
            return
        self._take_back(job)
        job.licenses = licenses
        job.license_vector = self.registry.vector(licenses) if licenses else None
        if licenses:
            self.jobs[job.key] = job
        else:
            self.jobs.pop(job.key, None)

    def beside(self, licenses: Mapping[str, int], minimum: Mapping[str, int] | None) -> Mapping[str, int] | None:
        """MinResources of the pods, and what their job asks for besides."""
        if not licenses:
            return minimum
        pods = minimum or {}
        return {**pods, **{name: pods.get(name, 0) + amount for name, amount in licenses.items()}}

    def count(self, job: Job) -> None:
        """Let the sums of a job follow its pods: it holds while one has a place, and asks while one waits."""
        if job.license_vector is None:
            return
        self._take_back(job)
        held = bool(count(job.counts, ALLOCATED_STATES))
        if held or job.pending:
            self._counted[job.key] = job.license_vector, held
            _add(job, job.license_vector, 1, held=held)

    def _take_back(self, job: Job) -> None:
        before = self._counted.pop(job.key, None)
        if before is not None:
            _add(job, before[0], -1, held=before[1])

    def clear(self) -> None:
        """The sums of all jobs are empty again."""
        self._counted.clear()

    def held(self) -> dict[int, int]:
        """What jobs hold, by row; those whose last pods terminate hold theirs until they are gone."""
        amounts: dict[int, int] = {}
        for job in self.jobs.values():
            if job.license_vector is not None and holds_licenses(job):
                for row in np.flatnonzero(job.license_vector).tolist():
                    amounts[row] = amounts.get(row, 0) + int(job.license_vector[row])
        return amounts


def _add(job: Job, vector: Vector, sign: int, *, held: bool) -> None:
    job.request = add(job.request, vector, sign)
    if held:
        job.allocated = add(job.allocated, vector, sign)
