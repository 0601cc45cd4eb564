"""Watch events in, records out: the fold that history is made of (pure).

Jobs, what stands between them and their pods, PodGroups and pods come in streams of their own, in no order among each
other: what is not known yet is put right when it is heard of. Each event counts once, also when it comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from unisono.api.annotations import USER
from unisono.api.base import Object
from unisono.api.conditions import ENDED, SUCCEEDED
from unisono.api.core import Pod
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kind import Kind
from unisono.api.kinds import NODE_CHECKS, NODES, POD_GROUPS, PODS, QUEUES
from unisono.api.pod_states import began, has_ended, over_at
from unisono.api.selecting import DEFAULT_QUEUE, pod_group_of, queue_of
from unisono.api.times import millis
from unisono.history import lives
from unisono.history.lives import JOB_RESOURCES, Book, Tree
from unisono.history.queue_shares import QueueShares
from unisono.history.records import DELETED, Changes, Interval, JobRecord, Link, Memory
from unisono.jobkinds.registry import JOB_KINDS, PARTS, state_of

KINDS: tuple[Kind[Any], ...] = (*JOB_KINDS, *PARTS, POD_GROUPS, PODS)
"""Kinds whose events make records; each is followed from where it was left."""

SHARED_KINDS: tuple[Kind[Any], ...] = (QUEUES, NODES)
"""Kinds of which the present state alone matters; each is listed again after a restart."""

Trouble = Callable[[Kind[Any], Object, Exception], None]

_KIND_OF = {(kind.group, kind.kind): kind for kind in KINDS}
# How long a deleted owner is still known: its pods may be heard of later.
_MEMORY_MILLIS = 600_000
# As much of a job's last words as is kept.
_LONGEST_MESSAGE = 400


class Ledger:
    """All that is known of jobs now, and what of it is still to be stored.

    Args:
        memory: what was stored.
        trouble: is told of an object that cannot be understood; it is set aside, and the others go on.
    """

    def __init__(self, memory: Memory, trouble: Trouble | None = None) -> None:
        self._trouble = trouble
        self._tree = Tree(memory.links)
        self._book = Book(memory.jobs, memory.intervals)
        self._shares = QueueShares(memory.shares)
        self.versions = dict(memory.versions)
        self._heard: dict[str, int] = {}
        self._heard_before = memory.heard

    def apply(self, kind: Kind[Any], obj: Object, now: int, *, deleted: bool = False) -> None:
        """One change.

        Args:
            kind: of the object.
            obj: as it is now, or was at last.
            now: the time, in milliseconds.
            deleted: it is gone.
        """
        version = obj.metadata.resource_version or ""
        if self._is_old(kind, version):
            return
        self._take(kind, obj, now, deleted=deleted)
        if version:
            self.versions[kind.resource] = version
        self.tick(kind, now)

    def replace(
        self, kind: Kind[Any], objects: Sequence[Object], version: str, now: int, unread: Collection[str] = ()
    ) -> None:
        """A complete list: what is not in it went away at a time that is not known.

        Nothing is charged beyond the moment at which the server was last heard of.

        Args:
            kind: of the objects.
            objects: all that could be decoded.
            version: resourceVersion of the list.
            now: the time, in milliseconds.
            unread: UIDs of the others.
        """
        there = {obj.metadata.uid or "" for obj in objects} | set(unread)
        last = min(self._heard.get(kind.resource) or self._heard_before or now, now)
        if kind is PODS:
            for interval in [each for each in self._book.pods.values() if each.pod not in there]:
                if not interval.end:
                    self._book.close(interval, last, DELETED, None)
                self._book.leave(interval)
        elif kind in SHARED_KINDS:
            (self._shares.clear_nodes if kind is NODES else self._shares.clear_queues)()
        else:
            for link in self._tree.there(kind.resource):
                if link.uid not in there:
                    self._gone(link, last)
        for obj in objects:
            self._take(kind, obj, now, deleted=False)
        if version:
            self.versions[kind.resource] = version
        self.tick(kind, now)

    def tick(self, kind: Kind[Any], now: int) -> None:
        """The stream of a kind is alive: whatever has not been told of has not happened."""
        self._heard[kind.resource] = max(self._heard.get(kind.resource, 0), now)

    def sample(self, now: int) -> None:
        """Note the shares of queues and the capacity of the cluster, where they have changed."""
        self._book.changes.shares += self._shares.changed(self._book.used, now)

    @property
    def running(self) -> int:
        """Pods that hold something."""
        return sum(not each.end for each in self._book.pods.values())

    def measure(self, used: Mapping[tuple[str, str], int]) -> None:
        """Note the memory that pods were seen to use: bytes, by namespace and name."""
        for interval in self._book.pods.values():
            job = None if interval.end else self._book.jobs.get(interval.job)
            if job is not None and (amount := used.get((job.namespace, interval.name), 0)) > job.memory:
                job.memory = amount
                self._book.touch(job)

    def take(self, now: int) -> Changes:
        """What is to be stored; the next call answers what has changed since this one."""
        for uid in self._tree.forget(now - _MEMORY_MILLIS):
            self._book.changes.links[uid] = None
        pending = self._book.take()
        pending.versions = {kind.resource: version for kind in KINDS if (version := self.versions.get(kind.resource))}
        pending.heard = max(self._heard_before, self._heard.get(PODS.resource, 0))
        return pending

    def _is_old(self, kind: Kind[Any], version: str) -> bool:
        latest = self.versions.get(kind.resource, "")
        return version.isdigit() and latest.isdigit() and int(version) <= int(latest)

    def _take(self, kind: Kind[Any], obj: Any, now: int, *, deleted: bool) -> None:
        try:
            self._understand(kind, obj, now, deleted=deleted)
        except Exception as error:
            if self._trouble is None:
                raise
            self._trouble(kind, obj, error)

    def _understand(self, kind: Kind[Any], obj: Any, now: int, *, deleted: bool) -> None:
        if kind is PODS:
            self._pod(obj, now, deleted=deleted)
        elif kind is NODES:
            self._shares.put_node(obj, deleted=deleted)
        elif kind is QUEUES:
            self._shares.put_queue(obj, deleted=deleted)
        else:
            self._owner(kind, obj, now, deleted=deleted)

    def _pod(self, pod: Pod, now: int, *, deleted: bool) -> None:
        uid = pod.metadata.uid or ""
        interval = self._book.pods.get(uid)
        if interval is None:
            interval = self._begin(pod, uid, now)
        if interval is None:
            return
        if not interval.end:
            self._go_on(interval, pod, now)
            # A pod that goes on with another size has a new interval.
            interval = self._book.pods[uid]
        if not interval.end and (deleted or has_ended(pod)):
            outcome, exit_code = lives.outcome_of(pod)
            self._book.close(interval, over_at(pod, interval.start, now), outcome, exit_code)
        if deleted:
            self._book.leave(interval)

    def _begin(self, pod: Pod, uid: str, now: int) -> Interval | None:
        start = began(pod, now)
        if not start:
            return None
        parent, group = lives.owner_of(pod)[0], pod_group_of(pod)
        interval = Interval(
            pod=uid,
            start=start,
            job="",
            name=pod.metadata.name,
            node=pod.spec.node_name or "",
            queue="",
            resources=lives.requests_of(pod),
            parent=parent,
            group=group,
        )
        job = self._job_of(interval) or self._stand_in(pod, uid)
        interval.queue = self._queue_of(interval, job)
        self._book.open(interval, job)
        return interval

    def _go_on(self, interval: Interval, pod: Pod, now: int) -> None:
        resources = lives.requests_of(pod)
        if resources != interval.resources and not has_ended(pod):
            self._book.split(interval, now, queue=interval.queue, resources=resources)
            interval = self._book.pods[interval.pod]
        restarts = lives.restarts_of(pod)
        if restarts != interval.restarts:
            interval.restarts = restarts
            self._book.touch(interval)

    def _job_of(self, interval: Interval) -> JobRecord | None:
        """The record of the uppermost job, else of the PodGroup; None while neither is known."""
        top = self._tree.top(interval.parent)
        group = self._tree.group(interval.group)
        if not top and group is not None:
            top = self._tree.top(group.uid) or group.uid
        if not top:
            return None
        record = self._book.jobs.get(top)
        link = self._tree.get(top)
        if record is None and link is not None:
            # Forgotten before this pod was heard of: the stored record is kept.
            record = self._remember(_record(link))
        return record

    def _stand_in(self, pod: Pod, uid: str) -> JobRecord:
        """A record from what the pod alone tells, until its job or its PodGroup is heard of."""
        owner, api_version, kind, name = lives.owner_of(pod)
        owner_kind = _KIND_OF.get((api_version.rpartition("/")[0], kind))
        if owner_kind is None or owner_kind.resource not in JOB_RESOURCES:
            owner_kind = NODE_CHECKS if lives.is_of_check(pod) else PODS
            owner, api_version, kind, name = uid, owner_kind.api_version, owner_kind.kind, pod.metadata.name
        namespace = pod.metadata.namespace or "default"
        record = self._book.jobs.get(owner)
        if record is not None:
            return record
        created = millis(pod.metadata.creation_timestamp)
        return self._remember(
            JobRecord(owner, api_version, kind, owner_kind.resource, namespace, name, created=created, seen=False)
        )

    def _remember(self, record: JobRecord) -> JobRecord:
        self._book.jobs[record.uid] = record
        self._book.touch(record)
        return record

    def _queue_of(self, interval: Interval, job: JobRecord) -> str:
        group = self._tree.group(interval.group)
        return (group.queue if group is not None else "") or job.queue or DEFAULT_QUEUE

    def _owner(self, kind: Kind[Any], obj: Any, now: int, *, deleted: bool) -> None:
        """A job, something between jobs and pods, or a PodGroup."""
        meta = obj.metadata
        uid, group = meta.uid or "", kind is POD_GROUPS
        queue = queue_of(obj) if group else getattr(obj.spec, "queue", None) or ""
        old = self._tree.get(uid)
        link = Link(uid, kind.resource, meta.namespace or "default", meta.name, lives.owner_of(obj)[0], queue)
        if old != link:
            self._tree.put(link)
            self._book.changes.links[uid] = link
        if group or kind.resource in JOB_RESOURCES:
            self._write_record(kind, obj, now)
        self._name_queue(link, moved=old is not None and old.queue != link.queue)
        if old is None or (old.parent, old.queue) != (link.parent, link.queue):
            self._settle(link, now, moved=old is not None and old.queue != link.queue)
        if deleted:
            self._gone(link, now)

    def _name_queue(self, link: Link, *, moved: bool) -> None:
        """A job that names no queue itself is in that of what it has made: of its gang, or of a job in between."""
        top = self._tree.top(link.uid)
        own, record = self._tree.get(top), self._book.jobs.get(top)
        if own is None or record is None or own.queue or (record.queue and not moved):
            return
        queue = next((each.queue for each in self._tree.under(link.uid) if each.queue), "")
        if queue and record.queue != queue:
            record.queue = queue
            self._remember(record)

    def _write_record(self, kind: Kind[Any], obj: Any, now: int) -> None:
        meta, uid = obj.metadata, obj.metadata.uid or ""
        top = self._tree.top(uid)
        if (top or uid) != uid:
            self._book.drop(uid)
            return
        old = self._book.jobs.get(uid)
        created = min(millis(meta.creation_timestamp) or now, now)
        record = old or JobRecord(
            uid, kind.api_version, kind.kind, kind.resource, meta.namespace or "default", meta.name
        )
        before = _content(record) if old else None
        if kind is POD_GROUPS:
            _, api_version, owner_kind, name = lives.owner_of(obj)
            if name:
                record.api_version, record.kind, record.name = api_version, owner_kind, name
            phase, message = self._group_state(obj)
        else:
            phase, message = state_of(obj, running=self._book.runs(uid))
        record.seen, record.live, record.created = True, True, created
        link = self._tree.get(uid)
        record.queue = (link.queue if link else "") or record.queue
        record.user = (meta.annotations or {}).get(USER, "") or record.user
        if phase in ENDED:
            record.ended = record.ended or self._ended_at(kind, obj, created, now)
            record.outcome, record.message = phase, message[:_LONGEST_MESSAGE]
            if phase == SUCCEEDED and record.exit_code is not None:
                # Of a pod that was started again since then.
                record.exit_code = 0
        else:
            record.ended, record.outcome, record.message = 0, "", ""
        if before != _content(record):
            self._remember(record)

    def _ended_at(self, kind: Kind[Any], obj: Any, created: int, now: int) -> int:
        if kind is not POD_GROUPS:
            return lives.job_ended_at(obj, created, now)
        ends = [each.end for each in self._book.of_job(obj.metadata.uid or "")]
        return max(created, min(max(ends, default=now) or now, now))

    def _group_state(self, group: PodGroup) -> tuple[str, str]:
        """How a gang without a job stands."""
        if group.status.phase != "Completed":
            return "Running", ""
        return self._by_pods(group.metadata.uid or "") or SUCCEEDED, ""

    def _by_pods(self, uid: str) -> str:
        """How a gang without a job ended, as its pods tell; empty where one goes on, or none is known."""
        ends = {each.outcome for each in self._book.of_job(uid)}
        if not ends or "" in ends:
            return ""
        return "Failed" if "Failed" in ends else SUCCEEDED if ends == {"Succeeded"} else ""

    def _settle(self, link: Link, now: int, *, moved: bool) -> None:
        """Put right what was not known of the pods below a link, or has changed."""
        for each in list(self._tree.under(link.uid)):
            key = f"{each.namespace}/{each.name}" if each.resource == POD_GROUPS.resource else ""
            for interval in [*self._book.of_parent(each.uid), *(self._book.of_group(key) if key else ())]:
                job = self._job_of(interval)
                if job is None:
                    continue
                self._book.move(interval, job)
                queue = self._queue_of(interval, job)
                if queue == interval.queue or (moved and interval.end):
                    continue
                change = self._book.split if moved else self._correct
                change(interval, now, queue=queue, resources=interval.resources)
            if each.uid != link.uid and self._tree.top(each.uid) not in ("", each.uid):
                self._book.drop(each.uid)

    def _correct(self, interval: Interval, _now: int, *, queue: str, resources: dict[str, int]) -> None:
        self._book.correct(interval, queue=queue, resources=resources)

    def _gone(self, link: Link, at: int) -> None:
        link.gone = at or 1
        self._tree.put(link)
        self._book.changes.links[link.uid] = link
        record = self._book.jobs.get(link.uid)
        if record is None:
            return
        record.live = False
        if not record.ended:
            record.ended = max(record.created, at)
            record.outcome = (self._by_pods(link.uid) if link.resource == POD_GROUPS.resource else "") or DELETED
        self._book.touch(record)
        self._book.forget(link.uid, at)


def _record(link: Link) -> JobRecord:
    kind = next(kind for kind in KINDS if kind.resource == link.resource)
    return JobRecord(
        link.uid, kind.api_version, kind.kind, link.resource, link.namespace, link.name, queue=link.queue, seen=False
    )


def _content(record: JobRecord) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in record.__struct_fields__)
