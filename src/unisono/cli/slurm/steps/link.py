"""A pod of a batch: what it knows of its job, and signed messages to the others.

Pods get the modules of this package as one text on the command line: images have neither Unisono nor Slurm, so that
they need nothing but the standard library of Python 3.8. The first pod listens; the others log in with a key of the
job's own Secret, and every message between them is signed with it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import os
import py_compile
import signal
import stat
import sys
from collections.abc import Mapping
from typing import Any

from unisono.cli.slurm.steps.words import in_short

MOUNTED = ".mounted"
"""The small program that becomes another one behind mounts; only tasks are started by it."""
_CONTAINERS = ("apptainer", "singularity", "shifter")
COMMANDS = [
    *"srun scontrol scancel squeue sbatch sbcast hostname ssh module ml getent host".split(),
    *_CONTAINERS,
    MOUNTED,
]
LONGEST = 16 * 1024 * 1024
CHUNK = 64 * 1024
PATIENCE = 1800.0
"""Seconds that a node looks for the first one, and that the end waits for nodes that have not come."""
REQUEUE = 213
"""Exit code of a batch that asks to be started again."""
PASSED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGCONT)


class Link:
    """Messages over a stream, each signed with the key, its direction and its number."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes = b"") -> None:
        self._reader, self._writer, self._key = reader, writer, key
        self._sent = self._received = 0
        self._sign, self._verify = b"", b""

    async def greet(self, first: bool) -> None:
        """Agree on keys of this connection alone.

        Raises:
            ConnectionError: the other side has gone.

        """
        own = os.urandom(32)
        self._writer.write(own)
        try:
            other = await self._reader.readexactly(32)
        except asyncio.IncompleteReadError:
            raise ConnectionError("the connection ended") from None
        both = own + other if first else other + own
        keys = [hmac.new(self._key, both + name, hashlib.sha256).digest() for name in (b"first", b"second")]
        self._sign, self._verify = keys if first else keys[::-1]

    async def send(self, **message: Any) -> None:
        """Send a message, and wait while the other side is slow."""
        body = json.dumps(message).encode()
        mark = hmac.new(self._sign, self._sent.to_bytes(8, "big") + body, hashlib.sha256).digest()
        self._sent += 1
        self._writer.write(len(body).to_bytes(4, "big") + mark + body)
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end, or where one is not signed by who has the key."""
        try:
            head = await self._reader.readexactly(36)
            size = int.from_bytes(head[:4], "big")
            if size > LONGEST:
                return None
            body = await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        mark = hmac.new(self._verify, self._received.to_bytes(8, "big") + body, hashlib.sha256).digest()
        if not hmac.compare_digest(mark, head[4:]):
            return None
        self._received += 1
        message: dict[str, Any] = json.loads(body)
        return message

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


class Place:
    """What a pod knows of its job: hosts, tasks, key and the folder of the small programs."""

    def __init__(self, spec: dict[str, Any], environment: Mapping[str, str]) -> None:
        self.spec = spec
        self.node = int(environment["SLURM_NODEID"]) + int(environment.get("UNISONO_BATCH_FIRST", "0"))
        job = self.spec["job"]
        self.hosts: list[str] = []
        for task, count in self.spec["roles"]:
            named = environment.get("VC_{}_HOSTS".format(task.upper().replace("-", "_")), "")
            self.hosts += named.split(",") if named else [f"{job}-{task}-{number}.{job}" for number in range(count)]
        ends = [0]
        for size in self.spec["groups"]:
            ends.append(ends[-1] + size)
        # Numbers of the nodes of each part of the job.
        self.groups = [list(range(ends[at], ends[at + 1])) for at in range(len(ends) - 1)]
        self.counts: list[int] = self.spec["counts"]
        self.notice = environment.get("UNISONO_BATCH_NOTICE", "")
        with open(environment["UNISONO_BATCH_KEY"], "rb") as file:
            self.key = hashlib.sha256(b"unisono batch" + file.read()).digest()
        secret = hmac.new(self.key, b"folder %d" % self.node, hashlib.sha256).hexdigest()[:20]
        # Nobody can guess the name, and it is made with mode 0700. Paths of sockets are short, so it is not elsewhere.
        self.folder = f"/tmp/unisono-{secret}"  # noqa: S108 # nosec B108 # see above
        self.environment = self._common(environment)

    @property
    def own(self) -> str:
        """Name of this node."""
        return self.hosts[self.node]

    def _common(self, given: Mapping[str, str]) -> dict[str, str]:
        """The environment of the script, and of tasks that change nothing of it."""
        own = ("UNISONO_BATCH_KEY", "UNISONO_BATCH_NOTICE", "UNISONO_BATCH_FIRST", "SLURM_PROCID")
        environment = {name: value for name, value in given.items() if name not in own}
        lists = [",".join(self.hosts[node] for node in group) for group in self.groups]
        group = next(at for at, nodes in enumerate(self.groups) if self.node in nodes)
        names = lists[group]
        if len(lists) > 1:
            for at, text in enumerate(lists):
                environment[f"SLURM_JOB_NODELIST_HET_GROUP_{at}"] = text
                environment[f"SLURM_NODELIST_HET_GROUP_{at}"] = text
        environment.update(
            SLURM_JOB_NODELIST=names,
            SLURM_NODELIST=names,
            SLURM_NODEID=str(self.node),
            SLURM_TASKS_PER_NODE=in_short([self.counts[node] for node in self.groups[group]]),
            SLURM_SUBMIT_HOST=given.get("SLURM_SUBMIT_HOST", self.hosts[0]),
            SLURM_RESTART_COUNT=given.get("SLURM_RESTART_COUNT") or "0",
            SLURMD_NODENAME=self.own,
            HOSTNAME=self.own,
            SLURM_TOPOLOGY_ADDR=self.own,
            SLURM_TOPOLOGY_ADDR_PATTERN="node",
            SLURM_LAUNCH_NODE_IPADDR=given.get("UNISONO_POD_IP", self.hosts[0]) if not self.node else self.hosts[0],
            PATH=f"{self.folder}:{given.get('PATH', os.defpath)}",
            UNISONO_BATCH_SOCKET=os.path.join(self.folder, "socket"),
        )
        cards = environment.get("CUDA_VISIBLE_DEVICES", "")
        if cards and "SLURM_GPUS_ON_NODE" in environment:
            environment["SLURM_JOB_GPUS"] = environment["SLURM_STEP_GPUS"] = cards
        elif environment.get("SLURM_GPUS_ON_NODE", "").isdigit():
            environment["SLURM_JOB_GPUS"] = ",".join(map(str, range(int(environment["SLURM_GPUS_ON_NODE"]))))
        # Open MPI, PRRTE and Hydra start their own processes on other nodes by what looks like ssh.
        agent, hostfile = os.path.join(self.folder, "ssh"), os.path.join(self.folder, "hosts")
        for name in ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC"):
            environment.setdefault(name, agent)
        for name in ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE"):
            environment.setdefault(name, hostfile)
        for name, value in (("OMPI_MCA", "rsh"), ("PRTE_MCA", "ssh")):
            environment.setdefault(f"{name}_plm", value)
            environment.setdefault(f"{name}_ras", "^slurm")
        environment.setdefault("HYDRA_LAUNCHER", "ssh")
        if not os.geteuid():
            # Pods often have no user but root, and Open MPI refuses to run as root unless both variables are set.
            for name in ("OMPI", "PRTE"):
                environment.setdefault(f"{name}_ALLOW_RUN_AS_ROOT", "1")
                environment.setdefault(f"{name}_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        return environment

    def make_folder(self, program: str) -> None:
        """Write the small programs.

        Raises:
            PermissionError: the folder is there and belongs to somebody else.

        """
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.folder, 0o700)
        about = os.lstat(self.folder)
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
            raise PermissionError(f"{self.folder} belongs to somebody else")
        source = self.write("program.py", program)
        # Compiled once, and without site: scripts call some of them in loops. No shell stands between, as sh may drop
        # variables whose names it does not know, such as functions that bash exports.
        py_compile.compile(source, cfile=f"{self.folder}/program.pyc", doraise=True)
        python = f"{self.folder}/.python"
        with contextlib.suppress(FileExistsError):
            os.symlink(os.path.realpath(sys.executable), python)
        for name in COMMANDS:
            lines = (
                f"#!{python} -EsS",
                "import marshal, sys",
                f"sys.argv.insert(1, {name!r})",
                f"with open({self.folder!r} + '/program.pyc', 'rb') as file:",
                "    code = marshal.loads(file.read()[16:])",
                "exec(code)",
            )
            self.write(name, "\n".join(lines) + "\n", 0o700)
        # Hydra takes name:number, Open MPI takes slots.
        self.write("hosts", "".join(f"{host} slots={self.counts[n] or 1}\n" for n, host in enumerate(self.hosts)))

    def write(self, name: str, text: str, mode: int = 0o600) -> str:
        """Write a file into the folder; answers its path."""
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
            file.write(text)
        return path


def packed(data: bytes) -> str:
    """Bytes for a message."""
    return base64.b64encode(data).decode()


def stream_of(number: int) -> str:
    """What tells the file behind a descriptor from others."""
    about = os.fstat(number)
    return f"{about.st_dev}:{about.st_ino}"
