"""Limits of containers: by cgroups, in plain directories and on this machine, and by looking where there are none."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from agent_node import Node, eventually, manifest

from support.memory import MemoryClient
from unisono.agent import agent as agent_module
from unisono.agent.limits.memory_watch import above_limit
from unisono.agent.machine.cgroups import Cgroups, LimitGroups, Limits
from unisono.agent.machine.facts import Isolation, find_isolation
from unisono.agent.processes.shims import kill_leftover_pods
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.kinds import NAMESPACES

V1 = {
    "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.oom_control"),
    "pids": ("pids.max",),
    "cpu": ("cpu.cfs_period_us", "cpu.cfs_quota_us"),
}
HUNGRY = "x = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(600)"
LIMITED = {"resources": {"limits": {"memory": "100Mi", "cpu": "500m"}}}


def touch(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


def test_version_1(tmp_path: Path) -> None:
    groups = LimitGroups({name: tmp_path / name for name in V1})
    for name, files in V1.items():
        touch(tmp_path / name / "u" / "main.0", *files)
    places, held = groups.create("u", "main.0", Limits(memory=1 << 20, cpu=1500, pids=100))
    assert held == {"memory", "pids", "cpu"}
    assert sorted(place.parent.parent.name for place in places) == ["cpu", "memory", "pids"]
    folder = tmp_path / "memory" / "u" / "main.0"
    assert (folder / "memory.limit_in_bytes").read_text() == "1048576"
    assert (tmp_path / "cpu" / "u" / "main.0" / "cpu.cfs_quota_us").read_text() == "150000"
    assert (tmp_path / "pids" / "u" / "main.0" / "pids.max").read_text() == "100"
    assert groups.oom_kills("u", "main.0") == 0
    (folder / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    assert groups.oom_kills("u", "main.0") == 3


def test_version_2(tmp_path: Path) -> None:
    groups = LimitGroups(unified=Cgroups(tmp_path), handed_down=frozenset(V1))
    touch(tmp_path / "u", "cgroup.subtree_control")
    touch(tmp_path / "u" / "main.0", "memory.max", "cpu.max", "pids.max")
    places, held = groups.create("u", "main.0", Limits(memory=1 << 20, cpu=1, pids=100))
    assert (places, held) == ([tmp_path / "u" / "main.0"], {"memory", "pids", "cpu"})
    assert (places[0] / "memory.max").read_text() == "1048576"
    assert (places[0] / "cpu.max").read_text() == "1000 100000"
    assert set((tmp_path / "u" / "cgroup.subtree_control").read_text().split()) == {"+memory", "+pids", "+cpu"}
    (places[0] / "memory.events").write_text("low 0\noom 1\noom_kill 2\noom_group_kill 0\n")
    assert groups.oom_kills("u", "main.0") == 2


def test_what_the_kernel_does_not_have_is_not_said_to_hold(tmp_path: Path) -> None:
    groups = LimitGroups({"memory": tmp_path})
    touch(tmp_path / "u" / "main.0", "memory.memsw.limit_in_bytes")
    assert groups.create("u", "main.0", Limits(memory=1 << 20))[1] == frozenset()


def test_where_groups_can_be_made(tmp_path: Path) -> None:
    lines = []
    for name in V1:
        touch(tmp_path / name)
        lines.append(f"cgroup {tmp_path / name} cgroup rw,{name} 0 0\n")
    lines.append(f"cgroup {tmp_path / 'no'} cgroup rw,memory 0 0\n")
    touch(tmp_path / "proc" / "self")
    (tmp_path / "proc" / "self" / "mounts").write_text("".join(lines))
    # A plain directory has no file in which processes are listed, so nothing works here.
    assert LimitGroups.find(tmp_path, None, tmp_path / "proc").enforced == frozenset()


@pytest.fixture(params=["cgroups", "watch"])
async def limited(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Node]:
    """A node whose limits the kernel enforces, and one that must look itself."""
    if request.param == "watch":

        def without(*arguments: object) -> Isolation:
            return dataclasses.replace(find_isolation(*arguments), limits=LimitGroups())  # type: ignore[arg-type]

        monkeypatch.setattr(agent_module, "find_isolation", without)
    node = Node(MemoryClient(), tmp_path / "agent")
    await node.start()
    yield node
    await node.stop()


async def test_a_container_above_its_memory_limit_is_out_of_memory(limited: Node) -> None:
    limited.run(manifest("p", [sys.executable, "-c", HUNGRY], container=LIMITED))
    limited.run(manifest("q", ["sh", "-c", f"{sys.executable} -c '{HUNGRY}' || exit 3"], container=LIMITED))
    limited.run(manifest("bystander", ["sleep", "1000"], container=LIMITED))
    for name in ("p", "q"):
        pod = await limited.phase(name, "Failed")
        ended = pod.status.container_statuses[0].state.terminated
        assert ended.reason == "OOMKilled"
        if name == "p":
            assert ended.exit_code == 137
    assert (await limited.phase("bystander", "Running")).status.container_statuses[0].ready


async def test_limits_that_the_kernel_does_not_enforce_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "find_isolation", lambda *_: Isolation("none"))
    node = Node(MemoryClient(), tmp_path / "agent")
    await node.start()
    try:
        node.run(manifest("p", ["true"], container=LIMITED))
        node.run(manifest("unlimited", ["true"]))
        await node.phase("p", "Succeeded")
        await node.phase("unlimited", "Succeeded")
        events = await eventually(lambda: node.events("LimitNotEnforced"))
        messages = {event.involved_object.name: event.message or "" for event in events}
        assert "memory is looked at once a second" in messages.pop("p")
        # Root's processes are bounded by no rlimit.
        assert ["as many processes" in text for text in messages.values()] == [True] * (os.geteuid() == 0)
        assert await eventually(lambda: node.events("LimitsNotEnforced"))
    finally:
        await node.stop()


def put_process(proc: Path, pid: int, parent: int, started: int, resident: int) -> None:
    fields = [str(parent), *("0" for _ in range(17)), str(started), "0", str(resident // os.sysconf("SC_PAGE_SIZE"))]
    touch(proc / str(pid), "stat")
    (proc / str(pid) / "stat").write_text(f"{pid} (a ) b) S {' '.join(fields)}")


def test_orphans_of_a_container_without_a_pid_namespace_count(tmp_path: Path) -> None:
    """They become children of the shim, as the container's first process is."""
    for pid, parent, started in ((30, 1, 1), (31, 30, 2), (9, 30, 7)):
        put_process(tmp_path, pid, parent, started, 80 << 20)
        (tmp_path / str(pid) / "smaps_rollup").write_text(f"Pss:   {80 << 10} kB\n")
    assert above_limit({30: 79 << 20}, tmp_path) == [30]
    assert above_limit({30: 81 << 20}, tmp_path) == []


def test_a_process_that_hides_its_memory_counts_with_all_of_it(tmp_path: Path) -> None:
    for pid, parent in ((30, 1), (31, 30), (32, 31)):
        put_process(tmp_path, pid, parent, pid, 80 << 20)
        # As a file that may not be read: this test may run as root.
        (tmp_path / str(pid) / "smaps_rollup").mkdir()
    assert above_limit({30: 79 << 20}, tmp_path) == [30]


def test_what_processes_share_counts_once(tmp_path: Path) -> None:
    proc = tmp_path
    for pid, parent, pss in ((10, 1, 9), (11, 10, 9), (12, 11, 40), (13, 12, 40), (14, 1, 999)):
        put_process(proc, pid, parent, pid, 80 << 20)
        (proc / str(pid) / "smaps_rollup").write_text(f"Rss: 1 kB\nPss:   {pss << 10} kB\nPss_Anon: 5 kB\n")
    assert above_limit({10: 100 << 20}, proc) == []
    assert above_limit({10: 79 << 20}, proc) == [10]
    assert above_limit({99: 1}, proc) == []


BOMB = """
import os, time
n = 0
try:
    while n < 500:
        os.fork() or time.sleep(600)
        n += 1
except OSError as e:
    print(n, e.strerror, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="cgroups of this machine belong to root")
async def test_a_fork_bomb_meets_its_limit(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    assert node.agent is not None and node.agent._host is not None
    if "pids" not in node.agent._host.isolation.limits.enforced:
        pytest.skip("this machine has no writable cgroup with the controller of processes")
    await explode(node, monkeypatch)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give pods users of their own")
async def test_a_fork_bomb_meets_the_limit_of_its_user_where_there_is_no_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(*arguments: object) -> Isolation:
        return dataclasses.replace(find_isolation(*arguments), limits=LimitGroups())  # type: ignore[arg-type]

    monkeypatch.setattr(agent_module, "find_isolation", without)
    client = MemoryClient()
    client.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="default")))
    node = Node(client, tmp_path / "agent", own_users=True)
    await node.start()
    try:
        await explode(node, monkeypatch)
        assert not node.events("LimitNotEnforced")
    finally:
        await node.stop()


async def explode(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container forks until it cannot, and everything of it ends with its pod."""
    monkeypatch.setattr("unisono.agent.pods.containers._LEAST_PIDS", 60)
    monkeypatch.setattr("unisono.agent.pods.containers._PIDS_PER_CPU", 0)
    node.run(manifest("bomb", [sys.executable, "-c", BOMB], terminationGracePeriodSeconds=0))
    await node.until("bomb", lambda pod: pod.status.phase == "Running")
    uid = node.pod("bomb").metadata.uid  # type: ignore[union-attr]
    log = node.data_dir / "pods" / str(uid) / "runs/main/0/log"
    assert "temporarily unavailable" in await eventually(lambda: log.exists() and log.read_text())
    assert subprocess.run(["true"], check=False).returncode == 0
    await node.client.delete(agent_module.PODS, "bomb", "default", grace_seconds=0)
    await eventually(lambda: node.pod("bomb") is None)


@pytest.mark.parametrize("crash", [False, True])
async def test_nothing_is_left_of_a_node_that_ended(tmp_path: Path, crash: bool) -> None:
    node = Node(MemoryClient(), tmp_path / "agent")
    await node.start()
    assert node.agent is not None and node.agent._host is not None
    branches = node.agent._host.isolation.limits.branches.values()
    tree = (
        "import os, signal, time\nsignal.signal(15, 1)\nfor i in range(3):\n if not os.fork(): os.setsid(); os.fork()"
    )
    node.run(manifest("p", [sys.executable, "-c", tree + "\nprint('up', flush=True)\ntime.sleep(600)"]))
    node.run(manifest("done", ["true"]))
    await node.until("p", lambda pod: pod.status.phase == "Running")
    await node.phase("done", "Succeeded")
    log = node.data_dir / "pods" / str(node.pod("p").metadata.uid) / "runs/main/0/log"  # type: ignore[union-attr]
    await eventually(lambda: log.exists() and log.read_text())
    running = [
        pid for branch in branches for file in branch.glob("*/*/cgroup.procs") for pid in file.read_text().split()
    ]
    if crash:
        node.abandon()
        assert await asyncio.to_thread(kill_leftover_pods, node.data_dir) == 1
    else:
        await node.agent._host.client.delete(agent_module.PODS, "p", "default", grace_seconds=0)
        await node.stop()
    assert not any(Path("/proc", pid, "exe").exists() for pid in running)
    assert not any(branch.exists() for branch in branches)


async def test_a_pod_that_writes_without_end_keeps_few_log_files(node: Node) -> None:
    node.run(manifest("p", ["sh", "-c", "yes 0123456789012345678901234567890123456789 | head -c 70000000"]))
    node.run(manifest("bystander", ["true"]))
    await node.phase("bystander", "Succeeded")
    pod = await node.phase("p", "Succeeded")
    logs = list((node.data_dir / "pods" / str(pod.metadata.uid) / "runs/main/0").glob("log*"))
    assert len(logs) == 5
    assert sum(path.stat().st_size for path in logs) < 5 * (10 << 20) + (8 << 20)
