"""Online and offline pods on one node: what the kernel is told, what the Node says, and who is evicted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agent_node import Node, eventually, manifest

from support.memory import MemoryClient
from unisono.agent.colocation import keeper
from unisono.agent.colocation.decide import Use
from unisono.agent.colocation.keeper import Treatment, UseMeter, treat
from unisono.agent.machine.cgroups import Cgroups, LimitGroups, Limits
from unisono.agent.machine.facts import find_isolation
from unisono.api.base import ObjectMeta
from unisono.api.core import ConfigMap, Pod
from unisono.api.keys import (
    BATCH_CPU,
    BATCH_MEMORY,
    CONFIG_MAP_NAMESPACE,
    OFFLINE_EVICTING,
    OVERSUBSCRIPTION,
    QOS_LEVEL,
)
from unisono.api.kinds import CONFIG_MAPS, NODES

BUSY = [sys.executable, "-c", "while True: pass"]
V1_FILES = ("cpu.shares", "memory.soft_limit_in_bytes")


def files(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("wanted", "shares", "soft"),
    [
        (Treatment(weight=800, spared=4096, kept=True), "8192", "4096"),
        (Treatment(weight=200, spared=4096), "2048", "4096"),
        (Treatment(weight=1, idle=True, first=True), "2", "0"),
        (Treatment(), "", ""),
    ],
)
def test_treatment_by_version_1(tmp_path: Path, wanted: Treatment, shares: str, soft: str) -> None:
    groups = LimitGroups({"cpu": tmp_path, "memory": tmp_path})
    folder = files(tmp_path / "u", *V1_FILES)
    done = treat(groups, "u", wanted)
    assert done == (frozenset() if wanted == Treatment() else {"cpu", "memory"})
    assert tuple((folder / name).read_text() for name in V1_FILES) == (shares, soft)
    # Where the kernel knows idle groups they come before weights.
    files(folder, "cpu.idle")
    treat(groups, "u", wanted)
    assert (folder / "cpu.idle").read_text() == ("1" if wanted.idle else "")


def test_treatment_by_version_2(tmp_path: Path) -> None:
    groups = LimitGroups(unified=Cgroups(tmp_path), handed_down=frozenset(("cpu", "memory")))
    names = ("cpu.weight", "memory.min", "memory.low", "memory.high")
    files(tmp_path, "memory.min", "memory.low")
    for uid in ("a", "b", "c"):
        files(tmp_path / uid, *names)
    treat(groups, "a", Treatment(weight=800, spared=4096, kept=True))
    treat(groups, "b", Treatment(weight=200, spared=100, kept=True))
    treat(groups, "c", Treatment(weight=1, idle=True, high=900, first=True))
    read = {uid: [(tmp_path / uid / name).read_text() for name in names] for uid in ("a", "b", "c")}
    assert read == {
        "a": ["800", "4096", "", ""],
        "b": ["200", "100", "", ""],
        "c": ["1", "", "", "900"],
    }
    # What pods keep comes out of what their parent keeps.
    assert (tmp_path / "memory.min").read_text() == "4196"


def test_nothing_is_said_to_be_done_where_the_kernel_has_no_groups(tmp_path: Path) -> None:
    assert treat(LimitGroups(), "u", Treatment(weight=1, idle=True, first=True)) == frozenset()
    assert treat(LimitGroups({"cpu": tmp_path}), "u", Treatment(weight=1, idle=True)) == frozenset()


def test_burst_and_bounds(tmp_path: Path) -> None:
    groups = LimitGroups({"cpu": tmp_path})
    folder = files(tmp_path / "u" / "main.0", "cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.cfs_burst_us")
    (folder / "cgroup.procs").write_text("12\n")
    files(tmp_path / "u" / "main.1", "cgroup.procs")
    groups.create("u", "main.0", Limits(cpu=500, burst=True))
    assert (folder / "cpu.cfs_burst_us").read_text() == "50000"
    assert groups.processes("u") == {"main.0": [12]}
    assert groups.bound_cpu("u", "main.0", 200)
    assert (folder / "cpu.cfs_quota_us").read_text() == "20000"
    assert groups.bound_cpu("u", "main.0", None)
    assert (folder / "cpu.cfs_quota_us").read_text().startswith("-1")
    assert not LimitGroups().bound_cpu("u", "main.0", 200)


def test_measuring(tmp_path: Path) -> None:
    proc, branch, tree = tmp_path / "proc", tmp_path / "memory", tmp_path / "tree"
    files(proc)
    (proc / "meminfo").write_text("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n")
    (files(branch / "u") / "memory.usage_in_bytes").write_text("5000\n")
    (branch / "u" / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 1000\n")
    meter = UseMeter(Cgroups(tree), LimitGroups({"memory": branch}), proc)

    def now(ticks: int, micros: int) -> None:
        (proc / "stat").write_text(f"cpu  {ticks} 0 0 999 999 0 0 0 0 0\ncpu0 1 1 1 1\n")
        (files(tree / "u") / "cpu.stat").write_text(f"usage_usec {micros}\nuser_usec 1\n")

    now(100, 0)
    assert meter.read(["u"], 10.0) is None
    now(300, 1_500_000)
    # 2 seconds of CPU in 2 seconds, 1.5 of them by the offline pod; a pod that is gone counts nothing.
    assert meter.read(["u", "gone"], 12.0) == Use(1000, 600 << 10, offline_cpu=750, offline_memory=4000)
    assert meter.read(["u"], 12.0) is None


@pytest.fixture
async def lending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    """A node that looks all the time, on a machine with nothing else to do."""
    monkeypatch.setattr(UseMeter, "read", lambda *_: Use(cpu=0, memory=0))
    monkeypatch.setattr(keeper, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(keeper, "_SAMPLE_EVERY", 2)
    node = Node(MemoryClient(), tmp_path / "agent", labels={OVERSUBSCRIPTION: "true"})
    await node.start()
    yield node
    await node.stop()


def offline(name: str, command: list[str], resources: dict[str, Any] | None = None) -> Pod:
    container = {"resources": resources} if resources else {}
    return manifest(name, command, container=container, metadata={"annotations": {QOS_LEVEL: "BE"}})


def lent(node: Node) -> dict[str, str]:
    found = node.client.find(NODES, "here")
    assert found is not None
    offered = found.status.allocatable or {}
    return {name: str(offered[name]) for name in (BATCH_CPU, BATCH_MEMORY) if name in offered}


async def relabel(node: Node, value: str | None) -> None:
    await node.client.patch(NODES, "here", {"metadata": {"labels": {OVERSUBSCRIPTION: value}}})


async def test_a_node_lends_and_takes_back(lending: Node) -> None:
    amounts = await eventually(lambda: lent(lending))
    assert set(amounts) == {BATCH_CPU, BATCH_MEMORY}
    assert all(int(amount) > 0 for amount in amounts.values())
    lending.run(offline("borrower", ["sleep", "1000"], {"requests": {BATCH_CPU: "100", BATCH_MEMORY: "1000"}}))
    lending.run(manifest("online", ["sleep", "1000"]))
    await lending.phase("borrower", "Running")
    await lending.phase("online", "Running")
    await relabel(lending, None)
    evicted = await lending.phase("borrower", "Failed")
    assert evicted.status.reason == "Evicted"
    assert "overSubscription is turned off" in (evicted.status.message or "")
    await eventually(lambda: not lent(lending))
    assert (await lending.phase("online", "Running")).status.phase == "Running"
    await relabel(lending, "true")
    await eventually(lambda: lent(lending))


async def test_offline_pods_are_bounded_and_idle(lending: Node, tmp_path: Path) -> None:
    groups = find_isolation(lending.data_dir, ()).limits
    if "cpu" not in groups.enforced:
        pytest.skip("no writable cgroup of controller cpu")
    uid = (await asyncio.shield(_running(lending, offline("busy", BUSY)))).metadata.uid or ""
    found = groups.folder("cpu", uid)
    assert found is not None
    folder, version = found
    name = "cpu.max" if version == 2 else "cpu.cfs_quota_us"
    quota = await eventually(lambda: int((folder / "main.0" / name).read_text().replace("max", "-1").split()[0]) > 0)
    assert quota
    if (folder / "cpu.idle").exists():
        assert (folder / "cpu.idle").read_text().strip() == "1"
    await relabel(lending, None)
    # Without co-location nothing bounds it.
    await eventually(lambda: (folder / "main.0" / name).read_text().split()[0] in ("-1", "max"))


async def _running(node: Node, pod: Pod) -> Pod:
    node.run(pod)
    return await node.phase(pod.metadata.name, "Running")


async def test_a_batch_limit_of_memory_holds(lending: Node) -> None:
    hungry = "x = bytearray(400 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(600)"
    lending.run(offline("hungry", [sys.executable, "-c", hungry], {"limits": {BATCH_MEMORY: str(100 << 20)}}))
    pod = await lending.phase("hungry", "Failed")
    assert pod.status.container_statuses[0].state.terminated.reason == "OOMKilled"


async def test_pressure_evicts_offline_pods_alone_and_taints(lending: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    used = [Use(cpu=0, memory=0)]
    monkeypatch.setattr(UseMeter, "read", lambda *_: used[0])
    for name, memory in (("small", "1000"), ("large", "2000")):
        lending.run(offline(name, ["sleep", "1000"], {"requests": {BATCH_MEMORY: memory}}))
        await lending.phase(name, "Running")
    lending.run(manifest("online", ["sleep", "1000"]))
    await lending.phase("online", "Running")
    used[0] = Use(cpu=0, memory=1 << 50)
    await lending.phase("large", "Failed")
    await lending.phase("small", "Failed")
    pod = lending.pod("large")
    assert pod is not None
    assert "Evict offline pod due to memory resource pressure" in (pod.status.message or "")

    def taints() -> list[tuple[str, str]]:
        found = lending.client.find(NODES, "here")
        assert found is not None
        return [(each.key, each.effect) for each in found.spec.taints or ()]

    await eventually(lambda: (OFFLINE_EVICTING, "PreferNoSchedule") in taints())
    await eventually(lambda: lent(lending).get(BATCH_MEMORY) == "0")
    used[0] = Use(cpu=0, memory=0)
    await eventually(lambda: not taints())
    online = lending.pod("online")
    assert online is not None
    assert online.status.phase == "Running"


async def test_a_mistake_in_the_configuration_is_told_and_what_was_before_stays(lending: Node) -> None:
    await eventually(lambda: lent(lending))
    meta = ObjectMeta(name="volcano-agent-configuration", namespace=CONFIG_MAP_NAMESPACE)
    lending.client.put(CONFIG_MAPS, ConfigMap(metadata=meta, data={"colocation-config": "{"}))
    events = await eventually(lambda: lending.events("ColocationConfigurationError"))
    assert "cannot be read" in (events[0].message or "")
    assert lent(lending)


async def test_an_agent_that_starts_with_a_mistake_in_the_configuration_evicts_no_one(lending: Node) -> None:
    await eventually(lambda: lent(lending))
    lending.run(offline("borrower", ["sleep", "1000"], {"requests": {BATCH_CPU: "100"}}))
    await lending.phase("borrower", "Running")
    lending.abandon()
    meta = ObjectMeta(name="volcano-agent-configuration", namespace=CONFIG_MAP_NAMESPACE)
    lending.client.put(CONFIG_MAPS, ConfigMap(metadata=meta, data={"colocation-config": "{"}))
    await lending.client.patch(NODES, "here", {"status": {"allocatable": {BATCH_CPU: "1"}}}, subresource="status")
    await lending.start()
    await eventually(lambda: lending.events("ColocationConfigurationError"))
    await eventually(lambda: lent(lending).get(BATCH_CPU) not in (None, "1"))
    pod = lending.pod("borrower")
    assert pod is not None
    assert pod.status.phase == "Running"


async def test_an_agent_that_starts_after_the_label_went_unbounds_what_it_finds(lending: Node) -> None:
    groups = find_isolation(lending.data_dir, ()).limits
    if "cpu" not in groups.enforced:
        pytest.skip("no writable cgroup of controller cpu")
    uid = (await _running(lending, offline("busy", BUSY))).metadata.uid or ""
    found = groups.folder("cpu", uid)
    assert found is not None
    file = found[0] / "main.0" / ("cpu.max" if found[1] == 2 else "cpu.cfs_quota_us")
    await eventually(lambda: file.read_text().split()[0] not in ("-1", "max"))
    lending.abandon()
    await relabel(lending, None)
    lending.options["labels"] = {}
    await lending.start()
    await eventually(lambda: file.read_text().split()[0] in ("-1", "max"))
