"""Machines are given back step by step, and pods, gangs, budgets and owners' wishes are respected."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_node_scaling_controller import World, deployment, refusing, world

from unisono.api.annotations import SCALE_DOWN, SCALED_AT
from unisono.api.core import Node, Pod, PodDisruptionBudget
from unisono.api.groups.autoscaling import DELETE_MACHINE, MACHINE_DEPLOYMENTS, MACHINES, Machine
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import GROUP_NAME
from unisono.api.kinds import NODES, POD_DISRUPTION_BUDGETS, POD_GROUPS, PODS
from unisono.api.times import rfc3339

LEAST = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
TIME = "cluster.x-k8s.io/autoscaling-options-scaledownunneededtime"


def shrinkable(replicas: int, ready: int | None = None, least: int = 0, **more: str) -> Any:
    ready = replicas if ready is None else ready
    return deployment(replicas=replicas, ready=ready, **{LEAST: str(least), TIME: "60s"}, **more)


def machine_and_node(made: World, name: str, **notes: str) -> None:
    machine = {
        "metadata": {"name": f"m-{name}", "namespace": "capi", "labels": {"cluster.x-k8s.io/deployment-name": "md"}},
        "status": {"nodeRef": {"name": name}},
    }
    made.client.put(MACHINES, msgspec.convert(machine, Machine))
    node = {
        "metadata": {"name": name, "annotations": notes},
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    made.client.put(NODES, msgspec.convert(node, Node))


def running_pod(made: World, name: str, node: str, owner: str = "ReplicaSet", cpu: str = "1", **notes: str) -> None:
    value = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app": "a"},
            "annotations": notes,
            "ownerReferences": [{"apiVersion": "v1", "kind": owner, "name": "o", "uid": "o", "controller": True}],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": "Running"},
    }
    made.client.put(PODS, msgspec.convert(value, Pod))


async def state(made: World) -> tuple[int, list[str], list[str]]:
    """Replicas, nodes with the taint, machines that were chosen."""
    replicas = await made.replicas()
    nodes = (await made.client.list(NODES)).items
    machines = (await made.client.list(MACHINES)).items
    tainted = [n.metadata.name for n in nodes if any(t.key == SCALE_DOWN for t in n.spec.taints or ())]
    chosen = [m.metadata.name for m in machines if DELETE_MACHINE in (m.metadata.annotations or {})]
    return replicas, sorted(tainted), sorted(chosen)


async def test_an_empty_machine_is_tainted_chosen_and_given_back_after_its_time() -> None:
    async with world(shrinkable(2, least=1)) as made:
        machine_and_node(made, "n1")
        machine_and_node(made, "n2")
        await made.advance(60)
        assert await state(made) == (2, [], [])
        await made.advance(30)
        assert await state(made) == (1, ["n2"], ["m-n2"])
        assert made.recorder.of("ScaledDown") == ["machines: 2 -> 1, without use: n2"]
        await made.advance(600)
        assert await state(made) == (1, ["n2"], ["m-n2"])


async def test_without_a_minimum_nothing_is_given_back() -> None:
    async with world(deployment(replicas=1, ready=1, **{TIME: "10s"})) as made:
        machine_and_node(made, "n1")
        await made.advance(300)
        assert await state(made) == (1, [], [])


async def test_pods_are_moved_and_the_machine_goes_when_the_last_is_gone() -> None:
    async with world(shrinkable(2)) as made:
        for name in ("n1", "n2"):
            machine_and_node(made, name)
        running_pod(made, "keeper", "n1", owner="PyTorchJob")
        running_pod(made, "mover", "n2")
        await made.advance(90)
        assert [each.key for each in made.client.writes if each.operation == "evict"] == ["default/mover"]
        assert (await state(made))[0] == 2
        made.client.remove(PODS, "default/mover")
        await made.advance(20)
        assert await state(made) == (1, ["n2"], ["m-n2"])


@pytest.mark.parametrize(
    ("what", "pod", "node"),
    [
        ("a job's pod would lose its work", {"owner": "PyTorchJob"}, {}),
        ("a pod that says so", {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}, {}),
        ("a pod that tells Karpenter so", {"karpenter.sh/do-not-disrupt": "true"}, {}),
        ("no room elsewhere", {"cpu": "4"}, {}),
        ("a node that is to be kept", {}, {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}),
        ("a node that Karpenter would keep", {}, {"karpenter.sh/do-not-disrupt": "true"}),
    ],
)
async def test_what_keeps_a_machine(what: str, pod: dict[str, str], node: dict[str, str]) -> None:
    async with world(shrinkable(2)) as made:
        machine_and_node(made, "n1")
        machine_and_node(made, "n2", **node)
        running_pod(made, "keeper", "n1", owner="PyTorchJob")
        running_pod(made, "p", "n2", **pod)
        await made.advance(200)
        assert await state(made) == (2, [], []), what
        assert not [each for each in made.client.writes if each.operation == "evict"]


async def test_daemons_and_finished_pods_do_not_keep_a_machine() -> None:
    async with world(shrinkable(1)) as made:
        machine_and_node(made, "n1")
        running_pod(made, "daemon", "n1", owner="DaemonSet")
        await made.advance(100)
        assert await state(made) == (0, ["n1"], ["m-n1"])


@pytest.mark.parametrize(("allowed", "evicted"), [(0, 0), (1, 1)])
async def test_a_disruption_budget_decides(allowed: int, evicted: int) -> None:
    async with world(shrinkable(2)) as made:
        for name in ("n1", "n2"):
            machine_and_node(made, name)
        running_pod(made, "keeper", "n1", owner="PyTorchJob")
        running_pod(made, "mover", "n2")
        budget = {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}},
            "status": {"disruptionsAllowed": allowed},
        }
        made.client.put(POD_DISRUPTION_BUDGETS, msgspec.convert(budget, PodDisruptionBudget))
        await made.advance(200)
        assert len([each for each in made.client.writes if each.operation == "evict"]) >= evicted
        assert bool((await state(made))[1]) == bool(evicted)


@pytest.mark.parametrize(("least", "moves"), [(2, False), (1, True)])
async def test_a_gang_is_never_broken(least: int, moves: bool) -> None:
    async with world(shrinkable(2)) as made:
        for name in ("n1", "n2"):
            machine_and_node(made, name)
        group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": least}}
        made.client.put(POD_GROUPS, msgspec.convert(group, PodGroup))
        notes = {GROUP_NAME: "g", "cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
        running_pod(made, "p0", "n1", **(notes | {"karpenter.sh/do-not-disrupt": "true"}))
        running_pod(made, "p1", "n2", **notes)
        await made.advance(200)
        assert bool([each for each in made.client.writes if each.operation == "evict"]) == moves


async def test_the_machine_that_a_waiting_gang_was_promised_stays() -> None:
    bound = {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "2"}
    async with world(shrinkable(2, ready=1, **bound)) as made:
        machine_and_node(made, "n1")
        # Both machines are for this gang; one still boots.
        await made.gang("g", 4)
        await made.advance(400)
        assert await state(made) == (2, [], [])
        await made.client.delete(POD_GROUPS, "g", "default")
        for number in range(4):
            await made.client.delete(PODS, f"g-{number}", "default")
        await made.advance(100)
        assert await state(made) == (1, ["n1"], ["m-n1"])


async def test_a_marked_machine_is_kept_when_a_gang_comes() -> None:
    async with world(shrinkable(1, **{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "1"})) as made:
        machine_and_node(made, "n1")
        await made.client.patch(NODES, "n1", {"spec": {"taints": [{"key": SCALE_DOWN, "effect": "NoSchedule"}]}})
        await made.gang("g", 1)
        await made.advance(30)
        assert await state(made) == (1, [], [])
        assert made.recorder.of("ScaleDownCancelled")


async def test_no_machine_comes_beside_those_that_are_kept_after_all() -> None:
    async with world(deployment(replicas=1, ready=1, **{LEAST: "0"})) as made:
        machine_and_node(made, "n1")
        await made.gang("g", 1, cause="Licenses")
        await made.advance(90)
        await made.client.patch(NODES, "n1", {"spec": {"taints": [{"key": SCALE_DOWN, "effect": "NoSchedule"}]}})
        await made.told("g", "NodesFull", tasksNeeded=1)
        assert await state(made) == (1, [], [])


async def test_others_get_machines_while_a_node_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its taint stays, for each write is refused: what would have room there waits, and no machine comes for that."""
    async with world(deployment(replicas=1, ready=1, **{LEAST: "0"})) as made:
        machine_and_node(made, "n1")
        await made.client.patch(NODES, "n1", {"spec": {"taints": [{"key": SCALE_DOWN, "effect": "NoSchedule"}]}})
        monkeypatch.setattr(made.client, "patch", refusing(made.client.patch, "Node"))
        await made.gang("g", 1, tasksNeeded=1)
        await made.advance(60)
        assert await state(made) == (1, ["n1"], [])
        await made.gang("h", 4, tasksNeeded=4)
        await made.advance(60)
        assert await state(made) == (3, ["n1"], [])


async def test_a_restart_goes_on_with_what_is_marked_and_counts_anew_for_the_rest() -> None:
    async with world(shrinkable(2)) as made:
        machine_and_node(made, "n1")
        machine_and_node(made, "n2")
        await made.client.patch(NODES, "n1", {"spec": {"taints": [{"key": SCALE_DOWN, "effect": "NoSchedule"}]}})
        await made.advance(20)
        assert await state(made) == (1, ["n1"], ["m-n1"])


async def test_spot_machines_that_do_not_come_are_replaced_by_on_demand_ones() -> None:
    spot = {
        "capacity.cluster-autoscaler.kubernetes.io/labels": "karpenter.sh/capacity-type=spot",
        "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime": "5m",
        "unisono.io/price": "0.3",
    }
    async with world(deployment("spot", **spot), deployment("od", **{"unisono.io/price": "1"})) as made:
        await made.gang("g", 4)
        await made.advance(60)
        assert (await made.replicas("spot"), await made.replicas("od")) == (2, 0)
        [text] = made.recorder.of("ScaledUp")
        assert "2 spot machines at 0.3 an hour" in text
        await made.advance(320)
        assert (await made.replicas("spot"), await made.replicas("od")) == (0, 2)
        [told] = made.recorder.of("FailedScaleUp")
        assert "2 machines have not come within 300 s" in told
        last = made.recorder.of("ScaledUp")[-1]
        assert "passed by, for their machines did not come: capi/spot" in last


async def test_a_pool_that_lost_a_machine_is_not_taken_for_one_that_fails() -> None:
    async with world(deployment("spot", replicas=1, ready=1)) as made:
        notes = {SCALED_AT: rfc3339(made.client.clock.time())}
        await made.client.patch(MACHINE_DEPLOYMENTS, "spot", {"metadata": {"annotations": notes}}, namespace="capi")
        await made.advance(3600)
        gone = {"status": {"readyReplicas": 0}}
        await made.client.patch(MACHINE_DEPLOYMENTS, "spot", gone, namespace="capi", subresource="status")
        await made.advance(600)
        assert await made.replicas("spot") == 1
        assert not made.recorder.of("FailedScaleUp")
        await made.advance(400)
        assert made.recorder.of("FailedScaleUp")


async def test_nothing_is_given_back_right_after_machines_were_added() -> None:
    async with world(shrinkable(1)) as made:
        notes = {SCALED_AT: rfc3339(made.client.clock.time())}
        await made.client.patch(MACHINE_DEPLOYMENTS, "md", {"metadata": {"annotations": notes}}, namespace="capi")
        machine_and_node(made, "n1")
        await made.advance(110)
        assert (await state(made))[0] == 1
        await made.advance(40)
        assert (await state(made))[0] == 0
