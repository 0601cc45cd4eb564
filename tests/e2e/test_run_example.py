"""What ``make run`` does: real distributed training jobs from a file to their verdict."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.plane import REPOSITORY, unisono, wait_until

# For whole jobs of real processes on a busy machine.
LONG = 600.0

pytestmark = [pytest.mark.processes, pytest.mark.unshared]


def accuracy(text: str) -> float:
    found = re.search(r"master-0 \| test accuracy (0\.\d+)", text)
    assert found, text
    return float(found[1])


@pytest.fixture(autouse=True)
def own_data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control plane that the developer runs must not take part."""
    monkeypatch.setenv("UNISONO_DATA_DIR", str(tmp_path / "none"))


def test_a_gang_of_four_trains_with_numpy_and_completes() -> None:
    done = unisono("run", str(REPOSITORY / "examples" / "digits-gang.yaml"), patience=LONG)
    assert accuracy(done.stdout) > 0.9
    for rank in range(4):
        assert f"rank {rank} of 4 is ready" in done.stdout
    assert "==> job/digits: admitted by queue default" in done.stdout
    assert re.search(r"job/digits completed in [\d.]+ s", done.stdout)


@pytest.mark.more
@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (pip install torch)")
def test_pytorch_ddp_trains_on_gloo() -> None:
    done = unisono("run", str(REPOSITORY / "examples" / "pytorch-ddp.yaml"), patience=LONG)
    assert accuracy(done.stdout) > 0.9
    assert "rank 3 of 4 is ready" in done.stdout


FAILING = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: broken}
spec:
  minAvailable: 1
  maxRetry: 1
  policies: [{event: PodFailed, action: AbortJob}]
  tasks:
    - name: t
      replicas: 1
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: none, command: [python, -c, "raise SystemExit(3)"]}]
"""


def test_a_job_that_fails_ends_with_code_1_and_its_reason(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text(FAILING)
    done = unisono("run", str(file), check=False, patience=LONG)
    assert done.returncode == 1
    assert "exit code 3" in done.stdout
    assert done.stdout.splitlines()[-1] == "job/broken failed: exit code 3"


def test_a_gang_that_never_fits_says_why_and_times_out(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text(FAILING.replace("image: none", "image: none, resources: {requests: {cpu: 4000}}"))
    # A busy machine may need longer than that to find the reason: it gets the time that it needs.
    for seconds in (8, 40, 160):
        done = unisono("run", str(file), "--timeout", str(seconds), check=False, patience=LONG)
        assert done.returncode == 124, done.stderr
        if "waiting: " in done.stdout:
            break
    assert re.search(r"waiting: .*cpu", done.stdout), done.stdout
    assert re.search(r"job/broken did not end, it was pending: .*cpu", done.stdout)


def test_a_file_for_a_cluster_runs_in_its_namespace_and_queue(tmp_path: Path) -> None:
    """A private control plane has neither; both are made, and told: beside the result as JSON, on stderr."""
    file = tmp_path / "elsewhere.yaml"
    there = FAILING.replace("name: broken", "name: broken, namespace: team").replace(
        "spec:\n  min", "spec:\n  queue: gpu\n  min"
    )
    there = there.replace("minAvailable: 1", "minAvailable: 2").replace("replicas: 1", "replicas: 2")
    file.write_text(there.replace("raise SystemExit(3)", "print('done')"))
    done = unisono("run", str(file), "--output", "json", patience=LONG)
    assert "namespace/team: created, because the files name it" in done.stderr
    assert "queue/gpu: created, because the files name it" in done.stderr
    assert "t-1 | done" in done.stderr
    result = json.loads(done.stdout)
    assert result["succeeded"] is True
    found = result["jobs"][0]
    assert (found["namespace"], found["queue"], found["phase"]) == ("team", "gpu", "Completed")
    assert [pod["exitCode"] for pod in found["pods"]] == [0, 0]


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_takes_its_processes_with_it(tmp_path: Path, name: signal.Signals) -> None:
    flag = tmp_path / "started"
    file = tmp_path / "long.yaml"
    script = f"import os, pathlib, time; pathlib.Path('{flag}').write_text(str(os.getpid())); time.sleep(600)"
    file.write_text(FAILING.replace('"raise SystemExit(3)"', f'"{script}"'))
    run = subprocess.Popen([sys.executable, "-m", "unisono", "run", str(file)], stdout=subprocess.DEVNULL)
    marker = f"pathlib.Path('{flag}')"

    def alive() -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found.append(path.read_bytes().decode(errors="replace"))
        return [command for command in found if marker in command]

    wait_until("the process runs", flag.exists)
    run.send_signal(name)
    assert run.wait(timeout=LONG) == 128 + name
    assert not alive()


def test_a_file_without_a_job_names_the_command_for_it(tmp_path: Path) -> None:
    file = tmp_path / "queue.yaml"
    file.write_text("apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\n")
    done = unisono("run", str(file), check=False)
    assert done.returncode == 1
    assert "use 'unisono apply'" in done.stderr
