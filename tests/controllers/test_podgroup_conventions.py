"""Pods of other operators in a cluster: who shares a pod group, and whose groups are left alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from controller_world import ControllerWorld

from support.definitions import crd
from unisono.api.annotations import ADMITTED_QUEUES, JOB_KIND
from unisono.api.core import CustomResourceDefinition, Pod
from unisono.api.groups.apps import Deployment, ReplicaSet
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kind import Kind
from unisono.api.kind_families import DEPLOYMENTS, REPLICA_SETS
from unisono.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, POD_GROUPS, PODS
from unisono.controllers.podgroup.controller import PodGroupController
from unisono.jobkinds.registry import FOREIGN
from unisono.jobkinds.tables import ForeignObject
from unisono.kube.controller import Controller

GROUP = "scheduling.k8s.io/group-name"
ONE_CPU = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}


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


def foreign(kind: Kind[Any], uid: str, spec: dict[str, Any], owner: tuple[str, str, str] | None = None) -> Any:
    """An object of a kind that another program defines."""
    meta = pod(uid, owner, uid=uid).metadata
    return ForeignObject(api_version=kind.api_version, kind=kind.kind, metadata=meta, spec=spec)


def of_kind(name: str) -> Kind[Any]:
    return next(each.kind for each in FOREIGN if each.kind.kind == name)


SPARK, FLINK = of_kind("SparkApplication"), of_kind("FlinkDeployment")


async def test_executors_count_when_their_driver_is_let_in_and_are_no_members() -> None:
    spec: dict[str, Any] = {
        "driver": {"cores": 1, "memory": "1g"},
        "executor": {"instances": 3, "cores": 2, "memory": "2g"},
    }
    spec["batchSchedulerOptions"] = {"queue": "gold"}
    async with GroupWorld() as world:
        world.client.put(SPARK, foreign(SPARK, "app", spec))
        driver = ("sparkoperator.k8s.io/v1beta2", "SparkApplication", "app")
        world.client.put(PODS, pod("driver", driver, uid="driver", labels={"spark-role": "driver"}))
        await world.settle()
        for number in range(3):
            world.client.put(PODS, pod(f"exec-{number}", ("v1", "Pod", "driver"), labels={"spark-role": "executor"}))
        await world.settle()
        assert world.groups() == {"podgroup-app": {"driver", "exec-0", "exec-1", "exec-2"}}
        (group,) = world.client.objects(POD_GROUPS)
        assert (group.spec.min_member, group.spec.queue) == (1, "gold")
        assert (group.spec.min_resources or {})["cpu"] == "7"
        assert (group.spec.min_resources or {})["pods"] == "4"
        assert [(each.kind, each.uid) for each in group.metadata.owner_references or ()] == [
            ("SparkApplication", "app")
        ]


async def test_task_managers_join_their_job_manager() -> None:
    spec: dict[str, Any] = {"jobManager": {"resource": {"cpu": 1, "memory": "1g"}}, "taskManager": {"replicas": 2}}
    spec["taskManager"]["resource"] = {"cpu": 4, "memory": "2048m"}
    async with GroupWorld() as world:
        world.client.put(FLINK, foreign(FLINK, "f", spec))
        flink = ("flink.apache.org/v1beta1", "FlinkDeployment", "f")
        deployment = msgspec.convert({"metadata": msgspec.to_builtins(pod("d", flink, uid="d").metadata)}, Deployment)
        replicas = pod("rs", ("apps/v1", "Deployment", "d"), uid="rs").metadata
        world.client.put(DEPLOYMENTS, deployment)
        world.client.put(REPLICA_SETS, msgspec.convert({"metadata": msgspec.to_builtins(replicas)}, ReplicaSet))
        world.client.put(PODS, pod("jobmanager", ("apps/v1", "ReplicaSet", "rs")))
        world.client.put(PODS, pod("taskmanager-1", ("apps/v1", "Deployment", "d")))
        await world.settle()
        assert world.groups() == {"podgroup-f": {"jobmanager", "taskmanager-1"}}
        (group,) = world.client.objects(POD_GROUPS)
        assert (group.spec.min_member, (group.spec.min_resources or {})["cpu"]) == (1, "9")
        assert (group.spec.min_resources or {})["memory"] == "5Gi"


TABLE = """
pods:
- {role: leader, template: spec.leader, default: 1}
- {role: helper, template: spec.helper, count: spec.helpers, later: true}
oneGroup: true
"""


def definition(plural: str, kind: str, table: str) -> Any:
    body = crd(plural, kind=kind)
    body["metadata"]["annotations"] = {JOB_KIND: table}
    return msgspec.convert(body, CustomResourceDefinition)


@pytest.mark.parametrize("reviewed", [False, True])
async def test_whose_object_it_is_counts_where_admission_has_seen_it(reviewed: bool) -> None:
    class World(GroupWorld):
        def make_controllers(self) -> list[Controller]:
            return [PodGroupController(self.recorder, all_reviewed=reviewed)]

    async with World() as world:
        world.client.put(CUSTOM_RESOURCE_DEFINITIONS, definition("swarms", "Swarm", TABLE))
        kind: Kind[Any] = Kind("example.com", "v1", "Swarm", "swarms", ForeignObject)
        swarm = foreign(kind, "s", {"leader": {"spec": ONE_CPU}})
        swarm.metadata.annotations = {ADMITTED_QUEUES: "gold"}
        world.client.put(kind, swarm)
        world.client.put(PODS, pod("leader", ("example.com/v1", "Swarm", "s")))
        await world.settle()
        (group,) = world.client.objects(POD_GROUPS)
        assert ((group.metadata.annotations or {}).get(ADMITTED_QUEUES) == "gold") is reviewed


async def test_a_definition_says_what_its_objects_mean_and_one_that_is_wrong_is_named() -> None:
    async with GroupWorld() as world:
        world.client.put(CUSTOM_RESOURCE_DEFINITIONS, definition("swarms", "Swarm", TABLE))
        world.client.put(CUSTOM_RESOURCE_DEFINITIONS, definition("broods", "Brood", "pods: 3"))
        kind: Kind[Any] = Kind("example.com", "v1", "Swarm", "swarms", ForeignObject)
        parts = {"leader": {"spec": ONE_CPU}, "helper": {"spec": ONE_CPU}, "helpers": 4}
        world.client.put(kind, foreign(kind, "s", parts))
        world.client.put(PODS, pod("leader", ("example.com/v1", "Swarm", "s"), uid="leader"))
        world.client.put(PODS, pod("helper-0", ("v1", "Pod", "leader")))
        world.client.put(PODS, pod("egg", ("example.com/v1", "Brood", "b")))
        await world.settle()
        assert world.groups() == {"podgroup-s": {"leader", "helper-0"}, "podgroup-b": {"egg"}}
        made = {each.metadata.name: each for each in world.client.objects(POD_GROUPS)}
        assert (made["podgroup-s"].spec.min_resources or {})["cpu"] == "5"
        told = world.recorder.of("UnusableJobKind")
        assert len(told) == 1
        assert "$.pods" in told[0]


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
