"""The pods of a batch as processes of this machine, without a control plane: each has an address of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from unisono.cli.slurm.batches import program_of
from unisono.cli.slurm.script import Batch, batch_of, joined, read_options, read_script
from unisono.sdk.jobs.program import program_job

_batches = itertools.count(1)


@dataclass(frozen=True)
class Ended:
    """How the pods of a batch ended: exit code, output and errors of each, the first node's first."""

    codes: list[int]
    out: list[str]
    err: list[str]
    folder: Path

    @property
    def lines(self) -> list[str]:
        """All lines of output, in order."""
        return sorted(line for text in self.out for line in text.splitlines())

    @property
    def told(self) -> str:
        """All errors, for messages."""
        return "\n".join(self.err)


@cache
def may_mount() -> bool:
    """Whether processes of this machine may have mounts of their own."""
    words = ["unshare", *(["-Ur"] if os.geteuid() else []), "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    return (
        shutil.which("unshare") is not None and subprocess.run(words, capture_output=True, check=False).returncode == 0
    )


def batch_text(text: str, options: str = "", name: str = "fit") -> Batch:
    """What a script asks for."""
    return batch_of(joined([("job-name", name), *read_script(text)], [], read_options(options.split())))


def start_batch(
    text: str, folder: Path, options: str = "", arguments: Sequence[str] = (), path: str = "", index: int | None = None
) -> list[subprocess.Popen[str]]:
    """Start the pods of a script; who starts them waits for them."""
    batch = batch_text(text, options)
    number = next(_batches)
    program = program_of(batch, "/home/me/fit.sh", text, arguments, index, number=number * 1000)
    key = folder / f"key-{number}"
    key.write_text(os.urandom(16).hex())
    # Addresses of this batch alone: it may listen on any port of them.
    where = f"127.{os.getpid() % 200 + 20}.{number % 250}"
    tasks = [
        (task["name"], task["replicas"], task["template"]["spec"]["containers"][0])
        for task in program_job(program).manifest()["spec"]["tasks"]
    ]
    hosts = [f"{where}.{node + 1}" for node in range(program.processes)]
    shared, first = {}, 0
    for name, replicas, _ in tasks:
        shared[f"VC_{name.upper().replace('-', '_')}_HOSTS"] = ",".join(hosts[first : first + replicas])
        first += replicas
    pods: list[subprocess.Popen[str]] = []
    for _, replicas, container in tasks:
        for index in range(replicas):
            own = {
                "PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"],
                **{each["name"]: each["value"] for each in container["env"] if "value" in each},
                **shared,
                "MASTER_ADDR": hosts[0],
                "SLURM_NODEID": str(index),
                "UNISONO_POD_IP": hosts[len(pods)],
                "UNISONO_BATCH_KEY": str(key),
                "UNISONO_BATCH_NOTICE": str(folder / "notice"),
                "HOME": str(folder),
            }
            pods.append(
                subprocess.Popen(
                    list(program.command),
                    cwd=folder,
                    env=own,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
    return pods


def wait_for(pods: Sequence[subprocess.Popen[str]], folder: Path) -> Ended:
    """The pods at their end."""
    said = []
    try:
        said = [pod.communicate(timeout=60) for pod in pods]
    finally:
        for pod in pods:
            pod.kill()
    return Ended([pod.returncode for pod in pods], [out for out, _ in said], [err for _, err in said], folder)


def run_batch(text: str, folder: Path, options: str = "", arguments: Sequence[str] = (), path: str = "") -> Ended:
    """Run a script to its end."""
    return wait_for(start_batch(text, folder, options, arguments, path), folder)
