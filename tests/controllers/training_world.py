"""A cluster in memory for training controllers: real controllers, a hand-driven scheduler and kubelet, virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from job_world import Recorder

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.base import Object
from unisono.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition
from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kinds import POD_GROUPS, PODS, SERVICES, find
from unisono.api.scheduling import PodGroup
from unisono.api.times import rfc3339
from unisono.controllers.training.registry import training_controllers
from unisono.kube.controller import Manager


async def at_once(function: Callable[[], dict[str, str]]) -> dict[str, str]:
    return function()


def template(container: str = "main", **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": container, "image": "img", "command": ["train"]}], **spec}}


def roles(container: str, **counts: Any) -> dict[str, Any]:
    """``roles("pytorch", Master=1, Worker=(2, "Never"))``: replica specs with or without a restart policy."""
    made = {}
    for name, count in counts.items():
        number, policy = count if isinstance(count, tuple) else (count, None)
        made[name] = {"replicas": number, "template": template(container)} | (
            {"restartPolicy": policy} if policy else {}
        )
    return made


def manifest(kind: str, name: str = "j", api_version: str = "kubeflow.org/v1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def pytorch(workers: Any = 2, master: Any = 1, **spec: Any) -> dict[str, Any]:
    counts = ({"Master": master} if master else {}) | ({"Worker": workers} if workers else {})
    return manifest("PyTorchJob", pytorchReplicaSpecs=roles("pytorch", **counts), **spec)


class TrainingWorld:
    """One API server with the training controllers on it."""

    def __init__(self, seed: int = 0) -> None:
        self.client = MemoryClient(seed=seed)
        self.clock = self.client.clock
        self.recorder = Recorder()
        self._running: asyncio.Task[None] | None = None
        self.kind: Kind[Any] | None = None
        self.name = ""
        self.namespace = "ns"

    async def __aenter__(self) -> TrainingWorld:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        manager = Manager(self.client, clock=self.clock)
        self._running = asyncio.create_task(manager.run(training_controllers(self.recorder, at_once)))
        await self.settle()

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
            self._running = None

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def settle(self) -> None:
        """Until nothing is written any more."""
        writes = -1
        while writes != len(self.client.writes):
            writes = len(self.client.writes)
            await settle(60)

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await self.settle()

    # --- user -------------------------------------------------------------------------------------------------

    async def submit(self, value: dict[str, Any], *, admit: bool = True) -> None:
        kind = find(value["apiVersion"], value["kind"])
        assert kind is not None
        decoded = decode(kind, value)
        assert not decoded.unknown_fields
        assert not decoded.type_errors
        self.kind, self.name = kind, value["metadata"]["name"]
        await self.client.create(kind, decoded.obj)
        await self.settle()
        if admit:
            await self.admit()

    async def change(self, **spec: Any) -> None:
        assert self.kind is not None
        await self.client.patch(self.kind, self.name, {"spec": spec}, namespace=self.namespace)
        await self.settle()

    # --- scheduler --------------------------------------------------------------------------------------------

    def group(self, name: str = "") -> PodGroup | None:
        return self.client.find(POD_GROUPS, f"{self.namespace}/{name or self.name}")

    async def admit(self, name: str = "", phase: str = "Inqueue") -> None:
        group = self.group(name)
        if group is not None:
            group.status.phase = phase
            self.client.put(POD_GROUPS, group)
            await self.settle()

    # --- kubelet ----------------------------------------------------------------------------------------------

    def pods(self) -> list[Pod]:
        return self.client.objects(PODS)

    def names(self) -> list[str]:
        return [pod.metadata.name for pod in self.pods() if not pod.metadata.deletion_timestamp]

    def services(self) -> list[str]:
        return [service.metadata.name for service in self.client.objects(SERVICES)]

    def find_pod(self, name: str) -> Pod:
        pod = self.client.find(PODS, f"{self.namespace}/{name}")
        assert pod is not None, f"{name} not among {self.names()}"
        return pod

    async def pod(self, name: str, phase: str, code: int | None = None, **fields: Any) -> None:
        """Give a pod a node and a phase."""
        self.set_pod(self.find_pod(name), phase, code, **fields)
        await self.settle()

    def set_pod(
        self,
        pod: Pod,
        phase: str,
        code: int | None = None,
        restarts: int = 0,
        reason: str = "",
        disrupted: bool = False,
    ) -> None:
        pod.spec.node_name = "node-0"
        pod.status.phase = phase
        pod.status.reason = reason or None
        ready = "True" if phase == "Running" else "False"
        pod.status.conditions = [PodCondition(type="Ready", status=ready)]
        if disrupted:
            pod.status.conditions.append(PodCondition(type="DisruptionTarget", status="True"))
        state = ContainerState()
        if phase in ("Succeeded", "Failed") and not reason:
            exit_code = code if code is not None else int(phase == "Failed")
            state.terminated = ContainerStateTerminated(exit_code=exit_code, finished_at=rfc3339(self.clock.time()))
        name = (pod.spec.containers or [])[0].name
        pod.status.container_statuses = [
            ContainerStatus(name=name, state=state, ready=phase == "Running", restart_count=restarts)
        ]
        self.client.put(PODS, pod)

    async def all_pods(self, phase: str) -> None:
        """Every pod that has not ended."""
        for pod in self.pods():
            if not pod.metadata.deletion_timestamp and pod.status.phase not in ("Succeeded", "Failed"):
                self.set_pod(pod, phase)
        await self.settle()

    async def evict(self, name: str) -> None:
        """Somebody takes a running pod's place away: it ends within its grace period."""
        await self.client.delete(PODS, name, self.namespace)
        await self.settle()

    async def finish_deletions(self) -> None:
        """The kubelet has stopped what was deleted."""
        for pod in self.pods():
            if pod.metadata.deletion_timestamp:
                self.client.remove(PODS, pod.key)
        await self.settle()

    # --- reading ----------------------------------------------------------------------------------------------

    @property
    def job(self) -> Any:
        assert self.kind is not None
        found: Object | None = self.client.find(self.kind, f"{self.namespace}/{self.name}")
        assert found is not None
        return found

    def state(self) -> str:
        """What the column State shows."""
        conditions = self.job.status.conditions
        return conditions[-1].type if conditions else ""

    def condition(self, type: str) -> Any:
        return next((each for each in self.job.status.conditions or () if each.type == type), None)

    def holding(self) -> set[str]:
        return {each.type for each in self.job.status.conditions or () if each.status == "True"}

    def env(self, pod: str, container: int = 0) -> dict[str, str | None]:
        return {each.name: each.value for each in (self.find_pod(pod).spec.containers or [])[container].env or ()}

    def created_pods(self) -> int:
        return sum(write.operation == "create" and write.resource == "pods" for write in self.client.writes)
