"""A cluster in memory for controller tests: the real controllers, a hand-driven scheduler and kubelet, virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.base import Object, ObjectMeta, OwnerReference
from unisono.api.batch import Job
from unisono.api.bus import Command
from unisono.api.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
)
from unisono.api.kinds import COMMANDS, JOBS, POD_GROUPS, PODS
from unisono.api.scheduling import PodGroup
from unisono.api.times import rfc3339
from unisono.controllers.probing import Probe
from unisono.controllers.registry import all_controllers
from unisono.kube.controller import Manager


def task(name: str, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    """A task with one container; keyword arguments are further fields on the wire."""
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {"name": name, "replicas": replicas, "template": template} | fields


def job(*tasks: dict[str, Any], name: str = "job", **spec: Any) -> Job:
    """A job in namespace ``default``; keyword arguments are fields of its spec on the wire."""
    value = {"metadata": {"name": name, "namespace": "default"}, "spec": {"tasks": list(tasks)} | spec}
    return msgspec.convert(value, Job)


def policy(action: str, *events: str, **fields: Any) -> dict[str, Any]:
    return {"action": action, **({"events": list(events)} if events else {}), **fields}


async def at_once(work: Callable[[], Any]) -> Any:
    """Long computations in the loop: virtual time does not wait for threads."""
    return work()


class Recorder:
    """Keeps what was recorded."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def event(self, obj: Object, type: str, reason: str, message: str) -> None:
        self.events.append((type, reason, message))

    def of(self, reason: str) -> list[str]:
        return [message for _, what, message in self.events if what == reason]


class Prober:
    """Answers for pods as a test says, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[Probe] = []
        self.answering: set[Probe] = set()

    async def holds(self, probe: Probe) -> bool:
        self.asked.append(probe)
        return probe in self.answering


class World:
    """One API server, the controllers on it, and hands that play scheduler and kubelet."""

    def __init__(self, seed: int = 0, count_seconds: float = 0.0) -> None:
        self.count_seconds = count_seconds
        self.client = MemoryClient(seed=seed)
        self.clock = self.client.clock
        self.recorder = Recorder()
        self.prober = Prober()
        self.manager: Manager | None = None
        self._running: asyncio.Task[None] | None = None
        self.phases: list[str] = []

    async def __aenter__(self) -> World:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        self.manager = Manager(self.client, clock=self.clock)
        self._running = asyncio.create_task(
            self.manager.run(
                all_controllers(self.recorder, offload=at_once, prober=self.prober, count_seconds=self.count_seconds)
            )
        )
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

    async def submit(self, job: Job) -> None:
        await self.client.create(JOBS, job)
        await self.settle()

    async def change(self, name: str, **spec: Any) -> None:
        await self.client.patch(JOBS, name, {"spec": spec}, namespace="default")
        await self.settle()

    async def command(self, action: str, name: str = "job") -> None:
        target = OwnerReference(
            api_version=JOBS.api_version, kind="Job", name=name, uid=self.job(name).metadata.uid or ""
        )
        meta = ObjectMeta(generate_name=f"{name}-", namespace="default")
        await self.client.create(COMMANDS, Command(metadata=meta, action=action, target=target))
        await self.settle()

    # --- scheduler --------------------------------------------------------------------------------------------

    def group(self, name: str = "job") -> PodGroup | None:
        found = self.client.find(JOBS, f"default/{name}")
        return self.client.find(POD_GROUPS, f"default/{name}-{found.metadata.uid}") if found else None

    async def group_phase(self, phase: str, name: str = "job") -> None:
        group = self.group(name)
        assert group is not None
        group.status.phase = phase
        self.client.put(POD_GROUPS, group)
        await self.settle()

    async def admit(self, name: str = "job") -> None:
        await self.group_phase("Inqueue", name)

    # --- kubelet ----------------------------------------------------------------------------------------------

    def pods(self, *, deleting: bool = True) -> list[Pod]:
        pods = self.client.objects(PODS)
        return pods if deleting else [pod for pod in pods if not pod.metadata.deletion_timestamp]

    def names(self) -> list[str]:
        return [pod.metadata.name for pod in self.pods(deleting=False)]

    async def pod(self, name: str, phase: str, exit_code: int | None = None, restarts: int = 0) -> None:
        """Give a pod a node and a phase."""
        pod = self.client.find(PODS, f"default/{name}")
        assert pod is not None, name
        self.set_pod(pod, phase, exit_code, restarts)
        await self.settle()

    def set_pod(self, pod: Pod, phase: str, exit_code: int | None = None, restarts: int = 0) -> None:
        pod.spec.node_name = "node-0"
        pod.status.phase = phase
        state = ContainerState()
        if phase in ("Succeeded", "Failed"):
            code = exit_code if exit_code is not None else int(phase == "Failed")
            now = rfc3339(self.clock.time())
            state.terminated = ContainerStateTerminated(exit_code=code, finished_at=now)
        pod.status.container_statuses = [
            ContainerStatus(name="main", state=state, ready=phase == "Running", restart_count=restarts)
        ]
        self.client.put(PODS, pod)

    async def all_pods(self, phase: str) -> None:
        for pod in self.pods(deleting=False):
            self.set_pod(pod, phase)
        await self.settle()

    async def finish_deletions(self) -> None:
        """The kubelet has stopped what was deleted."""
        for pod in self.pods():
            if pod.metadata.deletion_timestamp:
                self.client.remove(PODS, pod.key)
        await self.settle()

    # --- reading ----------------------------------------------------------------------------------------------

    def job(self, name: str = "job") -> Job:
        found = self.client.find(JOBS, f"default/{name}")
        assert found is not None
        return found

    def phase(self, name: str = "job") -> str:
        return self.job(name).status.state.phase or ""

    def history(self, name: str = "job") -> list[str]:
        """Phases in the order in which they were written."""
        phases: list[str] = []
        for write in self.client.writes:
            if (write.resource, write.key, write.subresource) != ("jobs", f"default/{name}", "status"):
                continue
            phase = (write.body["status"].get("state") or {}).get("phase")
            if phase and (not phases or phases[-1] != phase):
                phases.append(phase)
        return phases
