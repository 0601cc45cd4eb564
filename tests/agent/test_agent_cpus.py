"""CPUs that containers have for themselves: the machine's shape, who gets which, and what schedulers are told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from agent_node import Node, eventually, manifest
from hypothesis import given
from hypothesis import strategies as st

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.agent.cpus.book import AffinityKeeper, CpuBook, CpuPolicies, NotAligned, read_cpus
from unisono.api.core import Pod
from unisono.api.kinds import NUMATOPOLOGIES
from unisono.api.numa import bits, parse_cpus, write_cpus
from unisono.errors import AgentError

TWO_SOCKETS = {cpu: (cpu % 8 // 4, cpu % 8 // 4, cpu % 4) for cpu in range(16)}
"""Two sockets of four cores with two threads each; sockets are NUMA nodes."""


def tree(root: Path, detail: dict[int, tuple[int, int, int]], online: str) -> Path:
    """The files of /sys/devices/system that tell of CPUs, as Linux lays them out (its document cputopology).

    Made here from a table, not copied from a machine.
    """
    (root / "cpu").mkdir(parents=True)
    (root / "cpu" / "online").write_text(f"{online}\n")
    nodes: dict[int, int] = {}
    for cpu, (numa, socket, core) in detail.items():
        folder = root / "cpu" / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{socket}\n")
        (folder / "core_id").write_text(f"{core}\n")
        nodes[numa] = nodes.get(numa, 0) | 1 << cpu
    for numa, mask in nodes.items():
        (root / "node" / f"node{numa}").mkdir(parents=True)
        (root / "node" / f"node{numa}" / "cpulist").write_text(f"{write_cpus(mask)}\n")
    return root


def test_two_sockets(tmp_path: Path) -> None:
    assert read_cpus(tree(tmp_path, TWO_SOCKETS, "0-15"), range(64)) == TWO_SOCKETS


def test_four_numa_nodes_on_two_sockets_with_cpus_off(tmp_path: Path) -> None:
    """Such as sub-NUMA clustering, or NPS2."""
    detail = {cpu: (cpu // 2, cpu // 4, cpu % 4) for cpu in range(8)}
    found = read_cpus(tree(tmp_path, detail, "0-2,4-7"), range(64))
    assert found == {cpu: place for cpu, place in detail.items() if cpu != 3}


def test_only_cpus_that_this_process_may_use(tmp_path: Path) -> None:
    assert set(read_cpus(tree(tmp_path, TWO_SOCKETS, "0-15"), [3, 4, 99])) == {3, 4}


def test_a_virtual_machine_that_tells_little(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "online").write_text("0-1\n")
    assert read_cpus(tmp_path, range(4)) == {0: (0, 0, 0), 1: (0, 0, 1)}
    folder = tmp_path / "cpu" / "cpu1" / "topology"
    folder.mkdir(parents=True)
    (folder / "physical_package_id").write_text("-1\n")
    (folder / "core_id").write_text("nonsense\n")
    assert read_cpus(tmp_path, range(4)) == {0: (0, 0, 0), 1: (0, 0, 1)}


@pytest.mark.parametrize("online", ["", "x", "5-2"])
def test_a_machine_that_tells_nothing(tmp_path: Path, online: str) -> None:
    assert read_cpus(tree(tmp_path, {}, online), range(4)) == {}
    assert read_cpus(tmp_path / "absent", range(4)) == {}


def guaranteed(name: str, *cpus: str, **metadata: Any) -> Pod:
    containers = [
        {"name": f"c{index}", "resources": {"limits": {"cpu": cpu, "memory": "10Mi"}}} for index, cpu in enumerate(cpus)
    ]
    return manifest(name, metadata={"uid": name, **metadata}, containers=containers)


def book(topology: str = "none", reserved: int = 2) -> CpuBook:
    return CpuBook(TWO_SOCKETS, CpuPolicies("static", topology, reserved))


@pytest.mark.parametrize(
    ("policy", "asked", "answer"),
    [
        # The reserved core is 0 and 8; whole cores of the socket that has fewer free ones come first.
        ("none", ["2"], {"c0": "1,9"}),
        ("none", ["2", "2"], {"c0": "1,9", "c1": "2,10"}),
        ("none", ["1500m"], {}),
        ("none", ["500m", "2"], {"c1": "1,9"}),
        ("single-numa-node", ["6"], {"c0": "1-3,9-11"}),
        ("single-numa-node", ["8"], {"c0": "4-7,12-15"}),
        ("single-numa-node", ["8", "6"], {"c0": "4-7,12-15", "c1": "1-3,9-11"}),
        ("best-effort", ["10"], {"c0": "1-2,4-7,9,12-15"}),
        ("single-numa-node", ["9"], NotAligned),
        ("restricted", ["8", "8"], NotAligned),
        ("none", ["15"], AgentError),
    ],
)
def test_who_gets_which(policy: str, asked: list[str], answer: Any) -> None:
    cpus = book(policy)
    pod = guaranteed("p", *asked)
    if isinstance(answer, type):
        with pytest.raises(answer):
            cpus.allocate(pod)
        assert not cpus.given
        return
    cpus.allocate(pod)
    found = cpus.recorded("p")
    if policy == "best-effort":
        assert sum(len(list(bits(parse_cpus(text)))) for text in found.values()) == 10
    else:
        assert found == answer


@pytest.mark.parametrize("policies", [CpuPolicies(), CpuPolicies("none", "single-numa-node")])
def test_without_the_static_policy_all_share(policies: CpuPolicies) -> None:
    cpus = CpuBook(TWO_SOCKETS, policies)
    assert cpus.allocate(guaranteed("p", "2")) == {}
    assert cpus.cpus_of("p", "c0") is None


def test_only_guaranteed_pods_get_any() -> None:
    pod = manifest("p", container={"resources": {"requests": {"cpu": "2", "memory": "1Mi"}}})
    assert book().allocate(pod) == {}


def test_an_agent_that_starts_again_keeps_them() -> None:
    first, second = book(), book()
    first.allocate(guaranteed("p", "4"))
    second.restore("p", first.recorded("p"))
    assert second.given == first.given
    second.allocate(guaranteed("p", "4"))
    assert second.given == first.given
    second.restore("q", {"c0": "200-300"})
    assert "q" not in second.given
    assert second.release("p")
    assert second.shared == parse_cpus("0-15")
    assert not second.release("p")


@pytest.mark.parametrize("reserved", [0, 17])
def test_reserved_cpus_must_be_there(reserved: int) -> None:
    with pytest.raises(AgentError, match="--reserved-cpus"):
        book(reserved=reserved)


@given(
    st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"]),
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.integers(0, 9), st.lists(st.integers(1, 9), min_size=1, max_size=3)),
            st.tuples(st.just("free"), st.integers(0, 9), st.just([])),
        ),
        max_size=30,
    ),
)
def test_no_cpu_is_given_twice_and_some_are_left_to_share(policy: str, steps: list[tuple[str, int, list[int]]]) -> None:
    cpus = book(policy)
    for what, number, asked in steps:
        if what == "free":
            cpus.release(str(number))
            continue
        with contextlib.suppress(AgentError):
            cpus.allocate(guaranteed(str(number), *map(str, asked)))
        masks = [mask for pod in cpus.given.values() for mask in pod.values()]
        assert sum(mask.bit_count() for mask in masks) == cpus.exclusive.bit_count()
        assert cpus.shared.bit_count() >= 2
        if policy == "single-numa-node":
            assert all(len({TWO_SOCKETS[cpu][0] for cpu in bits(mask)}) == 1 for mask in masks)


@given(st.sets(st.integers(0, 300)))
def test_lists_of_cpus_are_read_as_they_are_written(cpus: Iterable[int]) -> None:
    mask = sum(1 << cpu for cpu in cpus)
    assert parse_cpus(write_cpus(mask)) == mask


SHOW = "import json, os, time\nprint(json.dumps(sorted(os.sched_getaffinity(0))), flush=True)\ntime.sleep(1000)"
many = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU cannot be divided")


def topology_of(node: Node) -> dict[str, Any] | None:
    found = node.client.find(NUMATOPOLOGIES, "here")
    if found is None:
        return None
    cpu = (found.spec.numares or {})["cpu"]
    return {
        "policies": found.spec.policies,
        "free": cpu.allocatable,
        "capacity": cpu.capacity,
        "pods": [(each.name, each.container_allocations) for each in found.spec.pod_allocations or ()],
    }


def affinity(node: Node, name: str) -> list[set[int]]:
    """CPUs of every process of a pod, as the kernel has them."""
    pod = node.pod(name)
    assert pod is not None
    assert node.agent is not None
    assert node.agent._host is not None
    pids = [
        pid for each in node.agent._host.isolation.limits.processes(pod.metadata.uid or "").values() for pid in each
    ]
    return [os.sched_getaffinity(pid) for pid in pids]


@many
async def test_a_container_has_its_cpus_and_others_make_room(tmp_path: Path) -> None:
    everything = os.sched_getaffinity(0)
    node = Node(MemoryClient(), tmp_path / "agent", policies=CpuPolicies("static", "single-numa-node", 1))
    await node.start()
    try:
        node.run(manifest("neighbour", [sys.executable, "-c", SHOW]))
        await node.phase("neighbour", "Running")
        before = await eventually(lambda: topology_of(node))
        assert parse_cpus(before["free"]).bit_count() == before["capacity"] == len(everything)
        assert before["policies"] == {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"}
        limits = {"resources": {"limits": {"cpu": "1", "memory": "200Mi"}}}
        node.run(manifest("own", [sys.executable, "-c", SHOW], container=limits))
        await node.phase("own", "Running")
        (mine,) = json.loads(await _first_line(node, "own"))
        if affinity(node, "neighbour"):
            await eventually(lambda: all(each == everything - {mine} for each in affinity(node, "neighbour")))
        told = await eventually(lambda: (found := topology_of(node)) and found["pods"] and found)
        assert parse_cpus(told["free"]) == sum(1 << cpu for cpu in everything - {mine})
        assert told["pods"][0][0] == "own"
        node.run(manifest("late", [sys.executable, "-c", SHOW]))
        assert set(json.loads(await _first_line(node, "late"))) == everything - {mine}
        # Killed and started again, the agent knows who has what.
        node.abandon()
        await node.start()
        assert node.agent is not None
        assert node.agent._book.exclusive == 1 << mine
    finally:
        await node.stop()


class OneContainer:
    """Processes of one container, in the place of a control group."""

    def __init__(self, *pids: int) -> None:
        self.pids = pids

    def processes(self, uid: str) -> dict[str, tuple[int, ...]]:
        return {"main.0": self.pids} if uid == "sharing" else {}


@many
async def test_a_container_that_took_its_cpus_too_late_leaves_those_of_others() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    book = CpuBook({cpu: (0, 0, cpu) for cpu in cpus}, CpuPolicies("static", reserved=1))
    late, modest = (subprocess.Popen(["sleep", seconds]) for seconds in ("2711", "2712"))
    clock = VirtualClock()
    keeper = AffinityKeeper(clock, book, cast("Any", OneContainer(late.pid, modest.pid)), lambda: ["own", "sharing"])
    running = asyncio.create_task(keeper.run())
    try:
        book.given["own"] = {"main": 1 << cpus[-1]}
        os.sched_setaffinity(late.pid, cpus)
        os.sched_setaffinity(modest.pid, cpus[:1])
        await clock.advance(15.0)
        assert os.sched_getaffinity(late.pid) == set(cpus[:-1])
        assert os.sched_getaffinity(modest.pid) == {cpus[0]}, "it chose among its own"
    finally:
        running.cancel()
        for process in (late, modest):
            process.kill()
            process.wait()


async def _first_line(node: Node, name: str) -> str:
    await node.phase(name, "Running")
    while not (text := await node.log(name)).strip():
        await eventually(lambda: True)
    return text.splitlines()[0]


@many
async def test_a_pod_that_cannot_be_aligned_is_refused(tmp_path: Path) -> None:
    number = len(os.sched_getaffinity(0))
    node = Node(MemoryClient(), tmp_path / "agent", policies=CpuPolicies("static", "single-numa-node", 1))
    await node.start()
    try:
        # Within what the node offers, but not beside what another pod has.
        half = {"resources": {"limits": {"cpu": str(number - 1), "memory": "10Mi"}}}
        node.run(manifest("first", ["sleep", "1000"], container=half))
        await node.phase("first", "Running")
        node.agent._host.ledger.release(node.pod("first").metadata.uid)  # type: ignore[union-attr]
        node.run(manifest("second", ["sleep", "1000"], container=half))
        refused = await node.phase("second", "Failed")
        assert refused.status.reason == "TopologyAffinityError"
        assert "Topology locality" in (refused.status.message or "")
    finally:
        await node.stop()
