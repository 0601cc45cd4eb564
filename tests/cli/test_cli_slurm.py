"""Slurm's habits: ``#SBATCH`` lines, what they become, and what is told of the rest."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from unisono.api.yaml import load_all
from unisono.cli.main import cli
from unisono.cli.slurm.arguments import doubts, program_of, script_elements, split_words
from unisono.cli.slurm.script import BadScript, Batch, batch_of, read_options, read_script
from unisono.cli.slurm.selecting import Selection, names_of, sinfo_lines, squeue_lines, states_of
from unisono.sdk.overview.node_capacity import NodeLine
from unisono.sdk.overview.overview import JobLine, Overview
from unisono.sdk.overview.queues import QueueView

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
        ("-A lab -C a100 -q high -e err.txt -n 2", {"tasks": 2}),
        ("--constraint a100 --qos high --exclusive -n 2", {"tasks": 2}),
        ("-H -Q -n 3", {"tasks": 3}),
        ("--gpus-per-task 2 --cpus-per-gpu=4 --mem-per-gpu=1G", {"cpus": 8, "memory_mib": 2048}),
        ("--export=ALL,A=1,B", {"exported": (("A", "1"), ("B", None))}),
        ("--wrap 'echo' --parsable", {"parsable": True}),
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


def test_what_is_left_out_is_told_in_the_users_words() -> None:
    notes = read("-A lab -C a100 --hold --export=ALL --frobnicate").notes
    assert [note.split(" ")[0] for note in notes] == ["--account", "--constraint", "--hold", "--frobnicate", "of"]
    assert "--partition" in notes[0]


def test_options_end_where_the_script_or_command_begins() -> None:
    assert split_words(["-n", "4", "--mem=1G", "train.sh", "-n", "5"]) == (
        ["-n", "4", "--mem=1G"],
        ["train.sh", "-n", "5"],
    )
    assert split_words(["--exclusive", "train.sh"]) == (["--exclusive"], ["train.sh"])
    assert split_words(["--parsable", "-H", "-A", "lab", "x.sh"]) == (["--parsable", "-H", "-A", "lab"], ["x.sh"])
    assert split_words(["--constraint", "a100", "x.sh"]) == (["--constraint", "a100"], ["x.sh"])
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


HOSTS = "fit-rank-0.fit,fit-rank-1.fit,fit-rank-2.fit,fit-rank-3.fit"


def ranks(body: str, folder: Path, nodes: int = 4, each: int = 1) -> list[list[str]]:
    """What each of four tasks prints that run the script on so many nodes."""
    given = Batch(name="fit", nodes=nodes, tasks=nodes * each, gpus=2, cpus=3, memory_mib=1024)
    program = program_of(given, "/home/me/fit.sh", f"#!/bin/bash\n#SBATCH -N {nodes}\n{body}\n", [])
    said = []
    for rank in range(nodes * each):
        own = {"SLURM_PROCID": str(rank), "HOSTNAME": f"fit-rank-{rank}", "VC_RANK_HOSTS": HOSTS}
        done = subprocess.run(
            list(program.command),
            cwd=folder,
            env={"PATH": os.environ["PATH"], **program.env, **own},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.splitlines())
    return said


HEAD = "fit-rank-0.fit"


@pytest.mark.parametrize(
    "body",
    [
        "at=$(hostname)\nsrun echo $at",
        "set -eu\nat=$(hostname -f)\nsrun echo $at",
        "at=$HOSTNAME\nsrun echo $at",
        'at=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\nsrun echo $at',
        "set -euo pipefail\nat=$(scontrol show hostname $SLURM_NODELIST | head -n1)\nsrun echo $at",
        'nodes=($(scontrol show hostnames $SLURM_JOB_NODELIST))\nsrun bash -c "echo ${nodes[0]}"',
        'h=$(scontrol show hostnames | head -1)\nat=$(srun -N1 -n 1 -w "$h" hostname)\nsrun echo $at',
        "export MASTER_ADDR=$(srun --ntasks=1 hostname 2>&1 | tail -n1)\nsrun bash -c 'echo $MASTER_ADDR'",
        "echo $(srun --nodes=1 --ntasks=1 hostname --ip-address)",
    ],
)
def test_all_tasks_meet_at_the_first_node(body: str, tmp_path: Path) -> None:
    assert ranks(body, tmp_path) == [[HEAD]] * 4


def test_random_numbers_are_the_same_in_all_tasks(tmp_path: Path) -> None:
    said = ranks("srun echo $((10000 + RANDOM % 1000)) $RANDOM", tmp_path)
    assert len({tuple(each) for each in said}) == 1


def test_commands_under_srun_run_where_they_are_sent(tmp_path: Path) -> None:
    body = (
        "nodes=($(scontrol show hostnames $SLURM_JOB_NODELIST))\n"
        'srun -N1 -n1 -w "${nodes[0]}" echo head\n'
        "for ((i = 1; i < SLURM_JOB_NUM_NODES; i++)); do\n"
        "  srun -N 1 --ntasks=1 --nodelist=${nodes[i]} echo worker $i\n"
        "done\n"
        "srun -l echo all of $SLURM_NNODES"
    )
    said = ranks(body, tmp_path)
    assert said == [
        [first, f"{rank}: all of 4"] for rank, first in enumerate(["head", *(f"worker {n}" for n in (1, 2, 3))])
    ]


def test_what_runs_under_srun_knows_its_own_node(tmp_path: Path) -> None:
    said = ranks("srun bash -c 'echo $SLURMD_NODENAME $HOSTNAME $SLURM_NODEID'", tmp_path)
    assert said == [[f"fit-rank-{rank}.fit fit-rank-{rank}.fit {rank}"] for rank in range(4)]


def test_tasks_of_one_node_share_its_number_and_name_in_the_list(tmp_path: Path) -> None:
    body = "srun bash -c 'echo $SLURM_NODEID $SLURM_JOB_NODELIST $SLURM_NTASKS_PER_NODE $SLURM_GPUS_PER_NODE'\n"
    body += "srun -n 1 -w fit-rank-2.fit echo second"
    said = ranks(body, tmp_path, nodes=2, each=2)
    assert [each[0] for each in said] == [f"{node} {HEAD},fit-rank-2.fit 2 4" for node in (0, 0, 1, 1)]
    assert [each[1:] for each in said] == [[], [], ["second"], []]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("PORT=$(date +%s)", "line 2: every task runs the script, and date has another answer in each"),
        ("DIR=$(mktemp -d)", "mktemp has another answer"),
        ("PORT=$((10000 + SLURM_JOBID % 1000))", "SLURM_JOBID is the job's name here, and no number"),
        ("module load cuda/12", "environment modules (module) are not here"),
        ("mpirun -np 4 ./a.out", "mpirun is started by every task"),
        ("squeue -u me", "squeue is not on the path of a task"),
        ("scontrol requeue 4", "scontrol requeue is not here"),
        ("echo $SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR is not set here"),
        ("# echo $SLURM_TOPOLOGY_ADDR", ""),
        ("echo ${SLURM_TOPOLOGY_ADDR:-none} $SLURM_NTASKS $SLURM_JOB_NODELIST", ""),
        ("scontrol show hostnames $SLURM_JOB_NODELIST", ""),
        ("srun python train.py --nnodes $SLURM_JOB_NUM_NODES", ""),
    ],
)
def test_what_will_not_be_as_under_slurm_is_told_with_its_line(line: str, said: str) -> None:
    text = f"#!/bin/bash\n{line}\n"
    found = doubts(text, program_of(Batch(tasks=2, nodes=2), "/fit.sh", text, []).env)
    assert [said in each for each in found] == ([True] if said else [])


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


def job_of(done: Result) -> dict[str, Any]:
    assert done.exit_code == 0, done.output
    [document] = load_all(done.stdout, file="out")
    return dict(document.value)


def command_of(job: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    [container] = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    return container["command"], {each["name"]: each.get("value") for each in container["env"]}


def test_a_command_in_place_of_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN_OF_MINE", "t")
    job = job_of(sbatch("-n", "2", "--export=ALL,LEVEL=3,TOKEN_OF_MINE", "--wrap", "echo hi there"))
    command, values = command_of(job)
    assert job["metadata"]["name"] == "wrap"
    assert "echo hi there" in command[2]
    assert (values["LEVEL"], values["TOKEN_OF_MINE"], values["SLURM_SUBMIT_DIR"]) == ("3", "t", str(tmp_path))


def test_a_script_that_comes_through_a_pipe() -> None:
    done = CliRunner().invoke(cli, ["sbatch", "--dry-run", "-J", "piped"], input="#!/bin/bash\n#SBATCH -n 3\necho hi\n")
    job = job_of(done)
    assert (job["metadata"]["name"], job["spec"]["tasks"][0]["replicas"]) == ("piped", 3)


def test_a_job_whose_name_is_taken_gets_another_and_knows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fit.sh").write_text("#!/bin/bash\n#SBATCH -J fit -o %x-%j.txt\necho\n")
    _, [element] = script_elements(["fit.sh"], None)
    second = element.called("fit-2")
    assert (element.program.name, second.name) == ("fit", "fit-2")
    assert (second.env["SLURM_JOB_ID"], second.env["SLURM_JOB_NAME"]) == ("fit-2", "fit")
    assert "fit-fit-2.txt" in " ".join(second.command)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the script is missing"),
        (["--wrap", "echo", "x.sh"], "one too many"),
        (["--export=NO_SUCH_VARIABLE", "x.sh"], "no variable of that name"),
        (["--export=a-b", "x.sh"], "variables are expected"),
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


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["a", "b-3"]),
        ({"queue": "gpu"}, ["a"]),
        ({"namespace": "team"}, ["b-3"]),
        ({"user": "ann"}, ["a"]),
        ({"user": "me"}, []),
        ({"user": "me", "owner": "me"}, ["b-3"]),
        ({"names": names_of(["b"])}, ["b-3"]),
        ({"names": names_of(["job/a,b-3"])}, ["a", "b-3"]),
        ({"names": names_of(["b-"])}, []),
        ({"states": states_of("PENDING")}, ["b-3"]),
        ({"states": states_of("r,pd")}, ["a", "b-3"]),
        ({"states": states_of("all"), "user": "ann"}, ["a"]),
    ],
)
def test_jobs_are_selected_by_queue_user_name_and_state(asked: dict[str, Any], expected: list[str]) -> None:
    running = [JobLine("job/a", "default", "gpu", 65, user="ann")]
    waiting = [JobLine("job/b-3", "team", "cpu", 3700)]
    found = Overview([], [], [], [], [], [], [], waiting, running)
    assert [job.name for _, job in Selection(**asked).of(found)] == expected


@pytest.mark.parametrize(
    ("asked", "unseen", "told"),
    [
        ({"queue": "gpu", "names": frozenset({"a"})}, (), []),
        ({"queue": "nope"}, (), ["There is no queue nope: 'unisono queue list' shows those that there are."]),
        ({"queue": "nope"}, ("queues",), []),
        (
            {"names": frozenset({"a", "z"})},
            (),
            ["No job z runs or waits: 'unisono sacct -j z' tells whether it has ended."],
        ),
    ],
)
def test_what_does_not_exist_is_told(asked: dict[str, Any], unseen: tuple[str, ...], told: list[str]) -> None:
    running = [JobLine("job/a", "default", "gpu", 65)]
    found = Overview([], [], [], [], [], [], [QueueView("gpu")], [], running, unseen=unseen)
    assert Selection(**asked).unknown(found) == told


def test_a_state_that_does_not_exist_is_named() -> None:
    with pytest.raises(click.UsageError, match="FAILED"):
        states_of("R,FAILED")


def test_squeue_and_sinfo_have_slurms_columns() -> None:
    running = [JobLine("job/a", "default", "gpu", 65, pods=4, gang=4, user="ann", nodes=("n1", "n2"))]
    waiting = [JobLine("job/b-3", "team", "cpu", 3700, gang=2, waiting="no room: " + "x" * 80)]
    found = Overview([], [], [], [], [], [], [], waiting, running)
    lines = squeue_lines(Selection().of(found), owner="me", width=70)
    assert lines[0].split() == ["JOBID", "PARTITION", "USER", "ST", "TIME", "TASKS", "NODELIST(REASON)"]
    assert lines[1].split() == ["a", "gpu", "ann", "R", "1:05", "4", "n1,n2"]
    assert lines[2].split()[:6] == ["b-3", "cpu", "me", "PD", "1:01:40", "2"]
    assert len(lines[2]) == 70
    assert sinfo_lines([NodeLine("n1", "mix", "4/8", "0/1Gi", "nvidia.com/gpu 1/2")])[1].split()[:2] == ["n1", "mix"]
