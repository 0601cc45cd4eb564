"""RayClusters and RayJobs with a real Ray: clusters form, submitted programs run, and their end is the job's."""

from __future__ import annotations

import json
import shlex
import urllib.request
from typing import Any

import pytest
from framework_jobs import SCRIPTS, Jobs, need

pytestmark = [pytest.mark.frameworks, pytest.mark.processes, pytest.mark.xdist_group("processes")]

SUM = f"sum of squares: {sum(number * number for number in range(20))}"
QUIET = [{"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}]
# What Ray is told the containers have; the pods ask the machine for less, which runs other tests too.
TOLD = {"num-cpus": "1", "object-store-memory": "100000000"}


def pod(name: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "50m", "memory": "64Mi"}}
    return {"spec": {"containers": [{"name": name, "image": "ray", "env": QUIET, "resources": resources}]}}


def cluster(workers: int) -> dict[str, Any]:
    group = {"groupName": "small", "replicas": workers, "minReplicas": workers, "maxReplicas": workers}
    return {
        "headGroupSpec": {"rayStartParams": TOLD, "template": pod("ray-head")},
        "workerGroupSpecs": [{**group, "rayStartParams": TOLD, "template": pod("ray-worker")}],
    }


def ray_job(name: str, *words: str, **spec: Any) -> dict[str, Any]:
    (container,) = pod("submitter")["spec"]["containers"]
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": {
            "entrypoint": shlex.join(["python", str(SCRIPTS / "squares.py"), "2", *words]),
            "rayClusterSpec": cluster(1),
            "submitterPodTemplate": {"spec": {"restartPolicy": "Never", "containers": [container]}},
            **spec,
        },
    }


def ended(jobs: Jobs, name: str) -> dict[str, Any]:
    """The RayJob as soon as it has come to an end."""

    def status() -> dict[str, Any] | None:
        job = jobs.reader.get("rayjobs.ray.io", name)
        return job if job.get("status", {}).get("jobDeploymentStatus") in ("Complete", "Failed") else None

    found: dict[str, Any] = jobs.patiently(f"RayJob {name} ends", status, name)
    return found


def test_a_ray_cluster_forms_and_runs_what_is_submitted_from_outside(jobs: Jobs) -> None:
    need("ray")
    jobs.submit({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "rc"}, "spec": cluster(2)})

    def ready() -> dict[str, Any] | None:
        value = jobs.reader.get("rayclusters.ray.io", "rc")
        return value if value.get("status", {}).get("state") == "ready" else None

    status = jobs.patiently("the cluster is ready", ready, "rc")["status"]
    assert (status["desiredWorkerReplicas"], status["readyWorkerReplicas"]) == (2, 2)
    group = jobs.reader.get("podgroups.scheduling.volcano.sh", "ray-rc-pg")
    assert group["spec"]["minMember"] == 3
    head = next(pod for name, pod in jobs.pods("rc-head").items())
    dashboard = f"http://{head['status']['podIP']}:8265"
    with urllib.request.urlopen(f"{dashboard}/api/version", timeout=300) as answer:
        assert json.load(answer)["ray_version"]

    body = json.dumps({"entrypoint": f"python {SCRIPTS / 'squares.py'} 3", "submission_id": "outside"}).encode()
    request = urllib.request.Request(f"{dashboard}/api/jobs/", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        assert json.load(answer)["submission_id"] == "outside"

    def done() -> str:
        with urllib.request.urlopen(f"{dashboard}/api/jobs/outside", timeout=300) as answer:
            state = str(json.load(answer)["status"])
        assert state not in ("FAILED", "STOPPED")
        return state if state == "SUCCEEDED" else ""

    jobs.patiently("the submitted program has ended", done, "rc")
    with urllib.request.urlopen(f"{dashboard}/api/jobs/outside/logs", timeout=300) as answer:
        logs = json.load(answer)["logs"]
    assert "nodes: 3" in logs
    assert SUM in logs


def test_a_ray_job_completes_and_takes_its_cluster_away(jobs: Jobs) -> None:
    need("ray")
    jobs.submit(ray_job("good", shutdownAfterJobFinishes=True))
    status = ended(jobs, "good")["status"]
    submitter = next(iter(jobs.pods("good-submitter")))
    told = jobs.log(submitter)
    assert (status["jobDeploymentStatus"], status["jobStatus"]) == ("Complete", "SUCCEEDED"), told
    assert SUM in told
    jobs.patiently("the cluster is gone", lambda: set(jobs.pods("good")) == {submitter}, "good")
    assert jobs.reader.get("rayclusters.ray.io", status["rayClusterName"]) == {}


def test_a_ray_job_whose_program_fails_has_failed(jobs: Jobs) -> None:
    need("ray")
    jobs.submit(ray_job("bad", "fail"))
    status = ended(jobs, "bad")["status"]
    assert (status["jobDeploymentStatus"], status["jobStatus"]) == ("Failed", "FAILED")
    assert status["reason"] == "AppFailed"
    assert SUM in jobs.log(next(iter(jobs.pods("bad-submitter"))))
    assert set(jobs.pods(status["rayClusterName"])), "the cluster stays, for its logs are of interest"
