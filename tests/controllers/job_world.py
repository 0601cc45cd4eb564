"""A cluster in memory for tests of jobs and what is made of them: all of Volcano's controllers, virtual time."""

from __future__ import annotations

from typing import Any

import msgspec
from controller_world import ControllerWorld, at_once

from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.groups.batch import Command, Job
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import COMMANDS, JOBS, POD_GROUPS
from unisono.controllers.metrics import Probe
from unisono.controllers.registry import all_controllers
from unisono.kube.controller import Controller


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


class Prober:
    """Answers for pods as a test says, and keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[Probe] = []
        self.answering: set[Probe] = set()

    async def holds(self, probe: Probe) -> bool:
        self.asked.append(probe)
        return probe in self.answering


class World(ControllerWorld):
    """One API server, the controllers on it, and hands that play scheduler and kubelet."""

    def __init__(self, seed: int = 0, count_seconds: float = 0.0) -> None:
        super().__init__(seed)
        self.count_seconds = count_seconds
        self.prober = Prober()

    def make_controllers(self) -> list[Controller]:
        return all_controllers(self.recorder, offload=at_once, prober=self.prober, count_seconds=self.count_seconds)

    # --- user -------------------------------------------------------------------------------------------------

    async def submit(self, job: Job) -> None:
        with self.client.hands():
            await self.client.create(JOBS, job)
        await self.settle()

    async def change(self, name: str, **spec: Any) -> None:
        with self.client.hands():
            await self.client.patch(JOBS, name, {"spec": spec}, namespace="default")
        await self.settle()

    async def command(self, action: str, name: str = "job") -> None:
        target = OwnerReference(
            api_version=JOBS.api_version, kind="Job", name=name, uid=self.job(name).metadata.uid or ""
        )
        meta = ObjectMeta(generate_name=f"{name}-", namespace="default")
        with self.client.hands():
            await self.client.create(COMMANDS, Command(metadata=meta, action=action, target=target))
        await self.settle()

    # --- scheduler --------------------------------------------------------------------------------------------

    def group(self, name: str = "job") -> PodGroup | None:
        found = self.client.find(JOBS, f"default/{name}")
        return self.client.find(POD_GROUPS, f"default/{name}-{found.metadata.uid}") if found else None

    async def group_phase(self, phase: str, name: str = "job") -> None:
        group = self.group(name)
        assert group is not None
        await self.set_group_phase(group, phase)

    async def admit(self, name: str = "job") -> None:
        await self.group_phase("Inqueue", name)

    # --- reading ----------------------------------------------------------------------------------------------

    def job(self, name: str = "job") -> Job:
        found = self.client.find(JOBS, f"default/{name}")
        assert found is not None
        return found

    def phase(self, name: str = "job") -> str:
        return self.job(name).status.state.phase or ""

    def history(self, name: str = "job") -> list[str]:
        """Phases in the order in which they were stored."""
        phases: list[str] = []
        for write, _uid in self.client.applied:
            if (write.resource, write.key, write.subresource) != ("jobs", f"default/{name}", "status"):
                continue
            phase = (write.body["status"].get("state") or {}).get("phase")
            if phase and (not phases or phases[-1] != phase):
                phases.append(phase)
        return phases
