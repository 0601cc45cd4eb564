from __future__ import annotations

from typing import Any

import msgspec
import pytest
from job_world import World, job, task

from unisono.api.core import Namespace, Pod
from unisono.api.kind_families import BATCH_JOBS, REPLICA_SETS, STATEFUL_SETS
from unisono.api.kinds import NAMESPACES, POD_GROUPS, PODS
from unisono.controllers.objects import to_json
from unisono.controllers.podgroup.decide import min_member, needs_group, pod_group_for, topology
from unisono.errors import Conflict, Invalid, Unavailable


def pod(name: str = "p", scheduler: str = "volcano", **metadata: Any) -> Pod:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "500m"}}}
    value = {
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"schedulerName": scheduler, "containers": [container], "priorityClassName": "high"},
    }
    return msgspec.convert(value, Pod)


def replica_set(name: str = "rs", uid: str = "rs-uid") -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": True}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pod(), True),
        (pod(scheduler="unisono"), True),
        (pod(scheduler="default-scheduler"), False),
        (pod(annotations={"scheduling.k8s.io/group-name": "mine"}), False),
        (pod(annotations={"scheduling.volcano.sh/group-name": "mine"}), False),
        (pod(annotations={"scheduling.k8s.io/group-name": ""}), True),
        (pod(deletionTimestamp="2026-01-01T00:00:00Z"), False),
    ],
)
def test_which_pods_need_a_group(given, wanted):
    assert needs_group(given, {"volcano", "unisono"}) == wanted


@pytest.mark.parametrize(
    ("scheduler", "node", "wanted"),
    [
        ("default-scheduler", None, True),
        ("default-scheduler", "n1", False),
        ("volcano", "n1", True),
        ("other", "n1", False),
    ],
)
def test_pods_that_somebody_else_placed_are_in_no_queue(scheduler, node, wanted):
    given = pod(scheduler=scheduler)
    given.spec.node_name = node
    assert needs_group(given, {"volcano", "unisono", "default-scheduler"}) == wanted


def test_the_group_of_a_bare_pod():
    given = pod(
        uid="pod-uid",
        annotations={
            "scheduling.volcano.sh/queue-name": "research",
            "volcano.sh/preemptable": "true",
            "volcano.sh/network-topology-highest-tier": "2",
            "else": "x",
        },
        labels={"volcano.sh/cooldown-time": "10s", "app": "x"},
    )
    group = to_json(pod_group_for(given, {}, "of-namespace"))
    assert group == {
        "metadata": {
            "name": "podgroup-pod-uid",
            "namespace": "default",
            "labels": {"volcano.sh/cooldown-time": "10s"},
            "annotations": {"volcano.sh/preemptable": "true"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": "p",
                    "uid": "pod-uid",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "minMember": 1,
            "queue": "research",
            "priorityClassName": "high",
            "minResources": {"pods": "1", "count/pods": "1", "cpu": "500m", "requests.cpu": "500m"},
            "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
        },
        "status": {"phase": "Pending"},
    }


def test_the_group_of_an_owner_takes_over_its_annotations():
    given = pod(uid="u", ownerReferences=[replica_set()])
    handed = {
        "scheduling.volcano.sh/group-min-member": "3",
        "volcano.sh/sla-waiting-time": "1h",
        "deployment.kubernetes.io/revision": "1",
        "unisono.io/evictable": "surplus",
    }
    group = pod_group_for(given, handed, "of-namespace")
    assert group.metadata.name == "podgroup-rs-uid"
    assert group.metadata.annotations == {"volcano.sh/sla-waiting-time": "1h", "unisono.io/evictable": "surplus"}
    assert [owner.uid for owner in group.metadata.owner_references] == ["rs-uid"]
    assert (group.spec.min_member, group.spec.queue) == (3, "of-namespace")
    assert group.spec.min_resources["cpu"] == "1500m"


@pytest.mark.parametrize(("text", "number"), [("", 1), ("0", 0), ("4", 4), ("-1", 1), ("x", 1), ("2.5", 1)])
def test_min_member(text, number):
    assert min_member({"scheduling.volcano.sh/group-min-member": text}) == number


@pytest.mark.parametrize(
    ("mode", "tier", "wanted"),
    [
        (None, None, None),
        ("Soft", None, {"mode": "soft"}),
        ("odd", "1", {"mode": "hard", "highestTierAllowed": 1}),
        (None, "x", {"mode": "hard"}),
    ],
)
def test_topology(mode, tier, wanted):
    names = {"volcano.sh/network-topology-mode": mode, "volcano.sh/network-topology-highest-tier": tier}
    got = topology({key: value for key, value in names.items() if value is not None})
    assert (to_json(got) if got else None) == wanted


async def test_plain_pods_get_a_group_and_learn_its_name():
    async with World() as world:
        created = await world.client.create(PODS, pod())
        await world.settle()
        (group,) = world.client.objects(POD_GROUPS)
        assert group.metadata.name == f"podgroup-{created.metadata.uid}"
        (found,) = world.pods()
        assert found.metadata.annotations == {"scheduling.k8s.io/group-name": group.metadata.name}


async def test_replicas_share_one_group():
    async with World() as world:
        for i in range(3):
            await world.client.create(PODS, pod(f"p-{i}", ownerReferences=[replica_set()]))
        await world.settle()
        assert [g.metadata.name for g in world.client.objects(POD_GROUPS)] == ["podgroup-rs-uid"]
        assert {p.metadata.annotations["scheduling.k8s.io/group-name"] for p in world.pods()} == {"podgroup-rs-uid"}


async def test_pods_of_others_and_of_jobs_are_left_alone():
    async with World() as world:
        await world.client.create(PODS, pod(scheduler="default-scheduler"))
        await world.submit(job(task("a", 2)))
        await world.admit()
        assert [g.metadata.name for g in world.client.objects(POD_GROUPS)] == [world.group().metadata.name]


async def test_the_namespace_may_name_the_queue():
    async with World() as world:
        value = {"metadata": {"name": "default", "annotations": {"scheduling.volcano.sh/queue-name": "team"}}}
        world.client.put(NAMESPACES, msgspec.convert(value, Namespace))
        await world.settle()
        await world.client.create(PODS, pod())
        await world.settle()
        assert world.client.objects(POD_GROUPS)[0].spec.queue == "team"


async def test_a_stop_between_group_and_pod_is_made_good():
    async with World() as world:

        def die(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource) == ("patch", "pods"):
                raise ConnectionError("gone")

        world.client.interceptor = die
        await world.client.create(PODS, pod())
        await world.settle()
        assert len(world.client.objects(POD_GROUPS)) == 1
        world.client.interceptor = None
        await world.restart()
        assert world.pods()[0].metadata.annotations
        assert len(world.client.objects(POD_GROUPS)) == 1


async def test_a_pod_whose_group_is_refused_is_told_why_and_waits_no_longer_than_the_cause():
    async with World() as world:

        def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource) == ("create", "podgroups"):
                raise Invalid("PodGroup is invalid: spec.minMember: too large")

        world.client.interceptor = refuse
        await world.client.create(PODS, pod())
        await world.settle()
        await world.advance(120.0)
        text = "PodGroup is invalid: spec.minMember: too large"
        assert world.recorder.of("FailedCreatePodGroup") == [f"Error creating the pod's PodGroup: {text}"]
        (told,) = world.pods()[0].status.conditions
        assert (told.type, told.status, told.reason) == ("PodScheduled", "False", "FailedCreatePodGroup")
        assert told.message == f"The pod's PodGroup was refused: {text}"
        writes = len(world.client.writes)
        await world.advance(600.0)
        assert len(world.client.writes) == writes
        world.client.interceptor = None
        await world.advance(600.0)
        assert world.pods()[0].metadata.annotations == {
            "scheduling.k8s.io/group-name": world.client.objects(POD_GROUPS)[0].metadata.name
        }


@pytest.mark.parametrize("error", [Unavailable("overloaded"), Conflict("changed")])
async def test_what_passes_by_itself_is_no_news_for_the_pod(error):
    async with World() as world:

        def fail(operation: str, resource: str, namespace: str, name: str) -> None:
            if (operation, resource) == ("create", "podgroups"):
                raise error

        world.client.interceptor = fail
        await world.client.create(PODS, pod())
        await world.settle()
        assert not world.recorder.of("FailedCreatePodGroup")
        assert not world.pods()[0].status.conditions


# --- conventions of others ----------------------------------------------------------------------------------------

UID = "owner-uid"


def owner(kind: str, api: str = "apps/v1", name: str = "o") -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "name": name, "uid": UID, "controller": True}


LWS = {"leaderworkerset.sigs.k8s.io/group-key": "g1"}
LWS_SIZE = {"leaderworkerset.sigs.k8s.io/size": "4"}


@pytest.mark.parametrize(
    ("given", "handed", "name", "members"),
    [
        # A Deployment's pods, also those of Flink's native and operator modes.
        (pod(uid="p", ownerReferences=[owner("ReplicaSet")]), {}, f"podgroup-{UID}", 1),
        # A batch/v1 Job as a gang.
        (
            pod(uid="p", ownerReferences=[owner("Job", "batch/v1")]),
            {"scheduling.volcano.sh/group-min-member": "8"},
            f"podgroup-{UID}",
            8,
        ),
        # Spark: the driver has a group of its own, and its executors join it.
        (pod(uid=UID, labels={"spark-role": "driver"}), {}, f"podgroup-{UID}", 1),
        (
            pod(uid="e", labels={"spark-role": "executor"}, ownerReferences=[owner("Pod", "v1", "driver")]),
            {},
            f"podgroup-{UID}",
            1,
        ),
        # Argo: all pods of a Workflow.
        (pod(uid="p", ownerReferences=[owner("Workflow", "argoproj.io/v1alpha1")]), {}, f"podgroup-{UID}", 1),
        # LeaderWorkerSet: leader and workers, which different StatefulSets own.
        (
            pod(uid="p", labels=LWS, annotations=LWS_SIZE, ownerReferences=[owner("StatefulSet")]),
            {},
            "podgroup-g1",
            4,
        ),
        (
            pod(uid="p", labels=LWS, annotations=LWS_SIZE, ownerReferences=[owner("StatefulSet", name="w")]),
            {"scheduling.volcano.sh/group-min-member": "2"},
            "podgroup-g1",
            2,
        ),
    ],
)
def test_conventions_of_frameworks(given, handed, name, members):
    group = pod_group_for(given, handed, "")
    assert (group.metadata.name, group.spec.min_member) == (name, members)
    assert group.spec.min_resources["cpu"] == (f"{members // 2}" if members % 2 == 0 else "500m")


def workload_object(kind: Any, replicas: int, **annotations: str) -> Any:
    labels = {"app": "x"}
    value = {
        "metadata": {"name": "rs", "namespace": "default", "uid": "rs-uid", "annotations": annotations},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}},
    }
    return msgspec.convert(value, kind.struct)


@pytest.mark.parametrize("kind", [REPLICA_SETS, STATEFUL_SETS])
async def test_a_workload_without_replicas_needs_no_group(kind):
    async with World() as world:
        world.client.put(kind, workload_object(kind, 2))
        made = await world.client.create(
            PODS, pod(ownerReferences=[owner(kind.kind, kind.api_version, "rs") | {"uid": "rs-uid"}])
        )
        await world.settle()
        assert len(world.client.objects(POD_GROUPS)) == 1
        world.client.remove(PODS, made.key)
        await world.settle()
        assert len(world.client.objects(POD_GROUPS)) == 1
        world.client.put(kind, workload_object(kind, 0))
        await world.settle()
        assert world.client.objects(POD_GROUPS) == []


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({}, {"conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]}),
        ({}, {"conditions": [{"type": "Complete", "status": "True"}]}),
        ({"suspend": True}, {}),
    ],
)
async def test_a_job_that_wants_no_pods_needs_no_group(spec, status):
    def job_object(spec: dict[str, Any], status: dict[str, Any]) -> Any:
        metadata = {"name": "rs", "namespace": "default", "uid": "rs-uid"}
        return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, BATCH_JOBS.struct)

    async with World() as world:
        world.client.put(BATCH_JOBS, job_object({}, {}))
        made = await world.client.create(
            PODS, pod(ownerReferences=[owner("Job", "batch/v1", "rs") | {"uid": "rs-uid"}])
        )
        await world.settle()
        world.client.put(BATCH_JOBS, job_object(spec, status))
        await world.settle()
        assert len(world.client.objects(POD_GROUPS)) == 1, "its pod is still there"
        world.client.remove(PODS, made.key)
        world.client.put(BATCH_JOBS, job_object(spec, status | {"startTime": "2026-01-01T00:00:00Z"}))
        await world.settle()
        assert world.client.objects(POD_GROUPS) == []


async def test_a_group_follows_the_annotations_of_its_workload():
    async with World() as world:
        world.client.put(REPLICA_SETS, workload_object(REPLICA_SETS, 4))
        for number in range(2):
            await world.client.create(PODS, pod(f"p{number}", ownerReferences=[replica_set()]))
        await world.settle()
        assert world.client.objects(POD_GROUPS)[0].spec.min_member == 1
        asked = {"scheduling.volcano.sh/group-min-member": "3", "volcano.sh/sla-waiting-time": "1h", "other": "x"}
        world.client.put(REPLICA_SETS, workload_object(REPLICA_SETS, 4, **asked))
        await world.settle()
        (group,) = world.client.objects(POD_GROUPS)
        assert group.spec.min_member == 3
        assert group.spec.min_resources["cpu"] == "1500m"
        assert group.metadata.annotations == {"volcano.sh/sla-waiting-time": "1h"}


async def test_a_gang_of_a_deployment_is_replaced_step_by_step():
    """A rollout gives the new ReplicaSet one pod, and the next one when that is ready."""
    asked = {"scheduling.volcano.sh/group-min-member": "3", "deployment.kubernetes.io/desired-replicas": "4"}
    async with World() as world:
        world.client.put(REPLICA_SETS, workload_object(REPLICA_SETS, 1, **asked))
        await world.client.create(PODS, pod("p0", ownerReferences=[replica_set()]))
        await world.settle()
        assert world.client.objects(POD_GROUPS)[0].spec.min_member == 1
        world.client.put(REPLICA_SETS, workload_object(REPLICA_SETS, 4, **asked))
        await world.settle()
        assert world.client.objects(POD_GROUPS)[0].spec.min_member == 3


async def test_a_gang_larger_than_its_deployment_stays_so():
    asked = {"scheduling.volcano.sh/group-min-member": "3", "deployment.kubernetes.io/desired-replicas": "2"}
    async with World() as world:
        world.client.put(REPLICA_SETS, workload_object(REPLICA_SETS, 2, **asked))
        await world.client.create(PODS, pod("p0", ownerReferences=[replica_set()]))
        await world.settle()
        assert world.client.objects(POD_GROUPS)[0].spec.min_member == 3
