"""What a node accepts: pods in order of their arrival, as long as they fit; the rest is refused, as by a kubelet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from agent_node import Node, manifest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.memory import MemoryClient
from unisono.agent.lifecycle import Reason
from unisono.agent.node import Ledger
from unisono.api.core import Pod
from unisono.api.resources import resource_list

NODE = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2", "pods": "3", "hugepages-2Mi": "4Mi"}


def pod(uid: str, requests: dict[str, str], **status: Any) -> Pod:
    made = manifest(uid, container={"resources": {"requests": requests}}, metadata={"uid": uid})
    made.status = msgspec.convert(status, type(made.status))
    return made


def ledger(**changes: str) -> Ledger:
    return Ledger(resource_list(NODE | changes))


def message(name: str, requested: int, used: int, capacity: int) -> str:
    return f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"


GIB = 1 << 30
FULL = [
    ({"cpu": "3"}, {"cpu": "1500m"}, "OutOfcpu", message("cpu", 1500, 3000, 4000)),
    ({"memory": "6Gi"}, {"memory": "3Gi"}, "OutOfmemory", message("memory", 3 * GIB, 6 * GIB, 8 * GIB)),
    ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}, "OutOfnvidia.com/gpu", message("nvidia.com/gpu", 2, 1, 2)),
    ({}, {"ephemeral-storage": "1Gi"}, "OutOfephemeral-storage", message("ephemeral-storage", GIB, 0, 0)),
    ({"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "2Mi"}, "OutOfhugepages-2Mi",
     message("hugepages-2Mi", 2 << 20, 4 << 20, 4 << 20)),
    ({"cpu": "4", "memory": "8Gi"}, {"memory": "1", "cpu": "1"}, "OutOfcpu", message("cpu", 1000, 4000, 4000)),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "reason", "told"), FULL)
def test_what_does_not_fit_beside_the_first_is_refused_until_that_ends(
    first: dict[str, str], second: dict[str, str], reason: str, told: str
) -> None:
    node = ledger()
    assert node.admit(pod("first", first)) is None
    assert node.admit(pod("first", first)) is None, "once accepted it stays so, and counts once"
    assert node.admit(pod("second", second)) == Reason(reason, told)
    assert node.admit(pod("small", {"cpu": "0"})) is None, "who was refused holds nothing"
    node.release("first")
    if reason != "OutOfephemeral-storage":
        assert node.admit(pod("second", second)) is None


def test_places_for_pods_are_looked_at_first() -> None:
    node = ledger(cpu="0")
    for number in range(3):
        assert node.admit(pod(f"p-{number}", {})) is None
    assert node.admit(pod("late", {"cpu": "1"})) == Reason("OutOfpods", message("pods", 1, 3, 3))


@pytest.mark.processes
async def test_more_containers_than_the_agent_can_watch_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unisono.agent.host.most_containers", lambda: 3)
    node = Node(MemoryClient(), tmp_path / "agent")
    await node.start()
    try:
        sleeps = [{"name": f"c{number}", "image": "none", "command": ["sleep", "1000"]} for number in range(3)]
        # Init containers run before the others; sidecars run beside them.
        before = [{"name": "init", "image": "none", "command": ["true"]}]
        node.run(manifest("two", containers=sleeps[:2], initContainers=before))
        await node.phase("two", "Running")
        beside = [{**sleeps[0], "restartPolicy": "Always"}]
        node.run(manifest("late", containers=sleeps[1:2], initContainers=beside))
        status = (await node.phase("late", "Failed")).status
        assert (status.reason, status.message) == (
            "OutOfcontainers", f"Pod was rejected: {message('containers', 2, 2, 3)}"
        )  # fmt: skip
    finally:
        await node.stop()


def test_extended_resources_that_the_node_does_not_know_or_a_claim_gives_are_not_its_concern() -> None:
    backed = {
        "extendedResourceClaimStatus": {
            "resourceClaimName": "c",
            "requestMappings": [{"containerName": "main", "resourceName": "nvidia.com/gpu", "requestName": "r"}],
        }
    }
    node = ledger()
    assert node.admit(pod("elsewhere", {"example.com/licence": "5"})) is None
    assert node.admit(pod("claims", {"nvidia.com/gpu": "2"}, **backed)) is None
    assert node.admit(pod("counted", {"nvidia.com/gpu": "2"})) is None


def test_what_runs_already_counts_though_it_is_too_much() -> None:
    node = ledger()
    node.take(pod("old", {"cpu": "6"}))
    assert node.admit(pod("new", {"cpu": "1"})) == Reason("OutOfcpu", message("cpu", 1000, 6000, 4000))


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.integers(0, 3000), st.integers(0, 2)), max_size=40))
def test_a_node_never_holds_more_than_it_has(steps: list[tuple[bool, int, int, int]]) -> None:
    node, held = ledger(pods="5"), dict[str, tuple[int, int]]()
    for ends, number, cpu, gpus in steps:
        uid = f"p-{number}"
        if ends:
            node.release(uid)
            held.pop(uid, None)
        elif uid not in held:
            fits = (
                sum(c for c, _ in held.values()) + cpu <= 4000
                and sum(g for _, g in held.values()) + gpus <= 2
                and len(held) < 5
            )
            refused = node.admit(pod(uid, {"cpu": f"{cpu}m", "nvidia.com/gpu": str(gpus)}))
            assert (refused is None) == fits
            if fits:
                held[uid] = (cpu, gpus)
