"""Slurm's habits: ``#SBATCH`` lines, what they become, and what is told of the rest."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from support.slurm_pods import batch_text
from unisono.api.yaml import load_all
from unisono.cli.commands.sbatch import script_elements, split_words
from unisono.cli.main import cli
from unisono.cli.slurm.batches import doubts, program_of
from unisono.cli.slurm.options import OPTIONS
from unisono.cli.slurm.script import READ, BadScript, Batch, batch_of, read_options, read_script
from unisono.cli.slurm.selecting import (
    Selection,
    names_of,
    pattern_of,
    sinfo_lines,
    squeue_lines,
    squeue_start_lines,
    states_of,
)
from unisono.cli.slurm.steps import command_text, program_text
from unisono.cli.slurm.steps.words import ALONE, FLAGS, SHORT, VALUED, BadOption, filled, hosts_of, shape_of
from unisono.sdk.jobs.submission import job_of as job_of_program
from unisono.sdk.overview.overview import JobLine, Overview
from unisono.sdk.overview.queues import NodeLine, QueueView

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
    assert (batch.cpus, batch.gpus, batch.memory_mib, batch.seconds) == (2, 4, 32768, 26 * 3600 + 1800)
    assert batch.counts == [4, 4]
    assert batch.notes == ("--mail-type is not supported: no mail is sent",)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {"tasks": 1, "nodes": 1}),
        ("-n 4", {"tasks": 4}),
        ("-n4 -c2", {"tasks": 4, "cpus": 2}),
        ("-N 3", {"tasks": 3, "nodes": 3}),
        ("-n 4 -H", {"nodes": 4, "apart": False}),
        ("-n 4 --gres=gpu:4", {"nodes": 1, "tasks": 4, "gpus": 4}),
        ("-n 6 --ntasks-per-node=4", {"nodes": 2, "counts": [3, 3]}),
        ("-N 2-4 -n 3", {"nodes": 2, "counts": [2, 1]}),
        ("-N 3 -n 2", {"nodes": 2}),
        ("-N 2-2 --ntasks=4 --gpus=8", {"gpus": 4}),
        ("-N 4 --gpus=6", {"gpus": 2}),
        ("--gres=gpu", {"gpus": 1}),
        ("--gres=gpu:a100:2(S:0),nvme:1", {"gpus": 2}),
        ("-n 2 --gpus-per-task=a100:3", {"gpus": 3, "gpus_per_task": 3}),
        ("-N 2 -n 8 --gpus-per-node=4", {"gpus": 4}),
        ("--gpus=4 --ntasks-per-gpu=2", {"tasks": 8}),
        ("-n 4 --mem=2T", {"memory_mib": 2048 * 1024}),
        ("--mem=0", {"memory_mib": None}),
        ("-c 4 --mem-per-cpu=500", {"memory_mib": 2000}),
        ("-N 1 -n 2 -c 4 --mem-per-cpu=500", {"memory_mib": 4000}),
        ("--signal=B:USR1@90 -t 5", {"signal": (10, 90, True)}),
        ("--signal=SIGTERM -t 5", {"signal": (15, 60, False)}),
        ("--no-requeue -p a,b", {"requeue": False, "queue": "a"}),
        ("-w n[1-2] -x n7", {"nodelist": ("n1", "n2"), "exclude": ("n7",)}),
        ("-d singleton", {"after": (("singleton", ""),)}),
        ("-d afternotok:a?afterok:b", {"after": (("afternotok", "a"), ("afterok", "b")), "any_of": True}),
        ("--container-image=nvcr.io#nvidia/pytorch:24.01-py3", {"image": "nvcr.io/nvidia/pytorch:24.01-py3"}),
        ("--container-image docker://ray:2", {"image": "ray:2"}),
        ("--container-image=/fsx/x.sqsh", {"image": ""}),
        ("--container-mounts=/a:/b:ro,/c", {"mounts": (("/a", "/b", True), ("/c", "/c", False))}),
        ("-e err.txt --open-mode=append", {"error": "err.txt", "append": True}),
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
        ("--gpus-per-task 2 --cpus-per-gpu=4 --mem-per-gpu=1G", {"node_cpus": 8, "memory_mib": 2048}),
        ("--export=ALL,A=1,B", {"exported": (("A", "1"), ("B", None))}),
        ("--wrap 'echo' --parsable", {"parsable": True}),
        ("-L matlab:2,Ansys@lmgr -n 2", {"licenses": "ansys=1, matlab=2"}),
    ],
)
def test_options(options: str, expected: dict[str, object]) -> None:
    batch = read(options)
    assert {name: getattr(batch, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-N 4-2", "smaller"),
        ("-w", "lacks its value"),
        ("--container-mounts=x:/y", "folders are expected"),
        ("--signal=USR9 -t 5", "no signal USR9"),
        ("-n 0", "from 1 on"),
        ("-n many", "from 1 on"),
        ("-N 2 -n 6 --ntasks-per-node=2", "times"),
        ("--gpus=lots", "from 1 on"),
        ("--gres=gpu:$N", "no variable is filled in here"),
        ("--gres=gpu:~", "resources are expected"),
        ("--mem=much", "amount of memory"),
        ("-t soon", "a time is expected"),
        ("-a 5-1", "1 to 1000"),
        ("-a 0-5000", "1 to 1000"),
        ("-a x", "indices"),
        ("-d later:a", "afterok:NAME"),
        ("--job-name=", "a value is expected"),
        ("train.sh", "no option of sbatch"),
        ("--licenses='matlab|ansys'", "one of several licences"),
        ("-L matlab:0", "must ask for 1 to"),
        ("-L matlab:x", "no whole number"),
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
    notes = read("-A lab --contiguous --nice --export=ALL").notes
    assert [note.split(" ")[0] for note in notes] == ["--account", "--contiguous", "--nice", "of"]
    assert "--partition" in notes[0]


@pytest.mark.parametrize(
    ("words", "rest"),
    [
        (["-n", "4", "--mem=1G", "train.sh", "-n", "5"], ["train.sh", "-n", "5"]),
        (["--exclusive", "train.sh"], ["train.sh"]),
        (["--parsable", "-H", "-A", "lab", "x.sh"], ["x.sh"]),
        (["--constraint", "a100", "x.sh"], ["x.sh"]),
        (["--nodes", "2", "--", "-x"], ["-x"]),
        (["--mpi=pmix", "--cpu-bind", "none", "--container-image", "x.sqsh", "a"], ["a"]),
        (["--container-mounts", "/a:/a", "--no-container-mount-home", "a"], ["a"]),
        (["-l", "-K1", "-u", "-N2", "-n", "4", "a", "-l"], ["a", "-l"]),
        (["-lN2", "a"], ["a"]),
        (["--overlap", "--exact", "--kill-on-bad-exit", "a", "0"], ["a", "0"]),
        (["--het-group", "0", "--wait", "60", "a"], ["a"]),
    ],
)
def test_options_end_where_the_script_or_command_begins(words: list[str], rest: list[str]) -> None:
    assert split_words(words, "srun")[1] == rest


def test_what_waits_for_a_value_differs_by_command() -> None:
    assert split_words(["-W", "60", "a"], "srun") == ([("wait", "60")], ["a"])
    assert split_words(["-W", "a"], "sbatch") == ([("wait", "")], ["a"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b", ["a", "b"]),
        ("n[08-10,12].x,m", ["n08.x", "n09.x", "n10.x", "n12.x", "m"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("", []),
    ],
)
def test_lists_of_hosts(text: str, expected: list[str]) -> None:
    assert hosts_of(text) == expected


@pytest.mark.parametrize(
    ("asked", "nodes", "ranks"),
    [
        ({}, [0, 1, 2], [[0, 1], [2, 3], [4, 5]]),
        ({"ntasks": "2"}, [0, 1], [[0], [1]]),
        ({"ntasks": "5"}, [0, 1, 2], [[0, 1], [2, 3], [4]]),
        ({"ntasks": "5", "distribution": "cyclic"}, [0, 1, 2], [[0, 3], [1, 4], [2]]),
        ({"nodes": "2"}, [0, 1], [[0, 1], [2, 3]]),
        ({"nodes": "2", "ntasks": "2"}, [0, 1], [[0], [1]]),
        ({"nodes": "1", "ntasks": "1", "nodelist": "c"}, [2], [[0]]),
        ({"nodelist": "b,c"}, [1, 2], [[0, 1], [2, 3]]),
        ({"nodes": "2", "nodelist": "c"}, [2, 0], [[0, 1], [2, 3]]),
        ({"exclude": "a", "ntasks-per-node": "1"}, [1, 2], [[0], [1]]),
        ({"ntasks-per-node": "3"}, [0, 1, 2], [[0, 1, 2], [3, 4, 5], [6, 7, 8]]),
        ({"ntasks": "4", "ntasks-per-node": "4"}, [0], [[0, 1, 2, 3]]),
        ({"relative": "1", "nodes": "2"}, [1, 2], [[0, 1], [2, 3]]),
    ],
)
def test_tasks_of_a_step_on_three_nodes_of_two(asked: dict[str, str], nodes: list[int], ranks: list[list[int]]) -> None:
    shape = shape_of(asked, ["a", "b", "c"], [2, 2, 2])
    assert (shape.nodes, shape.ranks) == (nodes, ranks)


@pytest.mark.parametrize("asked", [{"nodes": "4"}, {"nodelist": "z"}, {"ntasks": "0"}, {"nodes": "some"}])
def test_a_step_that_asks_for_too_much_is_refused(asked: dict[str, str]) -> None:
    with pytest.raises(BadOption):
        shape_of(asked, ["a", "b", "c"], [2, 2, 2])


def test_marks_of_file_names() -> None:
    assert filled("%x-%4j-%a-%%-%q", {"x": "fit", "j": 7, "a": 3}) == "fit-0007-3-%-%q"


def test_the_program_of_pods_needs_python_3_8_alone() -> None:
    tree = ast.parse(program_text(), feature_version=(3, 8))
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
    # Three of it, a long script and its variables fit on one command line.
    assert len(command_text()) < 30_000


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("module load cuda/12", "line 2: environment modules (module) are not here"),
        ("srun --mpi=pmix ./a.out", "srun --mpi=pmix has no server for MPI here"),
        ("sinfo -N", "sinfo is there only if the image has it"),
        ("scontrol hold 4", "'unisono scontrol hold' does it outside"),
        ("sbatch next.sh", "sbatch within a job needs"),
        ("echo $SLURM_TOPOLOGY_TREE", "SLURM_TOPOLOGY_TREE is not set here"),
        ("# echo $SLURM_TOPOLOGY_TREE", ""),
        ("echo ${SLURM_TOPOLOGY_TREE:-none} $SLURM_NTASKS $SLURM_JOB_NODELIST", ""),
        ("scontrol show hostnames $SLURM_JOB_NODELIST", ""),
        ("mpirun -np 4 ./a.out", ""),
        ("PORT=$((10000 + SLURM_JOBID % 1000)) DIR=$(mktemp -d)", ""),
        ("srun python train.py --nnodes $SLURM_JOB_NUM_NODES", ""),
    ],
)
def test_what_will_not_be_as_under_slurm_is_told_with_its_line(line: str, said: str) -> None:
    text = f"#!/bin/bash\n{line}\n"
    found = doubts(text, program_of(Batch(tasks=2, nodes=2), "/fit.sh", text, []).env)
    assert [said in each for each in found] == ([True] if said else [])


def test_variables_of_the_job(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=2 -c 3 --gpus-per-node=4 --mem=8G -J fit -t 10\n"
    batch = batch_text(text)
    given = program_of(batch, "/home/me/fit.sh", text, [], number=4711).env
    expected = {
        "SLURM_JOB_ID": "4711",
        "SLURM_JOBID": "4711",
        "SLURM_JOB_NAME": "fit",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NNODES": "2",
        "SLURM_NTASKS": "4",
        "SLURM_NPROCS": "4",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_TASKS_PER_NODE": "2(x2)",
        "SLURM_CPUS_PER_TASK": "3",
        "SLURM_CPUS_ON_NODE": "6",
        "SLURM_JOB_CPUS_PER_NODE": "6(x2)",
        "SLURM_GPUS_ON_NODE": "4",
        "SLURM_GPUS_PER_NODE": "4",
        "SLURM_GPUS": "8",
        "SLURM_MEM_PER_NODE": "8192",
    }
    assert {name: given.get(name) for name in expected} == expected


def sbatch(*words: str) -> Result:
    return CliRunner().invoke(cli, ["sbatch", "--dry-run", *words])


def test_an_array_is_a_job_for_each_element(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "My_Sweep.sh").write_text("#!/bin/bash\n#SBATCH -a 2,5%1 -p gpu\necho\n")
    done = sbatch("-t", "5", "My_Sweep.sh")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
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
    assert "echo hi there" in command[5]
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
    assert second.env["SLURM_JOB_NAME"] == "fit"
    assert second.env["SLURM_JOB_ID"].isdecimal()
    assert second.env["MASTER_ADDR"] == "fit-2-rank-0.fit-2"


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


def test_squeue_in_slurms_format() -> None:
    running = [JobLine("job/a", "default", "gpu", 65, pods=4, gang=4, user="ann", nodes=("n1", "n2"))]
    found = Overview([], [], [], [], [], [], [], [JobLine("job/b", "d", "cpu", 5, waiting="full")], running)
    lines = squeue_lines(Selection().of(found), owner="me", pattern="%.8i %T %u %R")
    assert lines == ["JOBID STATE USER NODELIST(REASON)", "a RUNNING ann n1,n2", "b PENDING me (full)"]
    assert squeue_lines(Selection().of(found), pattern="%j|%P|%M|%D", title=False) == ["a|gpu|1:05|2", "b|cpu|0:05|0"]
    with pytest.raises(click.UsageError, match="%q"):
        squeue_lines([], pattern="%q")


def test_a_state_that_does_not_exist_is_named() -> None:
    with pytest.raises(click.UsageError, match="FAILED"):
        states_of("R,FAILED")


def test_squeue_takes_the_long_names_of_columns() -> None:
    assert pattern_of("JobID:12,UserName, State:.9 ,ReasonList") == "%i %u %T %R"
    line = JobLine("job/b", "default", "cpu", 5.0, gang=2, waiting="no room")
    found = [("PD", line)]
    assert squeue_lines(found, pattern=pattern_of("Name,NumTasks,StateCompact,Reason"), title=False) == [
        "b 2 PD no room"
    ]
    for wrong, said in (("JobID,Colour", "colour is not known here: there are jobid"), (",", "names no field")):
        with pytest.raises(click.UsageError, match=said):
            pattern_of(wrong)
    done = CliRunner().invoke(cli, ["squeue", "-O", "JobID", "-o", "json"])
    assert done.exit_code == 2
    assert "give one of them" in done.output


def test_squeue_lists_estimated_starts_the_first_first() -> None:
    jobs = [JobLine(f"job/{name}", "default", "q", 1.0, waiting="no room", gang=2) for name in ("never", "b", "a")]
    lines = squeue_start_lines(zip(jobs, (None, 7200.0, 3600.0), strict=True), owner="me")
    assert [line.split() for line in lines[1:]] == [
        ["a", "q", "me", "PD", "1970-01-01T01:00:00Z", "2", "(no", "room)"],
        ["b", "q", "me", "PD", "1970-01-01T02:00:00Z", "2", "(no", "room)"],
        ["never", "q", "me", "PD", "N/A", "2", "(no", "room)"],
    ]
    done = CliRunner().invoke(cli, ["squeue", "--start", "-o", "json"])
    assert done.exit_code == 2
    assert "unisono whatif -o json" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("salloc -N 2", "unisono srun COMMAND"),
        ("sattach 7.0", "unisono logs -f job/NAME"),
        ("sprio", "unisono explain job/NAME"),
        ("sreport cluster wckeyutilization", "there are cluster Utilization"),
        ("sreport cluster utilization cluster=x", "cluster= is not read"),
        ("sreport user top users=a,b", "there are cluster Utilization"),
        ("sreport user topusage users=a,b", "name one here"),
        ("sacctmgr add account x", "'unisono queue create -n NAME' does it"),
        ("sacctmgr show users", "unisono report --by user"),
        ("sacctmgr dump", "there are show and list"),
        ("sacctmgr list account a b", "takes one name"),
    ],
)
def test_what_slurm_has_and_unisono_not_names_the_way_out(words: str, said: str) -> None:
    done = CliRunner().invoke(cli, words.split())
    assert done.exit_code == 2
    assert said in done.output


def test_squeue_and_sinfo_have_slurms_columns() -> None:
    running = [JobLine("job/a", "default", "gpu", 65, pods=4, gang=4, user="ann", nodes=("n1", "n2"))]
    waiting = [JobLine("job/b-3", "team", "cpu", 3700, gang=2, waiting="no room: " + "x" * 80)]
    found = Overview([], [], [], [], [], [], [], waiting, running)
    lines = squeue_lines(Selection().of(found), owner="me", width=70)
    assert lines[0].split() == ["JOBID", "PARTITION", "USER", "ST", "TIME", "TASKS", "NODELIST(REASON)"]
    assert lines[1].split() == ["a", "gpu", "ann", "R", "1:05", "4", "n1,n2"]
    assert lines[2].split()[:6] == ["b-3", "cpu", "me", "PD", "1:01:40", "2"]
    assert len(lines[2]) == 70
    nodes = [NodeLine("n1", "mix", "4/8", "0/1Gi", "nvidia.com/gpu 1/2")]
    assert sinfo_lines(nodes)[1].split()[:2] == ["n1", "mix"]
    assert sinfo_lines(nodes, title=False) == sinfo_lines(nodes)[1:]


def test_a_job_of_a_cluster_has_nodes_image_mounts_and_a_cpu_for_each_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fit.sh").write_text(
        "#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=3 --container-image=nvcr.io#nvidia/pytorch:24.01\n"
        "#SBATCH -x n3 --no-requeue --container-mounts=/data:/in:ro,/scratch\n"
    )
    batch, [element] = script_elements(["fit.sh"], None, local=False)
    assert batch.notes == ()
    job = job_of_program(element.program, local=False).manifest()
    pod = job["spec"]["tasks"][0]["template"]["spec"]
    [container] = pod["containers"]
    assert container["image"] == "nvcr.io/nvidia/pytorch:24.01"
    assert container["command"][:2] == ["python3", "-c"]
    assert container["resources"] == {"requests": {"cpu": "3"}}
    assert pod["volumes"][0] == {"name": "mount-0", "hostPath": {"path": "/data"}}
    assert container["volumeMounts"][0] == {"name": "mount-0", "mountPath": "/in", "readOnly": True}
    [apart] = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["labelSelector"] == {"matchLabels": {"volcano.sh/job-name": "fit-sh"}}
    [term] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0] == {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n3"]}
    actions = [(rule["action"], rule.get("event") or rule.get("exitCode")) for rule in job["spec"]["policies"]]
    assert actions[:2] == [("TerminateJob", "PodEvicted"), ("RestartJob", 213)]


def test_on_one_machine_nodes_may_lie_side_by_side_and_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fit.sh").write_text("#!/bin/bash\n#SBATCH -N 2 --exclusive -w n1\n")
    batch, [element] = script_elements(["fit.sh"], None)
    assert [note.partition(" ")[0] for note in batch.notes] == ["--exclusive", "--nodelist"]
    job = job_of_program(element.program, local=True).manifest()
    assert "affinity" not in job["spec"]["tasks"][0]["template"]["spec"]


def test_the_table_of_options_says_what_becomes_of_each() -> None:
    page = (Path(__file__).parents[2] / "docs" / "slurm.md").read_text()
    rows = re.findall(r"^\| (.*--.*?) \| (done|mapped|told) \| (.*) \|$", page, re.MULTILINE)
    told = {name: (handled, how) for names, handled, how in rows for name in re.findall(r"`--([\w-]+)`", names)}
    assert told == {name: (option.handled, option.how) for name, option in OPTIONS.items()}


# Long options in the manual pages of sbatch, from 23.11 to 25.05, and the short ones.
OF_SLURM = """
account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment consolidate-segments constraint
container container-id contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot
dependency distribution error exclude exclusive export export-file extra extra-node-info get-user-env gid gpu-bind
gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags help hint hold ignore-pbs input job-name
kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice
no-kill no-requeue nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
oom-kill-step open-mode output overcommit oversubscribe parsable partition power prefer priority profile propagate qos
quiet reboot requeue reservation resv-ports segment signal sockets-per-node spread-job spread-segments stepmgr switches
test-only thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid usage use-min-nodes verbose version
wait wait-all-nodes wckey wrap
""".split()  # noqa: SIM905
LETTERS = "A a B b C c D d e F G H h I i J k L M m N n O o p Q q S s t v W w x".split()  # noqa: SIM905


@pytest.mark.parametrize("name", OF_SLURM)
def test_no_option_of_slurm_is_silent(name: str) -> None:
    handled = OPTIONS[name]
    if handled.handled == "told":
        assert batch_of([(name, "1")]).notes == (f"--{name} is not supported: {handled.how}",)
    else:
        # What is done is read, or is so in any case.
        assert name in READ or handled.how == "as it is here in any case"


def test_no_letter_of_slurm_is_silent() -> None:
    assert {SHORT.get(letter) or FLAGS[letter] for letter in LETTERS} <= OPTIONS.keys()


def test_what_is_known_of_options_is_one_list() -> None:
    assert OPTIONS.keys() == VALUED | ALONE
    assert OPTIONS.keys() >= READ


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--nodez=2", "fit.sh:3: --nodez is no option of sbatch; did you mean --nodes?"),
        ("--gpu-per-nodes 4", "fit.sh:3: --gpu-per-nodes is no option of sbatch; did you mean --gpus-per-node?"),
        ("--ntasks-per=2", "did you mean --ntasks-per-core or --ntasks-per-gpu or --ntasks-per-node?"),
        ("--frobnicate=7", "fit.sh:3: --frobnicate is no option of sbatch."),
        ("-y 3", "fit.sh:3: -y is no option of sbatch."),
    ],
)
def test_a_line_that_slurm_does_not_know_is_refused_with_what_may_be_meant(line: str, said: str) -> None:
    with pytest.raises(BadScript, match=re.escape(said)):
        read_script(f"#!/bin/bash\n#SBATCH -n 2\n#SBATCH {line}\nsrun x\n", "fit.sh")


def test_a_colon_divides_the_options_of_sbatch_and_is_refused_behind_those_of_srun() -> None:
    options, rest = split_words(["-n1", ":", "-n2", "x.sh"], "sbatch")
    assert (options, rest) == ([("ntasks", "1"), ("hetjob", ""), ("ntasks", "2")], ["x.sh"])
    with pytest.raises(BadScript, match="a colon divides a job into parts: write a script with #SBATCH hetjob"):
        split_words(["-n1", "true", ":", "-n2", "false"], "srun")
    # Behind the script it is an argument.
    assert split_words(["x.sh", ":"], "sbatch") == ([], ["x.sh", ":"])


@pytest.mark.parametrize("text", ["n[1-999999999]", "n[1-300][1-300]", "n[1-60000],m[1-60000]"])
def test_a_list_of_more_hosts_than_there_are_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="more than 65536 hosts"):
        hosts_of(text)
