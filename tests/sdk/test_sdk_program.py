"""Programs as jobs: names, environments of launchers, the caller's surroundings, and commands given as one text."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.kinds import JOBS
from unisono.api.validation import validate
from unisono.sdk.errors import BadWork
from unisono.sdk.jobs.builders import Job, shell_words
from unisono.sdk.jobs.program import LAUNCHERS, Program, Surroundings, caller_surroundings, derived_name, program_job
from unisono.sdk.jobs.submission import job_of, objects

HERE = Surroundings("/venv/bin/python", "/home/me/project", {"PATH": "/venv/bin:/bin", "VIRTUAL_ENV": "/venv"})


def container(program: Program, where: Surroundings | None = HERE, task: str = "rank") -> dict[str, Any]:
    found: dict[str, Any] = program_job(program, where).containers(task)[0]
    return found


def values(program: Program, where: Surroundings | None = HERE, task: str = "rank") -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container(program, where, task)["env"]}


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --epochs 3", "train"),
        ("python -u src/Train_GPT.py", "train-gpt"),
        ("/venv/bin/python3.11 -m pkg.train --x", "pkg-train"),
        ("python -c print(1).py", "python"),
        ("torchrun fit.py", "fit"),
        ("/usr/bin/env LR=0.1 EPOCHS=2 python train.py", "train"),
        ("env", "env"),
        ("./prepare.sh a.csv", "prepare-sh"),
        ("sleep 3", "sleep"),
        ("bash run.sh", "run"),
        ("___", "program"),
        ("x" * 90, "x" * 40),
    ],
)
def test_a_job_is_named_after_its_script(command: str, name: str) -> None:
    assert derived_name(command.split()) == name


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("where", [HERE, None], ids=["here", "in an image"])
def test_the_job_of_every_launcher_is_valid(launcher: Any, where: Surroundings | None) -> None:
    program = Program(["python", "t.py"], 3, cpu=2, memory="4Gi", gpus=1, launcher=launcher, time_limit=60)
    decoded = decode(JOBS, program_job(program, where).manifest())
    assert not decoded.unknown_fields
    assert not decoded.type_errors
    apply_defaults(JOBS, decoded.obj)
    assert not [error.message() for error in validate(JOBS, decoded.obj)]
    assert decoded.obj.spec.min_available == (4 if launcher == "mpi" else 3)


def test_a_program_names_kinds_of_nodes() -> None:
    manifest = program_job(Program(["python", "t.py"], 2, gpus=1, one_of="gpu=h100, gpu=a100*2")).manifest()
    assert manifest["metadata"]["annotations"] == {"unisono.io/one-of": "gpu=h100, gpu=a100*2"}
    assert not validate(JOBS, decode(JOBS, manifest).obj)


def test_the_processes_of_torch_find_their_group_as_under_torchrun() -> None:
    found = values(Program(["python", "train.py"], 4))
    assert found["RANK"] == {"fieldRef": {"fieldPath": "metadata.annotations['volcano.sh/task-index']"}}
    assert (found["WORLD_SIZE"], found["LOCAL_RANK"], found["LOCAL_WORLD_SIZE"]) == ("4", "0", "1")
    assert found["MASTER_ADDR"] == "train-rank-0.train"
    assert container(Program(["python", "train.py"], 4))["ports"][0]["containerPort"] == int(found["MASTER_PORT"])


def test_the_port_belongs_to_the_name() -> None:
    ports = {name: values(Program(["x"], name=name))["MASTER_PORT"] for name in ("a", "b")}
    assert ports["a"] == values(Program(["y"], 7, name="a"))["MASTER_PORT"] != ports["b"]


def test_mpi_is_started_by_a_launcher_that_computes_nothing() -> None:
    program = Program(["python", "a b.py"], 2, launcher="mpi", cpu=4, env={"X": "1"})
    launcher = container(program, task="launcher")
    assert launcher["command"][-2:] == ["/venv/bin/python", "a b.py"]
    assert "-np 2" in launcher["command"][2]
    assert "-x X " in launcher["command"][2]
    assert "resources" not in launcher
    assert container(program)["resources"]["requests"] == {"cpu": "4"}


def test_no_launcher_sets_no_variables_of_a_group() -> None:
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR"} & set(values(Program(["x"], 2, launcher="none")))


def test_here_a_program_has_its_callers_interpreter_environment_and_folder() -> None:
    manifest = program_job(Program(["python", "t.py", "$(HOME)"]), HERE).manifest()
    template = manifest["spec"]["tasks"][0]["template"]
    assert template["spec"]["containers"][0]["command"] == ["/venv/bin/python", "t.py", "$$(HOME)"]
    assert template["metadata"]["annotations"] == {"unisono.io/working-directory": "/home/me/project"}
    assert values(Program(["python"]))["VIRTUAL_ENV"] == "/venv"


def test_in_an_image_it_has_the_images() -> None:
    job = job_of(Program(["python", "t.py"], image="me/train:1"), local=True).manifest()
    template = job["spec"]["tasks"][0]["template"]
    assert template["spec"]["containers"][0]["command"] == ["python", "t.py"]
    assert template["spec"]["containers"][0]["image"] == "me/train:1"
    assert template["metadata"] == {}


def test_a_cluster_needs_an_image() -> None:
    with pytest.raises(BadWork, match="image"):
        job_of(Program(["python"]), local=False)


def test_memory_is_a_limit_and_cores_set_the_number_of_threads() -> None:
    program = Program(["x"], cpu="2500m", memory="1Gi", gpus=2)
    assert container(program)["resources"] == {
        "requests": {"cpu": "2500m", "memory": "1Gi", "nvidia.com/gpu": "2"},
        "limits": {"memory": "1Gi", "nvidia.com/gpu": "2"},
    }
    assert values(program)["OMP_NUM_THREADS"] == "2"
    assert values(Program(["x"], cpu=4, env={"OMP_NUM_THREADS": "1"}))["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" not in values(Program(["x"], cpu="many"))


@pytest.mark.parametrize(
    ("processes", "cpus", "cpu"), [(1, 2, "1"), (2, 2, "1"), (4, 2, "500m"), (3, 8, "1"), (3, 2, "666m"), (4, 0, "1")]
)
def test_processes_request_a_core_or_divide_the_machine(processes: int, cpus: int, cpu: str) -> None:
    where = Surroundings("/venv/bin/python", "/home/me/project", cpus=cpus) if cpus else None
    program = Program(["x"], processes)
    assert container(program, where)["resources"] == {"requests": {"cpu": cpu}}
    assert "OMP_NUM_THREADS" not in values(program, where)


def test_the_caller_knows_how_many_cores_it_may_use() -> None:
    assert caller_surroundings("sh").cpus == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (Program([]), "no command"),
        (Program("python train.py"), "one text"),
        (Program(["x"], 0), "1 or more"),
        (Program(["x"], launcher="slurm"), "no launcher"),  # type: ignore[arg-type]
        (Program(["x"], time_limit=0), "time limit"),
    ],
)
def test_what_cannot_run_is_refused(program: Program, words: str) -> None:
    with pytest.raises(BadWork, match=words):
        program_job(program, HERE)


def test_the_interpreter_is_the_one_that_the_callers_shell_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    environment = {"PATH": f"{folder}:/bin", "VIRTUAL_ENV": str(folder.parent), "SECRET": "s"}
    for word in ("python", "venv/bin/python"):
        found = caller_surroundings(word, environment)
        assert found.program == str(folder / "python")
        assert found.folder == str(tmp_path)
        assert found.variables == {"PATH": environment["PATH"], "VIRTUAL_ENV": environment["VIRTUAL_ENV"]}
        assert {tmp_path, folder.parent, Path(os.path.realpath(sys.executable)).parents[1]} <= set(found.folders)


def test_a_program_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    with pytest.raises(BadWork, match="no program phyton"):
        caller_surroundings("phyton", {"PATH": "/bin"})
    with pytest.raises(BadWork, match=r"-- python train\.py"):
        caller_surroundings("train.py", {"PATH": "/bin"})


def test_a_program_can_be_submitted() -> None:
    ((found,), _) = objects(Program([sys.executable, "x.py"], 2))
    assert (found["kind"], found["metadata"]["name"]) == ("Job", "x")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python train.py", ["python", "train.py"]),
        ("python train.py --name 'a b' \"c d\"", ["python", "train.py", "--name", "a b", "c d"]),
        ("grep '|' 'x*'", ["grep", "|", "x*"]),
        ('python -c "print(1)"', ["python", "-c", "print(1)"]),
        ("a\\ b", ["a b"]),
    ],
)
def test_a_command_of_one_text_is_split_as_a_shell_splits_it(text: str, words: list[str]) -> None:
    assert (
        Job("j").task("t", command=text).manifest()["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["command"]
        == words
    )


@pytest.mark.parametrize(
    "text", ["a | b", "a && b", "echo $HOME", 'echo "$HOME"', "ls *.py", "cat < x", "`date`", "~/x", "a; b"]
)
def test_a_command_that_needs_a_shell_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(BadWork, match="'sh', '-c'"):
        shell_words(text, "command")


def test_an_open_quotation_mark_is_refused() -> None:
    with pytest.raises(BadWork, match="split into words"):
        shell_words("python 'train.py", "command")
