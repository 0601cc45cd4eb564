"""Jobs of several parts (``#SBATCH hetjob``): one gang whose nodes differ, and steps on some parts or on all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.slurm_pods import batch_text, run_batch
from unisono.cli.commands.sbatch import script_elements
from unisono.cli.slurm.batches import program_of
from unisono.cli.slurm.script import BadScript
from unisono.sdk.jobs.program import program_job
from unisono.sdk.jobs.submission import job_of as job_of_program

HEAD = """#!/bin/bash
#SBATCH --job-name=pair --nodes=1 --ntasks-per-node=1 --mem=1G --partition=lab
#SBATCH hetjob
#SBATCH --nodes=2 --ntasks-per-node=2 --gres=gpu:2 --cpus-per-task=3 --time=5
"""
SAY = "bash -c 'echo $0 $SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID on $HOSTNAME'"


def hosts(lines: list[str]) -> dict[str, int]:
    """Lines of the log without the network, by their number."""
    found: dict[str, int] = {}
    for line in lines:
        text = f"{line.rpartition(' ')[0]} n{line.rpartition('.')[2]}"
        found[text] = found.get(text, 0) + 1
    return found


def test_a_part_is_a_task_of_the_gang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pair.sh").write_text(f"{HEAD}srun true\n")
    batch, [element] = script_elements(["pair.sh"], "train", local=False)
    job = job_of_program(element.program, local=False).manifest()
    tasks: dict[str, Any] = {each["name"]: each for each in job["spec"]["tasks"]}
    assert {name: each["replicas"] for name, each in tasks.items()} == {"rank": 1, "rank-1": 2}
    resources = [each["template"]["spec"]["containers"][0]["resources"] for each in tasks.values()]
    assert resources == [
        {"requests": {"cpu": "1", "memory": "1024Mi"}, "limits": {"memory": "1024Mi"}},
        {"requests": {"cpu": "6", "nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}},
    ]
    assert (job["spec"]["minAvailable"], job["spec"]["queue"]) == (3, "lab")
    apart = [each["template"]["spec"]["affinity"]["podAntiAffinity"] for each in tasks.values()]
    assert apart[0] == apart[1], "all nodes are different ones"
    assert "--time of part 1 is left out: what the first part says is for all" in batch.notes
    (tmp_path / "pair.sh").write_text(
        f"{HEAD}echo $SLURM_JOB_NODELIST_HET_GROUP_1 $SLURM_NNODES_HET_GROUP_0 $SLURM_X_HET_GROUP_0\n"
    )
    batch, _ = script_elements(["pair.sh"], "train", local=False)
    assert [note for note in batch.notes if "is not set" in note] == ["line 5: SLURM_X_HET_GROUP_0 is not set here"]


def test_on_one_machine_nodes_that_say_nothing_divide_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(2)))
    batch = batch_text("#!/bin/bash\n#SBATCH -N 1 -c 1\n#SBATCH hetjob\n#SBATCH -N 2\n")
    tasks = program_job(program_of(batch, "pair.sh", "#!/bin/bash\n", [])).manifest()["spec"]["tasks"]
    asked = [each["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] for each in tasks]
    assert asked == ["1", "500m"]


STEPS = {
    # Without a word the first part alone.
    f"srun {SAY}": {"bash 0/1 0 on n1": 1},
    f"srun --het-group=1 {SAY}": {
        **{"bash 0/4 0 on n2": 1, "bash 1/4 1 on n2": 1, "bash 2/4 0 on n3": 1, "bash 3/4 1 on n3": 1}
    },
    f"srun --het-group=0,1 -n 1 {SAY}": {"bash 0/2 0 on n1": 1, "bash 1/2 0 on n2": 1},
    f"srun --het-group=0-1 {SAY} | wc -l | sed 's/.*/& on x.1/'": {"5 on n1": 1},
    f"srun --het-group=0 {SAY} : --het-group=1 -N 1 {SAY.replace('$0', 'other')}": {
        **{"bash 0/3 0 on n1": 1, "other 1/3 0 on n2": 1, "other 2/3 1 on n2": 1}
    },
    # A command is that of the parts before it, too.
    f"srun -n 1 : -n 1 {SAY}": {"bash 0/2 0 on n1": 1, "bash 1/2 0 on n2": 1},
    "echo $SLURM_HET_SIZE $SLURM_NNODES $SLURM_NNODES_HET_GROUP_1 $SLURM_NTASKS_HET_GROUP_1 on $HOSTNAME": {
        "2 1 2 4 on n1": 1
    },
    "for n in $(scontrol show hostnames $SLURM_JOB_NODELIST_HET_GROUP_1); do echo on $n; done": {
        "on n2": 1,
        "on n3": 1,
    },
    "echo on $(scontrol show hostnames $SLURM_JOB_NODELIST)": {"on n1": 1},
    "srun --het-group=1 -n 1 bash -c 'echo $SLURM_GPUS_ON_NODE $SLURM_CPUS_PER_TASK on $HOSTNAME'": {"2 3 on n2": 1},
    "echo $SLURM_GPUS_ON_NODE ${SLURM_CPUS_PER_TASK:-none} on $HOSTNAME": {"none on n1": 1},
    "srun --het-group=0 -o a%t true : --het-group=1 -n 1 -o b%t hostname; echo on $(cat b1)": {"on n2": 1},
    "echo on $(scontrol show hostnames=$SLURM_JOB_NODELIST_HET_GROUP_1 | head -n 1)": {"on n2": 1},
    "n=$(scontrol show hostnames $SLURM_JOB_NODELIST_HET_GROUP_1 | tail -1); ssh $n 'echo on $(hostname)'": {
        "on n3": 1
    },
    "echo on $(getent hosts ${SLURM_JOB_NODELIST_HET_GROUP_1##*,} | cut -d' ' -f1)": {"on n3": 1},
    "echo all > f; sbcast -f f $PWD/copy.$$; sed 's/$/ on x.1/' copy.$$": {"all on n1": 1},
    "srun --het-group=2 true 2>&1 | sed 's/$/ on x.1/'": {
        "srun: error: --het-group=2: the job has parts 0 to 1 on n1": 1
    },
    "srun --het-group=1,1 true 2>&1 | sed 's/$/ on x.1/'": {
        "srun: error: --het-group=1: a step has each part of the job once on n1": 1
    },
}


@pytest.mark.processes
def test_steps_run_on_parts_of_the_job(tmp_path: Path) -> None:
    body = "".join(f"cd $(mktemp -d -p .)\n{step} > said\ncp said ../{n}.out\ncd ..\n" for n, step in enumerate(STEPS))
    # What a task writes to the script's own output is in its pod's log.
    done = run_batch(f"{HEAD}{body}", tmp_path)
    assert done.codes == [0, 0, 0], done.told
    said = [hosts((tmp_path / f"{n}.out").read_text().splitlines()) for n in range(len(STEPS))]
    assert dict(zip(STEPS, said, strict=True)) == STEPS, done.told


@pytest.mark.processes
def test_a_job_of_one_part_has_no_second(tmp_path: Path) -> None:
    done = run_batch("#!/bin/bash\nsrun -n1 true : -n1 true\nsrun --het-group=0 echo well\n", tmp_path)
    assert "--het-group=1: the job has one part alone, without #SBATCH hetjob" in done.told
    assert done.lines == ["well"]


def test_parts_are_joined_from_script_and_command_line() -> None:
    text = "#!/bin/bash\n#SBATCH -N 1 -C a\n#SBATCH packjob\n#SBATCH -N 2\n"
    batch = batch_text(text, "--ntasks-per-node=2")
    assert [(part.nodes, part.tasks) for part in batch.every] == [(1, 2), (2, 4)]
    assert [part.constraint is not None for part in batch.every] == [True, False]
    batch = batch_text("#!/bin/bash\n#SBATCH -N 1 --exclude=bad\n", "-c 2 : -N 3 -c 4")
    assert [(part.nodes, part.cpus, part.exclude) for part in batch.every] == [(1, 2, ("bad",)), (3, 4, ("bad",))]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("#SBATCH -N 1\n#SBATCH hetjob\nsrun true\n", "part 1 says nothing of its nodes"),
        ("#SBATCH -N 1 -a 1-3\n#SBATCH hetjob\n#SBATCH -N 1\n", "elements of an array have no parts"),
        ("#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -N x\n", "--nodes=x: a whole number"),
    ],
)
def test_parts_that_make_no_job_are_refused(lines: str, said: str) -> None:
    with pytest.raises(BadScript, match=said):
        batch_text(f"#!/bin/bash\n{lines}")
