"""Real Ray clusters: head and workers as one gang, found by the head's Service."""

from __future__ import annotations

import json
import shutil
import urllib.request
from pathlib import Path

import pytest
import yaml
from framework_jobs import SCRIPTS, Jobs, in_workspace, need

from support.plane import MANIFESTS

pytestmark = [pytest.mark.frameworks, pytest.mark.processes, pytest.mark.xdist_group("processes")]
MANIFEST = MANIFESTS / "17-ray.yaml"


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=300) as answer:
        text: str = answer.read().decode()
    return text


def test_a_head_and_two_workers_compute_and_the_dashboard_answers(jobs: Jobs, tmp_path: Path) -> None:
    need("ray")
    shutil.copy(SCRIPTS / "distributed_compute.py", tmp_path)
    job = yaml.safe_load(MANIFEST.read_text())
    for task in job["spec"]["tasks"]:
        in_workspace(task["template"], tmp_path)
        quiet = {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}
        task["template"]["spec"]["containers"][0].setdefault("env", []).append(quiet)
    jobs.submit(job)
    name = "ray-distributed-compute"
    log = jobs.wait_for_log(f"{name}-head-0", "sum of squares: ", patience=240)
    assert f"sum of squares: {sum(number * number for number in range(1000))}" in log

    addresses = {pod["status"]["podIP"] for pod in jobs.pods(name).values()}
    (nodes,) = [line.split()[1:] for line in log.splitlines() if line.startswith("nodes:")]
    assert len(addresses) == 3
    own_ports = not any(
        "unisono.io/shared-network" in node["metadata"].get("labels", {}) for node in jobs.plane.objects("nodes")
    )
    if own_ports:
        assert set(nodes) == addresses
    head = jobs.pods(name)[f"{name}-head-0"]["status"]["podIP"]
    assert json.loads(get(f"http://{head}:8265/api/version"))["ray_version"]
    assert "<title>Ray Dashboard</title>" in get(f"http://{head}:8265/")

    service = json.loads(jobs.plane.kubectl("get", "service", f"{name}-head-svc", "-o", "json"))
    assert sorted(port["port"] for port in service["spec"]["ports"]) == [6379, 8265, 10001]
    (tmp_path / "done").touch()
    jobs.wait_for_phase(f"{name}-head-0", "Succeeded")
