"""Jobs of a hub that are too large for one member: each is divided over several, as a HyperJob of its own.

The job is marked first, so that no member is chosen for it any more. The HyperJob has the job's spec as the template
that is divided, and belongs to the job: it goes with it, and its parts in sum are the job's status. Jobs of other kinds
than Volcano's are divided as Volcano Jobs that have the pods which the kind's own controller would make.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from unisono.api.annotations import (
    BIND_TIMEOUT,
    DIVIDED,
    FLEET,
    NETWORK,
    RESERVE_TIMEOUT,
    RESTART_POLICY,
    START_TIMEOUT,
    WORKER_LOST_TIMEOUT,
    handed_down,
)
from unisono.api.base import Object, ObjectMeta
from unisono.api.conditions import find_condition
from unisono.api.documents import merge_diff
from unisono.api.groups.batch import AUTO, HyperJob, HyperJobSpec, Job, JobSpec, ReplicatedJob, SplitPolicy
from unisono.api.kind import Kind
from unisono.api.kind_families import HYPER_JOBS
from unisono.api.kinds import JOBS, PRIORITY_CLASSES
from unisono.api.times import parse_time
from unisono.controllers import owners
from unisono.controllers.hyperjob.decide import COMPLETED, FAILED, MOST_PARTS, divisible
from unisono.controllers.job import view as phases
from unisono.controllers.job.view import JobView
from unisono.controllers.job_making import phase_of
from unisono.controllers.node_scaling.decide import Pool
from unisono.controllers.objects import BeingDeleted, ForeignObject, create_once, delete_seen, to_json
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.errors import NotFound
from unisono.fleet.hub_state import HubState
from unisono.fleet.hyper_jobs.divided_training import NAMED, Whole, idle_status, needs_names, whole_of
from unisono.fleet.hyper_jobs.dividing import Floor, roles_of
from unisono.fleet.hyper_jobs.work import record_of
from unisono.fleet.jobs.copies import expires_in, placement_of
from unisono.fleet.machines.promises import Machines
from unisono.jobkinds.registry import has_ended, job_kind
from unisono.kube.client import Client
from unisono.kube.controller import Context, Controller

PART: Final = "part"
"""Name of the one replicated job of a HyperJob that divides a job."""
_OWNER_INDEX = "controller-uid"
_HANDED_ON: Final = (FLEET, RESTART_POLICY, RESERVE_TIMEOUT, START_TIMEOUT, BIND_TIMEOUT, WORKER_LOST_TIMEOUT)
# Seconds until a job that fits nowhere is looked at again, and one that fits into a member; for which the scheduler has
# a new job to itself; and for which a member that does not answer is waited for.
_LOOK_SECONDS: Final = 30.0
_FITS_SECONDS: Final = 600.0
_NEW_SECONDS: Final = 2.0
_SILENT_SECONDS: Final = 60.0
_DELETION_SECONDS: Final = 1.0
_COUNTERS: Final = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
_STOPPED: Final = phases.STOPPED | frozenset(phases.KILLING)
_COMPLETE, _TASK_COMPLETED = "CompleteJob", "TaskCompleted"


def is_divided(job: Object) -> bool:
    """Whether a HyperJob of the hub stands for the job."""
    return (job.metadata.annotations or {}).get(DIVIDED) == "true"


def obstacle(job: Job) -> str:
    """Why a Volcano Job is not divided though several members together have the room; empty where it may be."""
    spec = job.spec
    if spec.plugins:
        names = ", ".join(sorted(spec.plugins))
        return (
            f"its job plug-ins ({names}) tell pods the names and numbers of one cluster; a HyperJob can span clusters"
        )
    if any(task.depends_on is not None for task in spec.tasks or ()):
        return "its tasks wait for each other (dependsOn), which they do within one cluster"
    if spec.network_topology is not None and spec.network_topology.mode != "soft":
        return "its networkTopology keeps it within one domain"
    if divisible(_replicated(job.spec)) is None:
        return "a task with a partitionPolicy is not divided"
    return ""


def hyper_job_for(kind: Kind[Any], job: Object, spec: JobSpec, clusters: Sequence[str]) -> HyperJob:
    """The HyperJob that stands for a job, over these members at most; ``spec`` is that of the whole."""
    given = job.metadata.annotations or {}
    marks = {key: given[key] for key in _HANDED_ON if key in given} | owners.inherited_annotations(given)
    if kind is not JOBS:
        marks.pop(RESTART_POLICY, None)  # the pods of a part that starts elsewhere alone have other names
    return HyperJob(
        metadata=ObjectMeta(
            name=job.metadata.name,
            namespace=job.metadata.namespace,
            annotations=handed_down(given, marks) or None,
            owner_references=[owners.owned_by(kind, job)],
        ),
        # When one part has failed for good, the others end as well.
        spec=HyperJobSpec(replicated_jobs=[_replicated(spec, list(clusters))], min_available=MOST_PARTS),
    )


def _replicated(spec: JobSpec, clusters: list[str] | None = None) -> ReplicatedJob:
    policy = SplitPolicy(mode=AUTO)
    return ReplicatedJob(name=PART, template_spec=spec, split_policy=policy, cluster_names=clusters)


def status_of_parts(job: Job, hyper_job: HyperJob, parts: Sequence[Job]) -> dict[str, Any]:
    """Merge patch for the status of a divided job: its parts in sum; empty where it says so already."""
    counts = {name: sum(getattr(part.status, name) or 0 for part in parts) for name in _COUNTERS}
    by_task: dict[str, Counter[str]] = defaultdict(Counter)
    for part in parts:
        for name, task_status in (part.status.task_status_count or {}).items():
            by_task[name].update(task_status.phase or {})
    phase = _phase(job, hyper_job, parts, counts)
    before = to_json(job.status)
    state: dict[str, Any] = before.get("state") or {}
    desired = {
        **{key: value for key, value in before.items() if key not in (*_COUNTERS, "taskStatusCount")},
        **{name: number for name, number in counts.items() if number},
        "state": state if state.get("phase") == phase else {"phase": phase},
        "minAvailable": JobView(job).min_available,
    }
    if by_task:
        desired["taskStatusCount"] = {name: {"phase": dict(found)} for name, found in sorted(by_task.items())}
    return merge_diff(before, desired)


def _phase(job: Job, hyper_job: HyperJob, parts: Sequence[Job], counts: Mapping[str, int]) -> str:
    conditions = hyper_job.status.conditions
    for kind, phase in ((COMPLETED, phases.COMPLETED), (FAILED, phases.FAILED)):
        if find_condition(conditions, kind) is not None:
            return phase
    if _completes(job, parts):
        return phases.COMPLETED
    arrived = counts["running"] + counts["succeeded"]
    running = arrived >= max(1, JobView(job).min_available) and counts["running"]
    return phases.RUNNING if running else phases.PENDING


def _completes(job: Job, parts: Sequence[Job]) -> bool:
    """Whether a task whose completion completes the job has completed in every part that has pods of it."""
    for task in JobView(job).tasks:
        policies = [*task.policies, *(job.spec.policies or ())]
        ends = any(
            each.action == _COMPLETE and _TASK_COMPLETED in (each.event, *(each.events or ())) for each in policies
        )
        having = [part for part in parts if any(one.name == task.name and one.replicas for one in JobView(part).tasks)]
        if ends and having and all(phase_of(part) == phases.COMPLETED for part in having):
            return True
    return False


@dataclass(slots=True)
class Finding:
    """Whether a job that waits is to be divided.

    Attributes:
        alone: one member would have room for it if it were empty.
        spec: of the Volcano Job that is divided.
        clusters: members over which it is divided; empty where it is not.
        why: by members that together would have room for it: why it is not divided over them.
    """

    alone: bool = False
    spec: JobSpec | None = None
    clusters: tuple[str, ...] = ()
    why: dict[str, str] = field(default_factory=dict)


def find(
    state: HubState,
    kind: Kind[Any],
    job: Object,
    whole: Whole | Job,
    outside: Mapping[str, str],
    now: float,
    growing: Mapping[str, Sequence[Pool]] | None = None,
) -> Finding:
    """Look whether a job that waits needs several members.

    Args:
        state: of the hub.
        kind: of the job.
        job: the job.
        whole: the job as it would run in one piece.
        outside: members that may not have it, and why.
        now: the clock's ``monotonic``.
        growing: groups of nodes that may grow, by member.
    """
    table = state.feed.state.nodes
    # A member without the kind takes no whole job of it, and parts all the same.
    unable = {name for name in state.members() if state.lacks(name, kind)} if kind is not JOBS else set()
    members = [name for name in state.members() if name not in unable]
    spec = whole.spec
    roles = roles_of(table, spec, [task.name for task in JobView(Job(spec=spec)).tasks])
    floors = (Floor(table, roles, [name], growing) for name in members)
    if not roles or any(floor.share(floor.whole, 1) for floor in floors):
        return Finding(alone=True)
    takers = [
        name for name in state.members() if outside.get(name, "") == (state.lacks(name, kind) if name in unable else "")
    ]
    why = f"its annotation {DIVIDED} is false" if (job.metadata.annotations or {}).get(DIVIDED) == "false" else ""
    why = why or (obstacle(whole) if isinstance(whole, Job) else whole.obstacle())
    unnamed = ""
    for clusters in _networks({name: state.network(name) for name in takers}) if not why else ():
        floor = Floor(table, roles, clusters, growing)
        if not floor.share(floor.whole, len(clusters)):
            continue
        if kind is JOBS:
            named = {} if state.names.lacking(clusters, now) else dict(NAMED)
            return Finding(spec=msgspec.structs.replace(spec, plugins=named or None), clusters=tuple(clusters))
        nameless = state.names.lacking(clusters, now)
        able = [name for name in clusters if name not in nameless]
        floor = Floor(table, roles, able, growing)
        if floor.share(floor.whole, len(able)):
            return Finding(spec=spec, clusters=tuple(able))
        unnamed = needs_names(kind, nameless)
    floor = Floor(table, roles, takers, growing)
    shares = floor.share(floor.whole, len(takers))
    together = sorted({share.cluster for share in shares})
    if len(together) < 2:  # what keeps it from one member is told of that member
        return Finding()
    network = f"they are in no common network, which the label {NETWORK} of their AttachedClusters names"
    text = f"have room for it together if they are empty, and it is not divided: {why or unnamed or network}"
    return Finding(why={", ".join(together): text})


def _networks(labels: Mapping[str, str]) -> Iterator[list[str]]:
    """Members of each network that several share."""
    clusters_by_network: dict[str, list[str]] = defaultdict(list)
    for cluster, network in sorted(labels.items()):
        if network:
            clusters_by_network[network].append(cluster)
    return (clusters for _, clusters in sorted(clusters_by_network.items()) if len(clusters) > 1)


class DividedJobsController(Controller):
    """Divides jobs of one kind, and follows those that are divided."""

    def __init__(self, kind: Kind[Any], state: HubState, recorder: Recorder, machines: Machines) -> None:
        self.kind, self.name = kind, f"fleet-divided-{kind.plural}"
        self._machines = machines
        self._state, self._announcer = state, Announcer(recorder)
        self._why: dict[str, dict[str, str]] = {}

    def setup(self, context: Context) -> None:
        """Watch jobs, the HyperJobs that stand for some of them, and their parts."""
        self._client: Client = context.client
        self._clock, self._context = context.clock, context
        if self.kind is JOBS:
            self._jobs = context.watch(JOBS, lambda job: [job.key, *owners.keys_of(HYPER_JOBS, job)])
            self._parts = self._jobs
        else:
            self._jobs = context.watch(self.kind, optional=True)
            self._parts = context.watch(JOBS, lambda job: owners.keys_of(HYPER_JOBS, job))
        owners.index(self._parts, _OWNER_INDEX, owners.controller_keys)
        self._hyper_jobs = context.watch(HYPER_JOBS, lambda each: owners.keys_of(self.kind, each), optional=True)
        self._priorities = context.informer(PRIORITY_CLASSES)
        self._announcer.forget_deleted(self._jobs)

    def look_again(self) -> None:
        """Members have changed: look at every job that has none."""
        for job in self._jobs.items():
            if not placement_of(job).cluster and not is_divided(job):
                self._context.enqueue(job.key)

    def look_at_divided(self) -> None:
        """A member has turned out to have no names for pods of others: look at every job that is divided."""
        for job in self._jobs.items():
            if is_divided(job):
                self._context.enqueue(job.key)

    def together(self, uid: str) -> Mapping[str, str]:
        """Why a job that waits is not divided, by members that together have room for it."""
        return self._why.get(uid, {})

    def of(self, hyper_job: HyperJob) -> Object | None:
        """The job for which a HyperJob stands; None where it stands for none of this kind."""
        owner = owners.controller_of_kind(self.kind, hyper_job)
        job: Object | None = self._jobs.get(hyper_job.key) if owner is not None else None
        return job if job is not None and owner is not None and job.metadata.uid == owner.uid else None

    async def reconcile(self, key: str) -> float | None:
        """Look at one job."""
        job, hyper_job = self._jobs.get(key), self._hyper_jobs.get(key)
        owner = owners.controller_of_kind(self.kind, hyper_job) if hyper_job is not None else None
        if job is not None and job.metadata.deletion_timestamp:
            job = None
        if hyper_job is not None and owner is not None and (job is None or owner.uid != job.metadata.uid):
            await delete_seen(self._client, HYPER_JOBS, hyper_job)  # of a job that is gone
            hyper_job = None
        if job is None:
            return None
        if is_divided(job):
            self._why.pop(job.metadata.uid or "", None)
            return await self._follow(job, hyper_job if owner is not None else None)
        return await self._look(job)

    async def _look(self, job: Any) -> float | None:
        uid = job.metadata.uid or ""
        waits = not placement_of(job).cluster and not self._is_stopped(job)
        if not waits or owners.controller_of_kind(HYPER_JOBS, job) is not None:
            self._why.pop(uid, None)
            return None
        made = job.metadata.creation_timestamp
        if made and (left := parse_time(made) + _NEW_SECONDS - self._clock.time()) > 0:
            return left  # most jobs have a member by then
        if any(not view.reachable and view.lost_seconds < _SILENT_SECONDS for view in self._state.views.values()):
            return _LOOK_SECONDS  # a member that comes soon may take it whole
        result = self._find(job)
        self._why[uid] = result.why
        if result.alone:
            return _FITS_SECONDS
        if not result.clusters:
            return _LOOK_SECONDS
        await self._mark(job, "true")
        message = (
            f"no member takes it whole; it is divided over {', '.join(result.clusters)} as HyperJob {job.metadata.name}"
        )
        self._announcer.tell(job, [Notice("Normal", "Divided", message, once=message)])
        return None

    def _find(self, job: Any) -> Finding:
        whole = self._whole(job)
        if whole is None:
            return Finding(alone=True)
        outside = self._state.outside.get(job.metadata.uid or "", {})
        growing = None
        if not self._machines.takes_room_only(job.metadata.uid or ""):
            growing = {name: self._machines.all_pools(name) for name in self._state.members()}
        return find(self._state, self.kind, job, whole, outside, self._clock.monotonic(), growing)

    def _whole(self, job: Any) -> Whole | Job | None:
        return job if isinstance(job, Job) else whole_of(self.kind, job, self._clock.time(), self._priority)

    def _priority(self, name: str | None) -> int:
        priority_class = self._priorities.get(name) if name else None
        return (priority_class.value or 0) if priority_class is not None else 0

    def _is_stopped(self, job: Any) -> bool:
        """Whether it has no pods any more, or none for now."""
        if isinstance(job, Job):
            return phase_of(job) in _STOPPED
        description = job_kind(self.kind)
        return has_ended(job) or (description is not None and description.is_suspended(job))

    async def _follow(self, job: Any, hyper_job: HyperJob | None) -> float | None:
        stopped = self._is_stopped(job)
        if hyper_job is None and not stopped:
            return await self._bring(job)
        if hyper_job is not None and self._is_nameless(hyper_job):
            if not hyper_job.metadata.deletion_timestamp:
                await delete_seen(self._client, HYPER_JOBS, hyper_job)
            return None
        if stopped and hyper_job is not None and not hyper_job.status.conditions:
            if not hyper_job.metadata.deletion_timestamp:
                await delete_seen(self._client, HYPER_JOBS, hyper_job)
            hyper_job = None
        if patch := self._status(job, hyper_job, stopped=stopped):
            meta = job.metadata
            body = {"metadata": {"resourceVersion": meta.resource_version}, "status": patch}
            await self._client.patch(self.kind, meta.name, body, namespace=meta.namespace, subresource="status")
            return None
        left = expires_in(job, self._clock.time()) if self.kind is not JOBS and has_ended(job) else None
        if left is not None and left <= 0:
            await delete_seen(self._client, self.kind, job)
            return None
        return left

    def _is_nameless(self, hyper_job: HyperJob) -> bool:
        """Whether a gang that has not been opened yet would have pods that do not find each other."""
        record = record_of(hyper_job)
        clusters = {place.cluster for place in record.parts.values()}
        lacking = self._state.names.lacking(clusters, self._clock.monotonic())
        return self.kind is not JOBS and bool(lacking) and record.started < record.number

    def _status(self, job: Any, hyper_job: HyperJob | None, *, stopped: bool) -> dict[str, Any]:
        if isinstance(job, Job):
            return status_of_parts(job, hyper_job, self._of(hyper_job)) if hyper_job is not None and not stopped else {}
        if stopped or hyper_job is None:
            return idle_status(self.kind, job, self._clock.time()) if not has_ended(job) else {}
        whole = self._whole(job)
        return whole.status(self._of(hyper_job)) if isinstance(whole, Whole) else {}

    def _of(self, hyper_job: HyperJob) -> list[Job]:
        return list(self._parts.by_index(_OWNER_INDEX, owners.family(hyper_job)))

    async def _bring(self, job: Any) -> float | None:
        """Make the HyperJob of a job that is marked; where it is not to be divided any more, take the mark away."""
        result = self._find(job)
        if not result.clusters or result.spec is None:
            return await self._unmark(job)
        try:
            await create_once(self._client, HYPER_JOBS, hyper_job_for(self.kind, job, result.spec, result.clusters))
        except BeingDeleted:
            return _DELETION_SECONDS
        except ForeignObject as error:
            self._announcer.tell(job, [Notice("Warning", "NotDivided", str(error), once="foreign")])
            return _LOOK_SECONDS
        return None

    async def _unmark(self, job: Any) -> float | None:
        """The job waits as it is again; not as long as its HyperJob is there, of which it may not be known yet."""
        meta = job.metadata
        with suppress(NotFound):
            await self._client.get(HYPER_JOBS, meta.name, meta.namespace)
            return _DELETION_SECONDS
        await self._mark(job, None)
        return None

    async def _mark(self, job: Any, value: str | None) -> None:
        meta = job.metadata
        patch = {"metadata": {"resourceVersion": meta.resource_version, "annotations": {DIVIDED: value}}}
        await self._client.patch(self.kind, meta.name, patch, namespace=meta.namespace)
