"""``unisono run`` of a command: what it would create, and what it says to a slip."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from unisono.api.decode import decode
from unisono.api.kinds import JOBS
from unisono.api.yaml import load_all
from unisono.cli.main import cli
from unisono.cli.running.report import JobView, PodEnd, changes
from unisono.cli.running.session import ending_line
from unisono.sdk.reasons.failures import Failure, process_name


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["run", *words])


def test_a_dry_run_prints_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["-n", "4", "--gpus", "1", "-q", "research", "-e", "A=b=c", "--dry-run", "-o", "yaml"]
    done = run(*words, "--", "sh", "train.sh", "-n", "3", "--", "x")
    assert done.exit_code == 0, done.output
    (document,) = load_all(done.stdout, file="out")
    job = decode(JOBS, document.value).obj
    task = (job.spec.tasks or [])[0]
    container = (task.template.spec.containers or [])[0]
    assert (job.metadata.name, job.spec.queue, job.spec.min_available, task.replicas) == ("train", "research", 4, 4)
    assert container.command == [shutil.which("sh"), "train.sh", "-n", "3", "--", "x"]
    assert next(env.value for env in container.env or [] if env.name == "A") == "b=c"


def test_with_an_image_it_is_a_job_for_a_cluster(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    done = run("--kubeconfig", str(kubeconfig), "--image", "me:1", "--dry-run", "-o", "json", "--", "python", "t.py")
    template = json.loads(done.stdout)["spec"]["tasks"][0]["template"]
    assert template["spec"]["containers"][0]["command"] == ["python", "t.py"]
    assert "annotations" not in template["metadata"]


def test_a_variable_without_value_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "t")
    done = run("-e", "TOKEN", "--dry-run", "-o", "json", "--", "sh")
    container = json.loads(done.stdout)["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    assert {"name": "TOKEN", "value": "t"} in container["env"]
    assert "no variable of that name" in run("-e", "NOT_THERE", "--dry-run", "--", "sh").output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name files, or write a command after --"),
        (["--"], "the command is missing"),
        (["x.yaml", "--", "sh"], "give files, or a command after --"),
        (["train.py", "3"], "unisono run -- python train.py 3"),
        (["sh", "train.sh"], "unisono run -- sh train.sh"),
        (["-n", "4", "x.yaml"], "--processes is for a command after --"),
        (["-n", "research", "x.yaml"], "--namespace research"),
        (["-n", "0", "--", "sh"], "at least 1"),
        (["--launcher", "slurm", "--", "sh"], "torch"),
        (["-o", "yaml", "--", "sh"], "--dry-run"),
        (["-e", "=x", "--", "sh"], "has no name"),
        (["--gpus", "-1", "--", "sh"], "--gpus"),
    ],
)
def test_a_slip_is_answered_with_the_way_out(words: list[str], said: str) -> None:
    done = run(*words)
    assert done.exit_code != 0
    assert said in " ".join(done.output.split())


def view(phase: str, *ends: PodEnd, **changed: object) -> JobView:
    return JobView("train", "default", "Job", phase, ends=ends, **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (Failure("", "exit code 3", 0), "job/train failed: exit code 3"),
        (Failure("rank 2", "ValueError: no", 0), "job/train failed: rank 2: ValueError: no"),
        (
            Failure("rank 2", "ValueError: no", 47, "unisono logs job/train"),
            "job/train failed: rank 2 failed first: ValueError: no; 47 more failed after it; "
            "all lines: unisono logs job/train",
        ),
    ],
)
def test_the_last_line_of_a_failed_run_is_the_cause(failure: Failure, text: str) -> None:
    assert ending_line(view("Terminated"), 3, failure) == f"\x1b[31m\x1b[1m{text}\x1b[0m"


def test_a_job_that_was_ended_with_its_control_plane_is_not_said_to_run() -> None:
    assert "has not ended, it is running" in ending_line(view("Running"), 3, None)
    assert "did not end, it was running" in ending_line(view("Running"), 3, None, stopped=True)


def test_processes_are_called_by_their_rank() -> None:
    assert process_name("train-rank-12", "train") == "rank 12"
    assert process_name("train-worker-1", "train") == "worker-1"


def test_of_many_pods_that_fail_a_few_are_told_and_those_ended_with_the_job_are_not() -> None:
    ends = [PodEnd(f"p{number}", "Failed", 1, "Error") for number in range(48)]
    lines = changes(view("Running"), view("Running", *ends))
    assert lines[-1] == "45 more pods failed"
    assert len([line for line in lines if "failed" in line]) == 4
    ended = PodEnd("p1", "Failed", 143, "Error")
    assert changes(view("Terminating"), view("Terminating", ended)) == []
    assert changes(view("Running"), view("Running", ended)) == ["pod p1 failed: exit code 143 (Error)"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--", "no-such-program"], "no program no-such-program"),
        (["--memory", "4G", "--", "train.py"], "-- python train.py"),
        (["--detach", "--", "sh"], "unisono up --detach"),
    ],
)
def test_what_cannot_run_is_told_before_a_control_plane_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a control plane was started")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    monkeypatch.setenv("UNISONO_DATA_DIR", str(tmp_path / "none"))
    monkeypatch.setattr("unisono.cli.running.place._private", fail)
    done = run(*words)
    assert done.exit_code != 0
    assert said in f"{done.output}{done.exception}"


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--memory", "8GB", "'8GB' is no amount: write 8G, or 8Gi for powers of 1024."),
        ("--memory", "1.5 gib", "'1.5 gib' is no amount: write 1.5G, or 1.5Gi for powers of 1024."),
        ("--memory", "512kb", "'512kb' is no amount: write 512k, or 512Ki for powers of 1024."),
        ("--memory", "much", "'much' is no amount: write 4Gi or 500M."),
        ("--memory", "0", "'0' is no amount: more than 0 is needed."),
        ("--cpu", "two", "'two' is no amount: write 2 or 500m."),
        ("--one-of", "h100", "'h100' is no label of nodes: write LABEL=VALUE"),
    ],
)
def test_amounts_are_read_before_anything_is_started(option: str, value: str, told: str) -> None:
    found = run(option, value, "--", "true")
    assert found.exit_code == 2
    assert told in found.output
