"""A control plane that is killed and started again, a job that is deleted, and the report of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.plane import RunningPlane, wait_until

pytestmark = [pytest.mark.processes]

JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME}
spec:
  queue: research
  minAvailable: 2
  tasks:
  - name: worker
    replicas: 2
    template:
      metadata: {annotations: {unisono.io/run-seconds: "DURATION"}}
      spec:
        restartPolicy: Never
        containers:
        - name: c
          image: none
          resources: {requests: {cpu: "2"}, limits: {nvidia.com/gpu: "4"}}
"""
QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 1}
"""
NODES = "- {name: gpu, count: 2, capacity: {cpu: 16, memory: 64Gi, nvidia.com/gpu: 8, pods: 110}}"


def ask(plane: RunningPlane, command: str, *words: str) -> Any:
    return json.loads(plane.unisono(command, *words, "-o", "json").stdout)


def lines(plane: RunningPlane) -> dict[str, Any]:
    return {job["name"]: job for job in ask(plane, "sacct")["jobs"]}


@pytest.mark.more
def test_jobs_are_reported_after_a_crash_and_after_their_deletion(tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.yaml"
    nodes.write_text(NODES)
    plane = RunningPlane(tmp_path / "data", ("--no-agent", "--no-dashboard", "--nodes", str(nodes)))
    plane.data_dir.mkdir()
    plane.start()
    try:
        plane.apply(QUEUE, JOB.replace("NAME", "short").replace("DURATION", "3"))
        plane.apply(JOB.replace("NAME", "long").replace("DURATION", "3600"))
        wait_until(
            "both have started", lambda: all(lines(plane).get(name, {}).get("started") for name in ("short", "long"))
        )
        plane.kill()
        plane.start()
        wait_until("the first has ended", lambda: lines(plane)["short"]["state"] == "Completed")
        before = lines(plane)["short"]
        plane.kubectl("delete", "jobs.batch.volcano.sh", "short", "long")
        wait_until("the second is gone", lambda: lines(plane)["long"]["state"] == "Deleted" and not plane.pods())
        plane.stop()
        plane.start()
        after = lines(plane)
        assert after["short"] == before
        assert (before["gpus"], before["cpus"], before["pods"], before["queue"]) == (8, 4, 2, "research")
        # 8 cards for as long as the pods ran.
        assert before["gpu_hours"] == pytest.approx(before["cpu_hours"] * 2)
        assert 0 < before["gpu_hours"] <= 8 * (before["ended"] - before["started"]) / 3600
        report = ask(plane, "report", "--queue", "research")
        assert report["total"]["ended"] == {"Completed": 1, "Deleted": 1}
        assert report["total"]["waiting"]["jobs"] == 2
        assert report["total"]["gpu_hours"] >= before["gpu_hours"] + 8 * 3 / 3600
        assert report["capacity"]["nvidia.com/gpu"] > 0
        table = plane.unisono("report", "--by", "job").stdout
        assert "default/short" in table
        assert "default/long" in table
    finally:
        plane.stop()


def test_without_a_history_the_report_says_so(tmp_path: Path) -> None:
    plane = RunningPlane(tmp_path / "data", ("--no-agent", "--no-dashboard", "--history-days", "0"))
    plane.data_dir.mkdir()
    plane.start()
    try:
        refused = plane.unisono("report", check=False)
        assert refused.returncode == 1
        assert "no history is kept here" in refused.stderr
        assert not (plane.data_dir / "history.db").exists()
    finally:
        plane.stop()
