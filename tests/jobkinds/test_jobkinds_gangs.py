"""What a gang needs: pods that are made later count in minResources, and never in minMember."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from support.build import cluster, config, queue, schedule
from support.build import nodes as nodes_of
from support.job_objects import put, small, template
from unisono.api.annotations import GANG_PARTS
from unisono.api.core import Pod
from unisono.api.decode import decode
from unisono.api.gang_parts import decode_parts
from unisono.api.groups.scheduling import PodGroup
from unisono.api.keys import POD_QUEUE
from unisono.api.kind import Kind
from unisono.api.kind_families import JOB_SETS, MPI_JOBS, PYTORCH_JOBS, RAY_CLUSTERS, RAY_JOBS
from unisono.controllers.podgroup.decide import group_of_all, pod_group_for
from unisono.controllers.training.controller import Seen
from unisono.controllers.training.jobset import decide as jobset
from unisono.controllers.training.kubeflow import decide as kubeflow
from unisono.controllers.training.kubeflow.frameworks import PyTorch
from unisono.controllers.training.kubeflow.mpi import Mpi
from unisono.controllers.training.ray import cluster as ray_cluster
from unisono.controllers.training.ray import job as ray_job
from unisono.engine.verdict import Cause
from unisono.jobkinds.kind import no_pods
from unisono.jobkinds.registry import ALL, job_kind, queue_of

NOW = 1_700_000_000.0


def made(kind: Kind[Any], spec: dict[str, Any], name: str = "x", **meta: Any) -> Any:
    given = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **meta}
    return decode(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": given, "spec": spec}).obj


def job_of(cpu: str, replicas: int = 1, **more: Any) -> dict[str, Any]:
    body = {"spec": {"parallelism": replicas, "completions": replicas, "template": template(cpu=cpu)}}
    return {"replicas": 1, "template": body, **more}


def in_set(*jobs: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"replicatedJobs": [{"name": f"j{index}", **each} for index, each in enumerate(jobs)], **spec}


def needs(index: int, status: str) -> dict[str, Any]:
    return {"dependsOn": [{"name": f"j{index}", "status": status}]}


def mpi(workers: int = 2, **spec: Any) -> dict[str, Any]:
    roles = {"Launcher": (1, "0.5"), "Worker": (workers, "1")}
    given = {role: {"replicas": count, "template": template(cpu=cpu)} for role, (count, cpu) in roles.items()}
    return {"mpiReplicaSpecs": given, **spec}


def ray(**spec: Any) -> dict[str, Any]:
    given = {"groupName": "w", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, "template": template("ray-worker")}
    given |= {"rayStartParams": {}}
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": template("ray-head")},
        "workerGroupSpecs": [given],
        **spec,
    }


def group_of(kind: Kind[Any], spec: dict[str, Any], name: str = "x") -> PodGroup:
    job = made(kind, copy.deepcopy(spec), name)
    if kind is JOB_SETS:
        plan = jobset.decide(Seen(job), NOW)
    elif kind is RAY_JOBS:
        made_cluster = None
        for _ in range(3):
            step = ray_job.decide(Seen(job), made_cluster, NOW)
            job.status = step.status or job.status
            found = [each.obj for each in step.ensure if each.kind is RAY_CLUSTERS]
            made_cluster = found[0] if found else made_cluster
        assert made_cluster is not None
        made_cluster.metadata.uid = f"uid-cluster-{name}"
        plan = ray_cluster.decide(Seen(made_cluster), NOW)
    elif kind is RAY_CLUSTERS:
        plan = ray_cluster.decide(Seen(job), NOW)
    else:
        plan = kubeflow.decide(Seen(job), Mpi() if kind is MPI_JOBS else PyTorch(), NOW)
    assert plan.create_group is not None
    return plan.create_group


WAITS = {"launcherCreationPolicy": "WaitForWorkersReady"}
IN_ORDER = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}


def at_least(number: int) -> dict[str, Any]:
    return {"runPolicy": {"schedulingPolicy": {"minAvailable": number}}}


@pytest.mark.parametrize(
    ("kind", "spec", "members", "cpu"),
    [
        (RAY_CLUSTERS, ray(), 3, "3"),
        (RAY_JOBS, {"entrypoint": "x", "rayClusterSpec": ray()}, 3, "3500m"),
        (RAY_JOBS, {"entrypoint": "x", "rayClusterSpec": ray(), "submissionMode": "HTTPMode"}, 3, "3500m"),
        (RAY_JOBS, {"entrypoint": "x", "rayClusterSpec": ray(), "submissionMode": "SidecarMode"}, 3, "3500m"),
        (RAY_JOBS, {"entrypoint": "x", "rayClusterSpec": ray(), "submissionMode": "InteractiveMode"}, 3, "3"),
        (RAY_JOBS, {"entrypoint": "x", "rayClusterSpec": ray(), "submitterPodTemplate": template(cpu="2")}, 3, "5"),
        (MPI_JOBS, mpi(), 3, "2500m"),
        (MPI_JOBS, mpi(**WAITS), 2, "2500m"),
        (MPI_JOBS, mpi(**WAITS, **at_least(3)), 2, "2500m"),
        (MPI_JOBS, mpi(4, **WAITS, **at_least(2)), 2, "2500m"),
        (PYTORCH_JOBS, {"pytorchReplicaSpecs": {"Worker": {"replicas": 3, "template": template()}}}, 3, "3"),
        (JOB_SETS, in_set(job_of("1"), job_of("1", 2)), 3, "3"),
        (JOB_SETS, in_set(job_of("1"), job_of("1", 2, **needs(0, "Ready"))), 1, "3"),
        (JOB_SETS, in_set(job_of("1"), job_of("1", 2), **IN_ORDER), 1, "3"),
        # What must have ended before is not there at the same time.
        (JOB_SETS, in_set(job_of("1"), job_of("1", 4, **needs(0, "Complete"))), 1, "4"),
        (JOB_SETS, in_set(job_of("8"), job_of("1", 4, **needs(0, "Complete"))), 1, "8"),
        (JOB_SETS, in_set(job_of("8"), job_of("2"), job_of("1", 7, **needs(0, "Complete"))), 2, "10"),
        (JOB_SETS, in_set(job_of("1"), job_of("3", **needs(0, "Complete")), job_of("4", **needs(1, "Ready"))), 1, "7"),
    ],
)
def test_what_is_made_later_is_reserved_and_no_member(
    kind: Kind[Any], spec: dict[str, Any], members: int, cpu: str
) -> None:
    group = group_of(kind, spec)
    assert group.spec.min_member == members
    assert (group.spec.min_resources or {})["cpu"] == cpu
    parts = decode_parts((group.metadata.annotations or {})[GANG_PARTS])
    assert sum(part.count for part in parts) == members
    assert sum(part.later for part in parts if part.count) == 0


@pytest.mark.parametrize(
    "kind", [each for each in ALL if each.pods is not no_pods], ids=lambda each: each.kind.resource
)
def test_every_kind_tells_its_pods_from_the_object_alone(kind: Any) -> None:
    obj = decode(kind.kind, small(kind)).obj
    for pods in kind.pods(obj):
        assert pods.count >= 0
        assert pods.spec.containers
        assert pods.least is None or 0 <= pods.least <= pods.count
        assert not (pods.later and pods.least)


def test_the_second_of_two_jobs_is_not_let_in_on_what_the_first_has_not_made_yet() -> None:
    spec = {"entrypoint": "x", "rayClusterSpec": ray()}
    groups = [group_of(RAY_JOBS, spec, name) for name in ("first", "second")]
    for index, group in enumerate(groups):
        group.spec.queue, group.metadata.creation_timestamp = "q", f"2026-01-01T00:00:0{index}Z"
    state = cluster(nodes_of(10), queue("q", capability={"cpu": 6}), *groups)
    decisions = schedule(state, config(("gang",), ("predicates", "proportion")))
    assert {each.name for each in decisions.pod_groups if each.phase == "Inqueue"} == {"ray-first-pg"}
    verdict = decisions.verdicts["ns/ray-second-pg"]
    assert verdict.cause is Cause.OVER_CAPABILITY
    assert "minResources" not in verdict.message
    assert type(verdict.change).__name__ != "SetMinResources"


def spark_group(name: str) -> PodGroup:
    """The group of an application whose driver has come: it has 1 cpu, and its two executors 2 each."""
    kind = next(each for each in ALL if each.kind.kind == "SparkApplication")
    executor = {"instances": 2, "cores": 2, "memory": "1g"}
    app = made(kind.kind, {"driver": {"cores": 1, "memory": "1g"}, "executor": executor}, name)
    body = {"metadata": {"name": f"{name}-driver", "namespace": "ns", "uid": name}, "spec": template()["spec"]}
    driver = msgspec.convert(body, Pod)
    return group_of_all(pod_group_for(driver, {}, "q"), driver, kind, app)


def test_a_second_driver_is_not_let_in_on_what_the_first_has_not_made_yet() -> None:
    groups = [spark_group(name) for name in ("first", "second")]
    for index, group in enumerate(groups):
        group.metadata.creation_timestamp = f"2026-01-01T00:00:0{index}Z"
    state = cluster(nodes_of(20), queue("q", capability={"cpu": 9}), *groups)
    decisions = schedule(state, config(("gang",), ("predicates", "proportion")))
    assert {each.name for each in decisions.pod_groups if each.phase == "Inqueue"} == {groups[0].metadata.name}
    assert decisions.verdicts[groups[1].key].cause is Cause.OVER_CAPABILITY


def test_the_kinds_are_found_by_their_names_in_any_version() -> None:
    assert all(job_kind(each.kind) is each for each in ALL)


@pytest.mark.parametrize("kind", [each for each in ALL if each.queues])
def test_a_queue_is_heeded_in_one_order_and_what_is_not_used_is_told(kind: Any) -> None:
    body = small(kind)
    for index, place in reversed(list(enumerate(kind.queues))):
        body = put(body, place, f"q{index}")
        assert queue_of(body) == queue_of(decode(kind.kind, body).obj) == f"q{index}"
        assert [line for line in kind.unheeded(body) if f"queue q{index} " in line] == []
        assert all(f"the pods go to queue q{index}" in line for line in kind.unheeded(body))
    elsewhere = [place for place in kind.places if place not in kind.queues]
    for place in elsewhere:
        assert len(kind.unheeded(put(small(kind), place, "lost"))) >= 1, place
        assert queue_of(put(small(kind), place, "lost")) == ""


def test_the_gang_waits_in_the_queue_that_its_templates_name() -> None:
    spec = copy.deepcopy(mpi())
    spec["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]["annotations"] = {POD_QUEUE: "gold"}
    assert group_of(MPI_JOBS, spec).spec.queue == "gold"
    assert group_of(MPI_JOBS, {**spec, "runPolicy": {"schedulingPolicy": {"queue": "silver"}}}).spec.queue == "silver"
    assert group_of(MPI_JOBS, {**spec, "schedulingPolicy": {"queue": "silver"}}).spec.queue == "silver"
