"""What is submitted, and how its way is followed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from unisono.api import core
from unisono.api.base import ObjectMeta
from unisono.api.groups.batch import Job, JobSpec, TaskSpec
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, JOBS, LEASES, NAMESPACES, NODES, POD_GROUPS, PODS
from unisono.errors import AlreadyExists, NotFound, Unavailable
from unisono.kube.client import Client, EventType
from unisono.kube.http import HttpClient
from unisono.kube.informer import Informer

SUBMITTERS = 16
SIMULATED, FURNISHED = "sim-", "bench-"
"""How names of nodes begin: those of ``unisono agent --simulate``, and those that are just there."""
LEASE_NAMESPACE = "kube-node-lease"
_REMOVAL_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Shape:
    """``jobs`` gangs of ``pods`` pods each."""

    jobs: int
    pods: int

    @property
    def total(self) -> int:
        """Pods of all jobs."""
        return self.jobs * self.pods

    def __str__(self) -> str:
        return f"{self.jobs:,} x {self.pods:,}"


def parse_shape(text: str) -> Shape:
    """``200x8``.

    Raises:
        ValueError: it is not of that form.
    """
    jobs, _, pods = text.partition("x")
    return Shape(int(jobs), int(pods))


@dataclass(frozen=True, slots=True)
class Followed:
    """When things happened, in seconds after the first submission."""

    submitted: float
    created: float
    bound: float
    running: float


class Follower:
    """Watches the pods of one namespace and notes when the last one got somewhere."""

    def __init__(self, client: Client, namespace: str, wanted: int) -> None:
        self._wanted = wanted
        self._names: set[str] = set()
        self._bound: set[str] = set()
        self._running: set[str] = set()
        self.created_at = self.bound_at = self.running_at = self.first_bound_at = 0.0
        self.done, self.any_bound = asyncio.Event(), asyncio.Event()
        self.pods: Informer[core.Pod] = Informer(client, PODS, namespace)
        self.pods.on_change(self._changed)

    def _changed(self, event_type: EventType, pod: core.Pod, _: core.Pod | None) -> None:
        if event_type == "DELETED":
            return
        now = time.monotonic()
        if self._new(self._names, pod.key):
            self.created_at = now
        if pod.spec.node_name and self._new(self._bound, pod.key):
            self.bound_at = now
            self.first_bound_at = self.first_bound_at or now
            self.any_bound.set()
        if pod.status.phase == "Running" and self._new(self._running, pod.key):
            self.running_at = now
        if len(self._running) == self._wanted:
            self.done.set()

    @staticmethod
    def _new(seen: set[str], key: str) -> bool:
        if key in seen:
            return False
        seen.add(key)
        return True

    def __str__(self) -> str:
        return f"{len(self._names)} created, {len(self._bound)} bound, {len(self._running)} running"


async def submit(client: Client, namespace: str, shape: Shape, patience: float) -> Followed:
    """Submit all jobs and follow their pods until every one runs.

    Raises:
        RuntimeError: that took longer than ``patience`` seconds.
    """
    follower = Follower(client, namespace, shape.total)
    watching = asyncio.create_task(follower.pods.run())
    try:
        await follower.pods.synced.wait()
        started = time.monotonic()
        numbers = iter(range(shape.jobs))

        async def submitter() -> None:
            for number in numbers:
                await client.create(JOBS, job(f"job-{number}", namespace, shape.pods))

        await asyncio.gather(*(submitter() for _ in range(SUBMITTERS)))
        submitted = time.monotonic()
        try:
            async with asyncio.timeout(patience):
                await follower.done.wait()
        except TimeoutError as error:
            raise RuntimeError(f"not all pods run after {patience:.0f} s: {follower}") from error
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return Followed(
        submitted - started, follower.created_at - started, follower.bound_at - started, follower.running_at - started
    )


def job(name: str, namespace: str, pods: int) -> Job:
    """A gang of equal pods that run until they are deleted."""
    task = TaskSpec(name="work", replicas=pods, template=core.PodTemplateSpec(spec=pod_spec()))
    return Job(metadata=ObjectMeta(name=name, namespace=namespace), spec=JobSpec(min_available=pods, tasks=[task]))


def pod_spec(node: str | None = None, scheduler: str = "volcano") -> core.PodSpec:
    """Of one pod of any job here."""
    requests = {"cpu": "1", "memory": "4Gi"}
    container = core.Container(name="main", image="busybox:1", resources=core.ResourceRequirements(requests=requests))
    return core.PodSpec(restart_policy="Never", containers=[container], node_name=node, scheduler_name=scheduler)


async def new_namespace(client: Client, prefix: str) -> str:
    """A namespace of its own for one measurement."""
    made = await client.create(NAMESPACES, core.Namespace(metadata=ObjectMeta(generate_name=prefix)))
    return made.metadata.name


async def has_our_kinds(client: HttpClient) -> bool:
    """Whether the server knows our kinds."""
    try:
        await client.get(CUSTOM_RESOURCE_DEFINITIONS, JOBS.resource)
    except NotFound:
        return False
    return True


async def remove(client: HttpClient, namespace: str) -> None:
    """Delete the namespace and all in it, and wait until it is gone: the next measurement has the server alone.

    Raises:
        RuntimeError: it is still there after five minutes.
    """
    now = b'{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"propagationPolicy":"Background"}'
    for kind in (PODS, POD_GROUPS, JOBS):
        # Each answer comes when so many are gone that the server's own time is over.
        for _ in range(20):
            with suppress(Unavailable):
                status, _, _ = await client.request("DELETE", kind.path(namespace), body=now)
                if status < 500:
                    break
    await client.delete(NAMESPACES, namespace)
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while time.monotonic() < deadline:
        try:
            await client.get(NAMESPACES, namespace)
        except NotFound:
            return
        await asyncio.sleep(0.5)
    raise RuntimeError(f"namespace {namespace} is still there after {_REMOVAL_SECONDS:.0f} s")


async def remove_nodes(client: Client, prefix: str) -> None:
    """Delete the nodes whose names begin so, and their Leases: a named server lives on without them."""
    names = [node.metadata.name for node in (await client.list(NODES)).items]

    async def gone(number: int) -> None:
        name = names[number]
        if not name.startswith(prefix):
            return
        for kind, place in ((NODES, None), (LEASES, LEASE_NAMESPACE)):
            with suppress(NotFound):
                await client.delete(kind, name, place)

    await _spread(range(len(names)), gone)


# --- a cluster that is there already ---------------------------------------------------------------------


async def furnish(client: Client, namespace: str, nodes: int, pods: int) -> None:
    """``nodes`` ready nodes with ``pods`` running pods on them, in gangs of 50."""
    await _spread(range(nodes), lambda number: _node(client, number))
    await _spread(range(-(-pods // 50)), lambda number: _gang(client, namespace, number))
    await _spread(range(pods), lambda number: _running(client, namespace, number, nodes))


async def _spread(numbers: Sequence[int], work: object) -> None:
    left = iter(numbers)

    async def worker() -> None:
        for number in left:
            await work(number)  # type: ignore[operator]

    await asyncio.gather(*(worker() for _ in range(2 * SUBMITTERS)))


async def _node(client: Client, number: int) -> None:
    amounts = {"cpu": "96", "memory": "768Gi", "pods": "110"}
    name = f"{FURNISHED}{number}"
    with suppress(AlreadyExists):
        await client.create(NODES, core.Node(metadata=ObjectMeta(name=name)))
    ready = core.NodeStatus(
        capacity=dict(amounts),
        allocatable=dict(amounts),
        conditions=[core.NodeCondition(type="Ready", status="True", reason="Bench", message="")],
    )
    await client.patch(NODES, name, {"status": ready}, subresource="status")
    await client.patch(NODES, name, {"spec": {"taints": None}})


async def _gang(client: Client, namespace: str, number: int) -> None:
    meta = ObjectMeta(name=f"old-{number}", namespace=namespace)
    await client.create(POD_GROUPS, PodGroup(metadata=meta, spec=PodGroupSpec(min_member=50, queue="default")))


async def _running(client: Client, namespace: str, number: int, nodes: int) -> None:
    meta = ObjectMeta(name=f"old-{number}", namespace=namespace, annotations={GROUP_NAME: f"old-{number // 50}"})
    node = f"{FURNISHED}{number % nodes}"
    await client.create(PODS, core.Pod(metadata=meta, spec=pod_spec(node)))
    await client.patch(PODS, meta.name, {"status": {"phase": "Running"}}, namespace=namespace, subresource="status")
