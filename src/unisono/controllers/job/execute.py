"""Carrying out a plan: the only place where the job controller writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from unisono.api.batch import Job
from unisono.api.core import Pod
from unisono.api.kinds import COMMANDS, JOBS, POD_GROUPS, PODS
from unisono.controllers.expectations import Expectations
from unisono.controllers.job.plan import Notice, Plan, PodSlot, Resource
from unisono.controllers.job.plugins import PluginError, load
from unisono.controllers.job.pods import PodBuilder
from unisono.controllers.job.view import JobView
from unisono.controllers.objects import Vanishing, create_once, delete_owned, delete_seen, ensure, ensure_seeded
from unisono.controllers.parallel import PARALLEL, for_each
from unisono.controllers.patching import merge_diff, to_json
from unisono.errors import NotFound, UnisonoError
from unisono.kube.client import Client
from unisono.kube.clock import Clock

# Runs a function that computes for long away from the event loop, and answers its result.
Offload = Callable[[Callable[[], dict[str, str]]], Awaitable[dict[str, str]]]

# Seconds until objects of a former job of the same name are looked at again.
_VANISHING_RETRY = 1.0


class Executor:
    """Carries out plans; keeps nothing but savings of requests."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        expectations: Expectations,
        notify: Callable[[Job, Notice], None],
        offload: Offload = asyncio.to_thread,
    ) -> None:
        self._client, self._clock, self._expectations, self._notify = client, clock, expectations, notify
        self._offload = offload
        # Digests of what was applied, by UID of the job: equal objects are not written again.
        self._applied: dict[str, dict[tuple[str, str], bytes]] = {}

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._applied.pop(uid, None)
        self._expectations.forget(uid)

    async def run(self, job: Job, plan: Plan) -> tuple[Job, float | None]:
        """Carry out the plan step by step; the first failing step ends it.

        Returns:
            the job as it was written last, and the seconds after which to decide again.

        Raises:
            ApiError: a request failed; deciding again continues where this stopped.

        """
        view = JobView(job)
        await self._mark(view, plan)
        if plan.remove_resources:
            await self._remove_resources(view)
        if plan.status is not None:
            job = await self._write_status(job, plan)
        for notice in plan.notices:
            self._notify(job, notice)
        for command in plan.commands:
            await delete_seen(self._client, COMMANDS, command)
        try:
            await self._objects(job, plan)
        except Vanishing:
            return job, _VANISHING_RETRY
        return job, plan.requeue_after

    async def _objects(self, job: Job, plan: Plan) -> None:
        for resource in plan.ensure:
            await self._ensure(job, resource)
        if plan.delete_group is not None:
            await delete_seen(self._client, POD_GROUPS, plan.delete_group)
        if plan.create_group is not None:
            await self._warned(job, "PodGroupError", "Failed to create PodGroup, err: ", self._create_group(plan))
        if plan.patch_group is not None:
            name, namespace = JobView(job).pod_group_name, job.metadata.namespace
            await self._client.patch(POD_GROUPS, name, plan.patch_group, namespace=namespace)
        await self._delete_pods(job, plan.delete_pods)
        if plan.create_pods:
            await self._create_pods(job, plan.create_pods)

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

    async def _write_status(self, job: Job, plan: Plan) -> Job:
        patch = {
            "metadata": {"resourceVersion": job.metadata.resource_version},
            "status": merge_diff(to_json(job.status), to_json(plan.status)),
        }
        meta = job.metadata
        return await self._client.patch(JOBS, meta.name, patch, namespace=meta.namespace, subresource="status")

    async def _create_group(self, plan: Plan) -> None:
        if plan.create_group is not None:
            await create_once(self._client, POD_GROUPS, plan.create_group)

    async def _ensure(self, job: Job, resource: Resource) -> None:
        obj = resource.obj
        applied = self._applied.setdefault(job.metadata.uid or "", {})
        place, content = (resource.kind.plural, obj.metadata.name), msgspec.json.encode(obj)
        if applied.get(place) == content:
            return
        text = "Failed to create PVC, err: " if resource.permanent else "Execute plugin when job add failed, err: "
        await self._warned(job, resource.warning, text, self._make(resource))
        applied[place] = content

    async def _make(self, resource: Resource) -> None:
        seed = resource.first_data
        if seed is None:
            await ensure(self._client, resource.kind, resource.obj, permanent=resource.permanent)
        else:
            await ensure_seeded(self._client, resource.kind, resource.obj, lambda: self._offload(seed))

    async def _remove_resources(self, view: JobView) -> None:
        self._applied.pop(view.uid, None)
        try:
            plugins = load(view)
        except PluginError:
            return
        for plugin in plugins:
            for resource in plugin.resources():
                if not resource.permanent:
                    await delete_owned(self._client, resource.kind, resource.obj)

    async def _delete_pods(self, job: Job, pods: Sequence[Pod]) -> None:
        errors = await for_each(lambda pod: delete_seen(self._client, PODS, pod), pods)
        self._report(job, errors, "FailedDelete", "Error deleting pods: ")

    async def _create_pods(self, job: Job, slots: Sequence[PodSlot]) -> None:
        """Create pods in batches that grow while all goes well, so that a quota refuses one pod and not a thousand."""
        view = JobView(job)
        builder = PodBuilder(view, load(view))
        done, batch = 0, 1
        while done < len(slots):
            part = slots[done : done + batch]
            errors = await for_each(lambda slot: self._create_pod(view, builder, slot), part)
            self._report(job, errors, "FailedCreate", "Error creating pods: ")
            done, batch = done + len(part), min(batch * 4, PARALLEL * 4)

    async def _create_pod(self, view: JobView, builder: PodBuilder, slot: PodSlot) -> None:
        task = view.task(slot.task)
        if task is None:
            return
        pod = builder.build(task, slot.index)
        # Expected before it is asked for: the watch may be faster than the answer.
        self._expectations.expect(view.uid, slot.name, self._clock.monotonic())
        try:
            await create_once(self._client, PODS, pod)
        except BaseException:
            self._expectations.settle(view.uid, slot.name)
            raise

    async def _warned(self, job: Job, reason: str, text: str, work: Awaitable[None]) -> None:
        try:
            await work
        except Vanishing:
            raise
        except UnisonoError as error:
            self._notify(job, Notice("Warning", reason, f"{text}{error}"))
            raise

    def _report(self, job: Job, errors: Sequence[Exception], reason: str, text: str) -> None:
        real = [error for error in errors if not isinstance(error, Vanishing)]
        if real:
            self._notify(job, Notice("Warning", reason, f"{text}{real[0]}"))
            raise real[0]
        if errors:
            raise errors[0]
