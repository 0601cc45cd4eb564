"""The controller of JobSets."""

from __future__ import annotations

from unisono.api.groups.job_set import JobSet
from unisono.api.kind_families import JOB_SETS
from unisono.controllers.training.controller import Seen, TrainingController
from unisono.controllers.training.jobset.decide import decide as decide_job_set
from unisono.controllers.training.plan import Plan


class JobSetController(TrainingController[JobSet]):
    """Makes the pods of JobSets."""

    name = "jobset-controller"
    kind = JOB_SETS

    def decide(self, seen: Seen[JobSet], now: float) -> Plan:
        """The next step for the JobSet."""
        return decide_job_set(seen, now)
