"""``unisono run`` follows jobs to their end, also where one watch lags behind another or a log comes slowly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from support.memory import MemoryClient
from unisono.api.batch import Job
from unisono.api.core import Pod
from unisono.api.kinds import JOBS, PODS
from unisono.cli import following
from unisono.cli.catch_up import Abreast
from unisono.cli.following import Follower
from unisono.cli.views import JobView
from unisono.kube.informer import Informer


def job() -> Job:
    value = {
        "metadata": {"name": "j", "namespace": "default", "uid": "j"},
        "spec": {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": []}}}]},
        "status": {"state": {"phase": "Completed"}, "succeeded": 1},
    }
    return msgspec.convert(value, Job)


def pod(name: str = "j-t-0", phase: str = "Succeeded", code: int = 0) -> Pod:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    labels = {"volcano.sh/job-name": "j", "volcano.sh/task-spec": "t"}
    state = {"terminated": {"exitCode": code}} if phase == "Succeeded" else {"running": {}}
    value = {
        "metadata": {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "state": state}]},
    }
    return msgspec.convert(value, Pod)


class Server(MemoryClient):
    """Its watch of pods tells nothing before ``told``, and its logs come when ``written`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.told, self.written = asyncio.Event(), asyncio.Event()
        self.lists_of_pods = 0

    async def list(self, kind: Any, namespace: str | None = None, **options: Any) -> Any:
        found = await super().list(kind, namespace, **options)
        if kind is PODS:
            self.lists_of_pods += 1
            if self.lists_of_pods > 1:
                # Somebody wants to know what the watch has not told.
                self.told.set()
        return found

    async def watch(self, kind: Any, namespace: str | None = None, **options: Any) -> AsyncIterator[Any]:
        if kind is PODS:
            await self.told.wait()
        async for event in super().watch(kind, namespace, **options):
            yield event

    async def stream(self, path: str, params: Any) -> AsyncIterator[bytes]:
        yield b"first\n"
        await self.written.wait()
        yield b"last\n"


class Told:
    """A reporter that remembers log lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, title: str, text: str) -> None: ...

    def log(self, prefix: str, text: str) -> None:
        self.lines.append(f"{prefix} | {text}")

    def show(self, views: Sequence[JobView]) -> None: ...

    def close(self) -> None: ...


async def followed(server: Server, told: Told) -> JobView:
    follower = Follower(server, [("Job", "default", "j")], told)  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        (view,) = await follower.run()
    return view


async def test_a_pod_that_is_heard_of_after_the_end_of_its_job_is_told_with_its_log() -> None:
    server, told = Server(), Told()
    server.written.set()
    server.put(JOBS, job())
    running = asyncio.create_task(followed(server, told))
    while not server.lists_of_pods:
        await asyncio.sleep(0)
    server.put(PODS, pod(code=3))
    view = await running
    assert [end.exit_code for end in view.ends] == [3]
    assert told.lines == ["t-0 | first", "t-0 | last"]


@pytest.mark.parametrize(("phase", "whole"), [("Succeeded", True), ("Running", False)])
async def test_a_slow_log_is_read_to_its_end_if_it_has_one(
    monkeypatch: pytest.MonkeyPatch, phase: str, whole: bool
) -> None:
    """A process that outlives its job may write for ever."""
    monkeypatch.setattr(following, "LOG_DRAIN_SECONDS", 0.01)
    monkeypatch.setattr(following, "LOG_END_SECONDS", 600.0)
    server, told = Server(), Told()
    server.put(JOBS, job())
    server.put(PODS, pod(phase=phase))
    if whole:
        asyncio.get_running_loop().call_later(0.1, server.written.set)
    await followed(server, told)
    assert ("t-0 | last" in told.lines) is whole


async def test_catching_up_ends_also_with_what_has_gone_and_kinds_that_nobody_serves() -> None:
    server = Server()
    server.told.set()
    pods, jobs = Informer(server, PODS), Informer(server, JOBS)
    abreast = Abreast(server, None, [jobs, pods])
    watching = [asyncio.create_task(each.run()) for each in (pods, jobs)]
    try:
        for each in (pods, jobs):
            await each.synced.wait()
        kept, gone = server.put(PODS, pod("kept")), server.put(PODS, pod("gone"))
        while pods.get(gone.key) is None:
            await asyncio.sleep(0)
        listed = await server.list(PODS)
        server.remove(PODS, gone.key)
        while pods.get(gone.key) is not None:
            await asyncio.sleep(0)

        async def late(kind: Any, namespace: str | None = None, **_: Any) -> Any:
            if kind is JOBS:
                raise OSError("nobody listens")
            return listed

        server.list = late  # type: ignore[method-assign]
        async with asyncio.timeout(60):
            await abreast.catch_up(600.0)
        assert [each.key for each in pods.items()] == [kept.key]
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
