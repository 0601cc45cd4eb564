"""A node whose disk runs full: its condition, what it refuses, and which pods it evicts."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from agent_node import Node, eventually, manifest
from structlog.testing import capture_logs

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.agent.layout import PodDir
from unisono.agent.limits import disk as disk_pressure
from unisono.agent.limits.disk import (
    DEFAULT_EVICTION,
    Disk,
    DiskPressure,
    Occupant,
    Shortage,
    Threshold,
    parse_eviction,
    ranked,
    shortage,
)
from unisono.api.core import Pod
from unisono.api.kinds import NODES
from unisono.errors import ConfigError

GIB = 1 << 30
ROOMY = Disk(available=50 * GIB, capacity=100 * GIB, inodes_free=900, inodes=1000)
FULL = dataclasses.replace(ROOMY, available=GIB >> 2)


class FakeDisk:
    """A disk that is as full as a test says."""

    def __init__(self) -> None:
        self.now = ROOMY

    def __call__(self) -> Disk:
        return self.now


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("nodefs.available<10%", (Threshold("nodefs.available", percent=10.0),)),
        (
            "nodefs.available < 1Gi, nodefs.inodesFree<5%",
            (Threshold("nodefs.available", GIB), Threshold("nodefs.inodesFree", percent=5.0)),
        ),
        ("nodefs.inodesFree<1000", (Threshold("nodefs.inodesFree", 1000),)),
    ],
)
def test_thresholds(text: str, expected: tuple[Threshold, ...]) -> None:
    assert parse_eviction(text) == expected


@pytest.mark.parametrize(
    "text", ["memory.available<1Gi", "nodefs.available", "nodefs.available<", "nodefs.available<x",
             "nodefs.available>1", "nodefs.available<101%", "nodefs.available<nan%", "nodefs.available<-1",
             "nodefs.available<1Gi<2Gi"]
)  # fmt: skip
def test_thresholds_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--eviction-hard: .* is no threshold"):
        parse_eviction(text)


@pytest.mark.parametrize(
    ("disk", "found"),
    [
        (ROOMY, None),
        (FULL, Shortage("nodefs.available", 500 << 20, GIB >> 2)),
        (dataclasses.replace(ROOMY, inodes_free=9), Shortage("nodefs.inodesFree", 10, 9)),
        # A file system that sets no number of files.
        (dataclasses.replace(ROOMY, inodes_free=0, inodes=0), None),
    ],
)
def test_when_a_disk_is_full(disk: Disk, found: Shortage | None) -> None:
    assert shortage(DEFAULT_EVICTION, disk) == found


def occupant(
    name: str, *, priority: int | None = None, request: str = "", told: Callable[[str], None] = print, **state: bool
) -> Occupant:
    resources = {"resources": {"requests": {"ephemeral-storage": request}}} if request else {}
    pod = manifest(name, ["true"], container=resources, **({} if priority is None else {"priority": priority}))
    return Occupant(pod, PodDir(Path("/pods") / name), **{"ended": False, "ending": False} | state, evict=told)


def test_the_order_of_eviction() -> None:
    pods = [
        occupant("within-its-request", priority=-5, request="2Gi"),
        occupant("important", priority=10),
        occupant("small"),
        occupant("large"),
        occupant("above-its-request", request="1Gi"),
        occupant("unmeasured"),
    ]
    usage = {"within-its-request": GIB, "important": 9 * GIB, "small": 1, "large": GIB, "above-its-request": 3 * GIB}
    order = ranked(pods, {Path("/pods") / name: used for name, used in usage.items()})
    names = [each.pod.metadata.name for each in order]
    assert names == ["unmeasured", "above-its-request", "large", "small", "important", "within-its-request"]


async def test_the_condition_outlives_its_cause_and_is_logged_once() -> None:
    clock, disk, said = VirtualClock(), FakeDisk(), []
    fails = [True]

    async def report(pressure: bool) -> None:
        if fails and fails.pop():
            raise OSError("the API does not answer")
        said.append((clock.monotonic(), pressure))

    watch = DiskPressure(clock, disk, list, report)
    pod = manifest("p", ["true"])
    task = asyncio.create_task(watch.run())
    with capture_logs() as logs:
        await clock.advance(60)
        await blocking(clock, 0)
        assert watch.refusal(pod) is None
        disk.now = FULL
        await blocking(clock, 100)
        assert watch.refusal(pod) is not None
        assert watch.refusal(manifest("q", ["true"], priority=2_000_001_000)) is None
        disk.now = ROOMY
        await blocking(clock, 250)
        assert watch.refusal(pod) is not None
        await blocking(clock, 100)
        assert watch.refusal(pod) is None
    task.cancel()
    assert [pressure for _, pressure in said] == [True, False]
    assert [entry["event"] for entry in logs] == [
        "node.disk_pressure",
        "limits.not_measured",
        "node.disk_pressure_over",
    ]


async def blocking(clock: VirtualClock, seconds: float) -> None:
    """Let time pass; a look asks the disk in a thread, which the virtual clock does not wait for."""
    for _ in range(max(1, int(seconds))):
        await clock.advance(1.0)
        await asyncio.sleep(0.001)


@pytest.fixture
async def crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Node, FakeDisk]]:
    """A node that looks at its disk all the time, and the disk."""
    monkeypatch.setattr(disk_pressure, "_PERIOD_SECONDS", 0.05)
    monkeypatch.setattr(disk_pressure, "_TRANSITION_SECONDS", 0.0)
    disk = FakeDisk()
    node = Node(MemoryClient(), tmp_path / "agent", disk=disk)
    await node.start()
    yield node, disk
    await node.stop()


def writer(name: str, count: int, **spec: Any) -> Pod:
    script = f"head -c {count} /dev/zero > /d/file; echo > /d/ready; sleep 1000"
    return manifest(
        name,
        ["sh", "-c", script],
        container={"volumeMounts": [{"name": "d", "mountPath": "/d"}]},
        volumes=[{"name": "d", "emptyDir": {}}],
        **spec,
    )


def condition(node: Node) -> str:
    found = node.client.find(NODES, "here")
    assert found is not None
    return next(each.status or "" for each in found.status.conditions or () if each.type == "DiskPressure")


async def test_a_full_disk_evicts_one_pod_after_the_other_and_gets_its_room_back(
    crowded: tuple[Node, FakeDisk],
) -> None:
    node, disk = crowded
    assert condition(node) == "False"
    pods = [writer("large", 9_000_000), writer("small", 1_000_000), writer("important", 20_000_000, priority=5)]
    folders = {}
    for pod in pods:
        node.run(pod)
        name = pod.metadata.name
        uid = (await node.phase(name, "Running")).metadata.uid
        folders[name] = node.data_dir / "pods" / str(uid) / "volumes" / "d"
        await eventually((folders[name] / "ready").exists)
    disk.now = FULL
    await node.phase("large", "Failed")
    await eventually(lambda: condition(node) == "True")
    node.run(manifest("late", ["true"]))
    late = await node.phase("late", "Failed")
    assert (late.status.reason, late.status.message) == (
        "Evicted", "Pod was rejected: The node had condition: [DiskPressure]."
    )  # fmt: skip
    await node.phase("small", "Failed")
    disk.now = ROOMY
    await eventually(lambda: condition(node) == "False")
    status = node.pod("large").status  # type: ignore[union-attr]
    assert status.reason == "Evicted"
    assert {c.type: c.reason for c in status.conditions}["DisruptionTarget"] == "TerminationByKubelet"
    assert "low on resource: ephemeral-storage. Threshold quantity: 500Mi, available: 256Mi" in (status.message or "")
    order = [event.involved_object.name for event in node.events("Evicted") if event.involved_object.name != "late"]
    assert order[:2] == ["large", "small"]
    assert not folders["large"].exists(), "what an evicted pod wrote would fill the disk until it is deleted"
    if order == ["large", "small"]:
        assert (folders["important"] / "file").exists()
