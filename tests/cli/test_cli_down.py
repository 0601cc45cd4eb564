"""``unisono down`` ends what hangs, and never a stranger's process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from unisono.cli.commands import down
from unisono.cli.commands.down import StillRunning, command
from unisono.standalone.paths import AlreadyRunning, DataDir, Holder, UnusableDataDir

pytestmark = pytest.mark.processes

_HOLD = """
import signal, sys, time
from pathlib import Path
from unisono.standalone.paths import DataDir
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
lock = DataDir.at(Path(sys.argv[1])).acquire(sys.argv[2])
print("held", flush=True)
time.sleep(600)
"""
Hold = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def data(tmp_path: Path) -> DataDir:
    return DataDir.at(tmp_path / "data")


@pytest.fixture
def hold(data: DataDir) -> Iterator[Hold]:
    """Starts processes that hold the directory."""
    children: list[subprocess.Popen[bytes]] = []

    def start(*words: str, purpose: str = "control plane") -> subprocess.Popen[bytes]:
        child = subprocess.Popen([sys.executable, "-c", _HOLD, str(data.root), purpose, *words], stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def ended(data: DataDir, *words: str) -> Result:
    return CliRunner().invoke(command, ["--data-dir", str(data.root), *words], catch_exceptions=False)


def test_one_that_listens_is_asked(data: DataDir, hold: Hold) -> None:
    child = hold()
    assert "Stopped the control plane" in ended(data).output
    assert child.wait() == -signal.SIGTERM


def test_one_that_ignores_the_request_is_killed(data: DataDir, hold: Hold) -> None:
    child = hold("deaf")
    told = ended(data, "--timeout", "0.2").output
    assert f"Process {child.pid} did not stop within 0.2 s: killing it." in told
    assert "Killed the control plane" in told
    assert "every write that it acknowledged is stored" in told
    assert child.wait() == -signal.SIGKILL


def test_one_that_is_suspended_is_continued(data: DataDir, hold: Hold) -> None:
    child = hold()
    child.send_signal(signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    told = ended(data).output
    assert "is suspended (SIGSTOP): it is continued" in told
    assert "Stopped the control plane" in told
    assert child.wait() == -signal.SIGTERM


def test_a_stale_file_ends_nothing(data: DataDir) -> None:
    data.create()
    with subprocess.Popen(["sleep", "600"]) as stranger:
        data.lock.write_text(f"{stranger.pid} 1 control plane\n")
        assert "No control plane runs" in ended(data).output
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("started", ["1", ""])
def test_a_process_of_the_same_number_is_left_alone(data: DataDir, hold: Hold, started: str) -> None:
    """The file names a process that is not the one which holds the directory: by its start, or not there at all."""
    child = hold()
    with subprocess.Popen(["sleep", "600"]) as stranger:
        number = stranger.pid
        if not started:
            stranger.kill()
            stranger.wait()
        data.lock.write_text(f"{number} {started} control plane\n")
        with pytest.raises(StillRunning, match=r"it is not process .* nothing was ended"):
            ended(data)
        assert child.poll() is None
        if started:
            assert stranger.poll() is None
            stranger.kill()


def test_a_damaged_file_names_no_process(data: DataDir, hold: Hold) -> None:
    child = hold()
    data.lock.write_bytes(b"\xff\xfe")
    with pytest.raises(StillRunning, match=r"it is not process \?"):
        ended(data)
    assert child.poll() is None


@pytest.mark.parametrize("purpose", ["backup", "restore", "repair"])
def test_a_backup_is_not_taken_for_a_control_plane(data: DataDir, hold: Hold, purpose: str) -> None:
    child = hold(purpose=purpose)
    with pytest.raises(StillRunning, match=rf"a {purpose} is going on \(process {child.pid}\): wait until"):
        ended(data)
    with pytest.raises(AlreadyRunning, match=f"A {purpose} is going on"):
        data.acquire()
    assert data.running_pid() is None
    assert child.poll() is None


def test_one_of_another_user_is_named(data: DataDir, hold: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    child = hold()

    def refuse(self: Holder, *numbers: signal.Signals) -> bool:
        raise PermissionError

    monkeypatch.setattr(Holder, "send", refuse)
    with pytest.raises(StillRunning, match=r"belongs to user \w+: run 'unisono down' as that user"):
        ended(data)
    assert child.poll() is None


def test_a_directory_that_may_not_be_read_is_not_called_empty(data: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *words: str, **options: str) -> None:
        raise PermissionError(13, "Permission denied")

    data.create()
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UnusableDataDir, match="Permission denied"):
        ended(data)


def test_one_that_the_kernel_holds_is_told(data: DataDir, hold: Hold, monkeypatch: pytest.MonkeyPatch) -> None:
    hold()
    monkeypatch.setattr(Holder, "send", lambda self, *numbers: True)
    monkeypatch.setattr(down, "KILL_SECONDS", 0.1)
    with pytest.raises(StillRunning, match="the kernel holds it"):
        ended(data, "--timeout", "0.1")
