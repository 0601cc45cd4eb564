"""Pods that share the machine's ports and want the same one: real processes, one gang after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agent_node import Node, eventually, manifest

from support.memory import MemoryClient
from support.ports import free_port
from unisono.agent.lifecycle import ContainerView, PodView, Reason, decide
from unisono.api.core import Pod
from unisono.api.kinds import NODES, PODS

pytestmark = pytest.mark.processes


PORT = free_port()
# Listens, says so, and goes on until it is told to end.
LISTEN = f"""
import os, socket, sys, time
s = socket.create_server(("", {PORT}))
print("listening", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[Node]:
    """An agent whose pods share the network of the machine."""
    node = Node(MemoryClient(), tmp_path / "agent", isolation="none")
    await node.start()
    yield node
    await node.stop()


def listener(name: str, until: Path, *, group: str | None = None, **container: Any) -> Pod:
    ports = {"ports": [{"containerPort": PORT, "name": "master"}]} | container
    metadata = {"annotations": {"scheduling.k8s.io/group-name": group or name}}
    return manifest(name, ["python", "-c", LISTEN, str(until)], container=ports, metadata=metadata)


def waiting(pod: Pod) -> Reason | None:
    state = next((c.state.waiting for c in pod.status.container_statuses or () if c.state.waiting), None)
    return Reason(state.reason or "", state.message or "") if state else None


def scheduled(pod: Pod) -> list[str]:
    return [c.status for c in pod.status.conditions or () if c.type == "PodScheduled"]


async def waits_for(node: Node, name: str, holder: str) -> Pod:
    why = Reason("PortTaken", f"port {PORT} is taken by pod default/{holder}; it starts when that pod ends")
    return await node.until(name, lambda pod: waiting(pod) == why)


async def test_jobs_with_the_same_port_run_one_after_the_other(plain: Node, tmp_path: Path) -> None:
    assert plain.client.find(NODES, "here").metadata.labels["unisono.io/shared-network"] == "true"
    ends = {name: tmp_path / f"end-{name}" for name in ("first", "second", "third")}
    plain.run(listener("first", ends["first"]))
    await plain.phase("first", "Running")
    plain.run(listener("second", ends["second"]))
    second = await waits_for(plain, "second", "first")
    plain.run(listener("third", ends["third"]))
    await waits_for(plain, "third", "first")
    assert (second.status.phase, scheduled(second)) == ("Pending", ["True"])
    ends["first"].touch()
    await plain.phase("second", "Running")
    await waits_for(plain, "third", "second")
    ends["second"].touch()
    ends["third"].touch()
    for name in ends:
        await plain.phase(name, "Succeeded")
        assert await plain.log(name) == "listening\n"
    await eventually(lambda: len(plain.events("PortTaken")) == 2)
    told = {e.involved_object.name: (e.count, e.message) for e in plain.events("PortTaken")}
    message = f"Port {PORT} is taken by pod default/first; it starts when that pod ends"
    assert told == {"second": (1, message), "third": (1, message)}
    assert plain.events("PortInUse") == []


async def test_members_of_one_gang_start_together(plain: Node, tmp_path: Path) -> None:
    """As with the pytorch plug-in: all declare the port of the master, one listens."""
    end = tmp_path / "end"
    plain.run(listener("job-master-0", end, group="job"))
    worker = listener("job-worker-0", end, group="job", command=["sleep", "600"])
    worker.spec.termination_grace_period_seconds = 0
    plain.run(worker)
    for name in ("job-master-0", "job-worker-0"):
        await plain.phase(name, "Running")
    end.touch()
    await plain.phase("job-master-0", "Succeeded")


async def test_a_waiting_pod_can_be_deleted_and_a_deleted_holder_makes_way(plain: Node, tmp_path: Path) -> None:
    never = tmp_path / "never"
    for name in ("first", "second", "third"):
        plain.run(listener(name, never))
        await plain.until(name, lambda pod: pod.status.phase == "Running" or waiting(pod))
    await waits_for(plain, "second", "first")
    await plain.client.delete(PODS, "second", "default")
    await eventually(lambda: plain.pod("second") is None)
    await plain.client.delete(PODS, "first", "default", grace_seconds=0)
    await plain.phase("third", "Running")


async def test_the_next_agent_keeps_the_order(plain: Node, tmp_path: Path) -> None:
    ends = {name: tmp_path / f"end-{name}" for name in ("z-first", "m-second", "a-third")}
    for name, end in ends.items():
        plain.run(listener(name, end))
        await plain.until(name, lambda pod: pod.status.phase == "Running" or waiting(pod))
    plain.abandon()
    again = Node(plain.client, plain.data_dir, isolation="none")
    await again.start()
    await waits_for(again, "m-second", "z-first")
    ends["z-first"].touch()
    await again.phase("m-second", "Running")
    await waits_for(again, "a-third", "m-second")
    for end in ends.values():
        end.touch()
    await again.phase("a-third", "Succeeded")
    assert await again.log("m-second") == "listening\n"
    await again.stop()
    # The pods had been told by the first agent.
    counts = {e.involved_object.name: e.count for e in again.events("PortTaken")}
    assert set(counts.values()) <= {1}
    assert len(again.events("PortTaken")) == len(counts)


def test_what_is_held_is_not_started() -> None:
    why = Reason("PortTaken", "port 80 is taken by pod ns/a; it starts when that pod ends")
    containers = (ContainerView("init", "init"), ContainerView("main"))
    plan = decide(PodView("p", "Never", containers, held=why), 100.0)
    assert (plan.start, plan.phase, plan.wake, plan.done) == ([], "Pending", None, False)
    assert plan.waiting == {"init": why, "main": Reason("PodInitializing", "")}
    assert decide(PodView("p", "Never", containers, held=why, held_until=101.0), 100.0).wake == 101.0
    assert decide(PodView("p", "Never", containers, held=why, deleting=True), 100.0).done
