"""What the SDK asks of each kind of job, from objects alone."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.decode import decode
from unisono.api.kind import Kind
from unisono.api.kind_families import (
    BATCH_JOBS,
    HYPER_JOBS,
    JOB_FLOWS,
    JOB_SETS,
    MPI_JOBS,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    RAY_JOBS,
    RAY_SERVICES,
    RUN_KINDS,
    TRAIN_JOBS,
)
from unisono.api.kinds import JOBS, PODS, find
from unisono.jobkinds.kind import JobKind
from unisono.jobkinds.registry import JOB_KINDS, PARTS, job_kind
from unisono.sdk.clients.aio import AsyncClient
from unisono.sdk.errors import BadWork
from unisono.sdk.jobs.control import is_job, job_kind_of, named, size_patch, suspend_patch
from unisono.sdk.state.views import JobView


def known(kind: Kind[Any]) -> JobKind:
    found = job_kind_of(kind)
    assert found is not None
    return found


def obj(kind: Kind[Any], spec: dict[str, Any]) -> Any:
    return decode(kind, {"metadata": {"name": "j"}, "spec": spec}).obj


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("PyTorchJob", PYTORCH_JOBS),
        ("pytorchjobs.kubeflow.org", PYTORCH_JOBS),
        ("mpijob", MPI_JOBS),
        ("job", JOBS),
        ("jobs.batch.volcano.sh", JOBS),
        ("job.batch", BATCH_JOBS),
        ("jf", JOB_FLOWS),
        ("RayJob", RAY_JOBS),
    ],
)
def test_kinds_by_name(name: str, kind: Kind[Any]) -> None:
    assert named(name) is kind


def test_an_unknown_kind_is_told_which_there_are() -> None:
    with pytest.raises(BadWork, match=r"'pod' is no kind of job.*PyTorchJob.*RayJob.*job\.batch"):
        named("pod")
    assert job_kind_of(PODS) is None


def test_every_training_kind_but_services_is_a_job_or_a_part_of_one() -> None:
    assert {kind.kind for kind in RUN_KINDS if kind not in (*JOB_KINDS, *PARTS)} == {RAY_SERVICES.kind}


@pytest.mark.parametrize("kind", JOB_KINDS)
def test_how_every_kind_of_job_is_stopped_is_known(kind: Kind[Any]) -> None:
    job_kind = known(kind)
    if job_kind.control == "flag":
        assert not decode(kind, {"metadata": {"name": "j"}, **suspend_patch(job_kind, True)}).unknown_fields


@pytest.mark.parametrize("kind", JOB_KINDS)
def test_every_version_of_a_kind_is_a_job(kind: Kind[Any]) -> None:
    for version in (kind.version, *kind.alias_versions):
        api_version = f"{kind.group}/{version}"
        assert is_job(api_version, kind.kind)
        assert find(api_version, kind.kind) is kind
    assert not is_job("v1", kind.kind)


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        (PYTORCH_JOBS, {"spec": {"runPolicy": {"suspend": True}}}),
        (TRAIN_JOBS, {"spec": {"suspend": True}}),
        (JOB_SETS, {"spec": {"suspend": True}}),
        (RAY_JOBS, {"spec": {"suspend": True}}),
        (BATCH_JOBS, {"spec": {"suspend": True}}),
    ],
)
def test_where_the_flag_of_suspension_is(kind: Kind[Any], patch: dict[str, Any]) -> None:
    assert suspend_patch(known(kind), True) == patch
    assert find(kind.api_version, kind.kind) is kind
    decoded = decode(kind, {"metadata": {"name": "j"}, **patch})
    assert not decoded.unknown_fields, "the kind has such a field"


@pytest.mark.parametrize("kind", [JOB_FLOWS, HYPER_JOBS])
def test_flows_are_not_suspended_as_a_whole(kind: Kind[Any]) -> None:
    with pytest.raises(BadWork, match="suspend the jobs that it is made of"):
        suspend_patch(known(kind), True)


TORCH = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 2}}}


@pytest.mark.parametrize(
    ("kind", "spec", "task", "patch"),
    [
        (PYTORCH_JOBS, TORCH, "Worker", {"pytorchReplicaSpecs": {"Worker": {"replicas": 5}}}),
        (PYTORCH_JOBS, TORCH, "worker", {"pytorchReplicaSpecs": {"Worker": {"replicas": 5}}}),
        (MPI_JOBS, {"mpiReplicaSpecs": {"Worker": {}}}, "Worker", {"mpiReplicaSpecs": {"Worker": {"replicas": 5}}}),
        (BATCH_JOBS, {"parallelism": 2, "completions": 4}, "pod", {"parallelism": 5}),
        (
            BATCH_JOBS,
            {"parallelism": 2, "completions": 2, "completionMode": "Indexed"},
            "pod",
            {"parallelism": 5, "completions": 5},
        ),
    ],
)
def test_sizes(kind: Kind[Any], spec: dict[str, Any], task: str, patch: dict[str, Any]) -> None:
    assert size_patch(known(kind), obj(kind, spec), task, 5) == {"spec": patch}


@pytest.mark.parametrize(
    ("kind", "spec", "task", "replicas", "told"),
    [
        (PYTORCH_JOBS, TORCH, "ps", 1, "no task 'ps': its tasks are Master, Worker"),
        (PYTORCH_JOBS, TORCH, "Worker", -1, "0 or more"),
        (BATCH_JOBS, {}, "worker", 1, "its tasks are pod"),
        (JOB_SETS, {"replicatedJobs": []}, "a", 1, "a JobSet keeps the size"),
        (JOB_FLOWS, {"flows": []}, "a", 1, "a JobFlow keeps the size"),
    ],
)
def test_sizes_that_cannot_be(kind: Kind[Any], spec: dict[str, Any], task: str, replicas: int, told: str) -> None:
    with pytest.raises(BadWork, match=told):
        size_patch(known(kind), obj(kind, spec), task, replicas)


@pytest.mark.parametrize(
    ("replicas", "told"), [(3, ""), (1, "may have 2 to 4 replicas, and not 1"), (5, "and not 5"), (-1, "0 or more")]
)
def test_worker_groups_of_ray_keep_their_limits(replicas: int, told: str) -> None:
    groups = [{"groupName": "a"}, {"groupName": "b", "minReplicas": 2, "maxReplicas": 4}]
    cluster = obj(RAY_CLUSTERS, {"workerGroupSpecs": groups})
    groups_kind = job_kind(RAY_CLUSTERS)
    assert groups_kind is not None
    if told:
        with pytest.raises(BadWork, match=told):
            size_patch(groups_kind, cluster, "b", replicas)
    else:
        patch = size_patch(groups_kind, cluster, "b", replicas)
        assert isinstance(patch, list)
        assert patch[-1]["path"] == "/spec/workerGroupSpecs/1/replicas"


def test_a_view_of_a_kind_that_is_not_known_is_refused() -> None:
    with pytest.raises(BadWork, match=r"Job of example\.com/v1 is not a kind of job that the SDK knows"):
        AsyncClient()._key(JobView("j", "default", "Job", api_version="example.com/v1"))
