"""``unisono up`` with real kubectl: the first walk of a user through jobs, gangs and queues."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.plane import RunningPlane, unisono, wait_until

pytestmark = [pytest.mark.kubectl, pytest.mark.processes]

Start = Callable[..., RunningPlane]
QUEUES = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: queue-a}}
spec: {{weight: {a}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: queue-b}}
spec: {{weight: {b}}}
"""


def phase_of(plane: RunningPlane, job: str) -> str:
    done = plane.try_kubectl("get", "vcjob", job, "-o", "jsonpath={.status.state.phase}")
    return done.stdout


def test_hello_runs_and_its_log_is_read(start_plane: Start, manifests: Path) -> None:
    plane = start_plane()
    assert "job.batch.volcano.sh/hello-volcano-job created" in plane.apply(manifests / "05-hello.yaml")
    plane.kubectl("wait", "vcjob/hello-volcano-job", "--for=jsonpath={.status.state.phase}=Running", "--timeout=300s")
    wait_until("the log is there", lambda: "Hello Volcano!" in plane.kubectl("logs", "hello-volcano-job-mytask-0"))
    assert "Hello Volcano!" in plane.unisono("logs", "job/hello-volcano-job").stdout
    assert re.search(r"hello-volcano-job-mytask-0\s+1/1\s+Running", plane.kubectl("get", "pods"))
    plane.kubectl("delete", "vcjob", "hello-volcano-job")
    wait_until("the pods are gone", lambda: not plane.pods())


def test_two_queues_share_by_weight_while_both_have_a_backlog(start_plane: Start, manifests: Path) -> None:
    """Mission example 06: weights 1 and 2, six jobs of half a CPU each, room for six."""
    plane = start_plane("--no-agent", nodes="- {name: node, count: 3, capacity: {cpu: 1, memory: 4Gi}}")
    example = (manifests / "06-two-queues.yaml").read_text()
    queues, job = example.rsplit("---", 1)
    jobs = [
        job.replace("job-a-1", f"job-{name}-{number}").replace("queue-a", f"queue-{name}")
        for number in range(1, 7)
        for name in "ab"
    ]
    nodes = [f"node-{number}" for number in range(3)]
    # Nobody gets room before all are there: what one takes while it is alone stays with it.
    plane.kubectl("cordon", *nodes)
    plane.apply(queues, "---".join(jobs))
    wait_until("all have asked", lambda: len(plane.objects("podgroups")) == len(jobs))
    plane.kubectl("uncordon", *nodes)

    def shares() -> tuple[int, int]:
        running = [pod["metadata"]["name"] for pod in plane.pods("Running")]
        return sum("job-a" in name for name in running), sum("job-b" in name for name in running)

    wait_until("the cluster is full", lambda: sum(shares()) == 6)
    assert shares() == (2, 4)


@pytest.fixture(scope="module")
def plane(start_shared_plane: Start) -> RunningPlane:
    nodes = "- {name: gpu, count: 2, capacity: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8}}"
    return start_shared_plane("--no-agent", nodes=nodes)


def test_both_spellings_of_the_job_version_are_accepted(plane: RunningPlane, manifests: Path) -> None:
    plane.apply(manifests / "03-queues.yaml", manifests / "04-pytorch-gang.yaml")
    wait_until("all nine run", lambda: len(plane.pods("Running")) == 9)
    wait_until("the job says so", lambda: phase_of(plane, "pytorch-distributed-gang") == "Running")
    beta = plane.kubectl("get", "jobs.v1beta1.batch.volcano.sh", "pytorch-distributed-gang", "-o", "yaml")
    assert "apiVersion: batch.volcano.sh/v1beta1" in beta
    plane.kubectl("delete", "vcjob", "pytorch-distributed-gang")


JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: bad}
spec:
  minAvailable: 1
  queue: default
  tasks:
    - {name: a, replicas: 1, template: {spec: {containers: [{name: c, image: i, command: [sleep, "1"]}]}}}
    - {name: b, replicas: 1, template: {spec: {containers: [{name: c, image: i, command: [sleep, "1"]}]}}}
"""
BAD = {
    "unknown field": (("replicas: 1, template", "replica: 1, template"), 'unknown field "spec.tasks[0].replica"'),
    "negative replicas": (("name: a, replicas: 1", "name: a, replicas: -1"), "replicas"),
    "minAvailable above replicas": (("minAvailable: 1", "minAvailable: 3"), "minAvailable"),
    "duplicate task name": (("name: b,", "name: a,"), "duplicated task name"),
    "missing queue": (("queue: default", "queue: nowhere"), "nowhere"),
    "wrong type": (("minAvailable: 1", 'minAvailable: "many"'), "minAvailable"),
}


def test_bad_input_names_the_field_and_stores_nothing(plane: RunningPlane) -> None:
    for title, ((old, new), expected) in BAD.items():
        done = plane.try_kubectl("apply", "-f", "-", text=JOB.replace(old, new, 1))
        assert done.returncode == 1, title
        assert expected in done.stderr, f"{title}: {done.stderr}"
        assert not plane.objects("vcjob"), title


def test_a_closed_queue_refuses_jobs(plane: RunningPlane) -> None:
    plane.apply(QUEUES.format(a=1, b=1))
    plane.kubectl(
        "patch", "queue", "queue-a", "--subresource=status", "--type=merge", "-p", '{"status":{"state":"Closed"}}'
    )
    done = plane.try_kubectl("apply", "-f", "-", text=JOB.replace("queue: default", "queue: queue-a"))
    assert done.returncode == 1
    assert "queue-a" in done.stderr
    assert not plane.objects("vcjob")


def test_detach_and_down(tmp_path: Path) -> None:
    data = str(tmp_path / "d")
    told = unisono("up", "--detach", "--data-dir", data).stdout
    try:
        assert "export KUBECONFIG=" in told
        assert (tmp_path / "d" / "kubeconfig").stat().st_mode & 0o777 == 0o600
        again = unisono("up", "--data-dir", data, check=False)
        assert again.returncode == 1
        assert "already runs" in again.stderr
        assert "Ready" in unisono("get", "nodes", "--data-dir", data).stdout
    finally:
        unisono("down", "--data-dir", data)
    assert "No control plane runs" in unisono("down", "--data-dir", data).stdout
