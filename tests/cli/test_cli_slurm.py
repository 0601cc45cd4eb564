"""Slurm's habits: ``#SBATCH`` lines, what they become, and what is told of the rest."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from unisono.api.yaml import load_all
from unisono.cli.main import cli
from unisono.cli.slurm.arguments import split_words
from unisono.cli.slurm.programs import program_of
from unisono.cli.slurm.script import BadScript, Batch, batch_of, read_options, read_script
from unisono.cli.slurm.tables import sinfo_lines, squeue_lines
from unisono.sdk.overview import JobLine, NodeLine, Overview

SCRIPT = """#!/bin/bash
#SBATCH --job-name=fit -p research
#SBATCH -N 2
#SBATCH --ntasks-per-node=4   # one for each card
#SBATCH --cpus-per-task 2
#SBATCH --gres=gpu:a100:4
#SBATCH --mem=32G --time=1-02:30:00

# not ours
#SBATCH --mail-type=END
echo line $LINENO
#SBATCH --nodes=9
srun -n 8 --mem=1G echo task $SLURM_PROCID of $SLURM_NTASKS "$@"
"""


def read(options: str) -> Batch:
    return batch_of(read_options(options.split()))


def test_the_lines_of_a_script_down_to_its_first_command() -> None:
    batch = batch_of(read_script(SCRIPT))
    assert (batch.name, batch.queue, batch.nodes, batch.tasks) == ("fit", "research", 2, 8)
    assert (batch.cpus, batch.gpus, batch.memory_mib, batch.seconds) == (2, 1, 8192, 26 * 3600 + 1800)
    assert batch.notes == ("--mail-type is not supported: no mail is sent",)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {"tasks": 1, "nodes": None}),
        ("-n 4", {"tasks": 4}),
        ("-n4 -c2", {"tasks": 4, "cpus": 2}),
        ("-N 3", {"tasks": 3, "nodes": 3}),
        ("-N 2-2 --ntasks=4 --gpus=8", {"gpus": 2}),
        ("-n 2 --gpus-per-task=a100:3", {"gpus": 3}),
        ("-N 2 -n 8 --gpus-per-node=4", {"gpus": 1}),
        ("-n 4 --mem=2T", {"memory_mib": 512 * 1024}),
        ("-c 4 --mem-per-cpu=500", {"memory_mib": 2000}),
        ("--mem=1K", {"memory_mib": 1}),
        ("-t 30", {"seconds": 1800}),
        ("-t 30:15", {"seconds": 1815}),
        ("--time=2-12", {"seconds": 60 * 3600}),
        ("-t 1:00:01", {"seconds": 3601}),
        ("-a 0-6:3,9", {"array": (0, 3, 6, 9), "at_once": 0}),
        ("--array=1-4%2", {"array": (1, 2, 3, 4), "at_once": 2}),
        ("-d afterok:a:b,afterany:c", {"after": (("afterok", "a"), ("afterok", "b"), ("afterany", "c"))}),
        ("-o log-%j.txt -D /tmp", {"output": "log-%j.txt", "folder": "/tmp"}),
        ("-J a --job-name=b", {"name": "b"}),
    ],
)
def test_options(options: str, expected: dict[str, object]) -> None:
    batch = read(options)
    assert {name: getattr(batch, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-N 2-4", "range of nodes"),
        ("-n 0", "from 1 on"),
        ("-n many", "from 1 on"),
        ("-N 2 -n 3", "spread evenly"),
        ("-N 2 -n 6 --ntasks-per-node=2", "times"),
        ("-n 4 --gpus=6", "shared evenly"),
        ("--gpus=lots", "from 1 on"),
        ("--mem=much", "amount of memory"),
        ("-t soon", "a time is expected"),
        ("-t 0", "a second or more"),
        ("-a 5-1", "1 to 1000"),
        ("-a 0-5000", "1 to 1000"),
        ("-a x", "indices"),
        ("-d singleton", "afterok:NAME"),
        ("--job-name=", "a value is expected"),
        ("train.sh", "no option of sbatch"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(options: str, said: str) -> None:
    with pytest.raises(BadScript, match=said):
        read(options)


def test_a_script_says_what_runs_it() -> None:
    with pytest.raises(BadScript, match="#!"):
        read_script("echo hello")
    with pytest.raises(BadScript, match=r"x\.sh:2"):
        read_script("#!/bin/bash\n#SBATCH --comment='open\n", "x.sh")
    with pytest.raises(BadScript, match="characters"):
        read_script("#!/bin/bash\n" + "#" * 200_000)


def test_options_end_where_the_script_or_command_begins() -> None:
    assert split_words(["-n", "4", "--mem=1G", "train.sh", "-n", "5"]) == (
        ["-n", "4", "--mem=1G"],
        ["train.sh", "-n", "5"],
    )
    assert split_words(["--exclusive", "train.sh"]) == (["--exclusive"], ["train.sh"])
    assert split_words(["--nodes", "2", "--", "-x"]) == (["--nodes", "2"], ["-x"])


def run_script(text: str, folder: Path, **batch: object) -> subprocess.CompletedProcess[str]:
    program = program_of(Batch(**batch), "/home/me/fit.sh", text, ["a b"])  # type: ignore[arg-type]
    environment = {"PATH": os.environ["PATH"], **program.env, "SLURM_PROCID": "3", "HOSTNAME": "n1"}
    return subprocess.run(
        list(program.command), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_srun_in_a_script_runs_its_command_in_each_task(tmp_path: Path) -> None:
    done = run_script(SCRIPT, tmp_path, tasks=8)
    assert done.stdout == "line 11\ntask 3 of 8 a b\n"


def test_the_log_also_goes_to_the_file_of_output(tmp_path: Path) -> None:
    text = SCRIPT + "cat <<END\nlast\nEND\nexit 7\n"
    done = run_script(text, tmp_path, tasks=8, name="fit", output="it's %x-%t-%N.txt")
    assert done.returncode == 7
    assert (tmp_path / "it's fit-3-n1.txt").read_text() == done.stdout == "line 11\ntask 3 of 8 a b\nlast\n"


def test_other_interpreters_run_their_scripts(tmp_path: Path) -> None:
    text = "#!/usr/bin/env python3\n#SBATCH -n 2\nimport os, sys\nprint(os.environ['SLURM_NTASKS'], sys.argv[2])\n"
    assert run_script(text, tmp_path, tasks=2).stdout == "2 a b\n"
    with pytest.raises(BadScript, match="bash alone"):
        run_script(text, tmp_path, output="x")


def sbatch(*words: str) -> Result:
    return CliRunner().invoke(cli, ["sbatch", "--dry-run", *words])


def test_an_array_is_a_job_for_each_element(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "My_Sweep.sh").write_text("#!/bin/bash\n#SBATCH -a 2,5%1 -p gpu\necho\n")
    done = sbatch("-t", "5", "My_Sweep.sh")
    assert done.exit_code == 0, done.output
    assert "%1 is not supported" in done.stderr
    jobs = [document.value for document in load_all(done.stdout, file="out")]
    assert [job["metadata"]["name"] for job in jobs] == ["my-sweep-sh-2", "my-sweep-sh-5"]
    container = jobs[1]["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    values = {each["name"]: each.get("value") for each in container["env"]}
    assert (values["SLURM_ARRAY_TASK_ID"], values["SLURM_ARRAY_TASK_MAX"]) == ("5", "5")
    assert jobs[0]["spec"]["tasks"][0]["template"]["spec"]["activeDeadlineSeconds"] == 300


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the script is missing"),
        (["absent.sh"], "cannot be read"),
        (["-D", "/absent", "x.sh"], "/absent"),
    ],
)
def test_slips_of_sbatch(words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.sh").write_text("#!/bin/sh\n")
    done = sbatch(*words)
    assert done.exit_code != 0
    assert said in f"{done.output}{done.exception}"


def test_squeue_and_sinfo_have_slurms_columns() -> None:
    running = [JobLine("job/a", "default", "gpu", 65, pods=4, gang=4)]
    waiting = [JobLine("job/b", "team", "cpu", 3700, gang=2, waiting="no room: " + "x" * 80)]
    found = Overview([], [], [], [], [], [], [], waiting, running)
    lines = squeue_lines(found, width=60)
    assert lines[0].split() == ["JOBID", "PARTITION", "ST", "TIME", "TASKS", "REASON"]
    assert lines[1].split() == ["a", "gpu", "R", "1:05", "4"]
    assert lines[2].split()[:4] == ["b", "cpu", "PD", "1:01:40"]
    assert len(lines[2]) == 60
    assert len(squeue_lines(found, queue="gpu")) == len(squeue_lines(found, namespace="team")) == 2
    assert sinfo_lines([NodeLine("n1", "mix", "4/8", "0/1Gi", "nvidia.com/gpu 1/2")])[1].split()[:2] == ["n1", "mix"]
