"""What objects say of their lives: when a pod held its node, when a job ended, and which job a pod belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from unisono.api.base import Object
from unisono.api.conditions import is_true
from unisono.api.core import Pod
from unisono.api.kinds import POD_GROUPS
from unisono.api.pod_states import container_statuses, has_ended, pod_end, scheduled_at
from unisono.api.quantity import QuantityError
from unisono.api.resources import pod_requests
from unisono.api.selecting import controller_of
from unisono.api.times import time_or
from unisono.history.records import DELETED, EVICTED, Link
from unisono.jobkinds.registry import JOB_KINDS, job_kind_of

JOB_RESOURCES = frozenset(kind.resource for kind in JOB_KINDS)
# A chain of controllers that is longer is a circle.
_LONGEST_CHAIN = 8


def millis(text: str | None) -> int:
    """Milliseconds since 1970 of a time on the wire; 0 for none, and for what is none."""
    return round(time_or(text) * 1000)


def owner_of(obj: Object) -> tuple[str, str, str, str]:
    """``(uid, apiVersion, kind, name)`` of an object's controller; empty texts without one."""
    owner = controller_of(obj)
    return ("", "", "", "") if owner is None else (owner.uid, owner.api_version, owner.kind, owner.name)


def began(pod: Pod, now: int) -> int:
    """When the pod got its node; 0 where it has none.

    A pod may name its node itself, and ask for more than any node has: it holds nothing before the node has spoken, and
    nothing at all where the node refuses it.
    """
    if not pod.spec.node_name:
        return 0
    scheduled = is_true(pod.status.conditions, "PodScheduled")
    told = millis(scheduled_at(pod)) or millis(pod.status.start_time)
    phase = pod.status.phase or "Pending"
    refused = phase == "Failed" and not scheduled and not pod.status.container_statuses
    if refused or (not told and phase == "Pending"):
        return 0
    created = min(millis(pod.metadata.creation_timestamp) or now, now)
    return max(created, min(told or now, now))


def is_over(pod: Pod) -> bool:
    """The pod holds nothing any more."""
    return has_ended(pod)


def over_at(pod: Pod, start: int, now: int) -> int:
    """When a pod ceased to hold its node: as its last container ended, else now."""
    statuses = container_statuses(pod)
    ends = [millis(each.state.terminated.finished_at) for each in statuses if each.state and each.state.terminated]
    running = any(each.state and each.state.running for each in statuses)
    told = 0 if running else max(ends, default=0)
    return max(start, min(told or now, now))


def outcome_of(pod: Pod) -> tuple[str, int | None]:
    """How the pod ended, and the exit code that explains it."""
    end = pod_end(pod)
    if pod.status.phase == "Succeeded":
        return "Succeeded", end.exit_code
    if is_true(pod.status.conditions, "DisruptionTarget"):
        return EVICTED, end.exit_code
    return ("Failed" if pod.status.phase == "Failed" else DELETED), end.exit_code


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
    told = round(kind.ended_at(job) * 1000) if kind is not None else 0
    return max(created, min(told or now, now))


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
        found = [uid for uid, link in self._links.items() if link.gone and link.gone < before]
        for uid in found:
            link = self._links.pop(uid)
            self._cut(link)
            key = f"{link.namespace}/{link.name}"
            if link.resource == POD_GROUPS.resource and self._groups.get(key) == uid:
                del self._groups[key]
        return found

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
        found = ""
        for _ in range(_LONGEST_CHAIN):
            link = self._links.get(uid)
            if link is None:
                break
            if link.resource in JOB_RESOURCES:
                found = uid
            uid = link.parent
        return found

    def _cut(self, link: Link) -> None:
        children = self._below.get(link.parent)
        if children is not None:
            children.discard(link.uid)
            if not children:
                del self._below[link.parent]
