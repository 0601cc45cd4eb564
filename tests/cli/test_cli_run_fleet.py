"""``unisono run --fleet``: jobs are kept to a Fleet, other objects are not, and a hub is needed."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from click.testing import CliRunner

from unisono.api.annotations import FLEET
from unisono.cli.main import cli
from unisono.fleet.members.joining import merged
from unisono.kube.kubeconfig import ClusterConfig, from_mapping
from unisono.sdk.jobs.builders import Job

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train, annotations: {mine: kept}}
spec:
  minAvailable: 1
  tasks: [{name: w, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
"""


def test_jobs_get_the_mark(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    words = ["run", "--fleet", "ai-fleet", "--dry-run", "-o", "json", str(tmp_path / "job.yaml")]
    found = CliRunner().invoke(cli, words)
    assert found.exit_code == 0, found.output
    job, settings = json.loads(found.output)["items"]
    assert job["metadata"]["annotations"] == {"mine": "kept", FLEET: "ai-fleet"}
    assert "annotations" not in settings["metadata"]


def test_a_program_gets_the_mark() -> None:
    found = CliRunner().invoke(cli, ["run", "--fleet", "f", "--image", "i", "--dry-run", "-o", "yaml", "--", "true"])
    assert yaml.safe_load(found.output)["metadata"]["annotations"][FLEET] == "f"


def test_a_job_of_the_sdk_gets_the_mark() -> None:
    made = Job("train", fleet="f", annotations={"mine": "kept"}).task("w", command="true")
    assert made.manifest()["metadata"]["annotations"] == {"mine": "kept", FLEET: "f"}


def test_contexts_lead_where_they_came_from() -> None:
    configs = {
        "hub": ClusterConfig("https://hub:1", ca=b"ca", token="t"),
        "gpu1": ClusterConfig("https://gpu1:2", "team", tls_server_name="x", client_certificate=b"c", client_key=b"k"),
    }
    value = merged(configs, "hub")
    for name, config in configs.items():
        read = from_mapping(value, "it", context=name)
        for field in ("server", "namespace", "ca", "token", "tls_server_name", "client_certificate", "client_key"):
            assert getattr(read, field) == getattr(config, field)
    assert from_mapping(value, "it").server == "https://hub:1"
