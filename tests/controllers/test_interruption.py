"""Pods on machines that their cloud takes back save their work, end in time, and start elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_node_scale_down import machine_and_node, running_pod
from test_node_scaling_controller import World, deployment, world

from support.virtual_clock import settle
from unisono.api.annotations import CHECKPOINT_BEFORE, INTERRUPTED
from unisono.api.core import Node
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import NODES, PODS
from unisono.api.times import rfc3339
from unisono.controllers.node_scaling.interruption import (
    MARGIN,
    InterruptionController,
    InterruptionNotice,
    ending,
    notice_of,
)
from unisono.kube.controller import Manager


def node(taint: str = "", condition: tuple[str, str] | None = None, **notes: str) -> Node:
    conditions = [{"type": condition[0], "status": "True", "reason": condition[1]}] if condition else []
    value = {
        "metadata": {"name": "n", "annotations": {f"unisono.io/{k.replace('_', '-')}": v for k, v in notes.items()}},
        "spec": {"taints": [{"key": taint, "value": "1", "effect": "NoSchedule"}] if taint else []},
        "status": {"conditions": conditions},
    }
    return msgspec.convert(value, Node)


@pytest.mark.parametrize(
    ("what", "node", "expected"),
    [
        ("nothing", node(), None),
        ("AWS", node("aws-node-termination-handler/spot-itn"), (120.0, True)),
        ("Google", node("cloud.google.com/impending-node-termination"), (30.0, True)),
        ("Azure's taint", node("remediator.aks.microsoft.com/unschedulable"), (30.0, True)),
        ("Azure's condition", node(condition=("VMEventScheduled", "PreemptScheduled")), (30.0, True)),
        ("a mere freeze", node(condition=("VMEventScheduled", "FreezeScheduled")), None),
        ("Karpenter drains by itself", node("karpenter.sh/disrupted"), (120.0, False)),
        ("so does the cluster autoscaler", node("ToBeDeletedByClusterAutoscaler"), (120.0, False)),
        ("a mere risk", node("aws-node-termination-handler/rebalance-recommendation"), (120.0, False)),
        ("any other cloud", node(interrupted_at=rfc3339(60)), (60.0, True)),
        ("nonsense", node(interrupted_at="soon"), None),
    ],
)
def test_notices(what: str, node: Node, expected: tuple[float, bool] | None) -> None:
    found = notice_of(node, 0.0)
    assert (None if found is None else (found.ends, found.ours)) == expected, what


@given(st.floats(-1e4, 1e4), st.floats(0, 1e5), st.floats(0, 1e6))
def test_pods_end_before_the_machine_and_are_not_ended_early(ends: float, grace: float, now: float) -> None:
    wait, given_grace = ending(InterruptionNotice("x", ends), grace, now)
    assert wait >= 0
    assert given_grace >= 1
    assert given_grace <= max(1, grace)
    assert now + wait + given_grace <= max(ends - MARGIN, now) + 1
    assert wait == 0 or now + wait + grace >= ends - MARGIN - 1e-3


@asynccontextmanager
async def interrupting() -> AsyncIterator[World]:
    made = World()
    manager = Manager(made.client, clock=made.client.clock)
    running = asyncio.create_task(manager.run([InterruptionController(made.recorder)]))
    await settle(60)
    try:
        yield made
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def notes_of(made: World, name: str) -> dict[str, str]:
    return (await made.client.get(PODS, name, "default")).metadata.annotations or {}


def deleted(made: World) -> list[tuple[str, Any]]:
    return [(each.key, each.body) for each in made.client.writes if each.operation == "delete"]


async def test_the_whole_gang_hears_of_it_and_only_the_pods_on_the_machine_end_with_their_grace() -> None:
    async with interrupting() as made:
        for name in ("n1", "n2"):
            machine_and_node(made, name)
        running_pod(made, "w0", "n1", owner="PyTorchJob", **{GROUP_NAME: "g"})
        running_pod(made, "w1", "n2", owner="PyTorchJob", **{GROUP_NAME: "g"})
        running_pod(made, "other", "n2")
        running_pod(made, "daemon", "n1", owner="DaemonSet")
        now = made.client.clock.time()
        taint = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule", "timeAdded": rfc3339(now)}
        await made.client.patch(NODES, "n1", {"spec": {"taints": [taint]}})
        await settle(60)
        until = rfc3339(now + 120)
        assert (await notes_of(made, "w0"))[CHECKPOINT_BEFORE] == until
        assert (await notes_of(made, "w1"))[CHECKPOINT_BEFORE] == until
        assert CHECKPOINT_BEFORE not in await notes_of(made, "other")
        assert CHECKPOINT_BEFORE not in await notes_of(made, "daemon")
        assert not deleted(made)
        await made.advance(80)
        assert not deleted(made), "it works on while its grace allows"
        await made.advance(20)
        assert [key for key, _ in deleted(made)] == ["default/w0"]
        assert len(made.recorder.of("MachineTakenBack")) == 2
        pod = [each for each in made.client.writes if each.key == "default/w0" and each.subresource == "status"]
        assert pod[0].body["status"]["conditions"][0]["type"] == "DisruptionTarget"


async def test_a_node_that_others_drain_is_left_to_them() -> None:
    async with interrupting() as made:
        machine_and_node(made, "n1")
        running_pod(made, "w0", "n1")
        await made.client.patch(
            NODES, "n1", {"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}
        )
        await made.advance(300)
        assert CHECKPOINT_BEFORE in await notes_of(made, "w0")
        assert not deleted(made)


async def test_an_annotation_keeps_new_pods_away_and_ends_the_pods() -> None:
    async with interrupting() as made:
        machine_and_node(made, "n1")
        running_pod(made, "w0", "n1")
        notes = {"unisono.io/interrupted-at": rfc3339(made.client.clock.time() + 20)}
        await made.client.patch(NODES, "n1", {"metadata": {"annotations": notes}})
        await settle(60)
        found = await made.client.get(NODES, "n1")
        assert [each.key for each in found.spec.taints or ()] == [INTERRUPTED]
        assert {key for key, _ in deleted(made)} == {"default/w0"}


async def test_a_pool_that_loses_a_machine_is_passed_by() -> None:
    bounds = {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "9"}
    spot = deployment("md", replicas=1, ready=1, **bounds, **{"unisono.io/price": "0.1"})
    async with world(spot, deployment("od", **{"unisono.io/price": "1"})) as made:
        machine_and_node(made, "n1")
        taint = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}
        await made.client.patch(NODES, "n1", {"spec": {"taints": [taint]}})
        await made.gang("g", 4)
        await made.advance(60)
        assert (await made.replicas("md"), await made.replicas("od")) == (1, 2)


async def test_pods_of_a_machine_that_has_gone_as_announced_go_at_once() -> None:
    """Those that got SIGTERM before are still there: no kubelet says that they have ended."""
    async with interrupting() as made:
        machine_and_node(made, "n1")
        running_pod(made, "w0", "n1", owner="Job")
        running_pod(made, "daemon", "n1", owner="DaemonSet")
        now = made.client.clock.time()
        silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
        taint = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule", "timeAdded": rfc3339(now)}
        await made.client.patch(NODES, "n1", {"spec": {"taints": [taint]}})
        await made.client.patch(PODS, "w0", {"metadata": {"finalizers": ["test/x"]}}, namespace="default")
        await made.advance(110)
        assert len(deleted(made)) == 1, "it was ended in time"
        await made.client.patch(NODES, "n1", silent, subresource="status")
        await settle(60)
        assert len(deleted(made)) == 1, "the machine is not gone before its time"
        await made.advance(20)
        assert len(deleted(made)) == 2
        assert {key for key, _ in deleted(made)} == {"default/w0"}
        assert "n1 has gone, as announced" in made.recorder.of("MachineTakenBack")[-1]


async def test_a_machine_that_stays_beyond_its_time_keeps_its_pods_ending_as_they_may() -> None:
    async with interrupting() as made:
        machine_and_node(made, "n1")
        running_pod(made, "w0", "n1")
        await made.client.patch(PODS, "w0", {"metadata": {"finalizers": ["test/x"]}}, namespace="default")
        taint = {"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"}
        await made.client.patch(NODES, "n1", {"spec": {"taints": [taint]}})
        await made.advance(600)
        assert len(deleted(made)) == 1


async def test_a_time_that_is_taken_off_a_pod_is_said_again() -> None:
    """As where the scheduler takes back the notice of an eviction that would have come before."""
    async with interrupting() as made:
        machine_and_node(made, "n1")
        running_pod(made, "w0", "n1", owner="PyTorchJob", **{GROUP_NAME: "g"})
        now = made.client.clock.time()
        taint = {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule", "timeAdded": rfc3339(now)}
        await made.client.patch(NODES, "n1", {"spec": {"taints": [taint]}})
        await settle(60)
        await made.client.patch(
            PODS, "w0", {"metadata": {"annotations": {CHECKPOINT_BEFORE: None}}}, namespace="default"
        )
        await made.advance(11)
        assert (await notes_of(made, "w0"))[CHECKPOINT_BEFORE] == rfc3339(now + 120)
