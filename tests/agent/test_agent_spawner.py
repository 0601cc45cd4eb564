"""The process that starts all others: what survives its death, and the agent's."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from agent_node import Node, eventually, manifest

from support.memory import MemoryClient
from unisono.agent.spawner.client import Spawner, SpawnerLost

pytestmark = [pytest.mark.processes]


def spawner_of(node: Node) -> Spawner:
    assert node.agent is not None
    return node.agent._spawner


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def test_pods_outlive_a_killed_spawner_and_their_exit_codes_are_learned(node: Node, tmp_path: Path) -> None:
    go = tmp_path / "go"
    node.run(manifest("before", ["sh", "-c", f"while ! test -e {go}; do sleep 0.1; done; exit 7"]))
    await node.phase("before", "Running")
    killed = spawner_of(node).pid
    os.kill(killed, signal.SIGKILL)
    await eventually(lambda: spawner_of(node).pid != killed)
    node.run(manifest("after", ["sh", "-c", "echo here"]))
    await node.phase("after", "Succeeded")
    go.touch()
    pod = await node.phase("before", "Failed")
    assert pod.status.container_statuses is not None
    ended = pod.status.container_statuses[0].state.terminated
    assert ended is not None
    assert ended.exit_code == 7
    assert await node.log("after") == "here\n"


async def test_a_spawner_that_dies_again_and_again_costs_no_pod(node: Node) -> None:
    """Killed at any moment, also between a request and its answer: every pod runs, and runs once."""
    names = [f"job-{index}" for index in range(12)]
    for name in names:
        node.run(manifest(name, ["sh", "-c", "echo $HOSTNAME"]))
    killed = 0

    def done() -> bool:
        return all((pod := node.pod(name)) and pod.status.phase == "Succeeded" for name in names)

    for _ in range(4):
        await eventually(lambda last=killed: done() or spawner_of(node).pid not in {0, last})
        if done():
            break
        killed = spawner_of(node).pid
        os.kill(killed, signal.SIGKILL)
    for name in names:
        await node.until(name, lambda pod: pod.status.phase in {"Succeeded", "Failed"})
        assert await node.log(name) == f"{name}\n"


async def test_the_spawner_ends_with_its_agent_and_pods_go_on(tmp_path: Path) -> None:
    node = Node(MemoryClient(), tmp_path / "agent")
    await node.start()
    try:
        node.run(manifest("stays", ["sleep", "600"]))
        pod = await node.phase("stays", "Running")
        record = tmp_path / "agent" / "pods" / str(pod.metadata.uid) / "runs" / "main" / "0" / "started"
        await eventually(record.exists)
        spawner = spawner_of(node).pid
        await node.stop(kill_pods=False)
        await eventually(lambda: gone(spawner))
        assert not gone(int(record.read_text().split()[0].partition("=")[2]))
    finally:
        await node.start()
        await node.stop()


async def test_a_request_without_an_answer_is_told_as_lost(tmp_path: Path) -> None:
    spawner = Spawner()
    spec = tmp_path / "spec"
    spec.write_bytes(b"")
    null = os.open(os.devnull, os.O_RDWR)
    try:
        # The first one starts the spawner; a spec that is none ends the process that reads it, not the spawner.
        pid, _ = await spawner.start("run", spec, (null, null, null, null))
        await eventually(lambda: gone(pid))
        first = spawner.pid
        os.kill(first, signal.SIGSTOP)
        lost = asyncio.create_task(spawner.start("run", spec, (null, null, null, null)))
        await asyncio.sleep(0)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(SpawnerLost):
            await lost
        await spawner.start("run", spec, (null, null, null, null))
        assert spawner.pid not in {0, first}
    finally:
        os.close(null)
        await spawner.close()
    assert spawner.pid == 0
