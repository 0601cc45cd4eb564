"""Pods that take more local storage than they may are evicted, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from agent_node import Node, eventually, manifest

from unisono.agent import storage_watch
from unisono.agent.storage_watch import above_limit

MIB = 1 << 20
LIMITED = {"name": "d", "emptyDir": {"sizeLimit": "1Mi"}}
MOUNT = [{"name": "d", "mountPath": "/d"}]


def limits(text: str) -> dict[str, Any]:
    return {"resources": {"limits": {"ephemeral-storage": text}}}


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_watch, "_PERIOD_SECONDS", 0.05)


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


async def test_files_too_many_to_count_are_no_way_out(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_watch, "disk_usage", lambda _: None)
    node.run(manifest("p", ["sleep", "1000"], volumes=[LIMITED]))
    status = (await node.phase("p", "Failed")).status
    assert status.reason == "Evicted"
    assert "could not be determined" in (status.message or "")


async def test_a_pod_that_cannot_be_measured_harms_no_other(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = storage_watch.disk_usage, []

    def usage(places: Any) -> Any:
        asked.append(places)
        if len(asked) == 1:
            raise OSError("no du")
        return real(places)

    monkeypatch.setattr(storage_watch, "disk_usage", usage)
    node.run(manifest("odd", ["sleep", "1000"], volumes=[LIMITED]))
    await eventually(lambda: asked)
    script = "head -c 3000000 /dev/zero > /d/f; sleep 1000"
    node.run(manifest("over", ["sh", "-c", script], container={"volumeMounts": MOUNT}, volumes=[LIMITED]))
    await node.phase("over", "Failed")


def test_which_limit_is_exceeded() -> None:
    pod = manifest("p", ["true"], container=limits("2Mi"), volumes=[LIMITED, {"name": "e", "emptyDir": {}}])
    assert above_limit(pod, {"d": MIB}, {"main": MIB}) is None
    assert "EmptyDir" in (above_limit(pod, {"d": MIB + 1}, {}) or "")
    assert "total limit" in (above_limit(pod, {"e": MIB, ".home": MIB}, {"main": 1}) or "")
    assert above_limit(manifest("q", ["true"]), {"d": 1 << 50}, {"main": 1 << 50}) is None
