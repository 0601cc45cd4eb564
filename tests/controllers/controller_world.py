"""A cluster in memory for controller tests: real controllers, hands that play scheduler and kubelet, virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any, Self

from prometheus_client import CollectorRegistry
from unreliable import UnreliableClient

from support.virtual_clock import settle
from unisono.api.base import Object
from unisono.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodCondition
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.times import rfc3339
from unisono.controllers.execution import RETRIES
from unisono.controllers.keeper import ObjectKeeper
from unisono.kube.controller import Controller, Manager
from unisono.kube.pace import Backoff


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


class ControllerWorld:
    """One API server with controllers on it; a subclass says which."""

    namespace = "default"

    def __init__(self, seed: int = 0) -> None:
        self.client = UnreliableClient(seed=seed)
        self._random = random.Random(seed)
        self.clock = self.client.clock
        self.recorder = Recorder()
        self.manager: Manager | None = None
        self._running: asyncio.Task[None] | None = None

    def make_controllers(self) -> list[Controller]:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        # A registry of its own: a world may start its controllers again.
        keeper = ObjectKeeper(self.client, self.recorder, registry=CollectorRegistry(), clock=self.clock)
        self.manager = Manager(
            self.client, clock=self.clock, backoff=lambda: Backoff(rng=self._random), keeper=keeper, retries=RETRIES
        )
        self._running = asyncio.create_task(self.manager.run(self.make_controllers()))
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

    # --- scheduler --------------------------------------------------------------------------------------------

    async def set_group_phase(self, group: PodGroup, phase: str) -> None:
        group.status.phase = phase
        self.client.put(POD_GROUPS, group)
        await self.settle()

    # --- kubelet ----------------------------------------------------------------------------------------------

    def pods(self, *, deleting: bool = True) -> list[Pod]:
        pods = self.client.objects(PODS)
        return pods if deleting else [pod for pod in pods if not pod.metadata.deletion_timestamp]

    def names(self) -> list[str]:
        return [pod.metadata.name for pod in self.pods(deleting=False)]

    def find_pod(self, name: str) -> Pod:
        pod = self.client.find(PODS, f"{self.namespace}/{name}")
        assert pod is not None, f"{name} not among {self.names()}"
        return pod

    async def pod(self, name: str, phase: str, code: int | None = None, **fields: Any) -> None:
        """Give a pod a node and a phase; further arguments are those of ``set_pod``."""
        self.set_pod(self.find_pod(name), phase, code, **fields)
        await self.settle()

    def set_pod(self, pod: Pod, phase: str, code: int | None = None, restarts: int = 0, reason: str = "") -> None:
        """As ``pod``; a failed pod with a reason has no containers that ended, as after an eviction."""
        pod.spec.node_name = "node-0"
        pod.status.phase = phase
        pod.status.reason = reason or None
        pod.status.conditions = self.conditions(phase) or pod.status.conditions
        state = ContainerState()
        if phase in ("Succeeded", "Failed") and not reason:
            exit_code = code if code is not None else int(phase == "Failed")
            state.terminated = ContainerStateTerminated(exit_code=exit_code, finished_at=rfc3339(self.clock.time()))
        name = (pod.spec.containers or [])[0].name
        pod.status.container_statuses = [
            ContainerStatus(name=name, state=state, ready=phase == "Running", restart_count=restarts)
        ]
        self.client.put(PODS, pod)

    def conditions(self, phase: str) -> list[PodCondition]:
        """What the kubelet says of a pod in that phase."""
        return []

    async def all_pods(self, phase: str) -> None:
        """Every pod that is not being deleted."""
        for pod in self.pods(deleting=False):
            self.set_pod(pod, phase)
        await self.settle()

    async def finish_deletions(self) -> None:
        """The kubelet has stopped what was deleted."""
        for pod in self.pods():
            if pod.metadata.deletion_timestamp:
                self.client.remove(PODS, pod.key)
        await self.settle()
