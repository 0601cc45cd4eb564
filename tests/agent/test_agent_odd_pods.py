"""Pods that are valid but cannot run: each ends by itself, told why, and others go on."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from agent_node import Node, eventually, manifest

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.agent.pods.containers import PodContainers
from unisono.agent.simulated.nodes import SimulatedNodes, parse_specs
from unisono.api.core import Pod
from unisono.api.kinds import PODS

MOUNT = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
ODD: dict[str, Any] = {
    "nul-in-command": {"command": ["echo", "a\0b"]},
    "huge-argument": {"command": ["echo", "x" * (3 << 20)]},
    "huge-environment": {"command": ["true"], "env": [{"name": f"N{i}", "value": "x" * 1000} for i in range(10_000)]},
    "nul-in-variable": {"command": ["true"], "env": [{"name": "A", "value": "\0"}]},
    "equals-in-name": {"command": ["true"], "env": [{"name": "A=B", "value": "c"}]},
    "long-directory": {"command": ["true"], "workingDir": "/" + "d" * 300},
    "nul-in-directory": {"command": ["true"], "workingDir": "/\0"},
    "nul-in-mount": {"command": ["true"], "volumeMounts": [{"name": "v", "mountPath": "/\0"}]},
    "long-mount": {"command": ["true"], "volumeMounts": [{"name": "v", "mountPath": "/" + "m" * 300}]},
    "negative-user": {"command": ["true"], "securityContext": {"runAsUser": -1}},
    "large-user": {"command": ["true"], "securityContext": {"runAsUser": 1 << 40}},
    "negative-group": {"command": ["true"], "securityContext": {"runAsGroup": -1}},
    "odd-quantity": {"command": ["true"], "resources": {"limits": {"memory": "a lot"}}},
}


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_pod_fails_with_a_cause_and_others_run(node: Node, name: str) -> None:
    node.run(manifest(name, container=ODD[name], volumes=[{"name": "v", "emptyDir": {}}]))
    node.run(manifest("bystander", ["true"]))
    await node.phase("bystander", "Succeeded")
    status = (await node.phase(name, "Failed")).status
    ended = status.container_statuses[0].state.terminated if status.container_statuses else None
    assert status.message or (ended and ended.message), status


@pytest.mark.parametrize("name", ["..", "a/b", "x" * 300, ""])
async def test_names_that_would_leave_the_folder_of_the_pod(node: Node, name: str) -> None:
    node.run(manifest("container", ["true"], container={"name": name}))
    node.run(manifest("volume", ["true"], volumes=[{"name": name, "emptyDir": {}}]))
    for each in ("container", "volume"):
        assert "is no name for a container or a volume" in ((await node.phase(each, "Failed")).status.message or "")


@pytest.mark.parametrize("path", ["/\0", "/" + "x" * 300, "/x" * 3000])
async def test_odd_host_paths(node: Node, path: str) -> None:
    volume = {"name": "v", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
    node.run(manifest("p", ["true"], container=MOUNT, volumes=[volume]))

    def told(pod: Pod) -> bool:
        waiting = [each.state.waiting for each in pod.status.container_statuses or ()]
        return pod.status.phase == "Failed" or any(each and each.message for each in waiting)

    await node.until("p", told)
    node.run(manifest("bystander", ["true"]))
    await node.phase("bystander", "Succeeded")


async def test_a_thousand_volumes(node: Node) -> None:
    volumes = [{"name": f"v{i}", "emptyDir": {}} for i in range(1000)]
    node.run(manifest("p", ["true"], volumes=volumes))
    await node.phase("p", "Succeeded")


async def test_a_pod_on_which_the_agent_fails_is_given_up(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    real = PodContainers.views

    def views(self: PodContainers) -> Any:
        if self._address == node.agent._host.addresses.get(bad):  # type: ignore[union-attr]
            raise RuntimeError("a fault of the agent")
        return real(self)

    bad = node.run(manifest("bad", ["sleep", "1000"])).metadata.uid or ""
    await node.phase("bad", "Running")
    monkeypatch.setattr(PodContainers, "views", views)
    monkeypatch.setattr("unisono.agent.pods.worker._TRIES", 2)
    node.client.put(
        PODS, await node.client.patch(PODS, "bad", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    )
    status = (await node.phase("bad", "Failed")).status
    assert (status.reason, "a fault of the agent" in (status.message or "")) == ("CannotRun", True)
    assert await eventually(lambda: node.events("CannotRun"))
    node.run(manifest("good", ["true"]))
    await node.phase("good", "Succeeded")
    await node.client.delete(PODS, "bad", "default", grace_seconds=0)
    await eventually(lambda: not Path(node.data_dir / "pods" / bad).exists())


async def test_a_pod_that_cannot_be_begun(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    real = node.agent._host.names.add  # type: ignore[union-attr]

    def add(pod: Pod, address: str) -> None:
        if pod.metadata.name == "bad":
            raise ValueError("no such name")
        real(pod, address)

    monkeypatch.setattr(node.agent._host.names, "add", add)  # type: ignore[union-attr]
    node.run(manifest("bad", ["true"]))
    assert "ValueError: no such name" in ((await node.phase("bad", "Failed")).status.message or "")
    node.run(manifest("good", ["true"]))
    await node.phase("good", "Succeeded")
    assert len(node.events("CannotRun")) == 1


async def test_an_odd_pod_on_a_simulated_node_stops_no_others() -> None:
    clock = VirtualClock()
    client = MemoryClient(clock)
    nodes = SimulatedNodes(client, parse_specs([{"name": "n", "capacity": {"cpu": 4, "memory": "1Gi"}}]), clock)
    odd = manifest("odd", nodeName="n", container={"resources": {"requests": {"cpu": "many"}}})
    late = manifest("late", nodeName="n")
    late.status.start_time = "yesterday"
    for pod in (odd, late):
        client.put(PODS, pod)
    task = asyncio.create_task(nodes.run())
    try:
        await clock.advance(1)
        client.put(PODS, manifest("good", nodeName="n"))
        await clock.advance(1)
        found = {pod.metadata.name: pod.status for pod in client.objects(PODS)}
        assert found["good"].phase == "Running"
        assert found["odd"].phase == found["late"].phase == "Failed"
        assert "cannot handle this pod" in (found["odd"].message or "")
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_container_that_cannot_be_created_is_tried_again_as_one_that_crashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, tries = VirtualClock(), []

    async def prepare(*_: Any) -> dict[str, Any]:
        tries.append(clock.monotonic())
        raise OSError(36, "File name too long")

    monkeypatch.setattr("unisono.agent.pods.containers.prepare", prepare)
    node = Node(MemoryClient(), tmp_path / "agent", clock=clock)
    await node.start()
    try:
        node.run(manifest("p", ["true"]))
        await eventually(lambda: tries)
        while clock.monotonic() < 700:
            await clock.advance(1)
        delays = [round(later - earlier) for earlier, later in itertools.pairwise(tries)]
        assert delays == [2, 10, 20, 40, 80, 160, 300]
    finally:
        node.abandon()
