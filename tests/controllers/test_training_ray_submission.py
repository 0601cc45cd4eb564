"""The script that submits a RayJob's program: a Ray whose answers are written down, a clock that sleep moves."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from unisono.api.groups.ray import RayJob
from unisono.controllers.training.ray.job import submit_command

# Each call of ray takes the next line of the file: its exit code and what it says.
RAY = """#!/bin/sh
echo "$*" >> calls
line=$(head -n 1 answers)
sed -i 1d answers
echo "${line#* }"
exit "${line%% *}"
"""
DATE = "#!/bin/sh\ncat clock\n"
SLEEP = "#!/bin/sh\necho $(($(cat clock) + $1)) > clock\n"
SILENT = "1 ConnectionError: Failed to connect to Ray at address: http://head:8265."
UNKNOWN = "1 RuntimeError: Request failed with status code 404: Job job-1 does not exist."
RUNS = "0 Status for job 'job-1': RUNNING"
FAILED, SUCCEEDED, STOPPED = "0 Job 'job-1' failed", "0 Job 'job-1' succeeded", "0 Job 'job-1' was stopped"


@dataclass
class Told:
    """How the script ended, the verbs of its calls, and how many seconds it slept."""

    code: int
    verbs: str
    seconds: int


def run(folder: Path, *answers: str, entrypoint: str = "python main.py") -> Told:
    for name, text in (("ray", RAY), ("date", DATE), ("sleep", SLEEP)):
        program = folder / name
        program.write_text(text)
        program.chmod(0o755)
    (folder / "clock").write_text("0\n")
    (folder / "answers").write_text("".join(f"{each}\n" for each in answers))
    job = msgspec.convert({"metadata": {"name": "rj"}, "spec": {"entrypoint": entrypoint}}, RayJob)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    script = submit_command(job, "head", "job-1")
    done = subprocess.run(["/bin/sh", "-c", script], cwd=folder, env=environment, check=False, timeout=600)
    calls = (folder / "calls").read_text().splitlines()
    assert all("--address=http://head:8265" in call and "job-1" in call for call in calls)
    return Told(done.returncode, " ".join(call.split()[1] for call in calls), int((folder / "clock").read_text()))


@pytest.mark.parametrize(
    ("answers", "code", "verbs"),
    [
        (["0 done"], 0, "submit"),
        (["1 no", FAILED], 1, "submit status"),
        (["7 no", STOPPED], 7, "submit status"),
        (["2 Usage: ray job submit"], 2, "submit"),
        (["127 ray: not found"], 127, "submit"),
        # The head ends before it has the job, and is started again.
        ([SILENT, SILENT, SILENT, UNKNOWN, "0 done"], 0, "submit status status status submit"),
        # It ends with the job, which the new one does not know.
        (["1 the connection is closed", UNKNOWN, "1 no", FAILED], 1, "submit status submit status"),
        # Only the connection was lost: the program runs on and is followed, not started a second time.
        (["1 the connection is closed", RUNS, "0 42", SUCCEEDED], 0, "submit status logs status"),
        (["1 the connection is closed", SILENT, RUNS, "1 closed", RUNS, "0 42", FAILED], 1,
         "submit status status logs status logs status"),
        # What the cluster refuses four times it will not take.
        (["1 status code 500", UNKNOWN] * 4, 1, "submit status submit status submit status submit status"),
    ],
)  # fmt: skip
def test_the_submitter_ends_as_the_job_ends_whatever_happens_to_the_head(
    tmp_path: Path, answers: list[str], code: int, verbs: str
) -> None:
    told = run(tmp_path, *answers)
    assert (told.code, told.verbs) == (code, verbs)


def test_a_head_that_stays_silent_is_given_up(tmp_path: Path) -> None:
    told = run(tmp_path, *[SILENT] * 400)
    assert told.code == 1
    assert told.verbs.count("submit") == 1
    assert 300 <= told.seconds <= 310


def test_a_program_that_may_have_run_for_long_is_not_started_a_second_time(tmp_path: Path) -> None:
    lost_late = [SILENT] * 100 + [RUNS, "1 closed"] + [SILENT] * 100 + [UNKNOWN]
    told = run(tmp_path, "1 the connection is closed", *lost_late)
    assert told.code == 1
    assert told.verbs.count("submit") == 1


def test_an_entrypoint_may_end_in_a_comment_or_have_quotes(tmp_path: Path) -> None:
    told = run(tmp_path, "0 done", entrypoint="python -c 'print(1)' # one")
    assert told.code == 0
    assert "-- python -c print(1)" in (tmp_path / "calls").read_text()
