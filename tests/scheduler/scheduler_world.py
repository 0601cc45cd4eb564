"""A scheduler on an in-memory API server and a virtual clock, with a small engine that a reader can follow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from support.memory import MemoryClient
from unisono import engine as real_engine
from unisono.api.base import ObjectMeta
from unisono.api.core import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from unisono.api.groups.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import NODES, POD_GROUPS, PODS, QUEUES
from unisono.cluster.snapshot import Snapshot
from unisono.cluster.status import READY_STATES, count
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.decisions import Bind, Decisions
from unisono.scheduler.scheduler import Scheduler

CONFIG = SchedulerConfig(actions=(), tiers=())

unadvised = partial(real_engine.run, advice=False)
"""The real engine for tests that do not read what is offered: to try that takes longer than to decide."""


class Fixed:
    """A configuration source whose answer a test may change."""

    def __init__(self) -> None:
        self.config, self.error, self.text = CONFIG, "", ""
        self.name, self.reference = "a test", None

    def poll(self) -> SchedulerConfig:
        return self.config


class SlotEngine:
    """Every node has ``slots`` places; a gang is bound when enough of it finds places."""

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.calls: list[int] = []
        self.extra: Callable[[Snapshot, Decisions], None] = lambda snapshot, decisions: None

    def __call__(self, snapshot: Snapshot, config: SchedulerConfig, now: float, seed: int = 0) -> Decisions:
        self.calls.append(snapshot.version)
        decisions = Decisions(cycle=f"c{len(self.calls)}")
        names = sorted(snapshot.nodes.wanted())
        free = {name: self.slots - len(snapshot.tasks_on.get(name, {})) for name in names}
        for key in sorted(snapshot.jobs):
            job = snapshot.jobs[key]
            if not job.known:
                continue
            binds = []
            trial = dict(free)
            for task in sorted(job.pending.values(), key=lambda task: task.key):
                node = next((name for name in names if trial[name] > 0), None)
                if node is not None:
                    trial[node] -= 1
                    binds.append(Bind(task.namespace, task.name, task.uid, node, key))
            if count(job.counts, READY_STATES) + len(binds) >= job.min_member:
                decisions.binds += binds
                free = trial
        self.extra(snapshot, decisions)
        return decisions


class World:
    """The pieces of one test."""

    def __init__(self, client: MemoryClient, scheduler: Scheduler, engine: Any, config: Any) -> None:
        self.client, self.scheduler, self.engine, self.config = client, scheduler, engine, config
        self.clock = client.clock

    async def run(self, seconds: float = 0.2) -> None:
        await self.clock.advance(seconds)

    def nudge(self) -> None:
        """Let the next cycle come as if something had changed."""
        state = self.scheduler.feed.state
        self.scheduler.feed.do(lambda: setattr(state, "version", state.version + 1))

    def nodes_of(self, prefix: str = "") -> dict[str, str | None]:
        return {
            pod.metadata.name: pod.spec.node_name
            for pod in self.client.objects(PODS)
            if pod.metadata.name.startswith(prefix)
        }

    def writes(self, operation: str, resource: str) -> list[Any]:
        return [w for w in self.client.writes if (w.operation, w.resource) == (operation, resource)]


async def inline(decide: Callable[[], Decisions]) -> Decisions:
    """Runs the engine at once: nothing comes in between."""
    return decide()


@asynccontextmanager
async def world(client: MemoryClient | None = None, engine: Any = None, **options: Any) -> AsyncIterator[World]:
    """A scheduler that runs; ``engine``: what decides."""
    client = client or MemoryClient()
    engine = engine or SlotEngine()
    config = options.pop("config", None) or Fixed()
    options = {"runner": inline, "debounce": 0.02, **options}
    scheduler = Scheduler(client, config, client.clock, decide=engine, **options)
    task = asyncio.create_task(scheduler.run())
    made = World(client, scheduler, engine, config)
    try:
        yield made
    finally:
        task.cancel()
        closing = asyncio.gather(task, return_exceptions=True)
        for _ in range(10):
            await client.clock.advance(1.0)
        await closing


def node(name: str, cpu: str = "4") -> Node:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable=dict(amounts), capacity=dict(amounts)))


def queue(name: str = "default") -> Queue:
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=1), status=QueueStatus(state="Open"))


def group(name: str, members: int, phase: str = "Inqueue") -> PodGroup:
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="team"),
        spec=PodGroupSpec(min_member=members, queue="default"),
        status=PodGroupStatus(phase=phase),
    )


def pod(name: str, group_name: str, cpu: str = "1") -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="team", annotations={GROUP_NAME: group_name}),
        spec=PodSpec(
            scheduler_name="volcano",
            containers=[Container(name="main", image="busybox", resources=ResourceRequirements(requests={"cpu": cpu}))],
        ),
        status=PodStatus(phase="Pending"),
    )


def fill(client: MemoryClient, *, nodes: int = 2, gangs: dict[str, int] | None = None) -> None:
    """Nodes ``n0..``, the default queue, and gangs with all their pods ``<gang>-<i>``."""
    client.put(QUEUES, queue())
    for index in range(nodes):
        client.put(NODES, node(f"n{index}"))
    for name, members in (gangs or {}).items():
        client.put(POD_GROUPS, group(name, members))
        for index in range(members):
            client.put(PODS, pod(f"{name}-{index}", name))
