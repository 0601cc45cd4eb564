"""Carrying out the plans of Volcano Jobs: marks on pods, commands, what plug-ins made, and pods built one by one."""

from __future__ import annotations

from typing import Any

import msgspec

from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.groups.batch import Job
from unisono.api.kind import Kind
from unisono.api.kinds import COMMANDS, JOBS, PODS
from unisono.controllers.execution import Executor, Wording
from unisono.controllers.job.metrics import JobMetrics
from unisono.controllers.job.plan import Plan, PodSlot
from unisono.controllers.job.plugins import PluginError, load
from unisono.controllers.job.pods import PodBuilder
from unisono.controllers.job.view import JobView
from unisono.controllers.objects import delete_owned, delete_seen
from unisono.controllers.parallel import for_each
from unisono.controllers.patching import to_json
from unisono.errors import NotFound


class JobExecutor(Executor[Job, Plan]):
    """Carries out plans of Volcano Jobs, with Volcano's events."""

    wording = Wording(
        ensure="Execute plugin when job add failed, err: ",
        permanent="Failed to create PVC, err: ",
        group=("PodGroupError", "Failed to create PodGroup, err: "),
        create=("FailedCreate", "Error creating pods: "),
        delete=("FailedDelete", "Error deleting pods: "),
        successes=False,
    )

    def __init__(self, *args: Any, metrics: JobMetrics, **options: Any) -> None:
        super().__init__(*args, **options)
        self._metrics = metrics

    def made(self, job: Job, kind: Kind[Any], obj: Object) -> None:
        """Note how old the job is."""
        self._metrics.created(job, obj)

    async def prepare(self, job: Job, plan: Plan) -> Job:
        """Mark pods, name claims in the spec, and remove what plug-ins made while the status still knows of it."""
        view = JobView(job)
        await self._mark(view, plan)
        if plan.remove_resources:
            await self._remove_resources(view)
        if not plan.volumes:
            return job
        meta = job.metadata
        # A list is written as a whole: only over the one that was read.
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "spec": {"volumes": [to_json(volume) for volume in plan.volumes]},
        }
        return await self._client.patch(JOBS, meta.name, patch, namespace=meta.namespace)

    async def before_objects(self, job: Job, plan: Plan) -> None:
        """Drop commands once the status holds what they led to."""
        for command in plan.commands:
            await delete_seen(self._client, COMMANDS, command)

    async def make_pods(self, job: Job, plan: Plan) -> None:
        """Build and create the pods."""
        if not plan.create_pods:
            return
        view = JobView(job)
        builder = PodBuilder(view, load(view))

        def build(slot: PodSlot) -> Pod | None:
            task = view.task(slot.task)
            return None if task is None else builder.build(task, slot.index)

        await self.create_all(job, PODS, plan.create_pods, build)

    async def _mark(self, view: JobView, plan: Plan) -> None:
        async def mark(name: str) -> None:
            patch = {"metadata": {"annotations": plan.marks[name]}}
            try:
                await self._client.patch(PODS, name, patch, namespace=view.namespace)
            except NotFound:
                return

        errors = await for_each(mark, list(plan.marks))
        if errors:
            raise errors[0]

    async def _remove_resources(self, view: JobView) -> None:
        self._applied.pop(view.uid, None)
        try:
            # What they made has the same name whatever the number of pods, and the lists of hosts are not needed.
            plugins = load(JobView(_without_pods(view.job)))
        except PluginError:
            return
        for plugin in plugins:
            for resource in plugin.resources():
                if not resource.permanent:
                    await delete_owned(self._client, resource.kind, resource.obj)


def _without_pods(job: Job) -> Job:
    tasks = [msgspec.structs.replace(task, replicas=0) for task in job.spec.tasks or ()]
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, tasks=tasks))
