"""The whole history of pods, nodes, PodGroups and jobs, and what must hold at every moment of it."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from unisono.api.core import Lease, Node, Pod
from unisono.api.groups.batch import Job
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import JOBS, LEASES, NODES, POD_GROUPS, PODS, QUEUES
from unisono.api.quantity import parse_quantity
from unisono.errors import ApiError
from unisono.kube.client import Client, EventType
from unisono.kube.informer import Informer

_OVER = ("Succeeded", "Failed")
_BEAT = 0.05
_RENEWAL_SECONDS = 4.0
"""Twice the time after which a leader renews its Lease."""


@dataclass
class _Gang:
    """``partial_since`` is when the gang was last seen with too few of its members on nodes, None when it is whole."""

    min_member: int
    partial_since: float | None = None
    longest: float = 0.0


@dataclass
class Ledger:
    """Watches the server itself, whatever stands between it and the components."""

    client: Client
    namespace: str
    broken: list[str] = field(default_factory=list)
    """What did not hold, in words."""
    now: float = 0.0
    """Time in seconds, as far as the server keeps up: it stands still while a request waits for an answer.

    What is judged by it is judged by the same measure on a machine that is ten times slower. It also stands still while
    nobody renews `leader`: no gang can be completed before another scheduler may lead.
    """
    leader: str = ""
    """Name of the Lease in the namespace that the leading scheduler renews; empty where schedulers need none."""

    def __post_init__(self) -> None:
        self.pods: Informer[Pod] = Informer(self.client, PODS, self.namespace)
        self.jobs: Informer[Job] = Informer(self.client, JOBS, self.namespace)
        self.nodes: Informer[Node] = Informer(self.client, NODES)
        self.groups: Informer[PodGroup] = Informer(self.client, POD_GROUPS, self.namespace)
        self.queues: Informer[Queue] = Informer(self.client, QUEUES)
        self.leases: Informer[Lease] = Informer(self.client, LEASES, self.namespace)
        self.bound_to: dict[str, str] = {}
        self.starts: Counter[str] = Counter()
        self._gangs: dict[str, _Gang] = {}
        self._members: dict[str, set[str]] = defaultdict(set)
        self._since_renewal = 0.0
        self._changed = asyncio.Event()
        self.pods.on_change(self._pod)
        self.groups.on_change(self._group)
        self.leases.on_change(self._lease)
        self._informers = (self.pods, self.jobs, self.nodes, self.groups, self.queues, self.leases)
        for informer in self._informers:
            informer.on_change(lambda *_: self._changed.set())

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run())
            group.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            with suppress(ApiError, OSError):
                await self.client.list(JOBS, self.namespace)
                self._since_renewal += _BEAT
                if not self.leader or self._since_renewal <= _RENEWAL_SECONDS:
                    self.now += _BEAT

    async def synced(self) -> None:
        for informer in self._informers:
            await informer.synced.wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when ``condition`` holds; it is asked at every change."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    # --- questions ------------------------------------------------------------------------------------------

    def phase(self, job: str) -> str:
        found = self.jobs.get(f"{self.namespace}/{job}")
        return (found.status.state.phase or "") if found else ""

    def bound(self, prefix: str = "") -> list[Pod]:
        """Pods on a node that are neither over nor leaving."""
        return [pod for pod in self.pods.items() if pod.metadata.name.startswith(prefix) and _holds(pod)]

    def summary(self) -> str:
        """Where everything is, for a test that waited in vain."""
        jobs = {job.metadata.name: job.status.state.phase for job in self.jobs.items()}
        groups = {group.metadata.name: group.status.phase for group in self.groups.items()}
        pods = {pod.metadata.name: (pod.spec.node_name, pod.status.phase) for pod in self.pods.items()}
        return f"jobs {jobs}, groups {groups}, pods {pods}, broken {self.broken}"

    def longest_partial(self) -> float:
        """Longest time in seconds of `now` that a gang had some of its members on nodes, but fewer than its minimum."""
        times = [self.now - gang.partial_since for gang in self._gangs.values() if gang.partial_since is not None]
        return max([*times, *(gang.longest for gang in self._gangs.values())], default=0.0)

    # --- what must hold -------------------------------------------------------------------------------------

    def _pod(self, event_type: EventType, pod: Pod, _: Pod | None) -> None:
        uid, node = pod.metadata.uid or "", pod.spec.node_name
        group = (pod.metadata.annotations or {}).get(GROUP_NAME, "")
        if node:
            before = self.bound_to.setdefault(uid, node)
            if before != node:
                self.broken.append(f"pod {pod.key} was on {before} and is on {node}")
            self._fits(node)
        members = self._members[group]
        gone = event_type == "DELETED" or not node or pod.metadata.deletion_timestamp
        (members.discard if gone else members.add)(uid)
        self._look_at(group)

    def _group(self, event_type: EventType, group: PodGroup, _: PodGroup | None) -> None:
        name = group.metadata.name
        if event_type == "DELETED":
            self._gangs.pop(name, None)
            return
        gang = self._gangs.setdefault(name, _Gang(group.spec.min_member or 0))
        gang.min_member = group.spec.min_member or 0
        self._look_at(name)

    def _lease(self, event_type: EventType, lease: Lease, _: Lease | None) -> None:
        if event_type != "DELETED" and lease.metadata.name == self.leader:
            self._since_renewal = 0.0

    def _look_at(self, name: str) -> None:
        gang = self._gangs.get(name)
        if gang is None:
            return
        if 0 < len(self._members[name]) < gang.min_member:
            if gang.partial_since is None:
                gang.partial_since = self.now
        elif gang.partial_since is not None:
            gang.longest = max(gang.longest, self.now - gang.partial_since)
            gang.partial_since = None

    def _fits(self, name: str) -> None:
        node = self.nodes.get(name)
        if node is None:
            return
        asked = sum(_cpu(pod) for pod in self.pods.items() if pod.spec.node_name == name and not _over(pod))
        if asked > parse_quantity((node.status.allocatable or {})["cpu"]):
            self.broken.append(f"node {name} holds pods of {asked} CPU")


def _cpu(pod: Pod) -> float:
    requests = (c.resources.requests or {} for c in pod.spec.containers or () if c.resources)
    return float(sum(parse_quantity(each["cpu"]) for each in requests if "cpu" in each))


def _over(pod: Pod) -> bool:
    return pod.status.phase in _OVER


def _holds(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not _over(pod) and not pod.metadata.deletion_timestamp
