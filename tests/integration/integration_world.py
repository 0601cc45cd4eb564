"""All components on an API server, each under its own service account; they can be killed and started again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from integration_hooks import Hooks
from integration_ledger import Ledger
from integration_servers import PREFIX

from support.accounts import Accounts, Requests
from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.annotations import CYCLES_LEASE
from unisono.api.base import ObjectMeta
from unisono.api.core import Container, Namespace, PodSpec, PodTemplateSpec, PriorityClass, ResourceRequirements
from unisono.api.groups.batch import Job, JobSpec, LifecyclePolicy, TaskSpec
from unisono.api.groups.scheduling import Queue, QueueSpec
from unisono.api.kinds import JOBS, LEASES, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, QUEUES
from unisono.controllers.registry import COMPONENT, all_controllers
from unisono.engine.config_file.reader import DEFAULT_TEXT, load_config
from unisono.errors import ApiError
from unisono.install.rights import NODE_LEASES
from unisono.kube.client import Client
from unisono.kube.controller import Manager
from unisono.kube.events import EventRecorder
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig
from unisono.scheduler.scheduler import Scheduler
from unisono.scheduler.settings import FixedConfig

EVERYTHING = FixedConfig(
    load_config(DEFAULT_TEXT.replace("allocate, backfill", "allocate, preempt, reclaim, backfill"))
)
SECONDS = 600.0
"""Longest time of one test; a busy machine and a cluster's own server may need most of it."""
PATIENCE = 4.0
"""Seconds that a gang may stay partly bound here."""

Work = Callable[[Client], Awaitable[None]]


async def _controllers(client: Client) -> None:
    recorder = EventRecorder(client, COMPONENT)
    try:
        await Manager(client).run(all_controllers(recorder))
    finally:
        await recorder.close(timeout=0.0)


async def run_scheduler(client: Client, namespace: str) -> None:
    """A scheduler that is installed in ``namespace``, as its deployment starts it."""
    lease = f"{namespace}/{CYCLES_LEASE}"
    await Scheduler(client, EVERYTHING, gang_patience=PATIENCE, heartbeat_lease=lease).run()


@dataclass
class Part:
    """One component; ``kill`` leaves everything as it is at that moment."""

    config: ClusterConfig
    work: Work
    requests: Requests = field(default_factory=Requests)
    task: asyncio.Task[None] | None = None
    starts: int = 0

    def start(self) -> None:
        self.starts += 1
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        client = self.requests.client(self.config)
        try:
            await self.work(client)
        finally:
            await client.close()

    async def kill(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None


@dataclass
class Plane:
    """What a test has in hands; ``client`` goes straight to the server."""

    client: HttpClient
    namespace: str
    ledger: Ledger
    accounts: Accounts
    parts: dict[str, Part]
    hooks: Hooks
    queues: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    parts_of_all_times: list[Part] = field(default_factory=list)

    async def submit(self, name: str, pods: int, **how: Any) -> None:
        await self.client.create(JOBS, job(name, self.namespace, pods, **how))

    async def queue(self, name: str, weight: int) -> str:
        full = f"{self.namespace}-{name}"
        await self.client.create(QUEUES, Queue(metadata=ObjectMeta(name=full), spec=QueueSpec(weight=weight)))
        self.queues.append(full)
        return full

    async def priority(self, name: str, value: int) -> str:
        full = f"{self.namespace}-{name}"
        await self.client.create(PRIORITY_CLASSES, PriorityClass(metadata=ObjectMeta(name=full), value=value))
        self.classes.append(full)
        return full

    async def completed(self, *jobs: str) -> None:
        """Return when all of them have come to their end.

        A job that ends otherwise than completed fails the test at once.
        """

        def over() -> bool:
            phases = {name: self.ledger.phase(name) for name in jobs}
            wrong = {name: phase for name, phase in phases.items() if phase in ("Failed", "Aborted", "Terminated")}
            assert not wrong
            return set(phases.values()) == {"Completed"}

        await self.ledger.until(over)

    async def part(self, component: str, base: ClusterConfig, work: Work) -> Part:
        """A component at the server of ``base``, under its own account; the test starts and kills it."""
        made = Part(await self.accounts.config(component, base), work)
        self.parts_of_all_times.append(made)
        return made

    def held(self) -> None:
        """Everything that must hold did hold."""
        assert not self.ledger.broken
        self.nothing_was_forbidden()

    def nothing_was_forbidden(self) -> None:
        """The rights of an installation were enough for everything that the components did.

        In the namespaces of former tests, which are ending, nobody may create anything.
        """
        forbidden = [text for part in self.parts_of_all_times for text in part.requests.forbidden]
        assert not [text for text in forbidden if f"/namespaces/{PREFIX}" not in text or self.namespace in text]


def job(
    name: str,
    namespace: str,
    pods: int,
    *,
    minimum: int | None = None,
    seconds: float | None = 0.5,
    queue: str | None = None,
    priority: str | None = None,
    cpu: str = "1",
    again: bool = False,
) -> Job:
    """A job of equal pods, by default a gang, that run for ``seconds`` (None: until they are deleted).

    With ``again`` it starts over when one of them fails.
    """
    container = Container(name="main", image="busybox:1", resources=ResourceRequirements(requests={"cpu": cpu}))
    notes = {} if seconds is None else {"unisono.io/run-seconds": str(seconds)}
    spec = PodSpec(restart_policy="Never", containers=[container], termination_grace_period_seconds=0)
    template = PodTemplateSpec(metadata=ObjectMeta(annotations=notes), spec=spec)
    task = TaskSpec(name="work", replicas=pods, template=template)
    return Job(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=JobSpec(
            min_available=pods if minimum is None else minimum,
            queue=queue,
            priority_class_name=priority,
            max_retry=50,
            policies=[LifecyclePolicy(event="PodFailed", action="RestartJob")] if again else None,
            tasks=[task],
        ),
    )


@asynccontextmanager
async def plane(
    direct: ClusterConfig, through: ClusterConfig | None = None, *, nodes: int = 4, cpus: int = 4
) -> AsyncIterator[Plane]:
    """All components, working through ``through``, on ``nodes`` nodes; everything is gone at the end."""
    client = HttpClient(direct)
    made = await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(generate_name=PREFIX)))
    namespace = made.metadata.name
    specs = parse_specs([{"name": namespace, "count": nodes, "capacity": {"cpu": cpus, "memory": "64Gi"}}])
    ledger = Ledger(client, namespace)
    watching = asyncio.create_task(ledger.run())
    accounts = Accounts(client, namespace, hooks=namespace)
    hooks = Hooks(client, namespace)
    world = Plane(client, namespace, ledger, accounts, {}, hooks)
    works: dict[str, Work] = {
        "controllers": _controllers,
        "scheduler": lambda client: run_scheduler(client, namespace),
        "agent": lambda client: SimulatedNodes(client, specs).run(),
        "webhook": hooks.work,
    }
    try:
        async with asyncio.timeout(SECONDS):
            await ledger.synced()
            await accounts.make()
            await hooks.let_ask()
            for name, work in works.items():
                world.parts[name] = await world.part(name, through or direct, work)
                world.parts[name].start()
            await hooks.asked()
            # A cluster that is new to our controllers gets it from them, and the webhooks refuse jobs without it.
            await ledger.until(lambda: ledger.queues.get("default") is not None)
            yield world
            world.nothing_was_forbidden()
    except TimeoutError as error:
        raise AssertionError(f"not there after {SECONDS:.0f} s; {ledger.summary()}") from error
    finally:
        await hooks.remove()
        for part in world.parts.values():
            await part.kill()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await accounts.remove()
        await _clean(client, world, [name for spec in specs for name in spec.node_names()])
        await client.close()


async def _clean(client: HttpClient, world: Plane, nodes: list[str]) -> None:
    for pod in (await client.list(PODS, world.namespace)).items:
        with suppress(ApiError):
            await client.delete(PODS, pod.metadata.name, world.namespace, grace_seconds=0)
    with suppress(ApiError):
        await client.delete(NAMESPACES, world.namespace)
    for name in nodes:
        with suppress(ApiError):
            await client.delete(LEASES, name, NODE_LEASES)
    leftovers = [(NODES, name) for name in nodes] + [(PRIORITY_CLASSES, name) for name in world.classes]
    for kind, name in [*leftovers, *((QUEUES, name) for name in world.queues)]:
        with suppress(ApiError):
            await client.delete(kind, name)
