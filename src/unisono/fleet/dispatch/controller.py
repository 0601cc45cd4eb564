"""Carries out what is decided about jobs of a hub: placements, copies in members, and their status back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from unisono.api.annotations import CLUSTER, DISPATCH, HUB, LAST_CLUSTER, MACHINES, ORIGIN_UID, WORKER_LOST_TIMEOUT
from unisono.api.base import Object
from unisono.api.conditions import ENDED
from unisono.api.groups.batch import Job
from unisono.api.kind import Kind
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.kinds import JOBS, POD_GROUPS, PRIORITY_CLASSES
from unisono.api.promised_machines import machines_text, promised_machines
from unisono.controllers.objects import LastWritten, delete_seen
from unisono.controllers.owners import controller_keys, family, index, keys_of
from unisono.controllers.recorder import Recorder
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound
from unisono.fleet.dispatch.guide import Guide, PartOf
from unisono.fleet.hub_state import HubState
from unisono.fleet.hyper_jobs.controller import OWNER_INDEX, GangController, Part
from unisono.fleet.hyper_jobs.divided_jobs import is_divided
from unisono.fleet.hyper_jobs.exports import export
from unisono.fleet.hyper_jobs.work import part_work
from unisono.fleet.jobs import described
from unisono.fleet.jobs.copies import (
    Copy,
    Placement,
    annotated_seconds,
    copy_to_write,
    expires_in,
    placement_of,
    status_patch,
    waiting_patch,
)
from unisono.fleet.jobs.decide import WORKER_LOST_TIMEOUT as DEFAULT_TIMEOUT
from unisono.fleet.jobs.decide import JobView, Steps, decide, is_trusted
from unisono.fleet.jobs.work import Work, bring_group, can_be_held, changes, disbelief, is_held, work_of
from unisono.fleet.machines.promises import Machines
from unisono.fleet.members.joining import bring, is_refusal, name_taken, namesake, remove_copies
from unisono.fleet.members.member import Busy, Member
from unisono.fleet.policies.book import PolicyBook
from unisono.fleet.telling import Telling
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.registry import has_ended
from unisono.kube.client import Client
from unisono.kube.controller import Context, Controller, sooner

# What stands for Volcano Jobs, remembered for as long as nothing that it is made of changes.

_MARKS = frozenset((CLUSTER, DISPATCH, LAST_CLUSTER, MACHINES))


class KnownWork:
    """A job is looked at some seven times on its way to its member, mostly because its copy tells something."""

    def __init__(self, priority: Callable[[str | None], int]) -> None:
        """``priority`` is the value of a priority class."""
        self._priority = priority
        self._known: dict[str, tuple[object, Work | None]] = {}

    def of(self, kind: Kind[Any], job: Any, now: float) -> Work | None:
        """See `work_of`."""
        if not isinstance(job, Job):
            return work_of(kind, job, now, self._priority)
        meta = job.metadata
        own = {key: value for key, value in (meta.annotations or {}).items() if key not in _MARKS}
        key = (meta.uid, meta.generation, job.status.version, own, meta.labels)
        cached = self._known.get(job.key)
        if cached is None or cached[0] != key or not meta.generation:
            cached = self._known[job.key] = key, work_of(kind, job, now, self._priority)
        return cached[1]

    def forget(self, key: str) -> None:
        """A job needs no pods any more."""
        self._known.pop(key, None)

    def clear(self) -> None:
        """Priority classes have changed."""
        self._known.clear()


# Pods outlive the copy that they belong to, by the time that they have to end.


class LeftPods:
    """Where pods of earlier dispatches of a job are: it is sent nowhere else before they have ended.

    A member that answers may keep pods for ever, and its users write labels. So they are waited for no longer than a
    member that does not answer.
    """

    def __init__(self, state: HubState) -> None:
        self._state = state
        self._since: dict[str, float] = {}

    def look(self, key: str, job: Object, copies: Iterable[Copy], now: float) -> set[str]:
        """The members whose pods are to be waited for."""
        remaining = self._state.stand_ins.left_in(job.metadata.uid or "") - {copy.cluster for copy in copies}
        if not remaining:
            self._since.pop(key, None)
            return remaining
        since = self._since.setdefault(key, now)
        return remaining if now - since < annotated_seconds(job, WORKER_LOST_TIMEOUT, DEFAULT_TIMEOUT) else set()

    def forget(self, key: str) -> None:
        """The job is gone."""
        self._since.pop(key, None)


_LEFT_SECONDS = 1.0

# Until copies of a kind that has been described just now are known.
_UNREAD_SECONDS = 1.0
# One that takes no ServiceExport, after so long.
_EXPORT_SECONDS = 15.0

Members = Callable[[str], Member | None]


class DispatchController(Controller):
    """The jobs of one kind: what stands for them on the hub, and their copies in members."""

    workers = 64

    def __init__(
        self,
        kind: Kind[Any],
        state: HubState,
        members: Members,
        recorder: Recorder,
        book: PolicyBook,
        machines: Machines,
        gangs: GangController | None = None,
        known: JobKind | None = None,
    ) -> None:
        """``members`` finds the connection to a member, ``gangs`` says which jobs are parts of a HyperJob.

        ``known`` is what a table says of the kind, where no program here runs its objects.
        """
        self._book, self._machines, self.known = book, machines, known
        self.kind, self.name = kind, f"dispatch-{kind.plural}"
        self._gangs = gangs
        self._state, self._members, self._recorder = state, members, recorder
        self._written: LastWritten[Any] = LastWritten()
        self._standing: dict[str, str] = {}
        self._work = KnownWork(self._priority)
        self._telling = Telling(recorder)
        self._left = LeftPods(state)

    def setup(self, context: Context) -> None:
        """Watch the jobs, their PodGroups, and their copies in members."""
        self._client: Client = context.client
        self._clock, self._context = context.clock, context
        self._jobs = context.watch(self.kind, optional=True)
        self._groups = context.watch(POD_GROUPS, lambda group: keys_of(self.kind, group))
        index(self._groups, OWNER_INDEX, controller_keys)
        self._priorities = context.informer(PRIORITY_CLASSES)
        self._priorities.on_change(lambda *_: self._work.clear())
        self._state.on_copy(self._copy_changed)
        self._guide = Guide(self.kind, self._book, self._state, self._machines, self._clock)

    def placements(self) -> Mapping[str, Placement]:
        """Where the jobs are, by uid; one whose uid is absent here has been deleted."""
        jobs = (self._written.newest(job.key, job) for job in self._jobs.items())
        return {job.metadata.uid or "": self.where(job) for job in jobs if job is not None}

    def look_again(self, cluster: str) -> None:
        """A member has changed: look at every job that is there, and at every copy that it has."""
        for job in self._jobs.items():
            if self.where(job).cluster == cluster:
                self._context.enqueue(job.key)
        for resource, key in self._state.copy_keys():
            if resource == self.kind.resource:
                self._context.enqueue(key)

    def look_at_waiting(self) -> None:
        """What decides where jobs may go has changed: look at every job that has no member."""
        for job in self._jobs.items():
            if not self.where(job).cluster:
                self._context.enqueue(job.key)

    def look_at(self, key: str) -> None:
        """Look at one job again."""
        self._context.enqueue(key)

    async def reconcile(self, key: str) -> float | None:
        """Bring one job and its copies to where they belong."""
        views, unread = self._state.views, self._state.unread.get(self.kind.resource, ())
        if any(name in views and views[name].reachable for name in unread):
            return _UNREAD_SECONDS  # an older copy may be there
        with self._telling.look(key):
            return await self._reconcile(key)

    async def _reconcile(self, key: str) -> float | None:
        job = self._written.newest(key, self._jobs.get(key))
        if job is not None and job.metadata.deletion_timestamp:
            job = None
        copies = self._state.copies(self.kind, key)
        uid = job.metadata.uid if job is not None else ""
        divided = job is not None and is_divided(job)
        foreign = [copy for copy, _ in copies if divided or copy.origin != uid]
        await self._delete(decide(JobView(False, False, Placement()), foreign, self._state.views).delete)
        if job is None:
            self._leave(key)
            return None
        if divided:  # a HyperJob stands for it
            self._leave(key)
            await self._drop_group(job)
            return None
        if self._standing.get(key, uid) != uid:
            self._leave(key)
        own = [copy for copy, _ in copies if copy.origin == uid]
        part = self._part(job)
        view = JobView(True, self._has_ended(job), part.placement, math.inf) if part else self._alone(job)
        view = replace(view, pods_in=self._left.look(key, job, own, self._clock.monotonic()))
        steps = decide(view, own, self._state.views, trusted=is_trusted(self._state.views))
        work, again = await self._stand(job, view, part)
        if part is not None:
            await self._reconcile_part(job, part, steps, work, dict_of(copies))
            return sooner(again, _LEFT_SECONDS if view.pods_in else None)
        if steps.place is not None:
            await self.place(job, steps.place, "the member that ran it is lost" if steps.lost else "found in a member")
            return 0.0
        if steps.forged:
            self._guide.failed(uid or "", view.placement.cluster)
            text = f"member {view.placement.cluster} has changed the number on its copy"
            await self.place(job, view.placement.back(), text)
            return 0.0
        await self._carry_out(job, steps, work, dict_of(copies), view.placement)
        if steps.mirror is not None and await self._machines_have_come(job):
            return 0.0
        if steps.mirror is not None and work is not None and not steps.mirror.deleting:
            again = await self._look_whether_it_moves(job, work, view.placement)
            again = sooner(again, await self._look_whether_it_starts(job, view.placement) if again != 0.0 else None)
        if view.ended and (left := expires_in(job, self._clock.time())) is not None and self.kind is not JOBS:
            if left <= 0:
                await delete_seen(self._client, self.kind, job)
                return None
            again = sooner(again, left)
        return sooner(sooner(steps.again, again), _LEFT_SECONDS if view.pods_in else None)

    async def _machines_have_come(self, job: Any) -> bool:
        """What a job that runs says of machines is over, and must not be read as if they were still to come."""
        if not self._machines.has_begun(job):
            return False
        patch = {"metadata": {"resourceVersion": job.metadata.resource_version, "annotations": {MACHINES: None}}}
        written = await self._client.patch(self.kind, job.metadata.name, patch, namespace=job.metadata.namespace)
        self._written.keep(written)
        return True

    async def _look_whether_it_moves(self, job: Any, work: Work, placement: Placement) -> float | None:
        """What has no node in its member, and what may be moved, goes where it had better be; 0.0 where it does."""
        why, again = self._guide.moves(self.kind, job, work, placement)
        if not why:
            return again
        if not self._state.stand_ins.has_started(job.metadata.uid or ""):
            self._guide.failed(job.metadata.uid or "", placement.cluster)
        await self.place(job, replace(placement.back(), last=""), why)
        return 0.0

    async def _look_whether_it_starts(self, job: Any, placement: Placement) -> float | None:
        """A member that does not start the job in time loses it, and is not asked again for a while."""
        left = self._guide.stalls(job, placement)
        if left == 0.0:
            uid, machines = job.metadata.uid or "", promised_machines(job)
            why = f"member {placement.cluster} has not started a pod of it in time"
            if machines is not None and self._machines.time_left(uid) is not None:
                why = f"{machines_text(machines.machines)} in member {placement.cluster} have not come in time"
                self._machines.failed(uid)
            self._guide.failed(uid, placement.cluster)
            await self.place(job, placement.back(), why)
        return left or None

    async def _reconcile_part(
        self, job: Any, part: Part, steps: Steps, work: Work | None, copies: Mapping[str, Object]
    ) -> None:
        """A job of a HyperJob: its gang says where it belongs, and the job says it, too, for those who look at it."""
        written = placement_of(job)
        if steps.place is not None or written.generation > part.placement.generation:
            return  # taken back by a user, or found in a member: the gang decides what follows
        if written != part.placement:
            job = await self.place(job, part.placement, "a part of its HyperJob", part)
        await self._carry_out(job, steps, work, copies, part.placement, held=part.held)
        if steps.mirror is not None:
            await self._machines_have_come(job)

    def _alone(self, job: Any) -> JobView:
        return JobView(
            True, self._has_ended(job), placement_of(job), annotated_seconds(job, WORKER_LOST_TIMEOUT, DEFAULT_TIMEOUT)
        )

    def _part(self, job: Object) -> Part | None:
        return self._gangs.part(job) if self._gangs is not None else None

    def where(self, job: Object) -> Placement:
        """Where a job belongs, by itself or as a part of its HyperJob."""
        part = self._part(job)
        return placement_of(job) if part is None else part.placement

    async def place(self, job: Object, placement: Placement, why: str, part: Part | None = None) -> Object:
        """Write down where the job belongs; of a part its gang's record says for which machines it was sent.

        Raises:
            Conflict: the job has changed since it was read.
        """
        meta = job.metadata
        patch = placement.patch(meta.resource_version)
        if part is not None:
            machines = part.machines
        else:
            machines = self._machines.record(meta.uid or "", placement.cluster, placement.generation)
        if machines is not None:
            why = f"waits for {machines.text(placement.cluster)}"
        if machines is not None or MACHINES in (meta.annotations or {}):
            text = msgspec.json.encode(machines, order="deterministic").decode() if machines is not None else None
            patch["metadata"]["annotations"][MACHINES] = text
        written: Object = await self._client.patch(self.kind, meta.name, patch, namespace=meta.namespace)
        self._written.keep(written)
        if part is None:
            self._machines.sent(meta.uid or "", placement.cluster, machines, partial(self._context.enqueue, job.key))
        if placement.cluster:
            self._recorder.event(written, "Normal", "Dispatched", f"sent to {placement.cluster}: {why}")
        else:
            self._recorder.event(written, "Warning", "TakenBack", f"waits for a cluster again: {why}")
        if not placement.cluster:
            self._state.stand_ins.unplace(meta.uid or "")
        self._context.enqueue(job.key)
        return written

    def job(self, key: str) -> Any | None:
        """The newest state of a job."""
        return self._written.newest(key, self._jobs.get(key))

    # ---- on the hub

    async def _stand(self, job: Any, view: JobView, part: Part | None = None) -> tuple[Work | None, float | None]:
        """Make the job's PodGroup, and let pods stand for it in the hub's state as long as it has not ended.

        Answers what stands for it, and after how many seconds that changes by itself.
        """
        uid = job.metadata.uid or ""
        work = None if view.ended else self._work_of(job)
        if work is None or (part is not None and not part.group):
            self._leave(job.key)
            await self._drop_group(job)
            return None, None
        if part is None:
            await bring_group(self._client, self._groups.get(work.group.key), work.group)
        else:
            work = part_work(work, part.group, part.clusters)
        self._standing[job.key] = uid
        if part is None and view.placement.cluster and (machines := promised_machines(job)) is not None:
            look = partial(self._context.enqueue, job.key)
            self._machines.adopt(uid, view.placement.cluster, machines, look, len(work.pods))
        work, again = self._guided(job, work, view.placement, part)
        self._state.stand(uid, view.placement, work.pods)
        return work, again

    def _work_of(self, job: Any) -> Work | None:
        if self.known is not None:
            stays = not self.known.fleet and not placement_of(job).cluster
            return None if stays else described.work_of(self.known, job)
        return self._work.of(self.kind, job, self._clock.time())

    def _has_ended(self, job: Object) -> bool:
        return has_ended(job) if self.known is None else self.known.state(job)[0] in ENDED

    def _guided(self, job: Any, work: Work, placement: Placement, part: Part | None) -> tuple[Work, float | None]:
        uid, hyper_job = job.metadata.uid or "", self._gangs.of_part(job) if self._gangs is not None and part else None
        kind, subject = (self.kind, job) if hyper_job is None else (HYPER_JOBS, hyper_job)
        if hyper_job is not None and self._gangs is not None and (whole := self._gangs.divided(hyper_job)) is not None:
            kind, subject = whole  # a policy names the job that is divided
        of = None
        if hyper_job is not None and part is not None and self._gangs is not None:
            of = PartOf(hyper_job.metadata.uid or "", partial(self._gangs.gang, hyper_job), part.clusters)
        return self._guide.guide(kind, subject, uid, work, placement, of)

    async def _drop_group(self, job: Any) -> None:
        """What needs no pods must hold nothing in its queue; one that is resumed waits for its admission again."""
        for group in self._groups.by_index(OWNER_INDEX, family(job)):
            await delete_seen(self._client, POD_GROUPS, group)

    def _leave(self, key: str) -> None:
        self._work.forget(key)
        self._left.forget(key)
        self._state.names.forget(key)
        uid = self._standing.pop(key, None)
        if uid is not None:
            self._state.unstand(uid)
            self._guide.forget(uid)

    def _priority(self, name: str | None) -> int:
        priority_class = self._priorities.get(name) if name else None
        return (priority_class.value or 0) if priority_class is not None else 0

    # ---- in members

    async def _carry_out(
        self,
        job: Any,
        steps: Steps,
        work: Work | None,
        copies: Mapping[str, Object],
        placement: Placement,
        *,
        held: bool = False,
    ) -> None:
        await self._delete(steps.delete)
        if steps.lost:
            self._telling.tell(job, "ClusterLost", f"member {placement.cluster} does not answer")
        elif steps.kept_by:
            text = f"waits until {', '.join(steps.kept_by)} has removed an older copy: it could run twice"
            self._telling.tell(job, "CopyKept", text)
        if steps.create and work is not None:
            await self._create(job, placement, work, held=held)
        if not placement.cluster and placement.generation and not self._has_ended(job):
            await self.write_status(job, waiting_patch(self.kind, job))
        if steps.mirror is not None:
            copied = copies[steps.mirror.cluster]
            await self._follow(job, steps.mirror, copied, held=held)
            await self._mirror(job, copied, held=held)

    async def _create(self, job: Any, placement: Placement, work: Work, *, held: bool) -> None:
        member = self._members(placement.cluster)
        if member is None or (held and not can_be_held(job)):
            return
        group = work.group.metadata.name
        environment = self._gangs.environment(job) if self._gangs is not None else None
        copied = copy_to_write(
            self.kind,
            job,
            self._state.hub,
            placement.generation,
            group,
            held=held,
            environment=environment,
            labels=self._state.given_labels(placement.cluster),
            cluster=placement.cluster,
            key=self._state.key,
        )
        try:
            async with member.writing() as client:
                await bring(client, self.kind, copied)
        except AlreadyExists:
            await self._look_at_namesake(job, member, copied)
        except Busy:
            self._look_when_free(job.key, member)
        except (NotFound, Conflict):
            raise
        except ApiError as error:
            if is_refusal(error):
                await self._refused(job, placement, error)
            elif self._part(job) is not None or await self._look_whether_it_starts(job, placement) is not None:
                raise

    async def _follow(self, job: Any, copy: Copy, copied: Any, *, held: bool) -> None:
        """Bring what may change of the job to its copy."""
        member = self._members(copy.cluster)
        if member is None or copy.deleting or self._has_ended(job):
            return
        part = self._part(job)
        if part is not None and not part.group:
            return  # its HyperJob is gone, and what was held back must not start before it goes as well
        if part is not None:
            try:
                why = await export(self._state, member, copy, job, self._clock.monotonic())
            except Busy:
                self._look_when_free(job.key, member)
                return
            if why:
                self._telling.tell(job, "NotExported", why)
                self._context.enqueue(job.key, _EXPORT_SECONDS)
                return
        patch = changes(job, copied, held=held) if self.known is None else described.changes(self.known, job, copied)
        if not patch:
            return
        try:
            async with member.writing() as client:
                await client.patch(self.kind, copy.name, patch, namespace=copy.namespace, patch_type="json")
        except Busy:
            self._look_when_free(job.key, member)
        except (NotFound, Conflict):
            raise
        except ApiError as error:
            if not is_refusal(error):
                raise
            self._telling.tell(job, "ChangeRefused", f"member {copy.cluster} refuses a change of the job: {error}")

    def _look_when_free(self, key: str, member: Member) -> None:
        """As many writes as a member gets at a time are under way: the next one begins when one of them ends."""
        member.when_free(f"{self.name}/{key}", lambda: self._context.enqueue(key))

    async def _look_at_namesake(self, job: Any, member: Member, copied: Any) -> None:
        async with member.writing() as client:
            if not await namesake(client, self.kind, copied, _COPY_MARKS):
                return
        self._telling.tell(job, "NameTaken", name_taken(member.name, self.kind))
        self._context.enqueue(job.key, 30.0)

    async def _refused(self, job: Any, placement: Placement, error: ApiError) -> None:
        """A job that stands alone goes elsewhere; a part of a gang is tried again until its gang is released."""
        text = f"member {placement.cluster} refuses the job: {error}"
        self._telling.tell(job, "DispatchRefused", text)
        if self._part(job) is not None:
            raise error
        self._guide.failed(job.metadata.uid or "", placement.cluster)
        await self.place(job, placement.back(), text)

    async def _delete(self, copies: Iterable[Copy]) -> None:
        await remove_copies(copies, self._members, self._context.enqueue)

    async def _mirror(self, job: Any, copied: Any, *, held: bool) -> None:
        """The copy's status becomes the job's; what is held back has none."""
        if why := disbelief(copied, counts=self.known is None):
            self._telling.tell(job, "StatusRefused", f"what its member says of it is not believed: {why}")
        elif not held and not (self.kind is JOBS and is_held(copied) and not is_held(job)):
            await self.write_status(job, status_patch(job, copied))

    async def write_status(self, job: Any, patch: dict[str, Any]) -> None:
        """Merge ``patch`` into the job's status.

        Raises:
            Conflict: the job has changed since it was read.
        """
        if not patch:
            return
        meta = job.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": patch}
        sub = "status" if self.kind.status_subresource else None
        written = await self._client.patch(self.kind, meta.name, body, namespace=meta.namespace, subresource=sub)
        self._written.keep(written)

    def _copy_changed(self, kind: Kind[Any], key: str) -> None:
        if kind is self.kind:
            self._context.enqueue(key)


_COPY_MARKS = frozenset((HUB, ORIGIN_UID, DISPATCH))


def dict_of(copies: list[tuple[Copy, Object]]) -> dict[str, Object]:
    """Copies by member: it has one of a name, and uids are what each member says they are."""
    return {copy.cluster: obj for copy, obj in copies}
