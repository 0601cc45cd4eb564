"""The two processes of ``unisono up`` end together, in order, and once; one line tells which one died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.plane import PATIENCE, RunningPlane, unisono, wait_until
from unisono.standalone.paths import DataDir

pytestmark = [pytest.mark.kubectl, pytest.mark.processes]

Start = Callable[..., RunningPlane]


def worker_of(plane: RunningPlane) -> int:
    """Its process; 0 while it starts again."""
    assert plane.process is not None
    parent = plane.process.pid
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return next((int(pid) for pid in children if b"standalone.background_process" in command_of(pid)), 0)


def command_of(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def gone(pid: int) -> bool:
    try:
        return "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True


def log_of(plane: RunningPlane) -> str:
    return (plane.data_dir.parent / "up.log").read_text()


def test_ctrl_c_reaches_both_and_ends_them_once(start_plane: Start) -> None:
    plane = start_plane("--no-agent")
    assert plane.process is not None
    worker = worker_of(plane)
    os.killpg(plane.process.pid, signal.SIGINT)
    assert plane.process.wait(timeout=PATIENCE) == 0
    assert gone(worker)
    told = log_of(plane)
    assert told.count("Stopping;") == 1
    assert "Traceback" not in told
    assert "part.restarts" not in told


def test_a_dead_worker_is_one_line_and_a_dead_parent_takes_its_worker_along(start_plane: Start) -> None:
    plane = start_plane("--no-agent")
    first = worker_of(plane)
    os.kill(first, signal.SIGKILL)
    wait_until("it is missed", lambda: "was killed by SIGKILL" in log_of(plane))
    second = wait_until("it is back", lambda: (found := worker_of(plane)) != first and found)
    wait_until("it is ready", lambda: plane.try_kubectl("get", "--raw", "/readyz").returncode == 0)
    told = [line for line in log_of(plane).splitlines() if "part." in line]
    assert len(told) == 1
    assert "Traceback" not in log_of(plane)
    assert worker_of(plane) == second
    plane.kill()
    wait_until("nothing of it runs", lambda: gone(second))


def test_a_detaching_command_that_is_ended_leaves_nothing_behind(tmp_path: Path) -> None:
    for attempt in range(10):
        data = DataDir(tmp_path / f"data-{attempt}")
        command = subprocess.Popen(
            [sys.executable, "-m", "unisono", "up", "--detach", "--no-agent", "--data-dir", str(data.root)],
            stdout=subprocess.DEVNULL,
        )
        child = wait_until("it is on its way", lambda data=data: data.root.exists() and data.running_pid())
        command.terminate()
        code = command.wait(timeout=PATIENCE)
        if code != 0:
            break
        # All was up before this test had its turn.
        unisono("down", "--data-dir", str(data.root))
    assert code == 128 + signal.SIGTERM
    wait_until("it has stopped", lambda: gone(child))
