"""The first hour of a newcomer, on a terminal: a script runs, fails, hangs, outgrows its memory and is replaced."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.plane import RunningPlane, unisono, wait_until
from support.terminal import WIDTH, Terminal, unisono_on_terminal

pytestmark = pytest.mark.processes

TRAIN = """
import os, select, socket, sys, time
rank = int(os.environ["RANK"])
print("rank", rank, "of", os.environ["WORLD_SIZE"], "in", sys.prefix, "at", os.getcwd(), flush=True)
mode = sys.argv[1] if len(sys.argv) > 1 else ""
if mode == "fail" and rank == 0:
    with socket.create_server(("", int(os.environ["MASTER_PORT"]))) as server:
        peers = [server.accept()[0] for _ in range(2)]
        select.select(peers, [], [])
        time.sleep(0.5)
        raise ConnectionResetError("peer has closed the connection")
if mode == "fail":
    while True:
        try:
            peer = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
            break
        except OSError:
            time.sleep(0.05)
    if rank == 1:
        raise ValueError("no data in shard 7")
    peer.recv(1)
    raise ConnectionResetError("peer has closed the connection")
if mode == "grow":
    kept = bytearray(600 * 1024 * 1024)
    time.sleep(600)
if mode == "hang":
    print("progress: 30/100", flush=True)
    time.sleep(600)
"""
Run = Callable[..., Terminal]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a script and a virtual environment of its own."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv")], check=True)
    return folder


@pytest.fixture
def plane(start_plane: Callable[..., RunningPlane]) -> RunningPlane:
    return start_plane()


@pytest.fixture(scope="module")
def shared(start_shared_plane: Callable[..., RunningPlane]) -> RunningPlane:
    return start_shared_plane()


@pytest.fixture
def run(project: Path, plane: RunningPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """``unisono`` on a terminal, in the project, with its virtual environment."""
    opened: list[Terminal] = []
    path = f"{project / '.venv' / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    monkeypatch.setenv("UNISONO_DATA_DIR", str(plane.data_dir))

    def start(*words: str) -> Terminal:
        terminal = unisono_on_terminal(project, *words, PATH=path, VIRTUAL_ENV=str(project / ".venv"))
        opened.append(terminal)
        return terminal

    yield start
    for terminal in opened:
        terminal.close()


def test_the_first_hour(run: Run, project: Path) -> None:
    # A script, with the caller's virtual environment and folder.
    ran = run("run", "-n", "2", "--", "python", "train.py")
    assert ran.end() == 0, ran.raw
    shown = " ".join("".join(ran.lines()).split())
    assert f"rank 0 of 2 in {project / '.venv'} at {project}".replace(" ", "") in shown.replace(" ", "")
    assert ran.lines()[-1].startswith("job/train completed in")
    assert "[info" not in ran.raw

    # One that fails: the last line is the cause, and the rank that failed first.
    failing = run("run", "-n", "3", "--name", "failing", "--", "python", "train.py", "fail")
    assert failing.end() == 1
    last = "".join(failing.lines()[-4:])
    assert "job/failing failed: rank 1" in last
    assert "ValueError: no data in shard 7 (exit code 1)" in last
    assert "unisono logs job/failing" in last

    # One that ends without a word of what is wrong: how far it was is not taken for the cause.
    quiet = run("run", "--name", "quiet", "--", "sh", "-c", "echo progress: 3/3; exit 3")
    assert quiet.end() == 1
    assert "job/quiet failed: exit code 3; its last line is: progress: 3/3" in "".join(quiet.lines()[-3:])
    near = run("explain", "job/quite")
    assert near.end() == 1
    assert "did you mean job/quiet?" in "".join(near.lines())

    # One that needs more memory than it has.
    growing = run("run", "--memory", "100Mi", "--name", "growing", "--", "python", "train.py", "grow")
    assert growing.end() == 1
    assert "job/growing failed: OOMKilled" in "".join(growing.lines()[-4:])

    # One that hangs: --timeout ends the wait; the job is looked at, and replaced after a question.
    hanging = run("run", "--name", "hanging", "--timeout", "10", "--", "python", "train.py", "hang")
    assert hanging.end() == 124
    assert "nothing was written by rank 0 for" in "".join(hanging.lines())
    seen = run("status")
    assert seen.end() == 0
    text = "\n".join(seen.lines())
    assert "job/hanging" in text
    assert all(len(line) <= WIDTH for line in seen.lines())
    kept = run("run", "--name", "hanging", "--", "python", "train.py", "hang")
    kept.read_until("exists already")
    kept.keys("n\n")
    assert kept.end() == 1
    assert "nothing was run; job/hanging is as it was" in "".join(kept.lines())
    again = run("run", "--name", "hanging", "--", "python", "train.py", "hang")
    again.read_until("exists already")
    again.keys("y\n")
    again.read_until(r"30/100")
    assert any("━" in line for line in again.lines())

    # Ctrl-C asks; the job goes on, and stops the next time.
    again.keys("\x03")
    again.read_until("leave them running")
    again.keys("l\n")
    assert again.end() == 130
    assert "unisono logs -f job/hanging" in "".join(again.lines())
    stopped = run("run", "--replace", "--name", "hanging", "--", "python", "train.py", "hang")
    stopped.read_until(r"30/100")
    stopped.keys("\x03")
    stopped.read_until("leave them running")
    # A slip is no answer: the question comes again.
    stopped.keys("x\n")
    stopped.read_until(r"leave them running(.|\n)*leave them running")
    stopped.keys("s\n")
    assert stopped.end() == 130
    assert "Stopped job/hanging" in "\n".join(stopped.lines())


def test_what_is_not_on_a_terminal_is_told_instead_of_asked(project: Path, shared: RunningPlane) -> None:
    words = ("--name", "again", "--", "sh", "-c", "exit 0")
    assert shared.unisono("run", *words, cwd=project).returncode == 0
    again = unisono("run", "--data-dir", str(shared.data_dir), *words, cwd=project, check=False)
    assert again.returncode == 1
    assert "--replace" in again.stderr
    assert shared.unisono("run", "--replace", *words, cwd=project).returncode == 0


def test_jobs_without_a_name_of_their_own_are_numbered(project: Path, shared: RunningPlane) -> None:
    words = ("--", "sh", "-c", "exit 0")
    told = [shared.unisono("run", *words, cwd=project).stdout.splitlines()[-1] for _ in range(3)]
    assert [line.partition(" ")[0] for line in told] == ["job/sh", "job/sh-2", "job/sh-3"]


def test_down_names_the_pods_that_go_on_and_stops_jobs_where_it_is_asked_to(
    project: Path, start_plane: Callable[..., RunningPlane]
) -> None:
    plane = start_plane()
    where = ("--data-dir", str(plane.data_dir))
    unisono("run", *where, "--detach", "--name", "long", "--", "sleep", "600", cwd=project)
    wait_until("the pod runs", lambda: plane.pods("Running"))
    told = unisono("down", *where).stdout
    assert "1 pod goes on running: long-rank-0" in told
    assert "--kill-pods" in told
    plane.stop()
    plane.start()
    wait_until("the pod is found again", lambda: plane.pods("Running"))
    told = unisono("down", *where, "--stop-jobs").stdout
    assert "Stopped 1 job." in told
    assert "running" not in told


def test_habits_of_slurm(project: Path, shared: RunningPlane) -> None:
    def slurm(command: str, *words: str) -> str:
        return shared.unisono(command, *words, cwd=project).stdout.strip()

    array = slurm("sbatch", "--parsable", "-a", "1-2", "-J", "sweep", "-A", "lab", "--wrap", "sleep 600")
    assert array == "sweep-1:sweep-2"
    # Each asks for a core, as in Slurm: no more of them than two run on a small machine.
    wait_until("both run", lambda: slurm("squeue", "--me", "-t", "R").count("\n") == 2)
    assert slurm("squeue", "-u", "somebody-else").count("\n") == 0
    assert "sweep-1" in slurm("squeue", "-j", "sweep")
    assert slurm("scancel", "sweep").splitlines() == ["job/sweep-1 is being stopped", "job/sweep-2 is being stopped"]
    # The name is taken by now, as in Slurm no reason to refuse the job.
    once = [slurm("sbatch", "--parsable", "-J", "once", "--wrap", "exit 0") for _ in range(2)]
    assert once == ["once", "once-2"]
    after = slurm("sbatch", "--parsable", "-d", "afterok:once:once-2", "--wrap", "sleep 600")
    assert after == "wrap"
    wait_until("it runs after them", lambda: slurm("squeue", "--me", "-t", "R").count("\n") == 1)
    assert slurm("scancel", "--me") == "job/wrap is being stopped"
    wait_until("nothing runs", lambda: slurm("squeue").count("\n") == 0)


def test_a_script_may_wait_begin_later_be_held_and_be_found_by_its_number(project: Path, shared: RunningPlane) -> None:
    def slurm(command: str, *words: str, code: int = 0) -> str:
        done = shared.unisono(command, *words, cwd=project, check=False)
        assert done.returncode == code, done
        return done.stdout.strip()

    slurm("sbatch", "--wait", "-J", "fails", "--wrap", "exit 3", code=3)
    slurm("sbatch", "--wait", "-J", "works", "-a", "0-1", "--wrap", "exit 0")
    ended = ["works-0|COMPLETED", "works-1|COMPLETED"]
    # The history is stored every two seconds.
    wait_until("both are accounted for", lambda: accounted(slurm, "works") == ended)
    assert slurm("sbatch", "--begin=now", "--hold", "--parsable", "-J", "held", "--wrap", "sleep 600") == "held"
    shown = slurm("scontrol", "show", "job", "held")
    number = next(word.partition("=")[2] for word in shown.split() if word.startswith("JobId="))
    wait_until("it does not run", lambda: "JobState=CANCELLED" in slurm("scontrol", "show", "job", number))
    slurm("scontrol", "release", number)
    wait_until("it runs", lambda: " R " in slurm("squeue", "-j", number))
    assert "held" in slurm("squeue", "-j", number)
    assert slurm("scancel", number) == "job/held is being stopped"
    wait_until("nothing runs", lambda: slurm("squeue").count("\n") == 0)


def accounted(slurm: Callable[..., str], name: str) -> list[str]:
    return sorted(slurm("sacct", "-P", "--noheader", "-j", name, "--format", "JobID,State").splitlines())


def test_watching_a_run_shows_what_it_uses(project: Path, shared: RunningPlane) -> None:
    """The program ends once the file is there that is made when its use was told."""
    told = project / "told"
    program = f"import pathlib, time\nwhile not pathlib.Path({str(told)!r}).exists(): time.sleep(0.1)"
    words = ["run", "--data-dir", str(shared.data_dir), "--watch", "--name", "watched", "--"]
    command = [sys.executable, "-m", "unisono", *words, sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=project) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "job/watched: uses " in line:
                    assert "GiB" in line
                    told.touch()
            assert process.wait() == 0
            assert told.exists()
        finally:
            process.kill()
