"""Pods that do not fit the machine any more when they arrive: refused for good, with nothing started."""

from __future__ import annotations

from pathlib import Path

from agent_node import Node, manifest

from support.memory import MemoryClient
from unisono.api.core import Pod
from unisono.api.kinds import PODS


def wanting(name: str, command: list[str]) -> Pod:
    return manifest(name, command, container={"resources": {"requests": {"cpu": "700m"}}})


async def test_what_does_not_fit_fails_until_there_is_room_and_a_restart_keeps_who_runs(tmp_path: Path) -> None:
    node = Node(MemoryClient(), tmp_path / "agent", cpus=1)
    await node.start()
    try:
        node.run(wanting("z-first", ["sleep", "1000"]))
        await node.phase("z-first", "Running")
        node.run(wanting("second", ["touch", str(tmp_path / "started")]))
        status = (await node.phase("second", "Failed")).status
        assert status.reason == "OutOfcpu"
        assert status.message == (
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 700, used: 700, capacity: 1000"
        )
        assert status.container_statuses is None
        assert not (tmp_path / "started").exists()

        node.abandon()
        node.run(wanting("a-new", ["true"]))
        await node.start()
        assert (await node.phase("a-new", "Failed")).status.reason == "OutOfcpu", "though it is looked at first"
        assert (await node.phase("z-first", "Running")).status.phase == "Running"

        await node.client.delete(PODS, "z-first", "default", grace_seconds=0)
        node.run(wanting("late", ["true"]))
        await node.phase("late", "Succeeded")
    finally:
        await node.stop()
