"""The HyperJobs of a hub, each one gang over members: its PodGroup, its record, and what its parts must know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from unisono.api.annotations import (
    BIND_TIMEOUT,
    RESERVE_TIMEOUT,
    RESTART_POLICY,
    SPLIT,
    START_TIMEOUT,
    WORKER_LOST_TIMEOUT,
)
from unisono.api.base import Object
from unisono.api.groups.batch import HyperJob, Job
from unisono.api.kind import Kind
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.kinds import JOBS, POD_GROUPS, PRIORITY_CLASSES
from unisono.api.promised_machines import PromisedMachines
from unisono.controllers.hyperjob.decide import SplitError, ended_states, wanted_jobs
from unisono.controllers.job import view as phases
from unisono.controllers.job.view import JobView
from unisono.controllers.objects import LastWritten, delete_seen
from unisono.controllers.owners import controller_keys, controller_of_kind, family, index, keys_of
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.errors import Conflict, NotFound
from unisono.fleet.hub_state import HubState
from unisono.fleet.hyper_jobs import decide, work
from unisono.fleet.hyper_jobs.exports import is_to_be_exported
from unisono.fleet.jobs.copies import Copy, Placement, annotated_seconds, placement_of
from unisono.fleet.jobs.decide import WORKER_LOST_TIMEOUT as DEFAULT_TIMEOUT
from unisono.fleet.jobs.decide import is_trusted
from unisono.fleet.jobs.work import bring_group, can_be_held, is_held
from unisono.fleet.machines.promises import Gang, Machines
from unisono.jobkinds.registry import has_ended
from unisono.kube.client import Client, EventType
from unisono.kube.controller import Context, Controller, sooner

OWNER_INDEX = "controller-uid"
"""Jobs and PodGroups by what made them."""
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Part:
    """What the dispatch of one job of a HyperJob goes by.

    Attributes:
        placement: where it belongs.
        held: its copy has no pods yet.
        group: name of the gang's PodGroup.
        clusters: members that may take it; empty for all.
        machines: those that are to come in its member for it; None where it waits for none.
    """

    placement: Placement
    held: bool
    group: str
    clusters: tuple[str, ...]
    machines: PromisedMachines | None = None


@dataclass(frozen=True, slots=True)
class WaitingParts:
    """Parts without a place.

    Attributes:
        least: pods that must have a place together, by part.
        clusters: members that may take them, by part; empty for all.
    """

    least: Mapping[str, int]
    clusters: Mapping[str, tuple[str, ...]]


class GangController(Controller):
    """Keeps the record of each HyperJob, and its PodGroup."""

    name = "fleet-gangs"
    workers = 16

    def __init__(self, state: HubState, recorder: Recorder, machines: Machines) -> None:
        self._state, self._recorder, self._machines = state, recorder, machines
        self._announcer = Announcer(recorder)
        self._written: LastWritten[HyperJob] = LastWritten()
        self._job: Callable[[str], Job | None] = lambda _key: None
        self._look_at_part: Callable[[str], None] = lambda _key: None
        self._hold: Callable[[str], None] = lambda _group: None
        self._room_changed: Callable[[str], None] = lambda _cluster: None
        self.divided: Callable[[HyperJob], tuple[Kind[Any], Object] | None] = lambda _hyper_job: None
        self._spreading = decide.Spreading(state, machines)

    def connect(
        self,
        job: Callable[[str], Job | None],
        look_at_part: Callable[[str], None],
        hold: Callable[[str], None],
        room_changed: Callable[[str], None],
        divided: Callable[[HyperJob], tuple[Kind[Any], Object] | None],
    ) -> None:
        """Functions that answer the newest state of a part, look at it, let a gang wait, and hold room in members.

        ``divided`` answers the job for which a HyperJob stands, and its kind; None where it stands for itself.
        """
        self.divided = divided
        self._job, self._look_at_part, self._hold, self._room_changed = job, look_at_part, hold, room_changed

    def setup(self, context: Context) -> None:
        """Watch HyperJobs, their jobs and PodGroups, and the copies of their jobs."""
        self._client: Client = context.client
        self._clock, self._context = context.clock, context
        self._hyper_jobs = context.watch(HYPER_JOBS, optional=True)
        self._jobs = context.watch(JOBS, lambda job: keys_of(HYPER_JOBS, job))
        index(self._jobs, OWNER_INDEX, controller_keys)
        self._hyper_jobs.on_change(lambda _type, new, _old: self._look_at_parts(new))
        self._hyper_jobs.on_change(self._end_promises)
        self._jobs.on_change(self._end_promises)
        self._announcer.forget_deleted(self._hyper_jobs)
        self._groups = context.watch(POD_GROUPS, lambda group: keys_of(HYPER_JOBS, group))
        index(self._groups, OWNER_INDEX, controller_keys)
        self._priorities = context.informer(PRIORITY_CLASSES)
        self._state.on_copy(self._copy_changed)
        self._state.names.on_export = self._copy_changed

    def look_again(self, cluster: str) -> None:
        """A member has changed."""
        for hyper_job in self._hyper_jobs.items():
            if any(place.cluster == cluster for place in self.record(hyper_job).parts.values()):
                self._context.enqueue(hyper_job.key)

    # ---- what others ask

    def hyper_job(self, key: str) -> HyperJob | None:
        """The newest state of a HyperJob."""
        return self._written.newest(key, self._hyper_jobs.get(key))

    def of_part(self, job: Object) -> HyperJob | None:
        """The HyperJob that made a job or a PodGroup; None where no HyperJob that exists did."""
        owner = controller_of_kind(HYPER_JOBS, job)
        owning_job = self.hyper_job(f"{job.metadata.namespace}/{owner.name}") if owner is not None else None
        return (
            owning_job
            if owning_job is not None and owner is not None and owning_job.metadata.uid == owner.uid
            else None
        )

    def part(self, job: Object) -> Part | None:
        """What the dispatch of a part goes by; None for a job that stands alone.

        A part whose HyperJob is gone stays where it is until it goes as well.
        """
        if controller_of_kind(HYPER_JOBS, job) is None:
            return None
        hyper_job = self.of_part(job)
        if hyper_job is None:
            return Part(placement_of(job), False, "", ())
        record = self.record(hyper_job)
        uid = hyper_job.metadata.uid or ""
        clusters = work.bound_of(hyper_job, job, record)
        if not self._machines.is_offered(uid):
            clusters = self._spreading.within(uid, clusters)
        placement = record.placement(job.metadata.name, job.metadata.uid or "")
        place = record.parts.get(job.metadata.name) if placement.cluster else None
        machines = place.machines if place is not None else None
        return Part(placement, record.is_held(job.metadata.name), work.gang_name(hyper_job), clusters, machines)

    def gang(self, hyper_job: HyperJob) -> Gang:
        """Its parts that wait, which get machines together or not at all."""
        try:
            live, complete = self.parts(hyper_job)
        except SplitError:
            live, complete = {}, False
        record = self.record(hyper_job)
        places = {name: record.placement(name, job.metadata.uid or "").cluster for name, job in live.items()}
        return Gang(
            frozenset(live[name].metadata.uid or "" for name, at in places.items() if not at)
            if complete
            else frozenset(),
            hyper_job.spec.max_domains,
            frozenset(filter(None, places.values())),
            partial(self._look_at_parts, hyper_job),
        )

    def look_at(self, key: str) -> None:
        """Look at a HyperJob and its parts again."""
        hyper_job = self._hyper_jobs.get(key)
        if hyper_job is not None:
            self._context.enqueue(key)
            self._look_at_parts(hyper_job)

    def environment(self, job: Object) -> dict[str, str] | None:
        """Variables by which a part finds the others; None for a job that stands alone."""
        hyper_job = self.of_part(job)
        if hyper_job is None:
            return None
        own = {"HYPERJOB_NAME": hyper_job.metadata.name}
        try:
            live, _ = self.parts(hyper_job)
        except SplitError:
            return own
        name = job.metadata.name
        ids = {cluster: self._state.names.of(cluster) for cluster in self._state.members()}
        return {**own, **work.part_environment(name, live, self.record(hyper_job), ids)} if name in live else own

    def record(self, hyper_job: HyperJob) -> work.GangRecord:
        """Where its parts are."""
        return work.record_of(self._written.newest(hyper_job.key, hyper_job) or hyper_job)

    def parts(self, hyper_job: HyperJob) -> tuple[dict[str, Job], bool]:
        """Its jobs that have not ended, by name; and whether all others that there should be have ended.

        Raises:
            SplitError: a split policy cannot be followed.
        """
        expected = {each.name for each in wanted_jobs(hyper_job)}
        children = self._jobs.by_index(OWNER_INDEX, family(hyper_job))
        jobs = [self._job(job.key) or job for job in children if not job.metadata.deletion_timestamp]
        jobs_by_name = {job.metadata.name: job for job in jobs if job.metadata.name in expected}
        live = {name: job for name, job in jobs_by_name.items() if not has_ended(job)}
        return live, expected <= jobs_by_name.keys() | ended_states(hyper_job.status).keys()

    def waiting(self, group: Object) -> WaitingParts | None:
        """The parts without a place of the HyperJob that a PodGroup stands for; None for another's PodGroup."""
        hyper_job = self.of_part(group)
        if hyper_job is None:
            return None
        try:
            live, _ = self.parts(hyper_job)
        except SplitError:
            return None
        record = self.record(hyper_job)
        waiting = {
            name: job for name, job in live.items() if not record.placement(name, job.metadata.uid or "").cluster
        }
        return WaitingParts(
            {name: max(1, JobView(job).min_available) for name, job in waiting.items()},
            {name: work.bound_of(hyper_job, job, record) for name, job in waiting.items()},
        )

    def rooms(self, cluster: str) -> list[tuple[str, work.PlacedPart, float, float]]:
        """Parts for which room is held in a member: namespace, place, until when (seconds since 1970), seconds at most.

        It is held from the choice of the member until the part has its nodes, or the time for that is over.
        """
        held_parts: list[tuple[str, work.PlacedPart, float, float]] = []
        now = self._clock.time()
        for hyper_job in self._hyper_jobs.items():
            record = self.record(hyper_job)
            if hyper_job.metadata.deletion_timestamp or all(each.cluster != cluster for each in record.parts.values()):
                continue
            # Users may write annotations: what names the job of another holds nothing, and no time is in the future.
            jobs = self._jobs.by_index(OWNER_INDEX, family(hyper_job))
            own = {job.metadata.uid for job in jobs if not job.metadata.deletion_timestamp}
            since = min(record.since, now)
            reserve = annotated_seconds(hyper_job, RESERVE_TIMEOUT, decide.RESERVE_SECONDS)
            bind = annotated_seconds(hyper_job, BIND_TIMEOUT, decide.BIND_SECONDS)
            # What is held back for as long as others wait for machines.
            bind += max((p.machines.patience for p in record.parts.values() if p.machines is not None), default=0.0)
            for name, place in sorted(record.parts.items()):
                if place.cluster == cluster and place.generation > record.started and place.uid in own:
                    until = since + bind + (reserve if record.is_held(name) else 0.0)
                    held_parts.append((hyper_job.metadata.namespace or "", place, until, reserve + bind))
        return held_parts

    async def send(self, hyper_job: HyperJob, places: Mapping[str, tuple[str, str]]) -> None:
        """Write down where parts go: part to member and uid of its job.

        Raises:
            Conflict: the HyperJob has changed since it was read.
        """
        before = self.record(hyper_job)
        recorded = {
            name: self._machines.record(uid, cluster, before.number + 1) for name, (cluster, uid) in places.items()
        }
        coming = {name: machines for name, machines in recorded.items() if machines is not None}
        record = before.sent(places, self._clock.time(), coming)
        texts = []
        for name, (cluster, _) in sorted(places.items()):
            waits = f", which waits for {coming[name].text(cluster)}" if name in coming else ""
            texts.append(f"{name} in {cluster}{waits}")
        destinations = ("; " if coming else ", ").join(texts)
        await self._write(
            hyper_job, record, "Normal", "Reserving", f"reserved until every member accepts: {destinations}"
        )
        for name, (cluster, uid) in places.items():
            self._machines.sent(uid, cluster, coming.get(name), partial(self._context.enqueue, hyper_job.key))

    async def take_back(self, hyper_job: HyperJob, why: str) -> None:
        """Let all parts wait on the hub again.

        Raises:
            Conflict: the HyperJob has changed since it was read.
        """
        live, _ = self.parts(hyper_job)
        record = self.record(hyper_job).without(live, self._clock.time())
        await self._write(hyper_job, record, "Warning", "Released", f"waits for clusters again: {why}")

    # ---- the HyperJob

    async def reconcile(self, key: str) -> float | None:
        """Bring one gang's PodGroup about, and its record to what follows from members."""
        hyper_job = self.hyper_job(key)
        if hyper_job is None or hyper_job.metadata.deletion_timestamp:
            self._spreading.forget(key)
            return None
        try:
            live, complete = self.parts(hyper_job)
            spread_again = await self._spread(hyper_job, live)
        except SplitError:
            return None  # the controller that makes the parts says so
        if live and complete:
            await self._bring_group(hyper_job, live)
        elif not live:
            for group in self._groups.by_index(OWNER_INDEX, family(hyper_job)):
                await delete_seen(self._client, POD_GROUPS, group)
        view = self._view(hyper_job, live, complete=complete)
        now, members = self._clock.time(), self._state.views
        steps = decide.decide_gang(view, members, now, trusted=is_trusted(members))
        await self._carry_out(hyper_job, live, steps)
        return sooner(steps.again, spread_again)

    async def _spread(self, hyper_job: HyperJob, live: Mapping[str, Job]) -> float | None:
        """Choose over which clusters, and in how many parts, what waits may spread; answers when to look again."""
        record = self.record(hyper_job)
        now = self._clock.monotonic()
        spread = self._spreading.look(hyper_job, work.gang_name(hyper_job), live, record, now)
        if spread.split is not None:
            text = msgspec.json.encode(spread.split, order="deterministic").decode()
            meta = hyper_job.metadata
            patch = {"metadata": {"resourceVersion": meta.resource_version, "annotations": {SPLIT: text}}}
            self._written.keep(await self._client.patch(HYPER_JOBS, meta.name, patch, namespace=meta.namespace))
        if spread.moved:
            self._look_at_parts(hyper_job)
        return spread.again

    def _view(self, hyper_job: HyperJob, live: Mapping[str, Job], *, complete: bool) -> decide.GangView:
        record = self.record(hyper_job)
        return decide.GangView(
            record,
            {name: self._part_view(hyper_job, record, job) for name, job in live.items()},
            complete,
            _policy((hyper_job.metadata.annotations or {}).get(RESTART_POLICY)),
            annotated_seconds(hyper_job, WORKER_LOST_TIMEOUT, DEFAULT_TIMEOUT),
            annotated_seconds(hyper_job, RESERVE_TIMEOUT, decide.RESERVE_SECONDS),
            annotated_seconds(hyper_job, START_TIMEOUT, decide.START_SECONDS),
            annotated_seconds(hyper_job, BIND_TIMEOUT, decide.BIND_SECONDS),
        )

    def _part_view(self, hyper_job: HyperJob, record: work.GangRecord, job: Job) -> decide.PartView:
        uid = job.metadata.uid or ""
        own = [(copy, obj) for copy, obj in self._state.copies(JOBS, job.key) if copy.origin == uid]
        placement = record.placement(job.metadata.name, uid)
        # A number that only a member has written says nothing.
        own = [(copy, obj) for copy, obj in own if copy.sealed or copy.generation <= record.number]
        runs = any(_is_at(copy, placement) and _runs(obj) for copy, obj in own)
        least = max(1, JobView(job).min_available)
        bound = runs or self._state.stand_ins.bound(uid) >= least
        return decide.PartView(
            uid,
            placement_of(job),
            [copy for copy, _ in own],
            runs,
            late=not can_be_held(job),
            crowded=self._state.is_crowded(uid),
            bound=bound,
            named=not is_to_be_exported(self._state, placement.cluster, job)
            or any(self._state.names.is_exported(job.key, copy.uid) for copy, _ in own if _is_at(copy, placement)),
            coming=None if bound else self._coming(hyper_job, record, job),
        )

    def _coming(self, hyper_job: HyperJob, record: work.GangRecord, job: Job) -> float | None:
        """Seconds that the machines of a part have left to come; a hub before this one may have sent it there."""
        uid, place = job.metadata.uid or "", record.parts.get(job.metadata.name)
        if place is None or place.machines is None or place.uid != uid or not record.waits(job.metadata.name):
            return None
        look = partial(self._context.enqueue, hyper_job.key)
        pods = sum(task.replicas for task in JobView(job).tasks)
        self._machines.adopt(uid, place.cluster, place.machines, look, pods, hyper_job.metadata.uid or "")
        left = self._machines.time_left(uid)
        return max(0.0, record.since + place.machines.patience - self._clock.time()) if left is None else left

    async def _carry_out(self, hyper_job: HyperJob, live: Mapping[str, Job], steps: decide.GangSteps) -> None:
        for name in steps.fail:
            await self._fail(live[name], steps.why)
        if steps.record is None:
            return
        for name in steps.late:
            self._machines.failed(live[name].metadata.uid or "")
        if steps.released:
            self._hold(f"{hyper_job.metadata.namespace}/{work.gang_name(hyper_job)}")
            await self._write(hyper_job, steps.record, "Warning", "Released", f"waits for clusters again: {steps.why}")
        elif steps.fail:
            await self._write(hyper_job, steps.record, "Warning", "PartLost", steps.why)
        else:
            await self._write(hyper_job, steps.record, "Normal", "Opened", steps.why)

    async def _fail(self, job: Job, why: str) -> None:
        """The part has failed; its creator decides what follows."""
        state = {"phase": phases.FAILED, "reason": "ClusterLost", "message": why}
        with suppress(NotFound):
            await self._client.patch(
                JOBS,
                job.metadata.name,
                {"status": {"state": state}},
                namespace=job.metadata.namespace,
                subresource="status",
            )

    async def _write(self, hyper_job: HyperJob, record: work.GangRecord, type_: Any, reason: str, why: str) -> None:
        before = self.record(hyper_job)
        written = await self._patch(hyper_job, record)
        self._written.keep(written)
        for cluster in {place.cluster for places in (before, record) for place in places.parts.values()}:
            self._room_changed(cluster)
        if why:
            self._recorder.event(written, type_, reason, why)
        self._context.enqueue(written.key)
        self._look_at_parts(written)

    async def _patch(self, hyper_job: HyperJob, record: work.GangRecord) -> HyperJob:
        """Write the record; what others have written meanwhile, its status above all, does not matter."""
        meta, before = hyper_job.metadata, self.record(hyper_job)
        version = meta.resource_version
        for _ in range(_TRIES):
            try:
                return await self._client.patch(HYPER_JOBS, meta.name, record.patch(version), namespace=meta.namespace)
            except Conflict:
                latest = await self._client.get(HYPER_JOBS, meta.name, meta.namespace)
                gone = latest.metadata.uid != meta.uid or latest.metadata.deletion_timestamp
                if gone or work.record_of(latest) != before or latest.metadata.generation != meta.generation:
                    raise
                version = latest.metadata.resource_version
        raise Conflict(f"HyperJob {hyper_job.key} changes all the time")

    async def _bring_group(self, hyper_job: HyperJob, live: Mapping[str, Job]) -> None:
        try:
            group = work.gang_group(hyper_job, [job for _, job in sorted(live.items())], self._priority)
        except work.GangError as error:
            self._announcer.tell(hyper_job, [Notice("Warning", "NoGang", str(error), once=str(error))])
            return
        await bring_group(self._client, self._groups.get(group.key), group)

    # ---- inside

    def _look_at_parts(self, hyper_job: HyperJob) -> None:
        for job in self._jobs.by_index(OWNER_INDEX, family(hyper_job)):
            self._look_at_part(job.key)

    def _end_promises(self, event_type: EventType, obj: Object, _old: Object | None) -> None:
        """What is held for a HyperJob or a part ends with it, at once."""
        if event_type != "DELETED" and not obj.metadata.deletion_timestamp:
            return
        if isinstance(obj, HyperJob):
            if event_type == "DELETED":
                self._machines.forget(obj.metadata.uid or "")
            clusters = {place.cluster for place in self.record(obj).parts.values()}
        else:
            clusters = {placement_of(obj).cluster} - {""}
        for cluster in clusters:
            self._room_changed(cluster)

    def _copy_changed(self, kind: Kind[Any], key: str) -> None:
        job = self._jobs.get(key) if kind is JOBS else None
        for owner in keys_of(HYPER_JOBS, job) if job is not None else ():
            self._context.enqueue(owner)

    def _priority(self, name: str | None) -> int:
        priority_class = self._priorities.get(name) if name else None
        return (priority_class.value or 0) if priority_class is not None else 0


def _is_at(copy: Copy, placement: Placement) -> bool:
    return (copy.cluster, copy.generation) == (placement.cluster, placement.generation)


def _runs(copied: Any) -> bool:
    """Whether the gang of a copy has started."""
    status = copied.status
    arrived = (status.running or 0) + (status.succeeded or 0) + (status.failed or 0)
    return not is_held(copied) and arrived >= max(1, copied.spec.min_available or 0)


def _policy(text: str | None) -> decide.RestartPolicy:
    """The policy that a text names; a text that names none counts as none."""
    matches = [policy for policy in decide.RestartPolicy if policy.value.lower() == (text or "").strip().lower()]
    return matches[0] if matches else decide.RestartPolicy.GANG
