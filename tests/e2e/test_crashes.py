"""SIGKILL at bad moments: nothing that was acknowledged is lost, nothing is there twice, running processes go on."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from support.plane import RunningPlane, wait_until
from support.ports import free_port

pytestmark = [pytest.mark.kubectl, pytest.mark.processes]

Start = Callable[..., RunningPlane]
JOBS = 500


def job(number: int) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "command": ["sleep", "1"], "resources": {"requests": {"cpu": "1000"}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": f"job-{number}"},
        "spec": {
            "minAvailable": 1,
            "tasks": [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [container]}}}],
        },
    }


class Submitter:
    """POSTs jobs straight to the API and remembers which were acknowledged.

    The last quarter of them waits for ``rest``.
    """

    def __init__(self, plane: RunningPlane) -> None:
        self.rest = Event()
        config = json.loads(plane.kubectl("config", "view", "--raw", "-o", "json"))
        self.url = (
            config["clusters"][0]["cluster"]["server"] + "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
        )
        self.token = config["users"][0]["user"]["token"]
        import base64

        authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
        self.tls = ssl.create_default_context(cadata=authority)
        self.acknowledged: set[str] = set()

    def submit(self, number: int) -> int:
        if number >= JOBS * 3 // 4:
            self.rest.wait()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url, json.dumps(job(number)).encode(), headers)
        try:
            with urllib.request.urlopen(request, context=self.tls, timeout=300) as answer:
                self.acknowledged.add(json.load(answer)["metadata"]["name"])
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except (OSError, ValueError):
            return 0


@pytest.mark.more
def test_kill_in_the_middle_of_500_submissions_loses_no_acknowledged_job(start_plane: Start) -> None:
    plane = start_plane("--no-agent")
    submitter = Submitter(plane)
    with ThreadPoolExecutor(16) as pool:
        answers = pool.map(submitter.submit, range(JOBS))
        try:
            wait_until("some are acknowledged", lambda: len(submitter.acknowledged) >= JOBS // 4)
            plane.kill()
        finally:
            submitter.rest.set()
        list(answers)
    before = set(submitter.acknowledged)
    assert JOBS // 4 <= len(before) < JOBS
    plane.start()
    names = [item["metadata"]["name"] for item in plane.objects("vcjob")]
    assert len(names) == len(set(names))
    assert before <= set(names)
    again = Submitter(plane)
    again.rest.set()
    with ThreadPoolExecutor(16) as pool:
        codes = list(pool.map(again.submit, range(JOBS)))
    assert set(codes) <= {201, 409}
    assert {item["metadata"]["name"] for item in plane.objects("vcjob")} == {f"job-{n}" for n in range(JOBS)}
    assert codes.count(409) == len(names)


LONG = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: long}
spec:
  minAvailable: 2
  tasks:
    - name: t
      replicas: 2
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: c
              image: i
              command: [sh, -c, 'echo started $$; while [ ! -e FLAG ]; do sleep 0.1; done; echo finished']
              resources: {requests: {cpu: 100m}}
"""


def test_running_processes_outlive_a_crash_and_are_found_again(start_plane: Start, tmp_path: Path) -> None:
    plane = start_plane()
    # Below a directory of the tests, which other users may not enter.
    plane.kubectl("label", "namespace", "default", "pod-security.kubernetes.io/enforce=privileged")
    flag = tmp_path / "flag"
    plane.apply(LONG.replace("FLAG", str(flag)))
    wait_until("both run", lambda: len(plane.pods("Running")) == 2)
    for name in ("long-t-0", "long-t-1"):
        wait_until(f"{name} has said so", lambda name=name: "started" in plane.kubectl("logs", name))
    before = {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], plane.kubectl("logs", pod["metadata"]["name"]))
        for pod in plane.pods()
    }
    plane.kill()
    plane.start()
    after = {
        pod["metadata"]["name"]: (pod["metadata"]["uid"], plane.kubectl("logs", pod["metadata"]["name"]))
        for pod in plane.pods()
    }
    assert after == before
    flag.touch()
    plane.kubectl("wait", "vcjob/long", "--for=jsonpath={.status.state.phase}=Completed", "--timeout=300s")
    assert plane.kubectl("logs", "long-t-1").endswith("finished\n")


@pytest.mark.more
def test_two_jobs_with_one_fixed_port_both_run(start_plane: Start) -> None:
    port = free_port()
    server = f"import socket, time; s = socket.create_server(('0.0.0.0', {port})); print('listening', flush=True)"
    server += "; time.sleep(600)"
    manifest = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  schedulerName: volcano
  restartPolicy: Never
  containers:
    - {{name: c, image: i, command: [python, -c, "{server}"], ports: [{{containerPort: {port}}}]}}
"""
    plane = start_plane()
    plane.apply(*(manifest.format(name=name, server=server, port=port) for name in ("first", "second")))

    def outcome() -> bool:
        logs = [plane.try_kubectl("logs", name).stdout for name in ("first", "second")]
        if all("listening" in log for log in logs):
            return True
        waiting = [pod["metadata"]["name"] for pod in plane.pods("Pending")]
        return bool(waiting) and str(port) in plane.unisono("explain", f"pod/{waiting[0]}", check=False).stdout

    wait_until("both listen, or the second says which port it waits for", outcome)
