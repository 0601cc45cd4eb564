"""A hub and its members on in-memory API servers and one virtual clock; decisions are the engine's."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any

import msgspec
import yaml
from fleet_target import FakeTarget
from prometheus_client import CollectorRegistry

from support.memory import MemoryClient
from unisono.agent.simulated.nodes import SimulatedNodes, parse_specs
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace, Node, NodeStatus, Pod, PodStatus, Secret
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.groups.fleet import AttachedCluster, AttachedClusterSpec
from unisono.api.groups.scheduling import Queue, QueueSpec, QueueStatus
from unisono.api.kind import Kind
from unisono.api.kind_families import ATTACHED_CLUSTERS, HYPER_JOBS
from unisono.api.kinds import JOBS, NAMESPACES, NODES, POD_GROUPS, PODS, QUEUES, SECRETS
from unisono.controllers.hyperjob.controller import HyperJobController
from unisono.controllers.registry import all_controllers
from unisono.controllers.workloads.deployment import DeploymentController, ReplicaSetController
from unisono.engine.config_file.reader import load_config
from unisono.errors import ApiError, Invalid, Unavailable
from unisono.fleet.hub import Hub
from unisono.fleet.hyper_jobs.work import GangRecord, record_of
from unisono.fleet.jobs.copies import placement_of
from unisono.install.rights import HUB, HUB_PLACES, own_rights
from unisono.kube.controller import Manager
from unisono.kube.kubeconfig import ClusterConfig
from unisono.scheduler.scheduler import Scheduler
from unisono.scheduler.settings import FixedConfig

NAMESPACE, GPU = "fleets", "nvidia.com/gpu"


def kubeconfig(name: str) -> str:
    value = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": f"https://{name}:6443"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    return base64.b64encode(yaml.safe_dump(value).encode()).decode()


def node(name: str, gpus: int = 8, **labels: str) -> Node:
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    given = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    return Node(
        metadata=ObjectMeta(name=name, labels=given or None),
        status=NodeStatus(allocatable=dict(amounts), capacity=dict(amounts)),
    )


def template(gpus: int = 1, **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": str(gpus)}, "limits": {"nvidia.com/gpu": str(gpus)}}
    meta = {"annotations": {"volcano.sh/preemptable": "true"}}
    return {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}], **spec}}


class World:
    """The pieces of one test; members answer until they are cut off."""

    def __init__(self, names: Sequence[str]) -> None:
        self.hub_client = MemoryClient()
        self.clock = self.hub_client.clock
        self.members = {name: MemoryClient(self.clock, seed=number) for number, name in enumerate(names)}
        self.targets = {name: FakeTarget() for name in names}
        self.tasks: list[asyncio.Task[None]] = []
        self.cut: set[str] = set()
        self.stop_playing: set[str] = set()
        self.hub: Hub | None = None
        self.asked: set[tuple[str, str, str]] = set()
        self.own_roles: set[str] = set()
        for name, client in self.members.items():
            client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default")))
            client.interceptor = self._guard(name)
        self.hub_client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default", uid="the-hub")))
        self.queue("root")
        self.queue("default")

    def _guard(self, name: str) -> Callable[[str, str, str, str], None]:
        def check(*_: str) -> None:
            if name in self.cut:
                raise Unavailable(f"{name} is cut off")

        return check

    def connect(self, config: ClusterConfig) -> tuple[Any, Any]:
        name = config.server.removeprefix("https://").partition(":")[0]

        async def probe() -> str:
            if name in self.cut:
                raise Unavailable(f"{name} is cut off")
            return "v1.33.0"

        return _Lasting(self.members[name]), probe

    def lose(self, name: str) -> None:
        self.cut.add(name)
        self.members[name].drop_watches()

    def find(self, name: str) -> None:
        self.cut.discard(name)

    def join(self, name: str, nodes: Sequence[Node], **labels: str) -> None:
        for each in nodes:
            self.members[name].put(NODES, each)
        self.hub_client.put(
            SECRETS, Secret(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data={"value": kubeconfig(name)})
        )
        self.hub_client.put(
            ATTACHED_CLUSTERS,
            AttachedCluster(
                metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels=labels or None),
                spec=AttachedClusterSpec(kubeconfig_secret_ref=name),
            ),
        )

    async def whole(
        self, name: str, gpus: Sequence[int], config: str = "", groups: Sequence[dict[str, Any]] = (), **labels: str
    ) -> None:
        """Let a member be a whole control plane with these nodes: scheduler, controllers, and pods that run.

        ``groups`` are machines that may come, as `unisono up --nodes` takes them.
        """
        client, source = self.members[name], FixedConfig(load_config(config)) if config else None
        amounts = {"cpu": 32, "memory": "128Gi"}
        specs = [{"name": f"n{at}", "count": 1, "capacity": {**amounts, GPU: number}} for at, number in enumerate(gpus)]
        specs += [{"capacity": {**amounts, GPU: 8}, **group} for group in groups]
        scheduler = Scheduler(client, source, self.clock, registry=CollectorRegistry(), runner=inline, debounce=0.02)
        nodes = SimulatedNodes(client, parse_specs(specs), self.clock)
        controllers = all_controllers(_NoEvents(), offload=_at_once, registry=CollectorRegistry())
        controllers += [DeploymentController(_NoEvents()), ReplicaSetController(_NoEvents())]
        parts = (scheduler.run(), nodes.run(), Manager(client, clock=self.clock).run(controllers))
        self.tasks += [asyncio.create_task(part) for part in parts]
        await self.run(2)
        self.join(name, [], **labels)

    async def run_whole(self, seconds: int) -> None:
        """Let time pass where members are whole control planes, which collect their garbage."""
        for _ in range(seconds):
            await self.run(1)
            for client in self.members.values():
                client.collect_garbage()

    def running(self) -> dict[str, int]:
        """Members to the number of their pods that run."""
        return {
            name: sum(pod.status.phase == "Running" for pod in client.objects(PODS))
            for name, client in self.members.items()
        }

    def queue(self, name: str, **spec: Any) -> None:
        given = QueueSpec(weight=spec.pop("weight", 1), **spec)
        self.hub_client.put(QUEUES, Queue(metadata=ObjectMeta(name=name), spec=given, status=QueueStatus(state="Open")))

    async def job(self, name: str, pods: int, gpus: int = 1, queue: str = "default", **more: Any) -> None:
        spec = {
            "queue": queue,
            "minAvailable": more.pop("at_least", pods),
            "schedulerName": "volcano",
            "tasks": [{"name": "w", "replicas": pods, "template": template(gpus, **more.pop("pod", {}))}],
        }
        meta = {"name": name, "namespace": "default", "annotations": more.pop("annotations", {})}
        await self.create(JOBS, {"metadata": meta, "spec": {**spec, **more}})

    async def hyper(self, name: str, *parts: dict[str, Any], marks: dict[str, str] | None = None, **spec: Any) -> None:
        """A HyperJob; each part is ``{name, pods, gpus, replicas, clusters, split}``."""
        replicated = [
            {
                "name": part["name"],
                "replicas": part.get("replicas", 1),
                "clusterNames": part.get("clusters"),
                "splitPolicy": part.get("split"),
                "templateSpec": {
                    "queue": part.get("queue", "default"),
                    "minAvailable": part["pods"],
                    "schedulerName": "volcano",
                    "tasks": [{"name": "w", "replicas": part["pods"], "template": template(part.get("gpus", 1))}],
                },
            }
            for part in parts
        ]
        meta = {"name": name, "namespace": "default", "annotations": marks or {}}
        await self.create(HYPER_JOBS, {"metadata": meta, "spec": {"replicatedJobs": replicated, **spec}})

    def record(self, name: str) -> GangRecord:
        """Where the parts of a HyperJob are."""
        return record_of(self.hub_client.find(HYPER_JOBS, f"default/{name}"))

    def pods(self) -> dict[str, dict[str, int]]:
        """Members to the pods that their copies ask for, by job."""
        return {
            name: {
                job.metadata.name: sum(task.replicas or 0 for task in job.spec.tasks) for job in client.objects(JOBS)
            }
            for name, client in self.members.items()
        }

    def refuse(self, name: str, operation: str, resource: str) -> None:
        """From now on a member refuses these requests for good."""
        client = self.members[name]
        before = client.interceptor

        def check(verb: str, plural: str, *rest: str) -> None:
            before(verb, plural, *rest)
            if (verb, plural) == (operation, resource):
                raise Invalid(f"{name} refuses to {verb} {plural}")

        client.interceptor = check

    def refuse_reading(self, name: str, kind: Kind[Any]) -> None:
        """A member lets the hub read none of a kind."""
        client = self.members[name]
        before = client.interceptor

        def check(verb: str, plural: str, *rest: str) -> None:
            before(verb, plural, *rest)
            if plural == kind.plural and verb in ("list", "watch"):
                raise ApiError(f"{name} lets nobody {verb} {plural}", code=403, reason="Forbidden")

        client.interceptor = check

    def say(self, name: str, job: str, status: dict[str, Any]) -> None:
        """A member's own controller writes the status of a copy."""
        client = self.members[name]
        found = client.find(JOBS, f"default/{job}")
        client.put(JOBS, msgspec.structs.replace(found, status=msgspec.convert(status, type(found.status))))

    async def tell_running(self) -> None:
        """Members say that the pods of their copies run."""
        for name, client in self.members.items():
            for job in client.objects(JOBS) if name not in self.cut else ():
                count = sum(task.replicas or 0 for task in job.spec.tasks)
                status = {"state": {"phase": "Running"}, "running": count}
                await client.patch(
                    JOBS, job.metadata.name, {"status": status}, namespace="default", subresource="status"
                )

    async def create(self, kind: Kind[Any], value: dict[str, Any]) -> None:
        obj = decode(kind, value).obj
        apply_defaults(kind, obj)
        await self.hub_client.create(kind, obj)

    async def run(self, seconds: float = 10.0) -> None:
        await self.clock.advance(seconds)

    def where(self, kind: Kind[Any] = JOBS) -> dict[str, str]:
        """Jobs of the hub to the members that they belong to."""
        return {job.metadata.name: placement_of(job).cluster for job in self.hub_client.objects(kind)}

    def copies(self, kind: Kind[Any] = JOBS) -> dict[str, list[str]]:
        """Members to the names of the copies that they have."""
        return {
            name: sorted(job.metadata.name for job in client.objects(kind)) for name, client in self.members.items()
        }

    def play(self) -> None:
        """Members run what they have: each pod of a copy on a node with free GPUs, and none of copies that are gone."""
        for client in self.members.values():
            free = {
                each.metadata.name: int(each.status.allocatable["nvidia.com/gpu"]) for each in client.objects(NODES)
            }
            wanted = {}
            for job in client.objects(JOBS):
                if job.metadata.name in self.stop_playing:
                    continue
                for task in job.spec.tasks or ():
                    for index in range(task.replicas or 0):
                        name = f"{job.metadata.name}-{task.name}-{index}"
                        meta = task.template.metadata
                        at = max(free, key=lambda each: free[each])
                        free[at] -= int(task.template.spec.containers[0].resources.limits[GPU])
                        wanted[f"default/{name}"] = Pod(
                            metadata=ObjectMeta(
                                name=name, namespace="default", labels=meta.labels, annotations=meta.annotations
                            ),
                            spec=msgspec.structs.replace(task.template.spec, node_name=at),
                            status=PodStatus(phase="Running"),
                        )
            known = {pod.key: pod for pod in client.objects(PODS)}
            for key, pod in wanted.items():
                if key not in known or known[key].metadata.labels != pod.metadata.labels:
                    client.put(PODS, pod)
            for key in known.keys() - wanted.keys():
                client.remove(PODS, key)

    def cluster(self, name: str) -> AttachedCluster:
        return self.hub_client.find(ATTACHED_CLUSTERS, f"{NAMESPACE}/{name}")

    def condition(self, name: str, type_: str) -> tuple[str, str]:
        found = {each.type: each for each in self.cluster(name).status.conditions or ()}[type_]
        return found.status, found.message or ""

    def group(self, job: str) -> Any:
        for group in self.hub_client.objects(POD_GROUPS):
            if any(owner.name == job for owner in group.metadata.owner_references or ()):
                return group
        return None


class _Asking:
    """The hub's client; writes down what it asks for, as rights: verb, group, resource."""

    def __init__(self, client: MemoryClient, asked: set[tuple[str, str, str]]) -> None:
        self._client, self._asked = client, asked

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._client, name)
        if name not in ("get", "list", "watch", "create", "patch", "delete"):
            return inner

        def ask(kind: Kind[Any], *given: Any, **more: Any) -> Any:
            sub = more.get("subresource")
            self._asked.add((name, kind.group, f"{kind.plural}/{sub}" if sub else kind.plural))
            return inner(kind, *given, **more)

        return ask


class _Lasting:
    """A client that outlives a connection: the hub closes its own."""

    def __init__(self, client: MemoryClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def close(self) -> None:
        return None


class _NoEvents:
    """Events of what makes jobs are not looked at here."""

    def event(self, *_: Any, **__: Any) -> None:
        return None


async def _at_once(work: Callable[..., Any], *given: Any) -> Any:
    return work(*given)


async def inline(decide: Callable[[], Any]) -> Any:
    return decide()


@asynccontextmanager
async def fleet(*names: str, config: str = "") -> AsyncIterator[World]:
    """A world whose hub starts with `start`."""
    world = World(names)
    tasks = world.tasks

    def start() -> None:
        source = FixedConfig(load_config(config)) if config else None
        world.hub = Hub(
            _Asking(world.hub_client, world.asked),
            source,
            world.clock,
            connect=world.connect,
            targets=lambda member, _: world.targets[member.name],
            runner=inline,
            debounce=0.02,
            seed=1,
        )
        tasks.append(asyncio.create_task(world.hub.run()))
        # What makes jobs stays on the hub.
        makers = Manager(world.hub_client, clock=world.clock)
        tasks.append(asyncio.create_task(makers.run([HyperJobController(_NoEvents())])))

    async def stop() -> None:
        while tasks:
            task = tasks.pop()
            task.cancel()
            closing = asyncio.gather(task, return_exceptions=True)
            for _ in range(20):
                await world.clock.advance(1.0)
            await closing

    world.start, world.stop = start, stop
    try:
        yield world
    finally:
        await stop()
        # What an installed hub may not do is done by none.
        missing = {each for each in world.asked if each[1] not in world.own_roles and not _granted(*each)}
        assert not missing, f"rights that a hub lacks: {sorted(missing)}"


def _granted(verb: str, group: str, resource: str) -> bool:
    rights = (*HUB, *chain.from_iterable(HUB_PLACES.values()), *own_rights("scheduler"))
    return any((each.group, each.resource) == (group, resource) and verb in each.verbs for each in rights)
