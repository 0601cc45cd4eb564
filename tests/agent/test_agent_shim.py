"""The shim by itself, as it runs for users who are not root."""

from __future__ import annotations

import fcntl
import marshal
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unisono.agent import shim
from unisono.agent.layout import read_record

pytestmark = pytest.mark.processes

PYTHON = "/usr/bin/python3"
NOBODY = 65534
SHIM = "unisono/agent/shim"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that every user may reach, with a copy of the shim in it."""
    path = Path(tempfile.mkdtemp(prefix="unisono-shim-"))
    shutil.copytree(Path(shim.__file__).parent, path / SHIM, ignore=shutil.ignore_patterns("__pycache__"))
    for package in (path / SHIM).parent, (path / SHIM).parent.parent:
        (package / "__init__.py").touch()
    (path / "vol").mkdir()
    (path / "vol" / "f").write_text("content\n")
    (path / "hosts").write_text("127.64.0.9 peer.job\n")
    for item in (path, *path.rglob("*")) if os.geteuid() == 0 else ():
        os.chown(item, NOBODY, NOBODY)
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def _user() -> int:
    return NOBODY if os.geteuid() == 0 else os.geteuid()


def start(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return subprocess.run(
            [PYTHON, "-I", "-S", str(folder / SHIM / "__main__.py"), *arguments],
            capture_output=True, text=True, timeout=600, check=False,
            pass_fds=(3,), preexec_fn=lambda: os.dup2(lock.fileno(), 3),
            **({"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}),
        )  # fmt: skip


def run(folder: Path, **changes: Any) -> tuple[dict[str, str], str]:
    spec = {
        "dir": str(folder), "log": str(folder / "log"), "log_bytes": 1 << 20, "log_files": 2,
        "argv": ["true"], "env": {"PATH": "/usr/bin:/bin"}, "cwd": ["/"], "mounts": [], "hostname": "job-0",
        "isolation": "user", "cgroups": [], "uid": None, "gid": None, "groups": None, "read_only_root": False,
        "covers": [], "writable": [], "own_user": False, "no_new_privileges": False,
    }  # fmt: skip
    (folder / "spec").write_bytes(marshal.dumps(spec | changes, 4))
    (folder / "spec").chmod(0o644)
    done = start(folder, str(folder / "spec"))
    assert done.stderr == ""
    lines = (folder / "log").read_text().splitlines() if (folder / "log").exists() else []
    return read_record(folder / "exit") or {}, "\n".join(line.split(" ", 3)[3] for line in lines)


@pytest.fixture(autouse=True)
def _allowed(folder: Path) -> None:
    if not Path(PYTHON).exists():
        pytest.skip(f"needs {PYTHON}, which every user can run")
    (folder / "probe").mkdir()
    os.chown(folder / "probe", _user(), _user())
    answer = start(folder, "--probe", str(folder / "probe")).stdout.strip()
    if answer != "user":
        pytest.skip(f"this machine allows ordinary users no namespaces: {answer}")


def test_an_ordinary_user_gets_names_mounts_and_processes_of_its_own(folder: Path) -> None:
    mounts = [
        (str(folder / "hosts"), "/etc/hosts", False, "", False),
        (str(folder / "vol"), "/etc/volcano", True, "", False),
        (str(folder / "vol"), "/data/deep/x", False, "", False),
    ]
    script = "hostname; cat /etc/hosts /etc/volcano/f /data/deep/x/f; id -u; echo $$; touch /etc/volcano/no"
    end, log = run(folder, mounts=mounts, argv=["sh", "-c", script + " || echo read-only"])
    assert end["exit_code"] == "0", log
    lines = [line for line in log.splitlines() if "touch" not in line]
    assert lines == ["job-0", "127.64.0.9 peer.job", "content", "content", str(_user()), "2", "read-only"]
    assert not Path("/data/deep").exists()


def test_a_setup_that_fails_is_told(folder: Path) -> None:
    end, _ = run(folder, mounts=[(str(folder / "gone"), "/data", False, "", False)])
    assert (end["exit_code"], end["reason"]) == ("128", "StartError")
    assert "No such file or directory" in end["message"]
    assert str(folder / "gone") in end["message"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"cgroups": ["/no/such"]},
            "the container cannot be set up: No such file or directory (/no/such/cgroup",
        ),
        ({"cwd": ["/no/such/folder"]}, "the working directory /no/such/folder cannot be entered"),
        ({"argv": ["/etc/passwd"]}, 'exec: "/etc/passwd": permission denied'),
        ({"uid": 0}, "the process cannot become user 0"),
    ],
)
def test_starts_that_fail_are_told(folder: Path, changes: dict[str, Any], message: str) -> None:
    end, _ = run(folder, **changes)
    assert end["reason"] == "StartError"
    assert end["message"].startswith(message)
