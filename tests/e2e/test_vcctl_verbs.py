"""vcctl's verbs on a running control plane, and the same as kubectl's plug-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.plane import RunningPlane, asked, kubectl, wait_until

pytestmark = [pytest.mark.processes, pytest.mark.kubectl]

NODES = "- {name: sim, count: 1, capacity: {cpu: 8, memory: 16Gi}}"
FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: pipeline}
spec: {flows: [{name: prepare}]}
"""
TEMPLATE = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: prepare}
spec:
  tasks:
    - replicas: 1
      template:
        spec: {restartPolicy: Never, containers: [{name: c, image: busybox, command: ["true"]}]}
"""


@pytest.fixture(scope="module")
def plane(start_shared_plane: Callable[..., RunningPlane]) -> RunningPlane:
    return start_shared_plane("--no-agent", nodes=NODES)


def verb(plane: RunningPlane, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return asked(*words, "--data-dir", str(plane.data_dir), check=check)


def phase(plane: RunningPlane, name: str) -> str:
    job = json.loads(verb(plane, "job", "view", name, "-o", "json").stdout)
    assert "managedFields" not in job["metadata"]
    return str(job["status"].get("state", {}).get("phase", ""))


def test_jobs_queues_and_pods(plane: RunningPlane) -> None:
    assert verb(plane, "queue", "create", "gold", "-w", "3", "--capability", "cpu=4").stdout == (
        "create queue gold successfully\n"
    )
    wait_until("the queue is open", lambda: " Open " in verb(plane, "queue", "get", "-n", "gold").stdout)
    ran = verb(plane, "job", "run", "-N", "demo", "-r", "2", "-m", "2", "-q", "gold")
    assert ran.stdout == "run job demo successfully\n"
    wait_until("the job runs", lambda: phase(plane, "demo") == "Running")
    assert "demo" in verb(plane, "job", "list", "--queue", "gold").stdout
    assert verb(plane, "job", "list", "--queue", "default").stdout == "No resources found\n"
    assert "Events:" in verb(plane, "job", "view", "-N", "demo").stdout
    pods = verb(plane, "pod", "list", "--job", "demo", "--queue", "gold").stdout.splitlines()
    assert pods[0].split() == ["Name", "Ready", "Status", "Restart", "Age"]
    assert [line.split()[2] for line in pods[1:]] == ["Running", "Running"]
    mismatch = verb(plane, "pod", "list", "--job", "demo", "--queue", "default", check=False)
    assert "the input vcjob demo does not match the queue default" in mismatch.stderr
    verb(plane, "job", "suspend", "-N", "demo")
    wait_until("the job is suspended", lambda: phase(plane, "demo") == "Aborted")
    verb(plane, "job", "resume", "demo")
    wait_until("the job runs again", lambda: phase(plane, "demo") == "Running")
    assert verb(plane, "job", "delete", "demo").stdout == "delete job demo successfully\n"
    assert "not found" in verb(plane, "job", "view", "demo", check=False).stderr
    wait_until("its pods are gone", lambda: not plane.pods())

    verb(plane, "queue", "operate", "-n", "gold", "-a", "update", "-w", "5")
    verb(plane, "queue", "update", "gold", "--deserved", "cpu=2")
    spec = json.loads(verb(plane, "queue", "get", "gold", "-o", "json").stdout)["spec"]
    assert (spec["weight"], spec["capability"], spec["deserved"]) == (5, {"cpu": "4"}, {"cpu": "2"})
    verb(plane, "queue", "operate", "-n", "gold", "-a", "close")
    wait_until("the queue is closed", lambda: " Closed " in verb(plane, "queue", "list").stdout)
    wrong = verb(plane, "queue", "operate", "gold", "-a", "shut", check=False)
    assert "valid actions are open, close and update" in wrong.stderr
    verb(plane, "queue", "delete", "gold")
    assert "gold" not in verb(plane, "queue", "list").stdout


TRAINING = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: pair}
spec:
  pytorchReplicaSpecs:
    Worker: {replicas: 2, template: {spec: {containers: [{name: pytorch, image: busybox}]}}}
"""


def test_jobs_of_other_kinds_are_suspended_resumed_and_deleted_by_kind_and_name(plane: RunningPlane) -> None:
    plane.apply(TRAINING)
    wait_until("it runs", lambda: len(plane.pods("Running")) == 2)
    for words in (("suspend",), ("resume",), ("view", "-o", "json"), ("view",), ("delete",)):
        told = verb(plane, "job", words[0], "pair", *words[1:], check=False)
        assert told.returncode == 1
        assert f"'unisono job {words[0]} pytorchjob/pair'" in told.stderr
    assert "PyTorchJob" in verb(plane, "job", "view", "pytorchjob/pair").stdout
    verb(plane, "job", "suspend", "pytorchjob/pair")
    wait_until("its pods are gone", lambda: not plane.pods())
    verb(plane, "job", "resume", "-N", "pytorchjob/pair")
    wait_until("it runs again", lambda: len(plane.pods("Running")) == 2)
    assert verb(plane, "job", "delete", "pytorchjob/pair").stdout == "delete job pytorchjob/pair successfully\n"
    wait_until("all is gone", lambda: not plane.pods())
    assert "'pod' is no kind of job" in verb(plane, "job", "suspend", "pod/pair", check=False).stderr
    plane.apply(FLOW)
    refused = verb(plane, "job", "suspend", "jobflow/pipeline", check=False).stderr
    assert "suspend the jobs that it is made of" in refused
    plane.kubectl("delete", "jobflow", "pipeline")


def test_flows_from_files_and_the_plug_in_of_kubectl(plane: RunningPlane, tmp_path: Path) -> None:
    flow, template = tmp_path / "flow.yaml", tmp_path / "template.yaml"
    flow.write_text(FLOW)
    template.write_text(TEMPLATE)
    refused = verb(plane, "jobtemplate", "create", "-f", str(flow), check=False)
    assert "'unisono jobtemplate create' takes JobTemplate" in refused.stderr
    verb(plane, "jobtemplate", "create", "-f", str(template))
    verb(plane, "jobflow", "create", "-f", str(flow))
    twice = verb(plane, "jobflow", "create", "-f", str(flow), check=False)
    assert twice.returncode == 1
    assert "already exists" in twice.stderr
    assert verb(plane, "jobtemplate", "list").stdout.splitlines()[1].split() == ["prepare", "default"]
    assert "kind: JobFlow" in verb(plane, "jobflow", "describe", "pipeline").stdout
    wait_until("the flow made its job", lambda: "pipeline-prepare" in verb(plane, "job", "list").stdout)

    # kubectl finds a plug-in by its file name on the PATH; what pip installs is a script like this one.
    script = tmp_path / "bin" / "kubectl-unisono"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom unisono.cli.plugin import main\nmain()\n")
    script.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": str(plane.kubeconfig),
        "HOME": str(tmp_path),
        "UNISONO_DATA_DIR": str(tmp_path / "none"),
    }

    def plug_in(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [kubectl(), *words], env={**environment, **more}, capture_output=True, text=True, timeout=600, check=False
        )

    assert str(script) in plug_in("plugin", "list").stdout
    assert "pipeline" in plug_in("unisono", "jobflow", "list").stdout
    assert "pipeline-prepare" in plug_in("unisono", "get", "vcjob").stdout
    assert "Usage: kubectl unisono job" in plug_in("unisono", "job", "--help").stdout
    # A control plane that runs here is not what kubectl means.
    elsewhere = plug_in("unisono", "job", "list", KUBECONFIG="/nowhere", UNISONO_DATA_DIR=str(plane.data_dir))
    assert elsewhere.returncode == 1
    assert "no kubeconfig found" in elsewhere.stderr
    assert plug_in("unisono", "jobflow", "delete", "pipeline").returncode == 0
    assert plug_in("unisono", "jobtemplate", "delete", "-f", str(template)).returncode == 0


def test_yaml_of_get_is_short_unless_asked(plane: RunningPlane) -> None:
    plane.kubectl("apply", "--server-side", "-f", "-", text=TEMPLATE)
    short = plane.unisono("get", "jobtemplate", "prepare", "-o", "yaml").stdout
    assert "managedFields" not in short
    assert "resourceVersion" in short
    assert (
        "managedFields" in plane.unisono("get", "jobtemplate", "prepare", "-o", "yaml", "--show-managed-fields").stdout
    )
