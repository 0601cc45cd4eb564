"""The whole of ``unisono run`` as an ordinary user: with user namespaces, and where the machine forbids them."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import unisono
from support.ports import free_port

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]

NOBODY = 65534
UNSHARE = {"x86_64": 272, "aarch64": 97}
# Refuses unshare(2) to itself and its children, as container runtimes do by default, then becomes a command.
FORBID = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
rules = [(0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("rules", ctypes.c_void_p)]
program = Program(len(rules), ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0, "no new privileges"
assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, "seccomp"
os.execv(sys.argv[2], sys.argv[2:])
"""
# The job has the name of a command, which must stay one when names are replaced.
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: env}
spec:
  minAvailable: 2
  plugins: {svc: [], env: []}
  tasks:
    - name: server
      replicas: 1
      template:
        spec:
          restartPolicy: Never
          containers:
            - {name: main, image: none, command: [env, python, server.py], args: ["PORT"]}
    - name: client
      replicas: 1
      template:
        spec:
          restartPolicy: Never
          containers:
            - {name: main, image: none, command: [env, python, client.py], args: [env-server-0.env, "PORT"]}
"""
SERVER = """
import os, socket, sys
s = socket.create_server(("", int(sys.argv[1])))
c, _ = s.accept()
c.sendall(b"hello from user %d" % os.getuid())
c.close()
"""
CLIENT = """
import socket, sys, time
for attempt in range(2000):
    try:
        c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
        break
    except OSError:
        time.sleep(0.05)
print("got", c.recv(100).decode(), flush=True)
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """Home and working directory of the user, with the job in it."""
    path = Path(tempfile.mkdtemp(prefix="unisono-user-"))
    for name, text in (
        ("job.yaml", JOB.replace("PORT", str(free_port()))),
        ("server.py", SERVER),
        ("client.py", CLIENT),
    ):
        (path / name).write_text(text)
    for item in (path, *path.iterdir()):
        os.chown(item, NOBODY, NOBODY)
    yield path
    shutil.rmtree(path)


def environment(home: Path) -> dict[str, str]:
    packages = [str(Path(unisono.__file__).parents[1]), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return {"HOME": str(home), "TMPDIR": str(home), "PATH": os.defpath, "PYTHONPATH": ":".join(packages)}


def as_user(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=home, env=environment(home), user=NOBODY, group=NOBODY, extra_groups=[],
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip


def interpreter(home: Path) -> str:
    """A Python of this version that the user may run with our packages."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in filter(None, (sys.executable, shutil.which(name, path="/usr/local/bin:/usr/bin:/bin"))):
        try:
            if as_user(home, candidate, "-c", "import msgspec, aiohttp, numpy, unisono.cli.main").returncode == 0:
                return candidate
        except OSError:
            continue
    pytest.skip("no Python that other users may run has the packages of Unisono")


@pytest.mark.parametrize("namespaces", [True, False])
def test_two_tasks_find_each_other(home: Path, namespaces: bool) -> None:
    python = interpreter(home)
    command = [python, "-m", "unisono.cli", "run", "job.yaml", "--timeout", "300"]
    if not namespaces:
        if platform.machine() not in UNSHARE:
            pytest.skip(f"the number of unshare(2) on {platform.machine()} is not known here")
        command = [python, "-c", FORBID, str(UNSHARE[platform.machine()]), *command]
    done = as_user(home, *command)
    assert f"client-0 | got hello from user {NOBODY}" in done.stdout.splitlines(), done.stdout + done.stderr
    assert done.returncode == 0
