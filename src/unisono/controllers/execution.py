"""Jobs of every kind: their plans are carried out here and nowhere else, and refused pods are tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from unisono.api.annotations import USE
from unisono.api.base import Object
from unisono.api.core import PriorityClass, ResourceQuota
from unisono.api.groups.scheduling import Queue
from unisono.api.kind import Kind
from unisono.api.kinds import POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, RESOURCE_QUOTAS, SERVICE_ACCOUNTS
from unisono.api.quantity import QuantityError, parse_quantity
from unisono.controllers.objects import (
    PARALLEL,
    BeingDeleted,
    Deletions,
    Expectations,
    LastWritten,
    create_once,
    delete_owned,
    delete_seen,
    ensure,
    ensure_seeded,
    for_each,
    write_status,
)
from unisono.controllers.plan import BasePlan, Resource
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.errors import NotFound, UnisonoError
from unisono.kube.client import Client, EventType
from unisono.kube.clock import Clock
from unisono.kube.controller import Context, Controller, Retry, free_frames
from unisono.kube.informer import Informer

# Try again at once when what refused pods, pod groups or jobs has changed.


def all_when_classes_come(context: Context, owners: Informer[Any]) -> Informer[PriorityClass]:
    """Queue all owners when a priority class is created, as its value counts; answers the cache of such classes."""

    def keys(_: PriorityClass) -> Iterable[str]:
        return list(owners.keys())

    return context.watch(PRIORITY_CLASSES, keys, when=_is_new)


def _is_new(event: EventType, *_: object) -> bool:
    return event == "ADDED"


def _takes_others(event: EventType, new: Queue, old: Queue | None) -> bool:
    """It was opened, is there now, or says otherwise whose jobs it takes, and how many."""
    return event != "MODIFIED" or old is None or _word(new) != _word(old)


def _word(queue: Queue) -> tuple[object, ...]:
    # What users have used of it is written every few minutes, and keeps no job out.
    notes = {key: text for key, text in (queue.metadata.annotations or {}).items() if key != USE}
    return queue.spec, queue.status.state, notes, queue.metadata.labels


def _allows_other_amounts(event: EventType, new: ResourceQuota, old: ResourceQuota | None) -> bool:
    return event == "DELETED" or (old is not None and old.spec.hard != new.spec.hard)


def _has_more_left(event: EventType, new: ResourceQuota, old: ResourceQuota | None) -> bool:
    """Less of something is used than before; also where that cannot be read."""
    before, now = (old.status.used if old is not None else None) or {}, new.status.used or {}
    try:
        return any(parse_quantity(now.get(name, 0)) < parse_quantity(amount) for name, amount in before.items())
    except QuantityError:
        return True


RETRIES = (
    Retry(QUEUES, _takes_others),
    Retry(RESOURCE_QUOTAS, _allows_other_amounts),
    Retry(RESOURCE_QUOTAS, _has_more_left, most=8),
    Retry(SERVICE_ACCOUNTS, _is_new),
    Retry(PRIORITY_CLASSES, _is_new),
)
"""When what the server refused to make is tried again; what a pod that ended has left is enough for a few."""


# Carrying out the plans of jobs of every kind: the only place where their controllers write.

T = TypeVar("T", bound=Object)
P = TypeVar("P", bound=BasePlan)
Item = TypeVar("Item")
Notify = Callable[[Any, Notice], None]
# Runs a function that computes for long away from the event loop, and answers its result.
Offload = Callable[[Callable[[], dict[str, str]]], Awaitable[dict[str, str]]]

# Seconds until objects of a former job of the same name are looked at again.
_DELETION_RETRY = 1.0


@dataclass(frozen=True, slots=True)
class Wording:
    """Words of the events of one family of kinds, which clients of the family know; ``{kind}`` is what was made.

    Attributes:
        ensure: what stands before the error when an object beside the pods cannot be made.
        permanent: the same for an object that is made once.
        group: reason and text when the pod group cannot be made.
        create: reason and text when pods or Services cannot be made.
        delete: reason and text when pods cannot be deleted.
        successes: whether every object that is made or deleted gets an event.

    """

    ensure: str
    permanent: str
    group: tuple[str, str]
    create: tuple[str, str]
    delete: tuple[str, str]
    successes: bool


class Executor(Generic[T, P]):
    """Carries out plans for jobs of one kind; keeps nothing but savings of requests.

    Subclasses say what is their kind's own: ``wording``, and steps before and between the common ones.
    """

    wording: Wording

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
        self._deletions = Deletions()

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._applied.pop(uid, None)
        self._expectations.forget(uid)

    async def run(self, job: T, plan: P) -> tuple[T, float | None]:
        """Carry out the plan step by step; the first failing step ends it.

        Returns:
            the job as it was written last, and the seconds after which to decide again.

        Raises:
            ApiError: a request failed; deciding again continues where this stopped.

        """
        job = await self.prepare(job, plan)
        if plan.status is not None:
            job = await write_status(self._client, self._kind, job, plan.status)
        for notice in plan.notices:
            self._notify(job, notice)
        try:
            await self._objects(job, plan)
        except BeingDeleted:
            return job, _DELETION_RETRY
        await self.finish(job, plan)
        return job, plan.requeue_after

    # --- what kinds add -----------------------------------------------------------------------------------------

    async def prepare(self, job: T, plan: P) -> T:
        """Steps before the status; answers the job as it is then."""
        return job

    async def before_objects(self, job: T, plan: P) -> None:
        """Steps after the status and its events."""

    async def before_pods(self, job: T, plan: P) -> None:
        """Steps after the pod group."""

    async def make_pods(self, job: T, plan: P) -> None:
        """Make the pods."""

    async def finish(self, job: T, plan: P) -> None:
        """Steps after everything else."""

    def made(self, job: T, kind: Kind[Any], obj: Object) -> None:
        """An object of `create_all` was created, as the server answered it."""

    # --- common steps -------------------------------------------------------------------------------------------

    async def _objects(self, job: T, plan: P) -> None:
        await self.before_objects(job, plan)
        namespace = job.metadata.namespace
        for kind, obj in plan.remove:
            self._applied.get(job.metadata.uid or "", {}).pop((kind.plural, obj.metadata.name), None)
            await delete_owned(self._client, kind, obj)
        for resource in plan.ensure:
            await self._ensure(job, resource)
        for kind, name, patch in plan.patches:
            await self._client.patch(kind, name, patch, namespace=namespace)
        if plan.delete_group is not None:
            await self._delete_once(POD_GROUPS, plan.delete_group)
        if plan.create_group is not None:
            await self._warned(job, *self.wording.group, create_once(self._client, POD_GROUPS, plan.create_group))
        if plan.patch_group is not None:
            name, patch = plan.patch_group
            await self._client.patch(POD_GROUPS, name, patch, namespace=namespace)
        await self.before_pods(job, plan)
        errors = await for_each(lambda pod: self.delete_one(job, PODS, pod), plan.delete_pods)
        self._report(job, errors, *self.wording.delete)
        await self.make_pods(job, plan)

    async def create_all(
        self, job: T, kind: Kind[Any], items: Sequence[Item], build: Callable[[Item], Object | None]
    ) -> None:
        """Create in batches that grow while all goes well, so that a quota refuses one pod and not a thousand.

        Args:
            job: the owner.
            kind: what to make.
            items: one per object, in order.
            build: makes the object of an item when its turn has come; None to leave it out.

        """
        done, batch = 0, 1
        while done < len(items):
            part = items[done : done + batch]
            errors = await for_each(lambda item: self._create(job, kind, build(item)), part)
            reason, text = self.wording.create
            self._report(job, errors, reason.format(kind=kind.kind), text)
            done, batch = done + len(part), min(batch * 4, PARALLEL * 4)

    async def delete_one(self, job: T, kind: Kind[Any], obj: Object) -> None:
        """Delete an object by its uid, once, and record an event."""
        if await self._delete_once(kind, obj) and self.wording.successes:
            text = f"Deleted {kind.kind.lower()}: {obj.metadata.name}"
            self._notify(job, Notice("Normal", f"SuccessfulDelete{kind.kind}", text))

    async def _delete_once(self, kind: Kind[Any], obj: Object) -> bool:
        """Whether the server was asked now: what the watch still shows may be gone already."""
        uid = obj.metadata.uid or ""
        if self._deletions.pending(uid, self._clock.monotonic()):
            return False
        await delete_seen(self._client, kind, obj)
        self._deletions.note(uid, self._clock.monotonic())
        return True

    async def _create(self, job: T, kind: Kind[Any], obj: Object | None) -> None:
        if obj is None:
            return
        uid, key = job.metadata.uid or "", expectation(kind, obj)
        # Expected before it is asked for: the watch may be faster than the answer.
        self._expectations.expect(uid, key, self._clock.monotonic())
        try:
            with self._client.pace.urgent():
                created = await create_once(self._client, kind, obj)
        except BaseException:
            self._expectations.settle(uid, key)
            raise
        if created is None:
            return
        self.made(job, kind, created)
        if self.wording.successes:
            text = f"Created {kind.kind.lower()}: {obj.metadata.name}"
            self._notify(job, Notice("Normal", f"SuccessfulCreate{kind.kind}", text))

    async def _ensure(self, job: T, resource: Resource) -> None:
        obj = resource.obj
        applied = self._applied.setdefault(job.metadata.uid or "", {})
        place, content = (resource.kind.plural, obj.metadata.name), msgspec.json.encode(obj)
        if applied.get(place) == content and not resource.missing:
            return
        text = self.wording.permanent if resource.permanent else self.wording.ensure
        await self._warned(job, resource.warning, text, self._make(resource))
        applied[place] = content

    async def _make(self, resource: Resource) -> None:
        seed = resource.first_data
        if seed is None:
            await ensure(self._client, resource.kind, resource.obj, permanent=resource.permanent)
        else:
            await ensure_seeded(self._client, resource.kind, resource.obj, lambda: self._offload(seed))

    async def _warned(self, job: T, reason: str, text: str, work: Awaitable[object]) -> None:
        try:
            await work
        except BeingDeleted:
            raise
        except UnisonoError as error:
            self._notify(job, Notice("Warning", reason, f"{text}{error}"))
            raise

    def _report(self, job: T, errors: Sequence[Exception], reason: str, text: str) -> None:
        real = [error for error in errors if not isinstance(error, BeingDeleted)]
        if real:
            self._notify(job, Notice("Warning", reason, f"{text}{real[0]}"))
            raise real[0]
        if errors:
            raise errors[0]


def expectation(kind: Kind[Any], obj: Object) -> str:
    """Under which name an object is expected: a pod and its Service have the same name."""
    return f"{kind.plural}/{obj.metadata.name}"


# Base of the controllers that run jobs as gangs: what they keep of a job, and how they carry out a plan.


class GangController(Controller, Generic[T, P]):
    """Base of the controllers; ``setup`` of a subclass fills the attributes that are only declared here."""

    _client: Client
    _clock: Clock
    _jobs: Informer[T]
    _priorities: Informer[PriorityClass]
    _executor: Executor[T, P]

    def __init__(self, recorder: Recorder, offload: Offload = asyncio.to_thread) -> None:
        """``offload`` runs what computes for long, such as the making of keys, away from the event loop."""
        self._announcer, self._offload = Announcer(recorder), offload
        self._expectations = Expectations()
        self._written: LastWritten[T] = LastWritten()

    def wrote(self, job: T) -> None:
        """Called with a job whose status was written."""

    async def _carry_out(self, key: str, job: T, plan: P) -> float | None:
        """Carry a plan out; answers after how many seconds to decide again."""
        try:
            written, again = await self._executor.run(job, plan)
        except NotFound as error:
            if self._jobs.get(key) is None:
                free_frames(error)
                return None
            raise
        if written is not job:
            self._written.keep(written)
            self.wrote(written)
        return again

    def _expected(self, job: T) -> frozenset[str]:
        """What was made for a job and the caches do not show yet: ``pods/<name>``, ``services/<name>``."""
        return self._expectations.pending(job.metadata.uid or "", self._clock.monotonic())

    def _priority(self, name: str | None) -> int:
        """Value of a priority class, 0 when it is unknown."""
        priority_class = self._priorities.get(name) if name else None
        return (priority_class.value or 0) if priority_class else 0

    def _notify(self, job: Any, notice: Notice) -> None:
        self._announcer.tell(job, [notice])

    def _forget(self, job: T) -> None:
        """Drop what is kept of a deleted job."""
        self._executor.forget(job.metadata.uid or "")
        self._announcer.forget(job)
