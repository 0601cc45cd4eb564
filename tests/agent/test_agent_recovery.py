"""What a killed agent leaves, the next one takes over."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from agent_node import Node, eventually, manifest

from support.memory import MemoryClient
from unisono.agent.layout import Layout
from unisono.agent.machine.cgroups import LimitGroups
from unisono.agent.processes.shims import kill_leftover_pods
from unisono.api.kinds import PODS

pytestmark = pytest.mark.processes


async def crash(node: Node) -> Node:
    """End the agent without a word to its pods or the API; the next one starts with what is on disk."""
    node.abandon()
    again = Node(node.client, node.data_dir)
    await asyncio.sleep(0)
    return again


async def test_running_processes_are_found_again(node: Node, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"echo before; while ! test -e {go}; do sleep 0.05; done; echo after; exit 7"
    node.run(manifest("lives", ["sh", "-c", script]))
    before = await node.phase("lives", "Running")
    again = await crash(node)
    await again.start()
    go.touch()
    pod = await again.phase("lives", "Failed")
    state = pod.status.container_statuses[0].state.terminated
    assert (state.exit_code, pod.status.container_statuses[0].restart_count) == (7, 0)
    assert pod.status.pod_ip == before.status.pod_ip
    assert await again.log("lives") == "before\nafter\n"
    await again.stop()


async def test_a_group_that_a_container_has_yet_to_enter_stays(node: Node) -> None:
    node.run(manifest("lives", ["sleep", "86371"]))
    pod = await node.phase("lives", "Running")
    again = await crash(node)
    branches = LimitGroups.find(node.data_dir, None).branches.values()
    if not branches:
        pytest.skip("no cgroups of version 1 can be made here")
    late = [branch / str(pod.metadata.uid) / "late.0" for branch in branches]
    for group in late:
        group.mkdir(parents=True)
    await again.start()
    assert all(group.is_dir() for group in late)
    await node.client.delete(PODS, "lives", "default")
    await eventually(lambda: Layout(node.data_dir).pods() == [])
    assert not any(group.exists() for group in late)
    await again.stop()


async def test_an_exit_while_no_agent_ran_is_not_lost(node: Node) -> None:
    node.run(manifest("ends", ["sh", "-c", "sleep 0.2; exit 5"]))
    await node.phase("ends", "Running")
    again = await crash(node)
    run = Layout(node.data_dir).pod(node.pod("ends").metadata.uid).runs("main")[0]
    await eventually(lambda: run.exit())
    await again.start()
    pod = await again.phase("ends", "Failed")
    assert pod.status.container_statuses[0].state.terminated.exit_code == 5
    await again.stop()


async def test_a_lost_process_fails_its_pod_with_a_clear_reason(node: Node) -> None:
    node.run(manifest("lost", ["sleep", "86396"]))
    await node.phase("lost", "Running")
    again = await crash(node)
    run = Layout(node.data_dir).pod(node.pod("lost").metadata.uid).runs("main")[0]
    await eventually(run.started)
    os.kill(int(run.started()["pid"]), signal.SIGKILL)
    await eventually(lambda: not run.is_held())
    await again.start()
    pod = await again.phase("lost", "Failed")
    state = pod.status.container_statuses[0].state.terminated
    assert (state.reason, state.exit_code) == ("AgentRestarted", 137)
    assert "node agent was not running" in state.message
    await again.stop()


async def test_pods_deleted_meanwhile_are_ended(node: Node) -> None:
    node.run(manifest("deleted", ["sleep", "86395"]))
    await node.phase("deleted", "Running")
    again = await crash(node)
    run = Layout(node.data_dir).pod(node.pod("deleted").metadata.uid).runs("main")[0]
    node.client.remove(PODS, "default/deleted")
    await again.start()
    assert not run.is_held()
    assert Layout(node.data_dir).pods() == []
    await again.stop()


async def test_ended_pods_stay_as_they_are(node: Node) -> None:
    node.run(manifest("over", ["sh", "-c", "echo done"]))
    before = await node.phase("over", "Succeeded")
    again = await crash(node)
    await again.start()
    assert node.pod("over") == before
    assert await again.log("over") == "done\n"
    await node.client.delete(PODS, "over", "default")
    await eventually(lambda: Layout(node.data_dir).pods() == [])
    await again.stop()


async def test_leftovers_are_killed_without_an_agent(tmp_path: Path) -> None:
    node = Node(MemoryClient(), tmp_path / "agent")
    await node.start()
    node.run(manifest("left", ["sleep", "86394"]))
    await node.phase("left", "Running")
    node.abandon()
    run = Layout(node.data_dir).pod(node.pod("left").metadata.uid).runs("main")[0]
    await eventually(run.started)
    assert await asyncio.to_thread(kill_leftover_pods, node.data_dir) == 1
    assert not run.is_held()
    assert await asyncio.to_thread(kill_leftover_pods, node.data_dir) == 0


async def test_stop_leaves_processes_running_unless_told(tmp_path: Path) -> None:
    node = Node(MemoryClient(), tmp_path / "agent")
    await node.start()
    node.run(manifest("on", ["sleep", "86393"], terminationGracePeriodSeconds=1))
    await node.phase("on", "Running")
    run = Layout(node.data_dir).pod(node.pod("on").metadata.uid).runs("main")[0]
    await node.stop(kill_pods=False)
    assert run.is_held()
    again = Node(node.client, node.data_dir)
    await again.start()
    await again.stop(kill_pods=True)
    assert not run.is_held()


CHILD = """
import asyncio, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from agent_node import Node, manifest
from support.memory import MemoryClient

async def main():
    node = Node(MemoryClient(), Path(sys.argv[1]))
    await node.start()
    node.run(manifest("survivor", ["sh", "-c", f"while ! test -e {sys.argv[1]}/go; do sleep 0.05; done; exit 9"],
                      metadata={"uid": "uid-of-the-survivor"}))
    await node.phase("survivor", "Running")
    run = node.agent._layout.pod("uid-of-the-survivor").runs("main")[0]
    while run.started() is None:
        await asyncio.sleep(0.01)
    print("running", flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


async def test_sigkill_of_the_agents_process(tmp_path: Path) -> None:
    data_dir = tmp_path / "agent"
    tests = Path(__file__).parents[1]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CHILD, str(data_dir), str(tests), str(tests / "agent"), stdout=asyncio.subprocess.PIPE
    )
    while (line := await child.stdout.readline()) != b"running\n":
        assert line, "the agent's process ended"
    child.kill()
    await child.wait()
    again = Node(MemoryClient(), data_dir)
    again.run(manifest("survivor", ["true"], metadata={"uid": "uid-of-the-survivor"}))
    await again.start()
    (data_dir / "go").touch()
    pod = await again.phase("survivor", "Failed")
    assert pod.status.container_statuses[0].state.terminated.exit_code == 9
    await again.stop()
