"""What objects say of their lives: when a pod held its node, when a job ended, and which job a pod belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from unisono.api.annotations import NODE_CHECK
from unisono.api.base import Object
from unisono.api.core import Pod
from unisono.api.kinds import NODE_CHECKS, POD_GROUPS
from unisono.api.pod_states import failed_by_itself, is_disrupted, pod_end
from unisono.api.quantity import QuantityError
from unisono.api.resources import pod_requests
from unisono.api.selecting import controller_of
from unisono.history.records import DELETED, EVICTED, MOVED, Changes, Interval, JobRecord, Link, gpus, worse
from unisono.jobkinds.registry import JOB_KINDS, job_kind_of

# Records in memory: jobs, and the last interval of each pod that is there, with their running sums (pure).


class Book:
    """Jobs and intervals, and what has changed in them since ``changes`` was emptied last."""

    def __init__(self, jobs: Iterable[JobRecord], intervals: Iterable[Interval]) -> None:
        self.jobs = {job.uid: job for job in jobs}
        self.pods: dict[str, Interval] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.changes = Changes()
        self._of_job: dict[str, set[str]] = {}
        self._of_parent: dict[str, set[str]] = {}
        self._of_group: dict[str, set[str]] = {}
        self._held: dict[str, list[int]] = {}
        for interval in intervals:
            self._index(interval)
            if not interval.end:
                self._hold(interval, 1)

    def of_job(self, uid: str) -> list[Interval]:
        """The last interval of each pod of a job that is there."""
        return [self.pods[pod] for pod in sorted(self._of_job.get(uid, ()))]

    def of_parent(self, uid: str) -> list[Interval]:
        """The same, of pods with this controller."""
        return [self.pods[pod] for pod in sorted(self._of_parent.get(uid, ()))]

    def of_group(self, key: str) -> list[Interval]:
        """The same, of pods of the PodGroup ``namespace/name``."""
        return [self.pods[pod] for pod in sorted(self._of_group.get(key, ()))]

    def runs(self, job: str) -> bool:
        """Whether a pod of the job holds something."""
        return bool(self._held.get(job, [0])[0])

    def touch(self, record: JobRecord | Interval) -> None:
        """It has changed."""
        if isinstance(record, JobRecord):
            self.changes.jobs[record.uid] = record
        else:
            self.changes.intervals[record.pod, record.start] = record

    def open(self, interval: Interval, job: JobRecord) -> None:
        """A pod holds its node from now on."""
        interval.job = job.uid
        self._index(interval)
        self._hold(interval, 1)
        self.touch(interval)
        self._note_start(interval, job)

    def close(self, interval: Interval, end: int, outcome: str, exit_code: int | None) -> None:
        """A pod holds its node no more."""
        self._hold(interval, -1)
        interval.end, interval.outcome, interval.exit_code = max(interval.start, end), outcome, exit_code
        self.touch(interval)
        job = self.jobs.get(interval.job)
        if job is not None and (code := worse(job.exit_code, exit_code)) != job.exit_code:
            job.exit_code = code
            self.touch(job)

    def leave(self, interval: Interval) -> None:
        """The pod is gone; its interval has been closed."""
        interval.present = False
        self.touch(interval)
        self._unindex(interval)
        self.forget(interval.job, interval.end)

    def split(self, interval: Interval, at: int, *, queue: str, resources: dict[str, int]) -> None:
        """The pod goes on with another queue, or another size."""
        at = max(interval.start, at)
        if at == interval.start:
            self.correct(interval, queue=queue, resources=resources)
            return
        later = msgspec.structs.replace(interval, start=at, queue=queue, resources=resources)
        self._hold(interval, -1)
        interval.end, interval.outcome, interval.present, interval.restarts = at, MOVED, False, 0
        self.touch(interval)
        self._index(later)
        self._hold(later, 1)
        self.touch(later)
        self._note_peak(self.jobs.get(later.job))

    def correct(self, interval: Interval, *, queue: str, resources: dict[str, int]) -> None:
        """What was written down of an interval was not known well enough."""
        if not interval.end:
            self._hold(interval, -1)
        interval.queue, interval.resources = queue, resources
        if not interval.end:
            self._hold(interval, 1)
        self.touch(interval)
        self._note_peak(self.jobs.get(interval.job))

    def move(self, interval: Interval, job: JobRecord) -> None:
        """The pod turns out to belong to another job."""
        old = interval.job
        if old == job.uid:
            return
        if not interval.end:
            self._hold(interval, -1)
        self._unindex(interval)
        interval.job = job.uid
        self._index(interval)
        if not interval.end:
            self._hold(interval, 1)
        self.touch(interval)
        self._note_start(interval, job)
        if old not in self._of_job:
            self.drop(old)

    def drop(self, uid: str) -> None:
        """A record without pods that turned out to be no job."""
        if uid in self.jobs and uid not in self._of_job:
            del self.jobs[uid]
            self.changes.jobs[uid] = None

    def forget(self, uid: str, at: int) -> None:
        """Keep no record in memory of a job that is gone, once its pods are gone, too."""
        job = self.jobs.get(uid)
        if job is None or uid in self._of_job or (job.live and job.seen):
            return
        if not job.ended:
            job.ended, job.outcome = max(job.created, at), DELETED
        job.live = False
        self.touch(job)
        del self.jobs[uid]

    def take(self) -> Changes:
        """What has changed since the last time, as copies that stay as they are."""
        pending, self.changes = self.changes, Changes()
        pending.jobs = {uid: job and msgspec.structs.replace(job) for uid, job in pending.jobs.items()}
        pending.intervals = {
            key: interval and msgspec.structs.replace(interval) for key, interval in pending.intervals.items()
        }
        pending.links = {uid: link and msgspec.structs.replace(link) for uid, link in pending.links.items()}
        return pending

    def _note_start(self, interval: Interval, job: JobRecord) -> None:
        if not job.started or interval.start < job.started:
            job.started = max(job.created, interval.start)
            self.touch(job)
        self._note_peak(job)

    def _note_peak(self, job: JobRecord | None) -> None:
        if job is None:
            return
        pods, cards, cpus = self._held.get(job.uid, (0, 0, 0))
        if pods > job.pods or cards > job.gpus or cpus > job.cpus:
            job.pods, job.gpus, job.cpus = max(pods, job.pods), max(cards, job.gpus), max(cpus, job.cpus)
            self.touch(job)

    def _hold(self, interval: Interval, sign: int) -> None:
        held = self._held.setdefault(interval.job, [0, 0, 0])
        held[0] += sign
        held[1] += sign * gpus(interval.resources)
        held[2] += sign * interval.resources.get("cpu", 0)
        if not held[0]:
            del self._held[interval.job]
        used = self.used.setdefault(interval.queue, {})
        for name, amount in interval.resources.items():
            used[name] = used.get(name, 0) + sign * amount
            if not used[name]:
                del used[name]

    def _index(self, interval: Interval) -> None:
        self.pods[interval.pod] = interval
        for index, key in self._indexes(interval):
            if key:
                index.setdefault(key, set()).add(interval.pod)

    def _unindex(self, interval: Interval) -> None:
        del self.pods[interval.pod]
        for index, key in self._indexes(interval):
            pods = index.get(key)
            if pods is not None:
                pods.discard(interval.pod)
                if not pods:
                    del index[key]

    def _indexes(self, interval: Interval) -> tuple[tuple[dict[str, set[str]], str], ...]:
        return ((self._of_job, interval.job), (self._of_parent, interval.parent), (self._of_group, interval.group))


JOB_RESOURCES = frozenset(kind.resource for kind in JOB_KINDS)
# A chain of controllers that is longer is a circle.
_LONGEST_CHAIN = 8


def owner_of(obj: Object) -> tuple[str, str, str, str]:
    """``(uid, apiVersion, kind, name)`` of an object's controller; empty texts without one."""
    owner = controller_of(obj)
    return ("", "", "", "") if owner is None else (owner.uid, owner.api_version, owner.kind, owner.name)


def is_of_check(pod: Pod) -> bool:
    """Whether a NodeCheck has made the pod, as label and owner say; by a label alone no user leaves the reports."""
    owners = ((each.api_version, each.kind) for each in pod.metadata.owner_references or ())
    return NODE_CHECK in (pod.metadata.labels or {}) and (NODE_CHECKS.api_version, NODE_CHECKS.kind) in owners


def outcome_of(pod: Pod) -> tuple[str, int | None]:
    """How the pod ended, and the exit code that explains it."""
    end = pod_end(pod)
    if pod.status.phase == "Succeeded":
        return "Succeeded", end.exit_code
    if is_disrupted(pod):
        return EVICTED, end.exit_code
    return ("Failed" if failed_by_itself(pod) else DELETED), end.exit_code


def restarts_of(pod: Pod) -> int:
    """How often containers of the pod were started again in place."""
    return sum(each.restart_count or 0 for each in pod.status.container_statuses or ())


def requests_of(pod: Pod) -> dict[str, int]:
    """What the pod holds on its node; nothing where that cannot be read."""
    try:
        return {name: amount for name, amount in pod_requests(pod.spec).items() if amount > 0}
    except QuantityError:
        return {}


def job_ended_at(job: Any, created: int, now: int) -> int:
    """When a job that has ended did so, as it says itself, else now."""
    kind = job_kind_of(job)
    stated = round(kind.ended_at(job) * 1000) if kind is not None else 0
    return max(created, min(stated or now, now))


class Tree:
    """Links by UID, by parent, and PodGroups by name."""

    def __init__(self, links: Iterable[Link]) -> None:
        self._links: dict[str, Link] = {}
        self._below: dict[str, set[str]] = {}
        self._groups: dict[str, str] = {}
        for link in links:
            self.put(link)

    def get(self, uid: str) -> Link | None:
        """The link of that UID."""
        return self._links.get(uid)

    def group(self, key: str) -> Link | None:
        """The PodGroup ``namespace/name``."""
        return self._links.get(self._groups.get(key, ""))

    def there(self, resource: str) -> list[Link]:
        """Links of a resource whose objects are there."""
        return [link for link in self._links.values() if link.resource == resource and not link.gone]

    def put(self, link: Link) -> None:
        """Add a link, or take the place of the one with its UID."""
        old = self._links.get(link.uid)
        if old is not None and old.parent != link.parent:
            self._cut(old)
        self._links[link.uid] = link
        if link.parent:
            self._below.setdefault(link.parent, set()).add(link.uid)
        if link.resource == POD_GROUPS.resource and not link.gone:
            self._groups[f"{link.namespace}/{link.name}"] = link.uid

    def forget(self, before: int) -> list[str]:
        """Drop what went before a moment; answers the UIDs."""
        expired = [uid for uid, link in self._links.items() if link.gone and link.gone < before]
        for uid in expired:
            link = self._links.pop(uid)
            self._cut(link)
            key = f"{link.namespace}/{link.name}"
            if link.resource == POD_GROUPS.resource and self._groups.get(key) == uid:
                del self._groups[key]
        return expired

    def under(self, uid: str) -> Iterator[Link]:
        """The link and all below it."""
        todo, seen = [uid], {uid}
        for each in todo:
            link = self._links.get(each)
            if link is not None:
                yield link
            fresh = self._below.get(each, set()) - seen
            seen |= fresh
            todo += sorted(fresh)

    def top(self, uid: str) -> str:
        """UID of the uppermost job at or above a link; empty where there is none."""
        uppermost = ""
        for _ in range(_LONGEST_CHAIN):
            link = self._links.get(uid)
            if link is None:
                break
            if link.resource in JOB_RESOURCES:
                uppermost = uid
            uid = link.parent
        return uppermost

    def _cut(self, link: Link) -> None:
        children = self._below.get(link.parent)
        if children is not None:
            children.discard(link.uid)
            if not children:
                del self._below[link.parent]
