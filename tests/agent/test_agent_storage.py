"""Pods that take more local storage than they may are evicted, and no others."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from agent_node import Node, eventually, manifest
from structlog.testing import capture_logs

from support.virtual_clock import VirtualClock
from unisono.agent.limits import disk
from unisono.agent.limits.disk import above_limit, disk_usage
from unisono.agent.limits.memory_watch import WatchLoop

MIB = 1 << 20
LIMITED = {"name": "d", "emptyDir": {"sizeLimit": "1Mi"}}
MOUNT = [{"name": "d", "mountPath": "/d"}]


def limits(text: str) -> dict[str, Any]:
    return {"resources": {"limits": {"ephemeral-storage": text}}}


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "_PERIOD_SECONDS", 0.05)


@pytest.mark.parametrize(
    ("container", "volumes", "message"),
    [
        ({}, [LIMITED], 'Usage of EmptyDir volume "d" exceeds the limit "1Mi".'),
        (
            limits("1Mi"),
            [{"name": "d", "emptyDir": {}}],
            "Pod ephemeral local storage usage exceeds the total limit of containers 1048576.",
        ),
    ],
)
async def test_a_pod_above_its_limit_is_evicted_at_once(
    node: Node, container: dict[str, Any], volumes: list[dict[str, Any]], message: str
) -> None:
    # It ignores SIGTERM: an eviction does not wait for its grace period.
    script = "trap '' TERM; head -c 3000000 /dev/zero > /d/file; while :; do sleep 1; done"
    full = {"volumeMounts": MOUNT, **container}
    node.run(
        manifest("p", ["sh", "-c", script], container=full, volumes=volumes, terminationGracePeriodSeconds=100_000)
    )
    status = (await node.phase("p", "Failed")).status
    assert (status.reason, status.message) == ("Evicted", message)
    assert "DisruptionTarget" not in {c.type for c in status.conditions}, "its own limits ended it"
    assert status.container_statuses[0].state.terminated.exit_code == 137
    assert [event.message for event in node.events("Evicted")] == [message]


async def test_a_pod_within_its_limit_goes_on(node: Node) -> None:
    node.run(manifest("over", ["sh", "-c", "head -c 3000000 /dev/zero > /d/f; sleep 1000"],
                      container={"volumeMounts": MOUNT}, volumes=[LIMITED]))  # fmt: skip
    script = "head -c 500000 /dev/zero > /d/file; until test -e /d/end; do sleep 0.1; done"
    within = {"volumeMounts": MOUNT, **limits("2Mi")}
    node.run(manifest("within", ["sh", "-c", script], container=within, volumes=[LIMITED]))
    await node.until("within", lambda pod: pod.status.phase == "Running")
    await node.phase("over", "Failed")
    pod = node.pod("within")
    assert pod is not None
    (node.data_dir / "pods" / str(pod.metadata.uid) / "volumes/d/end").touch()
    await node.phase("within", "Succeeded")


FAKE = {
    "slow": "exec sleep 1000",
    "unreadable": """printf "4096\\t$6\\0"; echo "du: cannot read directory 'x': Permission denied" >&2; exit 1""",
    "noisy": "while :; do echo du: cannot read directory; done >&2",
    "killed": "kill -9 $$",
    "plainly above": """for place; do printf "9999999\\t$place\\0"; done; echo du: x: Permission denied >&2""",
    "vanishing": """for place; do printf "4096\\t$place\\0"; done; echo "du: x: No such file or directory" >&2""",
    "missing": None,
}


def put_du(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A ``du`` that behaves as the real one does on what a hostile pod makes of its folders."""
    script = FAKE[kind]
    folder.mkdir(exist_ok=True)
    (folder / "du").unlink(missing_ok=True)
    if script is not None:
        (folder / "du").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "du").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder) if script is None else f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("slow", "could not be determined: it takes more than 1 seconds to count its files."),
        ("unreadable", "could not be determined: cannot read directory 'x': Permission denied."),
        ("noisy", "could not be determined: cannot read directory."),
        ("killed", "could not be determined: "),
        ("plainly above", 'EmptyDir volume "d" exceeds the limit "1Mi".'),
    ],
)
async def test_what_cannot_be_counted_is_no_way_out(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, message: str
) -> None:
    real = disk.disk_usage

    async def impatient(places: Any) -> Any:
        return await real(places, 1.0)

    monkeypatch.setattr(disk, "disk_usage", impatient)
    node.run(manifest("p", ["/bin/sleep", "1000"], volumes=[LIMITED]))
    await node.phase("p", "Running")
    put_du(tmp_path / "bin", monkeypatch, kind)
    status = (await node.phase("p", "Failed")).status
    assert status.reason == "Evicted"
    assert message in (status.message or "")
    told = [event.message for event in node.events("StorageNotMeasured")]
    assert len(told) == (0 if kind == "plainly above" else 1)


async def test_a_machine_that_cannot_measure_says_so_once_and_goes_on_trying(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_TRIES", 1)
    script = "until test -e /d/end; do sleep 0.1; done; head -c 3000000 /dev/zero > /d/f; sleep 1000"
    node.run(manifest("p", ["sh", "-c", script], container={"volumeMounts": MOUNT}, volumes=[LIMITED]))
    pod = await node.phase("p", "Running")
    tried: list[int] = []
    real = disk.disk_usage

    async def counted(places: Any) -> Any:
        tried.append(1)
        return await real(places)

    monkeypatch.setattr(disk, "disk_usage", counted)
    path = os.environ["PATH"]
    put_du(tmp_path / "bin", monkeypatch, "missing")
    await eventually(lambda: len(tried) > 5)
    assert ["No such file" in (event.message or "") for event in node.events("StorageNotMeasured")] == [True]
    assert (await node.phase("p", "Running")).status.reason is None
    monkeypatch.setenv("PATH", path)
    (node.data_dir / "pods" / str(pod.metadata.uid) / "volumes/d/end").touch()
    assert (await node.phase("p", "Failed")).status.reason == "Evicted"


async def test_files_that_vanish_while_they_are_counted_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_du(tmp_path / "bin", monkeypatch, "vanishing")
    assert (await disk_usage([tmp_path])).problem == ""


async def test_a_tree_deeper_than_any_path_is_counted(tmp_path: Path) -> None:
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deep", dir_fd=at)
        below = os.open("deep", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=at)
    os.write(file, b"x" * MIB)
    os.close(file)
    os.close(at)
    usage = await disk_usage([tmp_path])
    assert usage.problem == ""
    assert usage.sizes[tmp_path] >= MIB
    subprocess.run(["rm", "-rf", tmp_path / "deep"], check=True)


async def test_a_look_that_raises_is_repeated_and_logged_once() -> None:
    clock = VirtualClock()
    seen: list[dict[str, int]] = []

    async def look(watched: dict[str, int]) -> None:
        seen.append(watched)
        if len(seen) < 4:
            raise ValueError("odd")

    loop = WatchLoop("memory", clock, 1.0, look)
    loop.add("a", 1)
    task = asyncio.create_task(loop.run())
    with capture_logs() as logs:
        for _ in range(6):
            await clock.advance(1.0)
    task.cancel()
    assert len(seen) == 6
    assert [entry["error"] for entry in logs] == ["ValueError: odd"]


def test_which_limit_is_exceeded() -> None:
    pod = manifest("p", ["true"], container=limits("2Mi"), volumes=[LIMITED, {"name": "e", "emptyDir": {}}])
    assert above_limit(pod, {"d": MIB}, {"main": MIB}) is None
    assert "EmptyDir" in (above_limit(pod, {"d": MIB + 1}, {}) or "")
    assert "total limit" in (above_limit(pod, {"e": MIB, ".home": MIB}, {"main": 1}) or "")
    assert above_limit(manifest("q", ["true"]), {"d": 1 << 50}, {"main": 1 << 50}) is None
