"""Pods of other operators in a cluster: who shares a pod group, and whose groups are left alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from controller_world import ControllerWorld

from unisono.api.core import Pod
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import POD_GROUPS, PODS
from unisono.controllers.podgroup.controller import PodGroupController
from unisono.kube.controller import Controller

GROUP = "scheduling.k8s.io/group-name"


class GroupWorld(ControllerWorld):
    """An API server with the controller that gives pods their groups."""

    def make_controllers(self) -> list[Controller]:
        return [PodGroupController(self.recorder)]

    def groups(self) -> dict[str, set[str]]:
        """Pods by the group that they name."""
        found: dict[str, set[str]] = {}
        for pod in self.pods():
            found.setdefault((pod.metadata.annotations or {}).get(GROUP, ""), set()).add(pod.metadata.name)
        return found


def pod(name: str, owner: tuple[str, str, str] | None = None, **metadata: Any) -> Pod:
    """A pod with an owner (apiVersion, kind, uid)."""
    owners = []
    if owner is not None:
        api, kind, uid = owner
        owners = [{"apiVersion": api, "kind": kind, "name": uid, "uid": uid, "controller": True}]
    value = {
        "metadata": {"name": name, "namespace": "default", "ownerReferences": owners, **metadata},
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        },
    }
    return msgspec.convert(value, Pod)


def lws(name: str, owner: str) -> Pod:
    """A pod of a LeaderWorkerSet's group of three."""
    labels = {"leaderworkerset.sigs.k8s.io/name": "serve", "leaderworkerset.sigs.k8s.io/group-key": "k1"}
    notes = {"leaderworkerset.sigs.k8s.io/size": "3"}
    return pod(name, ("apps/v1", "StatefulSet", owner), labels=labels, annotations=notes)


SHARED: dict[str, tuple[list[Pod], dict[str, tuple[set[str], int]]]] = {
    "LeaderWorkerSet: leader and workers of one group": (
        [lws("serve-0", "leaders"), lws("serve-0-1", "workers-0"), lws("serve-0-2", "workers-0")],
        {"podgroup-k1": ({"serve-0", "serve-0-1", "serve-0-2"}, 3)},
    ),
    "Spark: executors join their driver": (
        [
            pod("driver", labels={"spark-role": "driver"}, uid="d"),
            pod("exec-1", ("v1", "Pod", "d"), labels={"spark-role": "executor"}),
            pod("exec-2", ("v1", "Pod", "d"), labels={"spark-role": "executor"}),
        ],
        {"podgroup-d": ({"driver", "exec-1", "exec-2"}, 1)},
    ),
    "Flink: job manager and task managers as Deployments": (
        [
            pod("jobmanager", ("apps/v1", "ReplicaSet", "jm"), labels={"component": "jobmanager"}),
            pod("taskmanager-1", ("apps/v1", "ReplicaSet", "tm"), labels={"component": "taskmanager"}),
            pod("taskmanager-2", ("apps/v1", "ReplicaSet", "tm"), labels={"component": "taskmanager"}),
        ],
        {"podgroup-jm": ({"jobmanager"}, 1), "podgroup-tm": ({"taskmanager-1", "taskmanager-2"}, 1)},
    ),
    "Argo: the steps of one Workflow": (
        [
            pod("step-1", ("argoproj.io/v1alpha1", "Workflow", "w")),
            pod("step-2", ("argoproj.io/v1alpha1", "Workflow", "w")),
            pod("other", ("argoproj.io/v1alpha1", "Workflow", "x")),
        ],
        {"podgroup-w": ({"step-1", "step-2"}, 1), "podgroup-x": ({"other"}, 1)},
    ),
}


@pytest.mark.parametrize(("pods", "wanted"), SHARED.values(), ids=SHARED)
async def test_who_shares_a_group(pods: list[Pod], wanted: dict[str, tuple[set[str], int]]) -> None:
    async with GroupWorld() as world:
        for each in pods:
            world.client.put(PODS, each)
        await world.settle()
        assert world.groups() == {name: members for name, (members, _) in wanted.items()}
        made = {each.metadata.name: each.spec.min_member for each in world.client.objects(POD_GROUPS)}
        assert made == {name: least for name, (_, least) in wanted.items()}


@pytest.mark.parametrize(
    ("group", "owner"),
    [
        ("ray-cluster-pg", ("ray.io/v1", "RayCluster", "r")),
        ("spark-pi-pg", None),
        ("spark-3f1c-podgroup", ("v1", "Pod", "driver")),
        ("train", ("batch/v1", "Job", "j")),
    ],
    ids=["KubeRay", "Spark operator", "Spark's Volcano step", "training operator"],
)
async def test_groups_that_operators_make_are_theirs(group: str, owner: tuple[str, str, str] | None) -> None:
    theirs = msgspec.convert({"metadata": {"name": group, "namespace": "default"}, "spec": {"minMember": 4}}, PodGroup)
    async with GroupWorld() as world:
        world.client.put(POD_GROUPS, theirs)
        world.client.put(PODS, pod("p", owner, annotations={GROUP: group}))
        await world.settle()
        assert world.groups() == {group: {"p"}}
        assert [each.spec.min_member for each in world.client.objects(POD_GROUPS)] == [4]
