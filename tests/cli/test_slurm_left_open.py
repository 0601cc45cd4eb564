"""What a script leaves open, or says twice, is told when it is submitted, and not found out when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.slurm_pods import batch_text
from unisono.cli.commands.sbatch import script_elements
from unisono.cli.slurm.script import BadScript
from unisono.sdk.jobs.submission import job_of as job_of_program

HEAD = "#!/bin/bash\n"


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def made(lines: str, **more: Any) -> Any:
        (tmp_path / "fit.sh").write_text(HEAD + lines)
        return script_elements(["fit.sh"], None, **more)

    return made


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--job-name=<name>", "--job-name=<name>: <name> is a placeholder: write the value"),
        ('--partition="<your partition>"', "<your partition> is a placeholder"),
        ("--output=/scratch/<user>/log", "<user> is a placeholder"),
        ("--partition=$PARTITION", "no variable is filled in here, such as $PARTITION: give the option on the command"),
        ("--chdir=${HOME}/work", "no variable is filled in here, such as ${HOME}"),
    ],
)
def test_placeholders_are_refused(line: str, said: str) -> None:
    with pytest.raises(BadScript) as failure:
        batch_text(f"{HEAD}#SBATCH {line}\n", name="")
    assert said in str(failure.value)


def test_a_variable_in_a_name_is_told_and_commands_may_compare() -> None:
    batch = batch_text(f"{HEAD}#SBATCH --output=$USER.log\n", "--wrap=a<b>c")
    assert batch.notes == ("--output=$USER.log: no variable is filled in here, such as $USER, as under Slurm",)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("python train.py --data <path/to/data>", ["<path/to/data>"]),
        ('srun python train.py --data="<your data>"', ["<your data>"]),
        ("sort <in.txt >out.txt; grep -c '^>' <in.txt", []),
        ("if (( a < b )); then diff <(ls) <(ls -a) > x; fi", []),
        ("  <config>", []),
        ("# python <this>", []),
    ],
)
def test_placeholders_among_the_words_of_commands_are_told(submit: Any, line: str, told: list[str]) -> None:
    batch, _ = submit(f"{line}\n")
    assert [note.split(" looks ")[0] for note in batch.notes] == [f"line 2: {each}" for each in told]


@pytest.mark.parametrize(
    ("lines", "cpus", "said"),
    [
        (["-c 4", "--tres-per-task=cpu=8"], 8, "--tres-per-task, the last, counts"),
        (["--tres-per-task=cpu=8", "-c 4"], 4, "--cpus-per-task, the last, counts"),
        (["-c 8", "--tres-per-task=cpu=8"], 8, ""),
        (["--tres-per-task=cpu=8"], 8, ""),
    ],
)
def test_of_two_amounts_the_last_counts_and_it_is_told(lines: list[str], cpus: int, said: str) -> None:
    batch = batch_text(HEAD + "".join(f"#SBATCH {line}\n" for line in lines))
    assert batch.cpus == cpus
    assert [note for note in batch.notes if said not in note] == []
    assert len(batch.notes) == bool(said)


@pytest.mark.parametrize("text", ["cpu=x", "gres/gpu=some", "mem=much"])
def test_an_amount_that_cannot_be_read_is_of_the_option_that_has_it(text: str) -> None:
    with pytest.raises(BadScript, match="--tres-per-task=") as failure:
        batch_text(f"{HEAD}#SBATCH --tres-per-task={text}\n")
    assert "per-task=" in str(failure.value)
    assert "cpus-per-task" not in str(failure.value)


@pytest.mark.parametrize(
    ("mount", "said"),
    [
        ("/data:/d:rx", "rx is no flag of a mount: ro, or several such as ro+rprivate"),
        ("/data:/d:ro+rw", "ro and rw exclude each other"),
        ("/data:/d:ro,rw", "folders are expected"),
        ("/data:d", "d must be a whole path"),
    ],
)
def test_mounts_that_cannot_be_made_are_refused(mount: str, said: str) -> None:
    with pytest.raises(BadScript) as failure:
        batch_text(f"{HEAD}#SBATCH --container-mounts={mount}\n")
    assert said in str(failure.value)


def test_a_folder_that_is_not_there_is_told_at_submission(submit: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    submit(f"#SBATCH --container-mounts={tmp_path}/data:/d:ro+x-create=dir,./data:/e\n")
    with pytest.raises(BadScript, match=r"there is no /gone on this machine"):
        submit("#SBATCH --container-mounts=/gone:/d\n")
    submit("#SBATCH --container-mounts=/gone:/d\n", local=False)


@pytest.mark.parametrize(
    ("options", "terms", "notes"),
    [
        ("-w gpu-1", [("In", ["gpu-1"])], []),
        ("-w gpu-1 -x gpu-2,far", [("In", ["gpu-1"]), ("NotIn", ["gpu-2"])], ["--exclude"]),
        ("-w gpu-1,far", [], ["--nodelist"]),
    ],
)
def test_nodes_that_this_machine_knows_are_chosen_by_name(
    submit: Any, options: str, terms: list[tuple[str, list[str]]], notes: list[str]
) -> None:
    """Simulated ones, and its own."""
    batch, [element] = submit(f"#SBATCH {options}\n", nodes=lambda: {name: {} for name in ("here", "gpu-1", "gpu-2")})
    assert [note.partition(" ")[0] for note in batch.notes] == notes
    pod = job_of_program(element.program, local=True).manifest()["spec"]["tasks"][0]["template"]["spec"]
    required = pod.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    found = required["nodeSelectorTerms"][0]["matchExpressions"] if required else []
    assert [(each["operator"], each["values"]) for each in found] == terms


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--partition=a,b", "of --partition=a,b the first, a, counts"),
        ("--reservation=Big_one,b", "of --reservation=big-one,b the first, big-one, counts"),
        ("--nodes=2-4", "of --nodes=2-4 the least counts: a gang has one size"),
        ("--exclusive=user", "--exclusive=user is --exclusive: nodes are shared with no other job"),
        ("-d after:prepare+10", "of --dependency=after:prepare+10 the start counts, and not the minutes behind it"),
        (
            "--container-image=./pt.sqsh",
            "--container-image=./pt.sqsh is a file: the processes run in the image of --image, or on this machine",
        ),
        ("--gres=gpu:2 --ntasks-per-gpu=2 -p a -N 2 -d after:a --exclusive", ""),
    ],
)
def test_what_counts_in_part_is_told(line: str, said: str) -> None:
    assert batch_text(f"{HEAD}#SBATCH {line}\n").notes == ((said,) if said else ())


def test_tasks_for_each_card_are_counted_by_all_that_says_how_many_there_are() -> None:
    for line, nodes, tasks in (
        ("--gpus=4 --ntasks-per-gpu=2", 8, 8),
        ("-N 2 --gpus-per-node=4 --ntasks-per-gpu=1", 2, 8),
        ("--gres=gpu:a100:2 --ntasks-per-gpu=2", 1, 4),
    ):
        batch = batch_text(f"{HEAD}#SBATCH {line}\n")
        assert (batch.nodes, batch.tasks) == (nodes, tasks), line
    with pytest.raises(BadScript, match="--ntasks-per-gpu needs --gpus"):
        batch_text(f"{HEAD}#SBATCH --ntasks-per-gpu=2\n")


@pytest.mark.parametrize("line", ["--partition={partition}", "--job-name={{name}}", "-n <tasks>"])
def test_placeholders_of_templates_are_refused(line: str) -> None:
    with pytest.raises(BadScript, match="placeholder"):
        batch_text(f"{HEAD}#SBATCH {line}\n", name="")


def test_a_file_that_a_script_reads_and_that_is_not_there_is_told(submit: Any, tmp_path: Path) -> None:
    (tmp_path / "env.sh").write_text("")
    lines = f"source /etc/profile.d/nowhere.sh\n. {tmp_path}/env.sh\nsource $HOME/x\n. ./y\n"
    said = "line 2: there is no /etc/profile.d/nowhere.sh on this machine, and a strict script ends there"
    assert submit(lines)[0].notes[:1] == (said,)
    assert not any("nowhere" in note for note in submit(lines, local=False)[0].notes)
