"""Carrying out the plans of training jobs: annotations of the job, Services of pods, and the job's own end."""

from __future__ import annotations

from typing import Any, TypeVar

from unisono.api.base import Object
from unisono.api.kinds import PODS, SERVICES
from unisono.controllers.execution import Executor, Wording
from unisono.controllers.training.plan import Plan

T = TypeVar("T", bound=Object)


class TrainingExecutor(Executor[T, Plan]):
    """Carries out plans for training jobs of one kind, with the events of training operators."""

    wording = Wording(
        ensure="Error creating: ",
        permanent="Error creating: ",
        group=("FailedCreatePodGroup", "Error creating: "),
        create=("FailedCreate{kind}", "Error creating: "),
        delete=("FailedDeletePod", "Error deleting: "),
        successes=True,
    )

    async def prepare(self, job: T, plan: Plan) -> T:
        """Write the job's annotations."""
        if not plan.annotations:
            return job
        meta = job.metadata
        patch: dict[str, Any] = {"metadata": {"uid": meta.uid, "annotations": plan.annotations}}
        return await self._client.patch(self._kind, meta.name, patch, namespace=meta.namespace)

    async def before_pods(self, job: T, plan: Plan) -> None:
        """Bring Services to the wanted ones: pods find each other by them from their first moment."""
        for service in plan.delete_services:
            await self.delete_one(job, SERVICES, service)
        await self.create_all(job, SERVICES, plan.create_services, lambda service: service)

    async def make_pods(self, job: T, plan: Plan) -> None:
        """Create the pods."""
        await self.create_all(job, PODS, plan.create_pods, lambda build: build())

    async def finish(self, job: T, plan: Plan) -> None:
        """Delete the job when its time is over."""
        if plan.delete_job:
            meta = job.metadata
            await self._client.delete(self._kind, meta.name, meta.namespace, uid=meta.uid, propagation="Background")
