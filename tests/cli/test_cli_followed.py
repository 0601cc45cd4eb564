"""What run tells of training jobs and batch Jobs, from objects alone."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.core import Pod
from unisono.api.decode import decode
from unisono.api.groups.scheduling import PodGroup
from unisono.api.kinds import POD_GROUPS, PODS, find
from unisono.cli.manifests import Manifest, read
from unisono.cli.running.report import changes
from unisono.cli.running.submitting import is_workload, target_kind
from unisono.errors import UnisonoError
from unisono.sdk.state.observing import wanted_pods, workload_view

PYTORCH, TRAIN = "kubeflow.org/v1 PyTorchJob", "trainer.kubeflow.org/v1alpha1 TrainJob"
JOB_SET = "jobset.x-k8s.io/v1alpha2 JobSet"
HYPER = "training.volcano.sh/v1alpha1 HyperJob"
RAY, BATCH, MPI = "ray.io/v1 RayJob", "batch/v1 Job", "kubeflow.org/v2beta1 MPIJob"


def job(what: str, spec: dict[str, Any] | None = None, **status: Any) -> Any:
    api_version, name = what.split()
    kind = find(api_version, name)
    assert kind is not None
    value = {"metadata": {"name": "train", "namespace": "ns", "uid": "u"}, "spec": spec or {}, "status": status}
    return decode(kind, value).obj


def true(name: str, message: str = "", reason: str = "") -> dict[str, str]:
    return {"type": name, "status": "True", "message": message, "reason": reason}


def pod(name: str, phase: str, node: str | None = None, code: int | None = None, part: str = "") -> Pod:
    status: dict[str, Any] = {"phase": phase}
    if code is not None:
        status["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": code, "reason": "Error"}}}]
    labels = dict([part.split("=")]) if part else {}
    spec = {"containers": [{"name": "c"}], **({"nodeName": node} if node else {})}
    return decode(PODS, {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}).obj


def group(phase: str, members: int = 2, queue: str = "research") -> PodGroup:
    value = {"metadata": {"name": "g"}, "spec": {"minMember": members, "queue": queue}, "status": {"phase": phase}}
    return decode(POD_GROUPS, value).obj


@pytest.mark.parametrize(
    ("what", "status", "phase", "message"),
    [
        (PYTORCH, {}, "Pending", ""),
        (PYTORCH, {"conditions": [true("Created"), true("Running")]}, "Running", ""),
        (PYTORCH, {"conditions": [true("Created"), true("Restarting", "once more")]}, "Restarting", "once more"),
        (PYTORCH, {"conditions": [true("Succeeded", "all good")]}, "Completed", "all good"),
        (PYTORCH, {"conditions": [true("Failed", "worker 1 failed")]}, "Failed", "worker 1 failed"),
        (PYTORCH, {"conditions": [true("Suspended", "paused")]}, "Suspended", "paused"),
        (MPI, {"conditions": [true("Succeeded", "done")]}, "Completed", "done"),
        (TRAIN, {"conditions": [true("Complete", "done")]}, "Completed", "done"),
        (TRAIN, {"conditions": [true("Failed", reason="RuntimeNotFound")]}, "Failed", "RuntimeNotFound"),
        (JOB_SET, {"conditions": [true("Completed", "done")]}, "Completed", "done"),
        (BATCH, {"conditions": [true("SuccessCriteriaMet", "soon")]}, "Pending", ""),
        (BATCH, {"conditions": [true("SuccessCriteriaMet"), true("Complete", "done")]}, "Completed", "done"),
        (BATCH, {"conditions": [true("FailureTarget"), true("Failed", "deadline")]}, "Failed", "deadline"),
        (BATCH, {"conditions": [{**true("Failed", "old"), "status": "False"}]}, "Pending", ""),
        (RAY, {}, "Pending", ""),
        (RAY, {"jobDeploymentStatus": "Initializing"}, "Pending", ""),
        (RAY, {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, "Running", ""),
        (RAY, {"jobDeploymentStatus": "Retrying", "message": "again"}, "Restarting", "again"),
        (RAY, {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "message": "fine"}, "Completed", "fine"),
        (RAY, {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, "Failed", ""),
        (RAY, {"jobDeploymentStatus": "Failed", "reason": "AppFailed"}, "Failed", "AppFailed"),
        (RAY, {"jobDeploymentStatus": "ValidationFailed", "message": "bad"}, "Failed", "bad"),
    ],
)  # fmt: skip
def test_a_jobs_own_words_decide_its_phase(what: str, status: dict[str, Any], phase: str, message: str) -> None:
    view = workload_view(job(what, **status), [], [], [])
    assert (view.phase, view.message) == (phase, message)
    assert view.ended is (phase in ("Completed", "Failed"))
    assert view.succeeded is (phase == "Completed")


def test_pods_are_counted_by_role_against_what_was_asked_for() -> None:
    spec = {"pytorchReplicaSpecs": {"Master": {}, "Worker": {"replicas": 2}}}
    part = "training.kubeflow.org/replica-type=worker"
    pods = [pod("train-worker-0", "Running", "n1", part=part), pod("train-worker-1", "Pending", part=part)]
    view = workload_view(job(PYTORCH, spec), [], [group("Inqueue", 3)], pods, "stale")
    assert [(task.name, task.wanted, task.count("Running")) for task in view.tasks] == [
        ("master", 1, 0),
        ("worker", 2, 1),
    ]
    assert (view.queue, view.gang, view.placed, view.nodes, view.phase) == ("research", 3, 1, ("n1",), "Running")
    assert view.waiting == ""


def test_who_waits_says_why_and_for_which_gang() -> None:
    view = workload_view(
        job(PYTORCH, {"pytorchReplicaSpecs": {"Worker": {"replicas": 4}}}), [], [group("Pending", 4)], [], "full"
    )
    assert (view.admitted, view.waiting) == (False, "full")
    first, *rest = changes(None, view)
    assert first == "submitted to queue research: 4 pods, 4 of them start together or not at all"
    assert rest == ["waiting: full"]


def test_failed_pods_that_were_taken_away_are_told_of_at_the_end() -> None:
    running = workload_view(job(PYTORCH), [], [group("Running")], [pod("train-worker-0", "Failed", "n1", 3)])
    ended = workload_view(job(PYTORCH, conditions=[true("Failed", "too many")]), [], [], [], known=running)
    assert [(end.name, end.exit_code) for end in ended.ends] == [("train-worker-0", 3)]


JOB_SETS = {"replicatedJobs": [{"name": "node", "replicas": 2, "template": {"spec": {"parallelism": 3}}}]}
CLUSTER = {"headGroupSpec": {}, "workerGroupSpecs": [{"groupName": "gpu", "replicas": 2}, {"groupName": "cpu"}]}


@pytest.mark.parametrize(
    ("what", "spec", "wanted"),
    [
        (JOB_SET, JOB_SETS, {"node": 6}),
        (TRAIN, {"trainer": {"numNodes": 6}}, {}),
        (RAY, {"rayClusterSpec": CLUSTER}, {"headgroup": 1, "gpu": 2, "cpu": 0}),
        (RAY, {"clusterSelector": {"ray.io/cluster": "shared"}}, {}),
        (BATCH, {}, {"pod": 1}),
        (BATCH, {"parallelism": 3}, {"pod": 3}),
        (BATCH, {"parallelism": 3, "completions": 9}, {"pod": 9}),
        (MPI, {"mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 2}}}, {"launcher": 1, "worker": 2}),
    ],
)
def test_the_specification_says_how_many_pods_are_wanted(
    what: str, spec: dict[str, Any], wanted: dict[str, int]
) -> None:
    assert wanted_pods(job(what, spec)) == wanted


def test_a_job_of_jobs_tells_which_of_them_begin_and_have_run() -> None:
    parts = {"replicatedJobs": [{"name": "a", "replicas": 2, "templateSpec": {}}]}
    small, large = (
        job("batch.volcano.sh/v1alpha1 Job", {"tasks": [{"name": "t", "replicas": number}]}) for number in (1, 2)
    )
    large.metadata.name = "large"
    first = workload_view(job(HYPER, parts), [small], [], [pod("p", "Running", "n1", part="volcano.sh/job-name=train")])
    assert changes(None, first) == ["job train begins: 1 pod", "Running"]
    ended = pod("p", "Succeeded", "n1", part="volcano.sh/job-name=train")
    second = workload_view(job(HYPER, parts), [small, large], [], [ended], known=first)
    assert changes(first, second)[:2] == ["job train has run", "job large begins: 2 pods"]
    last = workload_view(job(HYPER, parts, conditions=[true("Failed", "lost one")]), [small, large], [], [ended])
    assert changes(second, last) == ["Failed: lost one"]


def test_a_train_job_shows_the_pods_of_its_job_set() -> None:
    part = "jobset.sigs.k8s.io/replicatedjob-name=node"
    view = workload_view(job(TRAIN), [job(JOB_SET, JOB_SETS)], [], [pod("train-node-0-0", "Running", "n1", part=part)])
    assert [(task.name, task.wanted, task.count("Running")) for task in view.tasks] == [("node", 6, 1)]


def manifest(tmp_path: Any, api_version: str, kind: str) -> Manifest:
    file = tmp_path / "job.yaml"
    file.write_text(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: train}}\n")
    return read([str(file)])[0]


@pytest.mark.parametrize(
    ("what", "target"),
    [
        (PYTORCH, "pytorchjobs.kubeflow.org"),
        (MPI, "mpijobs.kubeflow.org"),
        ("kubeflow.org/v1 MPIJob", "mpijobs.kubeflow.org"),
        (TRAIN, "trainjobs.trainer.kubeflow.org"),
        (RAY, "rayjobs.ray.io"),
        (BATCH, "jobs.batch"),
        ("batch.volcano.sh/v1alpha1 Job", "jobs.batch.volcano.sh"),
        ("flow.volcano.sh/v1alpha1 JobFlow", "jobflows.flow.volcano.sh"),
        (HYPER, "hyperjobs.training.volcano.sh"),
        ("v1 Pod", "pods"),
    ],
)
def test_jobs_of_all_kinds_are_followed(tmp_path: Any, what: str, target: str) -> None:
    found = manifest(tmp_path, *what.split())
    assert is_workload(found)
    assert target_kind(found).resource == target


def test_a_version_that_is_not_served_is_named(tmp_path: Any) -> None:
    found = manifest(tmp_path, "kubeflow.org/v1beta9", "PyTorchJob")
    assert is_workload(found)
    with pytest.raises(UnisonoError, match="no PyTorchJob in version kubeflow"):
        target_kind(found)


def test_what_does_not_end_is_not_followed(tmp_path: Any) -> None:
    assert not is_workload(manifest(tmp_path, "ray.io/v1", "RayCluster"))
    assert not is_workload(manifest(tmp_path, "trainer.kubeflow.org/v1alpha1", "TrainingRuntime"))
