"""Batches of Slurm in pods: the script runs once, on the first node, and srun runs tasks on all."""

from __future__ import annotations

import ast
import asyncio
import re
import types
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.slurm_pods import run_batch, start_batch, wait_for
from unisono.cli.slurm.steps import program_text
from unisono.cli.slurm.steps.head import Head
from unisono.cli.slurm.steps.link import Link

pytestmark = pytest.mark.processes

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


def test_the_script_runs_once_and_srun_in_every_task(tmp_path: Path) -> None:
    done = run_batch(SCRIPT, tmp_path, "--gres=none", ["a b"])
    assert done.codes == [0, 0], done.told
    assert done.out[0].startswith("line 11\n")
    assert done.lines.count("line 11") == 1
    # The variable is replaced by the script, before there are tasks.
    assert done.lines.count("task 0 of 8 a b") == 8


MEETINGS = [
    "at=$(hostname)\nsrun echo $at",
    "set -eu\nat=$(hostname -f)\nsrun echo $at",
    "at=$HOSTNAME\nsrun echo $at",
    'at=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\nsrun echo $at',
    "set -euo pipefail\nat=$(scontrol show hostname $SLURM_NODELIST | head -n1)\nsrun echo $at",
    'nodes=($(scontrol show hostnames $SLURM_JOB_NODELIST))\nsrun bash -c "echo ${nodes[0]}"',
    'h=$(scontrol show hostnames | head -1)\nat=$(srun -N1 -n 1 -w "$h" hostname)\nsrun echo $at',
    "export MASTER_ADDR=$(srun --ntasks=1 hostname 2>&1 | tail -n1)\nsrun bash -c 'echo $MASTER_ADDR'",
    "at=$(srun --nodes=1 --ntasks=1 hostname --ip-address)\nsrun echo $at",
    "srun bash -c 'echo $MASTER_ADDR'",
    "srun bash -c 'echo $SLURM_LAUNCH_NODE_IPADDR'",
    "srun bash -c 'echo ${SLURM_STEP_NODELIST%%,*}'",
]


def run_all(bodies: Sequence[str], folder: Path, options: str) -> list[list[str]]:
    """What each of several scripts prints, on the same nodes: starting pods takes longer than what they do."""
    parts = []
    for number, body in enumerate(bodies):
        (folder / f"{number}.sh").write_text(body)
        parts.append(
            f"mkdir d{number}; (cd d{number}; bash ../{number}.sh > ../{number}.out; echo rc $? >> ../{number}.out)"
        )
    done = run_batch("#!/bin/bash\n" + "\n".join(parts) + "\n", folder, options)
    assert done.codes == [0] * len(done.codes), done.told
    said = [(folder / f"{number}.out").read_text().splitlines() for number in range(len(bodies))]
    for body, lines in zip(bodies, said, strict=True):
        assert lines[-1:] == ["rc 0"], f"{body}\n{lines}\n{done.told}"
    return [sorted(lines[:-1]) for lines in said]


def test_all_tasks_meet_at_the_first_node(tmp_path: Path) -> None:
    said = run_all(MEETINGS, tmp_path, "-N 3")
    [address] = {line for lines in said for line in lines}
    assert address.endswith(".1")
    assert [len(lines) for lines in said] == [3] * len(MEETINGS)


# What a script on two nodes of two tasks prints, in the order of letters.
STEPS: dict[str, tuple[str, list[str]]] = {
    "each task knows itself": (
        "srun bash -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NTASKS $RANK $WORLD_SIZE $LOCAL_RANK'",
        ["0 0 0 4 0 4 0", "1 1 0 4 1 4 1", "2 0 1 4 2 4 0", "3 1 1 4 3 4 1"],
    ),
    "what it captures comes back": ('x=$(srun echo hi)\necho "$x" | wc -l', ["4"]),
    "random numbers and dates are drawn once": ("x=$RANDOM$(date +%N)\nsrun echo same | uniq | wc -l", ["1"]),
    "steps in the background run at once": (
        "nodes=($(scontrol show hostnames))\nmkfifo ${PWD}/pipe\n"
        "srun -N1 -n1 -w ${nodes[0]} cat ${PWD}/pipe &\nsrun -N1 -n1 -w ${nodes[1]} sh -c 'echo met > pipe'\nwait",
        ["met"],
    ),
    "steps are counted": (
        "a=$(srun -n1 printenv SLURM_STEP_ID) b=$(srun -n1 printenv SLURM_STEP_ID)\necho $((b - a))",
        ["1"],
    ),
    "labels": ("srun -l -n2 echo a", ["0: a", "1: a"]),
    "input goes to all tasks": ("echo in | srun -n 2 cat", ["in", "in"]),
    "input of a file": ("echo in > file\nsrun -i file -n 2 cat", ["in", "in"]),
    "files for tasks": ("srun -o o-%t.txt echo a\ncat o-?.txt | wc -l", ["4"]),
    "variables that the script changes": (
        "export A=1 SLURM_GPUS=9\nunset SLURM_CONF\nsrun -n1 sh -c 'echo $A $SLURM_GPUS ${SLURM_CONF-none}'",
        ["1 9 none"],
    ),
    "of --export alone": ("export A=1 B=2\nsrun -n1 --export=A,C=3 sh -c 'echo $A${B-}$C'", ["13"]),
    "another batch from within one": (
        "mkdir p\nprintf '#!/bin/sh\\necho \"$@\" ${SLURM_JOB_ID-none}\\n' > p/unisono\nchmod +x p/unisono\n"
        "PATH=$PWD/p:$PATH sbatch --parsable next.sh",
        ["sbatch --parsable next.sh none"],
    ),
    "a chain from within a batch": (
        "sbatch -d afterany:$SLURM_JOB_ID next.sh 2>&1 | grep -c 'waits outside of jobs'",
        ["1"],
    ),
    "Open MPI starts as root where nobody else is": (
        "[ $(id -u) != 0 ] || "
        "srun -n1 sh -c '[ $OMPI_ALLOW_RUN_AS_ROOT$OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = 11 ]' && echo ok",
        ["ok"],
    ),
    "the folder of srun": ("mkdir d\nsrun -n1 -D d sh -c 'basename $PWD'", ["d"]),
    "the largest exit code": ("srun -K0 bash -c 'exit $SLURM_PROCID' || echo $?", ["3"]),
    "a failed task ends the others": ("srun bash -c '[ $SLURM_PROCID = 1 ] && exit 5; sleep 60' || echo $?", ["5"]),
    "signals have numbers": ("srun -n1 sh -c 'kill -9 $$' || echo $?", ["137"]),
    "what does not exist": ("srun -n1 no-such-program || echo $?", ["127"]),
    "srun that is killed takes its step along": (
        "srun -n1 sh -c 'trap \"echo got >> f; exit 9\" TERM; touch up; while :; do sleep 0.05; done' &\n"
        "until [ -e up ]; do sleep 0.05; done\nkill -TERM $!\nwait $! || echo $?\ncat f",
        ["9", "got"],
    ),
    "a card of some kind for each task": (
        "export CUDA_VISIBLE_DEVICES=4,5\n"
        "srun --gpus-per-task=a100 sh -c 'echo $CUDA_VISIBLE_DEVICES ${ROCR_VISIBLE_DEVICES-none} $SLURM_STEP_GPUS'",
        ["4 none 4", "4 none 4", "5 none 5", "5 none 5"],
    ),
    "a card for each task where there are none": (
        "srun --gpus-per-task=1 sh -c 'echo $LOCAL_RANK ${CUDA_VISIBLE_DEVICES-none}'",
        ["0 none", "0 none", "1 none", "1 none"],
    ),
    "a function named as before": ("f() { srun -n1 echo in; }\nf", ["in"]),
    "programs of several kinds": (
        "printf '0 echo first\\n1-3 echo task %%t\\n' > p\nsrun --multi-prog p",
        ["first", "task 1", "task 2", "task 3"],
    ),
    "a program for all other tasks": (
        "printf '# who does what\\n1-2 echo part %%o \\\\\\n  of %%t\\n* echo rest %%t\\n3 echo never\\n' > p\n"
        "srun --multi-prog p",
        ["part 0 of 1", "part 1 of 2", "rest 0", "rest 3"],
    ),
    "a task without a program": (
        "printf '0 echo a\\n' > p\nsrun --multi-prog p 2>&1 || true",
        ["srun: error: --multi-prog: no line of p names task 1"],
    ),
    "programs of a file that is not there": (
        "srun --multi-prog p 2>&1 || true",
        ["srun: error: p: No such file or directory"],
    ),
    "a container of a centre": ("srun -n1 --environment=fit.toml --uenv=a/1 --view default echo in", ["in"]),
    "addresses by host": (
        "host $(scontrol show hostnames | tail -1) | awk '/has address/ {print $4}' | cut -d. -f4",
        ["2"],
    ),
    "ssh to a node of the job": ("ssh me@$(scontrol show hostnames | tail -1) 'echo at $SLURM_NODEID'", ["at 0"]),
    "a file for all nodes": ("echo x > f\nsbcast f g\nsrun -N2 --ntasks-per-node=1 cat g", ["x", "x"]),
    "scontrol show job": ("scontrol show job $SLURM_JOB_ID | tr ' ' '\\n' | grep -c ^NumNodes=2$", ["1"]),
    "squeue of the job": ('squeue -h -j $SLURM_JOB_ID -o "%j %T"', ["fit RUNNING"]),
    "a container that there is not": ("apptainer exec --nv -B /a:/b x.sif echo in 2> /dev/null", ["in"]),
    "a container with options that stand alone": (
        "singularity --quiet exec --userns --net --env A=1 x.sif sh -c 'echo in $A' 2> /dev/null",
        ["in 1"],
    ),
    "a container that names its program itself": (
        "apptainer run x.sif --lr 1 2>&1 || echo $?",
        ["127", "apptainer run: what x.sif runs is not in the pod: use an image that has it"],
    ),
    "srun behind a program": ("timeout 60 srun -n1 echo in", ["in"]),
    "a loop that reads": ("printf 'a\\nb\\n' | while read x; do srun -n1 echo $x < /dev/null; done", ["a", "b"]),
}


def test_steps(tmp_path: Path) -> None:
    said = run_all([body for body, _ in STEPS.values()], tmp_path, "-N 2 -n 4")
    assert dict(zip(STEPS, said, strict=True)) == {name: lines for name, (_, lines) in STEPS.items()}


def test_what_tasks_write_is_in_the_log_of_their_node(tmp_path: Path) -> None:
    done = run_batch("#!/bin/bash\n#SBATCH -N 2\nsrun -l echo a\nx=$(srun echo b)\n", tmp_path)
    assert done.out == ["0: a\n", "1: a\n"]


def test_exclusive_steps_wait_for_each_other(tmp_path: Path) -> None:
    body = "for i in 1 2 3; do srun -n1 -N1 --exact sh -c 'mkdir one && sleep 0.1 && rmdir one' & p+=($!); done\n"
    body += "for each in ${p[@]}; do wait $each || echo failed; done"
    done = run_batch(f"#!/bin/bash\n{body}\n", tmp_path)
    assert done.lines == [], done.told


def test_the_exit_code_is_the_scripts_and_who_failed_first_has_it_too(tmp_path: Path) -> None:
    body = "set -e\nsrun bash -c 'if [ $SLURM_PROCID = 1 ]; then exit 7; fi; sleep 60'\n"
    done = run_batch(f"#!/bin/bash\n#SBATCH -N 3\n{body}", tmp_path)
    assert done.codes == [7, 7, 0], done.told
    assert "srun: error: task 1: Exited with exit code 7" in done.err[0]
    assert run_batch("#!/bin/bash\nsrun false || true\nexit 4\n", tmp_path).codes == [4]


@pytest.mark.parametrize("left", ["", "sleep 60 & "])
def test_a_batch_that_asks_to_be_started_again_ends_so(tmp_path: Path, left: str) -> None:
    """With whatever it has begun by then."""
    done = run_batch(f"#!/bin/bash\n#SBATCH -N 2\n{left}scontrol requeue $SLURM_JOB_ID\nsleep 60\n", tmp_path)
    assert done.codes == [213, 0], done.told


def test_a_signal_to_the_batch_reaches_script_and_tasks(tmp_path: Path) -> None:
    body = "trap 'echo script; exit 3' TERM\nsrun sh -c 'trap \"echo task; exit 4\" TERM; touch up-$SLURM_PROCID; "
    body += "while :; do sleep 0.05; done' &\nuntil [ -e up-0 -a -e up-1 ]; do sleep 0.05; done; touch up\nwait\n"
    pods = start_batch(f"#!/bin/bash\n#SBATCH -N 2\n{body}", tmp_path)
    while not (tmp_path / "up").exists():
        assert pods[0].poll() is None
    pods[0].terminate()
    done = wait_for(pods, tmp_path)
    assert done.codes[0] == 3, done.told
    assert done.lines == ["script", "task", "task"]


SIGNALS = {
    "B:USR1": ("trap 'echo shell' USR1\nsleep 60 & wait\nkill %1\nsrun -n1 true\n", "-N 1", ["shell"]),
    "USR1": (
        "srun sh -c 'trap \"echo task; exit 0\" USR1; while :; do sleep 0.05; done'\n",
        "-N 2",
        ["task", "task"],
    ),
}


@pytest.mark.parametrize("signal", SIGNALS)
def test_the_signal_before_the_time_limit(tmp_path: Path, signal: str) -> None:
    """It comes at its time, however far a script is: one that has no trap yet, on a busy machine, is given longer."""
    body, options, expected = SIGNALS[signal]
    for before in (59, 55, 35):
        done = run_batch(f"#!/bin/bash\n{body}", tmp_path, f"{options} -t 1 --signal={signal}@{before}")
        if done.lines == expected:
            return
    assert done.lines == expected, done.told


@pytest.mark.parametrize("signal", SIGNALS)
def test_the_signal_when_a_pod_is_to_be_evicted(tmp_path: Path, signal: str) -> None:
    """The pod's notice says until when; without a time limit, too, and before one that is far away."""
    body, options, expected = SIGNALS[signal]
    ready = body.replace("sleep 60 &", "touch up-0 up-1\nsleep 60 &").replace("while", "touch up-$SLURM_PROCID; while")
    pods = start_batch(f"#!/bin/bash\n{ready}", tmp_path, f"{options} --signal={signal}@30")
    while not all((tmp_path / f"up-{rank}").exists() for rank in (0, 1)):
        assert pods[0].poll() is None
    (tmp_path / "notice").write_text("2026-01-01T00:00:30Z")
    done = wait_for(pods, tmp_path)
    assert done.lines == expected, done.told


def test_a_pod_without_the_key_is_not_let_in(tmp_path: Path) -> None:
    async def knock(port: int) -> object:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        link = Link(reader, writer, b"another key")
        await link.greet(first=False)
        await link.send(do="login", node=1)
        try:
            return await link.receive()
        finally:
            link.close()

    async def both() -> None:
        place = types.SimpleNamespace(key=b"key", counts=[1, 1], hosts=["a", "b"])
        head = Head(place)  # type: ignore[arg-type]
        server = await asyncio.start_server(head.serve_node, "127.0.0.1", 0)
        assert await knock(server.sockets[0].getsockname()[1]) is None
        assert head.nodes == {}
        server.close()

    asyncio.run(both())


def test_output_and_errors_are_files_too(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH -N 2\necho one\nsrun sh -c 'echo task; echo wrong >&2'\nexit 7\n"
    done = run_batch(text, tmp_path, "-o logs/it's-%x-%j-%N.txt -e %x.err")
    assert done.codes[0] == 7
    [file] = (tmp_path / "logs").iterdir()
    assert re.fullmatch(r"it's-fit-\d+-127\.txt", file.name)
    assert file.read_text() == "one\ntask\ntask\n"
    assert (tmp_path / "fit.err").read_text() == "wrong\nwrong\n"
    assert done.out == ["one\ntask\n", "task\n"]
    assert done.err == ["wrong\n", "wrong\n"]


def test_both_streams_go_to_the_file_of_output(tmp_path: Path) -> None:
    text = "#!/bin/bash\necho one\necho two >&2\nsrun sh -c 'echo three; echo four >&2'\nx=$(srun echo no)\n"
    done = run_batch(text, tmp_path, "-o all.txt")
    assert sorted((tmp_path / "all.txt").read_text().split()) == ["four", "one", "three", "two"]
    assert sorted(done.out[0].split()) == ["one", "three", "two"]


def test_a_batch_whose_file_cannot_be_written_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_batch("#!/bin/bash\necho one\n", tmp_path, "-o file/out.txt")
    assert done.codes == [1]
    assert "sbatch: error: " in done.err[0]
    assert "file" in done.err[0]


def test_other_interpreters_run_their_scripts(tmp_path: Path) -> None:
    text = "#!/usr/bin/env python3\n#SBATCH -N 2\nimport os, subprocess, sys\n"
    text += "print(os.environ['SLURM_NTASKS'], sys.argv[1], flush=True)\nsubprocess.run(['srun', 'echo', 'task'])\n"
    done = run_batch(text, tmp_path, arguments=["a b"])
    assert done.lines == ["2 a b", "task", "task"], done.told


def test_a_login_shell_finds_srun_too(tmp_path: Path) -> None:
    done = run_batch("#!/bin/bash -l\n#SBATCH -N 2\nsrun sh -c 'hostname'\n", tmp_path)
    assert len(set(done.lines)) == 2, done.told


def test_no_two_parts_of_the_program_give_one_name_to_different_things() -> None:
    """Their modules become one, in which the last one to use a name has it."""
    named: dict[str, int] = {}
    for statement in ast.parse(program_text()).body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [statement.name]
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names = [each.id for each in targets if isinstance(each, ast.Name)]
        else:
            continue
        for name in names:
            named[name] = named.get(name, 0) + 1
    assert [name for name, times in named.items() if times > 1] == []
