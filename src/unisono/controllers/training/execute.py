"""Carrying out the plans of training jobs: the only place where their controllers write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from unisono.api.base import Object
from unisono.api.kind import Kind
from unisono.api.kinds import POD_GROUPS, PODS, SERVICES
from unisono.controllers.expectations import Expectations
from unisono.controllers.job.plan import Notice, Resource
from unisono.controllers.objects import Vanishing, create_once, delete_owned, delete_seen, ensure, ensure_seeded
from unisono.controllers.parallel import PARALLEL, for_each
from unisono.controllers.patching import merge_diff, to_json
from unisono.controllers.training.plan import Plan
from unisono.errors import UnisonoError
from unisono.kube.client import Client
from unisono.kube.clock import Clock

T = TypeVar("T", bound=Object)
Notify = Callable[[Any, Notice], None]
# Runs a function that computes for long away from the event loop, and answers its result.
Offload = Callable[[Callable[[], dict[str, str]]], Awaitable[dict[str, str]]]

# Seconds until objects of a former job of the same name are looked at again.
_VANISHING_RETRY = 1.0


class Executor(Generic[T]):
    """Carries out plans for jobs of one kind; keeps nothing but savings of requests."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        kind: Kind[T],
        expectations: Expectations,
        notify: Notify,
        offload: Offload = asyncio.to_thread,
    ) -> None:
        self._client, self._clock, self._kind = client, clock, kind
        self._expectations, self._notify, self._offload = expectations, notify, offload
        # Digests of what was applied, by UID of the job: equal objects are not written again.
        self._applied: dict[str, dict[tuple[str, str], bytes]] = {}

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._applied.pop(uid, None)
        self._expectations.forget(uid)

    async def run(self, job: T, plan: Plan) -> tuple[T, float | None]:
        """Carry out the plan step by step; the first failing step ends it.

        Returns:
            the job as it was written last, and the seconds after which to decide again.

        Raises:
            ApiError: a request failed; deciding again continues where this stopped.

        """
        meta = job.metadata
        if plan.annotations:
            patch: dict[str, Any] = {"metadata": {"uid": meta.uid, "annotations": plan.annotations}}
            job = await self._client.patch(self._kind, meta.name, patch, namespace=meta.namespace)
        if plan.status is not None:
            job = await self._write_status(job, plan.status)
        for notice in plan.notices:
            self._notify(job, notice)
        try:
            await self._objects(job, plan)
        except Vanishing:
            return job, _VANISHING_RETRY
        if plan.delete_job:
            await self._client.delete(self._kind, meta.name, meta.namespace, uid=meta.uid, propagation="Background")
        return job, plan.requeue_after

    async def _objects(self, job: T, plan: Plan) -> None:
        for kind, obj in plan.remove:
            self._applied.get(job.metadata.uid or "", {}).pop((kind.plural, obj.metadata.name), None)
            await delete_owned(self._client, kind, obj)
        for resource in plan.ensure:
            await self._ensure(job, resource)
        for kind, name, patch in plan.patches:
            await self._client.patch(kind, name, patch, namespace=job.metadata.namespace)
        if plan.delete_group is not None:
            await delete_seen(self._client, POD_GROUPS, plan.delete_group)
        if plan.create_group is not None:
            await self._create_group(job, plan)
        if plan.patch_group is not None:
            name, patch = plan.patch_group
            await self._client.patch(POD_GROUPS, name, patch, namespace=job.metadata.namespace)
        for service in plan.delete_services:
            await self._delete(job, SERVICES, "service", service)
        await self._create_all(job, SERVICES, plan.create_services)
        errors = await for_each(lambda pod: self._delete(job, PODS, "pod", pod), plan.delete_pods)
        self._report(job, errors, "FailedDeletePod", "Error deleting: ")
        await self._create_all(job, PODS, plan.create_pods)

    async def _delete(self, job: T, kind: Kind[Any], what: str, obj: Object) -> None:
        await delete_seen(self._client, kind, obj)
        text = f"Deleted {what}: {obj.metadata.name}"
        self._notify(job, Notice("Normal", f"SuccessfulDelete{kind.kind}", text))

    async def _write_status(self, job: T, status: msgspec.Struct) -> T:
        meta = job.metadata
        patch = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": merge_diff(to_json(job.status), to_json(status)),  # type: ignore[attr-defined]
        }
        return await self._client.patch(self._kind, meta.name, patch, namespace=meta.namespace, subresource="status")

    async def _ensure(self, job: T, resource: Resource) -> None:
        obj = resource.obj
        applied = self._applied.setdefault(job.metadata.uid or "", {})
        place, content = (resource.kind.plural, obj.metadata.name), msgspec.json.encode(obj)
        if applied.get(place) == content:
            return
        seed = resource.first_data
        try:
            if seed is None:
                await ensure(self._client, resource.kind, obj, permanent=resource.permanent)
            else:
                await ensure_seeded(self._client, resource.kind, obj, lambda: self._offload(seed))
        except Vanishing:
            raise
        except UnisonoError as error:
            self._notify(job, Notice("Warning", resource.warning, f"Error creating: {error}"))
            raise
        applied[place] = content

    async def _create_group(self, job: T, plan: Plan) -> None:
        if plan.create_group is None:
            return
        try:
            await create_once(self._client, POD_GROUPS, plan.create_group)
        except Vanishing:
            raise
        except UnisonoError as error:
            self._notify(job, Notice("Warning", "FailedCreatePodGroup", f"Error creating: {error}"))
            raise

    async def _create_all(self, job: T, kind: Kind[Any], objects: Sequence[Object]) -> None:
        """Create in batches that grow while all goes well, so that a quota refuses one pod and not a thousand."""
        done, batch = 0, 1
        while done < len(objects):
            part = objects[done : done + batch]
            errors = await for_each(lambda obj: self._create(job, kind, obj), part)
            self._report(job, errors, f"FailedCreate{kind.kind}", "Error creating: ")
            done, batch = done + len(part), min(batch * 4, PARALLEL * 4)

    async def _create(self, job: T, kind: Kind[Any], obj: Object) -> None:
        uid, key = job.metadata.uid or "", expectation(kind, obj)
        # Expected before it is asked for: the watch may be faster than the answer.
        self._expectations.expect(uid, key, self._clock.monotonic())
        try:
            created = await create_once(self._client, kind, obj)
        except BaseException:
            self._expectations.settle(uid, key)
            raise
        if created is not None:
            text = f"Created {kind.kind.lower()}: {obj.metadata.name}"
            self._notify(job, Notice("Normal", f"SuccessfulCreate{kind.kind}", text))

    def _report(self, job: T, errors: Sequence[Exception], reason: str, text: str) -> None:
        real = [error for error in errors if not isinstance(error, Vanishing)]
        if real:
            self._notify(job, Notice("Warning", reason, f"{text}{real[0]}"))
            raise real[0]
        if errors:
            raise errors[0]


def expectation(kind: Kind[Any], obj: Object) -> str:
    """Under which name an object is expected: a pod and its Service have the same name."""
    return f"{kind.plural}/{obj.metadata.name}"
