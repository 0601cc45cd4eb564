"""An operator written with kopf reacts to jobs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.plane import RunningPlane, wait_until

pytestmark = pytest.mark.clients

PROGRAMS = Path(__file__).parent / "programs"
sys.path.insert(0, str(PROGRAMS))

from job import job  # noqa: E402  (the programs' folder must be on the path first)


def test_an_operator_annotates_jobs_and_posts_events(
    plane: RunningPlane, environment: dict[str, str], tmp_path: Path
) -> None:
    plane.kubectl("create", "ns", "kopf")
    told = tmp_path / "operator.log"
    with told.open("wb") as log:
        operator = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", "-n", "kopf", str(PROGRAMS / "job_operator.py")],
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        plane.kubectl("apply", "-n", "kopf", "-f", "-", text=json.dumps(job("watched")))

        def reacted() -> bool:
            assert operator.poll() is None, told.read_text()
            meta = json.loads(plane.kubectl("get", "vcjob", "watched", "-n", "kopf", "-o", "json"))["metadata"]
            return (
                meta.get("annotations", {}).get("operator.example.io/seen") == "yes"
                and meta.get("labels", {}).get("operator.example.io/finished") == "yes"
            )

        wait_until("the operator has marked the finished job", reacted)
        wait_until("the operator's event is there", lambda: "has seen the job" in plane.kubectl("events", "-n", "kopf"))
        plane.kubectl("delete", "vcjob", "watched", "-n", "kopf", "--timeout=300s")
    finally:
        operator.send_signal(signal.SIGTERM)
        operator.wait(timeout=300)
    assert "Traceback" not in told.read_text()
