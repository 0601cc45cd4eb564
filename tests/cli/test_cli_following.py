"""What ``unisono run`` tells of the jobs that it follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from support.memory import MemoryClient
from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kind_families import PYTORCH_JOBS
from unisono.api.kinds import JOBS, POD_GROUPS, PODS
from unisono.cli.running.report import JobView, Progress
from unisono.errors import ApiError
from unisono.sdk.follow.events import Target

OWNER = {"apiVersion": "v1", "kind": "Any", "name": "j", "uid": "j", "controller": True}
LABELS = {"volcano.sh/job-name": "j", "training.kubeflow.org/job-name": "j"}


class Server(MemoryClient):
    """Every log has one line, but that of a pod called ``secret`` cannot be read."""

    async def stream(self, path: str, params: Any) -> AsyncIterator[bytes]:
        if "secret" in path:
            raise ApiError("not yours", code=403)
        yield f"I am {params['container']}\n".encode()

    def make(self, kind: Kind[Any], name: str, status: Any, **spec: Any) -> None:
        meta = {"name": name, "namespace": "default", "uid": name}
        if kind is POD_GROUPS:
            meta["ownerReferences"] = [OWNER]  # type: ignore[assignment]
        self.put(kind, decode(kind, {"metadata": meta, "spec": spec, "status": status}).obj)

    def pod(self, name: str, phase: str, *containers: str) -> None:
        meta = {"name": name, "namespace": "default", "labels": LABELS, "ownerReferences": [OWNER]}
        spec = {"nodeName": "n1", "containers": [{"name": each} for each in containers or ("main",)]}
        self.put(PODS, decode(PODS, {"metadata": meta, "spec": spec, "status": {"phase": phase}}).obj)


class Told:
    """A reporter that remembers what it is told."""

    def __init__(self) -> None:
        self.logs: list[str] = []
        self.lines: list[str] = []
        self.shown = asyncio.Event()

    def line(self, title: str, text: str) -> None:
        self.lines.append(f"{title}: {text}")

    def log(self, prefix: str, text: str) -> None:
        self.logs.append(f"{prefix} | {text}")

    def show(self, views: Sequence[JobView], notes: Sequence[str] = ()) -> None:
        self.shown.set()

    def close(self) -> None: ...


async def settle() -> None:
    for _ in range(500):
        await asyncio.sleep(0)


async def followed(server: Server, kind: Kind[Any], told: Told, name: str = "j", *, logs: bool = True) -> JobView:
    progress = Progress([Target(kind, "default", name)], told)
    async with asyncio.timeout(60):
        await progress.follow(server, logs=logs)  # type: ignore[arg-type]
    (view,) = progress.views
    return view


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (JOBS, {"state": {"phase": "Completed"}}),
        (PYTORCH_JOBS, {"conditions": [{"type": "Succeeded", "status": "True"}]}),
    ],
    ids=["Volcano Job", "PyTorchJob"],
)
async def test_a_worker_that_starts_after_the_end_of_its_job_is_in_the_log(kind: Kind[Any], status: Any) -> None:
    server, told = Server(), Told()
    server.make(kind, "j", status)
    server.pod("j-worker-0", "Pending")
    running = asyncio.create_task(followed(server, kind, told))
    await told.shown.wait()
    await settle()
    server.pod("j-worker-0", "Succeeded")
    assert (await running).succeeded
    assert told.logs == ["worker-0 | I am main"]


async def test_containers_are_named_where_a_pod_has_several() -> None:
    server, told = Server(), Told()
    server.make(JOBS, "j", {"state": {"phase": "Completed"}})
    server.pod("j-a-0", "Succeeded", "main", "side")
    server.pod("j-b-0", "Succeeded")
    await followed(server, JOBS, told)
    assert sorted(told.logs) == ["a-0/main | I am main", "a-0/side | I am side", "b-0 | I am main"]


async def test_a_log_that_cannot_be_read_is_told_and_the_job_goes_on() -> None:
    server, told = Server(), Told()
    server.make(JOBS, "j", {"state": {"phase": "Completed"}})
    server.pod("j-secret-0", "Succeeded")
    assert (await followed(server, JOBS, told)).succeeded
    assert "pod/j-secret-0: its log cannot be read: not yours" in told.lines


async def test_a_plain_pod_keeps_its_name_and_logs_can_be_left_out() -> None:
    server = Server()
    server.pod("j-p", "Succeeded")
    for logs in (True, False):
        told = Told()
        await followed(server, PODS, told, "j-p", logs=logs)
        texts = ("submitted to queue default: 1 pod", "gang placed: 1/1 pods on n1", "Completed")
        assert told.lines == [f"pod/j-p: {text}" for text in texts]
        assert told.logs == (["j-p | I am main"] if logs else [])


async def test_a_training_job_is_told_of_when_its_queue_and_gang_are_known() -> None:
    server, told = Server(), Told()
    server.make(PYTORCH_JOBS, "j", {}, pytorchReplicaSpecs={"Worker": {"replicas": 2}})
    running = asyncio.create_task(followed(server, PYTORCH_JOBS, told))
    await settle()
    assert told.lines == []
    server.make(POD_GROUPS, "j", {"phase": "Pending"}, minMember=2, queue="research")
    await told.shown.wait()
    assert told.lines == ["pytorchjob/j: submitted to queue research: 2 pods, 2 of them start together or not at all"]
    server.make(PYTORCH_JOBS, "j", {"conditions": [{"type": "Failed", "status": "True", "message": "lost"}]})
    assert (await running).message == "lost"
    assert told.lines[1:] == ["pytorchjob/j: Failed: lost"]
