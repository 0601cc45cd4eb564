"""Jobs with Kueue's labels in namespaces that serve them: suspended until their queue admits them, and when evicted.

A suspended job has no pods, and would have no PodGroup. Here it has the one that it would get with its pods, which
waits in its queue; when the scheduler lets that in, the job is released, and its pods join it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unisono.api.annotations import KUEUE_QUEUES, RELEASED, WAITS_SUSPENDED, handed_down
from unisono.api.base import Object
from unisono.api.conditions import ENDED
from unisono.api.core import Namespace, PriorityClass
from unisono.api.groups.batch_v1 import BatchJob
from unisono.api.groups.ray import RayCluster
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec
from unisono.api.keys import KUEUE_PRIORITY
from unisono.api.kind_families import RAY_JOBS, TRAIN_JOBS
from unisono.api.kinds import NAMESPACES, POD_GROUPS, PRIORITY_CLASSES
from unisono.api.selecting import controller_of
from unisono.controllers import owners
from unisono.controllers.objects import create_once, delete_seen, to_json
from unisono.controllers.pod_groups import is_admitted, pod_group_of_job, spec_patch, sum_usage, waits_suspended
from unisono.controllers.podgroup.controller import author_of, owners_above
from unisono.controllers.recorder import Announcer, Notice, Recorder
from unisono.controllers.training.ray.pods import RayClusterView
from unisono.errors import ApiError, Conflict, NotFound, Unavailable
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.kueue import SERVED, is_served, least_pods, local_queue, queue_behind, released
from unisono.kube.controller import Context, Controller

# What these make waits in its queue without pods; they are released at once.
_MADE_OF_OTHERS = (RAY_JOBS, TRAIN_JOBS)
# Seconds after which what is leaving is looked at again.
_SOON = 1.0
# Seconds in which a gang that lost pods gets others, and is let in again: its other pods go on then.
_GRACE = 10.0


class ServedJobController(Controller):
    """Serves the jobs of one kind."""

    def __init__(self, kind: JobKind, recorder: Recorder) -> None:
        self._kind, self._announcer = kind, Announcer(recorder)
        self.name = f"kueue-{kind.kind.singular_name}-controller"
        # When a job that was released was first seen without its places.
        self._lost: dict[str, float] = {}

    def setup(self, context: Context) -> None:
        """Watch the jobs, their groups and the switch on their namespaces."""
        self._jobs = context.watch(self._kind.kind, optional=True)
        self._announcer.forget_deleted(self._jobs)
        self._groups = context.watch(POD_GROUPS, lambda group: owners.keys_of(self._kind.kind, group))
        self._namespaces = context.watch(
            NAMESPACES, self._jobs_in, when=lambda _, new, old: _served_as(new) != _served_as(old)
        )
        self._classes = context.watch(
            PRIORITY_CLASSES, self._jobs_with, when=lambda event_type, *_: event_type != "MODIFIED"
        )

    def _jobs_in(self, namespace: Namespace) -> Iterable[str]:
        return [job.key for job in self._jobs.items() if job.metadata.namespace == namespace.metadata.name]

    def _jobs_with(self, priority: PriorityClass) -> Iterable[str]:
        name = priority.metadata.name
        return [job.key for job in self._jobs.items() if (job.metadata.labels or {}).get(KUEUE_PRIORITY) == name]

    async def reconcile(self, key: str) -> float | None:
        """Take the next step for one job."""
        job, since = self._jobs.get(key), self._lost.pop(key, None)
        if job is None or job.metadata.deletion_timestamp:
            return None
        group = self._groups.get(f"{job.metadata.namespace}/{_group_name(job)}")
        if group is not None and job.metadata.uid not in owners.controller_uids(group):
            group = None
        if group is not None and group.metadata.deletion_timestamp:
            return _SOON
        notes = _notes(self._namespaces.get(job.metadata.namespace or ""))
        local, suspended = local_queue(job), self._kind.is_suspended(job)
        if not local or not is_served(notes) or _is_part(job):
            if group is not None and waits_suspended(group) and suspended:
                await delete_seen(self._client, POD_GROUPS, group)
            return None
        if self._kind.state(job)[0] in ENDED:
            return None
        queue, priority = queue_behind(local, notes), (job.metadata.labels or {}).get(KUEUE_PRIORITY, "")
        if (suspended or not self._was_released(job)) and (why := self._wrong(local, queue, priority)):
            self._announcer.tell(job, [Notice("Warning", "NotAdmitted", why, once=why)])
            return None if suspended else await self._suspend(job, "Suspended", why)
        if self._kind.kind in _MADE_OF_OTHERS:
            return None if self._was_released(job) else await self._release(job, queue, priority)
        if not least_pods(self._kind, job):
            return None
        if suspended:
            return await self._wait(job, group, queue, priority)
        return await self._run(job, group, queue, since)

    def _wrong(self, local: str, queue: str, priority: str) -> str:
        """Why a job cannot wait in any queue; empty where it can."""
        if not queue:
            return f"annotation {KUEUE_QUEUES} of its namespace names no Queue behind LocalQueue {local}: add it"
        if priority and self._classes.get(priority) is None:
            return f"there is no PriorityClass {priority}, which its label {KUEUE_PRIORITY} names: make one"
        return ""

    @staticmethod
    def _was_released(job: Object) -> bool:
        return bool((job.metadata.annotations or {}).get(RELEASED))

    async def _wait(self, job: Any, group: PodGroup | None, queue: str, priority: str) -> float | None:
        desired = self._wanted(job, queue, priority)
        if group is None:
            desired.metadata.annotations = handed_down(await self._author(job), desired.metadata.annotations)
            try:
                await create_once(self._client, POD_GROUPS, desired)
            except (Conflict, Unavailable):
                raise
            except ApiError as error:
                self._announcer.tell(job, [Notice("Warning", "NotAdmitted", str(error), once=str(error))])
                raise
            return None
        if not waits_suspended(group):
            return _SOON
        if is_admitted(group) and group.spec.queue == queue:
            return await self._release(job, queue, priority)
        if group.spec.queue != queue:
            await delete_seen(self._client, POD_GROUPS, group)
            return _SOON
        if patch := spec_patch(group, desired):
            await self._patch(POD_GROUPS, group, {"spec": patch})
        return None

    async def _author(self, job: Object) -> dict[str, str]:
        """Annotations of a job's outermost owner, which the server has seen: what the job was made from may lie."""
        above = await owners_above(self._client, job)
        return author_of(above[-1] if above else job)

    def _wanted(self, job: Any, queue: str, priority: str) -> PodGroup:
        """The group that the job's controller would make, as far as the job alone says it."""
        least = least_pods(self._kind, job)
        sets = [(each.spec, each.count) for each in self._kind.pods(job)]
        if len(sets) == 1:
            sets = [(sets[0][0], least)]
        spec = PodGroupSpec(
            min_member=least,
            queue=queue,
            priority_class_name=priority or self._kind.priority_of(job) or None,
            min_resources={**sum_usage(sets)} or None,
        )
        return pod_group_of_job(self._kind.kind, job, _group_name(job), spec, annotations={WAITS_SUSPENDED: "true"})

    async def _release(self, job: Any, queue: str, priority: str) -> float | None:
        patch = released(self._kind, job, to_json(job), queue, priority)
        patch.setdefault("metadata", {}).setdefault("annotations", {})[RELEASED] = queue
        if await self._patch(self._kind.kind, job, patch):
            self._announcer.tell(job, [Notice("Normal", "Admitted", f"Admitted by queue {queue}, and released")])
        return None

    async def _run(self, job: Any, group: PodGroup | None, queue: str, since: float | None) -> float | None:
        admitted = group is not None and is_admitted(group)
        if not self._was_released(job):
            if group is None or not admitted or group.spec.queue != queue:
                return await self._suspend(job, "Suspended", "Suspended until its queue admits it")
            # It ran before its namespace was served.
            await self._patch(POD_GROUPS, group, {"metadata": {"annotations": {WAITS_SUSPENDED: "true"}}})
            await self._patch(self._kind.kind, job, {"metadata": {"annotations": {RELEASED: queue}}})
            return None
        if group is None or admitted:
            return None
        now = self._clock.time()
        since = self._lost[job.key] = now if since is None else since
        if since + _GRACE > now:
            return since + _GRACE - now
        try:
            live = await self._client.get(POD_GROUPS, group.metadata.name, group.metadata.namespace)
        except NotFound:
            return _SOON
        if live.metadata.uid != group.metadata.uid or is_admitted(live):
            return _SOON
        return await self._suspend(job, "Evicted", f"It has lost its places in queue {queue}, and waits there again")

    async def _suspend(self, job: Any, reason: str, text: str) -> float | None:
        patch = self._kind.suspended(True)
        patch.setdefault("metadata", {})["annotations"] = {RELEASED: None}
        if await self._patch(self._kind.kind, job, patch):
            self._announcer.tell(job, [Notice("Normal", reason, text)])
        return None

    async def _patch(self, kind: Any, obj: Object, patch: dict[str, Any]) -> bool:
        """Patch this very object; answers whether it is still there."""
        meta = obj.metadata
        body = {**patch, "metadata": {**patch.get("metadata", {}), "uid": meta.uid}}
        try:
            await self._client.patch(kind, meta.name, body, namespace=meta.namespace)
        except NotFound:
            return False
        return True


def _is_part(job: Object) -> bool:
    """Whether what has made the job is released and suspended itself."""
    owner = controller_of(job)
    return owner is not None and any(
        (each.kind.kind, each.kind.group) == (owner.kind, owner.api_version.partition("/")[0]) for each in SERVED
    )


def _group_name(job: Any) -> str:
    """The name of the group that the job's pods will have."""
    if isinstance(job, BatchJob):
        return f"podgroup-{job.metadata.uid}"
    return RayClusterView(job).group_name if isinstance(job, RayCluster) else str(job.metadata.name)


def _served_as(namespace: Namespace | None) -> tuple[bool, str | None]:
    notes = _notes(namespace)
    return is_served(notes), notes.get(KUEUE_QUEUES)


def _notes(namespace: Namespace | None) -> dict[str, str]:
    return (namespace.metadata.annotations or {}) if namespace is not None else {}
