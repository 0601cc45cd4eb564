"""A node agent of this machine against an in-memory API, and ways to wait for what it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from support.memory import MemoryClient
from unisono.agent.agent import Agent
from unisono.agent.logs import FileLogSource
from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap, Event, Pod
from unisono.api.kinds import CONFIG_MAPS, EVENTS, PODS
from unisono.api.pod_states import LogOptions

DEADLINE = 180.0


async def eventually(what: Callable[[], Any], message: str = "") -> Any:
    """The first true answer of ``what``; fails after a generous deadline."""
    try:
        async with asyncio.timeout(DEADLINE):
            while not (answer := what()):
                await asyncio.sleep(0.01)
            return answer
    except TimeoutError:
        raise AssertionError(message or f"not true within {DEADLINE} s") from None


def manifest(name: str, command: list[str] | None = None, **spec: Any) -> Pod:
    """A pod bound to the test's node: one container ``main`` that is not restarted."""
    container: dict[str, Any] = {"name": "main", "image": "ignored"}
    if command is not None:
        container["command"] = command
    container |= spec.pop("container", {})
    metadata = {"name": name, "namespace": "default", "labels": {"app": name.rpartition("-")[0] or name}}
    metadata |= spec.pop("metadata", {})
    value = {
        "metadata": metadata,
        "spec": {
            "nodeName": "here",
            "restartPolicy": "Never",
            "containers": [container],
            "terminationGracePeriodSeconds": 5,
        }
        | spec,
    }
    return msgspec.convert(value, Pod)


class Node:
    """The agent under test and its API."""

    def __init__(self, client: MemoryClient, data_dir: Path, **options: Any) -> None:
        self.client, self.data_dir, self.options = client, data_dir, options
        self.logs = FileLogSource(data_dir)
        self.agent: Agent | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.agent = Agent(self.client, "here", self.data_dir, working_dir=self.data_dir.parent, **self.options)
        self._task = asyncio.create_task(self.agent.run())
        ready = asyncio.create_task(self.agent.ready.wait())
        await asyncio.wait({ready, self._task}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._task.done():
            self._task.result()

    async def stop(self, kill_pods: bool = True) -> None:
        if self.agent is not None and self._task is not None:
            await self.agent.stop(kill_pods=kill_pods)
            await self._task
            self.agent = None

    def abandon(self) -> None:
        """Let the agent vanish as SIGKILL would: nothing is said to the API, no process is ended."""
        assert self.agent is not None
        assert self._task is not None
        self._task.cancel()
        self.agent = None

    def events(self, reason: str) -> list[Event]:
        return [event for event in self.client.objects(EVENTS) if event.reason == reason]

    def run(self, pod: Pod) -> Pod:
        return self.client.put(PODS, pod)

    def config_map(self, name: str, data: dict[str, str]) -> None:
        self.client.put(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data))

    def pod(self, name: str, namespace: str = "default") -> Pod | None:
        return self.client.find(PODS, f"{namespace}/{name}")

    async def until(self, name: str, check: Callable[[Pod], Any], namespace: str = "default") -> Pod:
        def answer() -> Any:
            pod = self.pod(name, namespace)
            return pod is not None and check(pod)

        found = self.pod(name, namespace)
        try:
            await eventually(answer)
        except AssertionError:
            found = self.pod(name, namespace)
            status = msgspec.to_builtins(found.status) if found else "gone"
            raise AssertionError(f"pod {name} stays at {status}") from None
        found = self.pod(name, namespace)
        assert found is not None
        return found

    async def phase(self, name: str, *phases: str) -> Pod:
        return await self.until(name, lambda pod: pod.status.phase in phases)

    async def log(self, name: str, container: str = "main", namespace: str = "default", **options: Any) -> str:
        pod = self.pod(name, namespace)
        assert pod is not None
        stream = self.logs.open(namespace, name, pod.metadata.uid or "", container, LogOptions(**options))
        return b"".join([chunk async for chunk in stream]).decode()
