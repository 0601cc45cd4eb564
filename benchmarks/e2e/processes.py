"""The processes that are measured, and what they tell of themselves."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_REQUEST = re.compile(r'^rest_client_requests_total\{code="([^"]*)",method="(\w+)",resource="([^"]*)"\} ([\d.e+]+)$')
_LEADS = re.compile(r"^leader_election_master_status\{.*\} 1\.0$", re.MULTILINE)
_PATIENCE = 300.0
_SERVED = re.compile(r"^apiserver_request_total\{([^}]*)\} ([\d.e+]+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process cost up to a moment.

    Attributes:
        cpu_seconds: CPU time.
        rss_bytes: memory in use.
        requests: by (method, resource, code).
        cycles, cycle_seconds: scheduling cycles that ran, and how long they took together.
    """

    cpu_seconds: float
    rss_bytes: int
    requests: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    cycles: int = 0
    cycle_seconds: float = 0.0

    def since(self, before: Usage) -> Usage:
        """What came to it; memory as it is now."""
        requests = Counter(self.requests)
        requests.subtract(before.requests)
        return Usage(
            self.cpu_seconds - before.cpu_seconds,
            self.rss_bytes,
            +requests,
            self.cycles - before.cycles,
            self.cycle_seconds - before.cycle_seconds,
        )


def usage_of(metrics: str) -> Usage:
    """What the Prometheus text of a process tells."""
    requests: Counter[tuple[str, str, str]] = Counter()
    numbers: dict[str, float] = {}
    for line in metrics.splitlines():
        if match := _REQUEST.match(line):
            requests[match[2], match[3], match[1]] += int(float(match[4]))
        elif line.startswith(("process_", "volcano_e2e_scheduling_latency")) and "{" not in line:
            name, _, number = line.partition(" ")
            numbers[name] = float(number)
    return Usage(
        numbers.get("process_cpu_seconds_total", 0.0),
        int(numbers.get("process_resident_memory_bytes", 0)),
        requests,
        int(numbers.get("volcano_e2e_scheduling_latency_milliseconds_count", 0)),
        numbers.get("volcano_e2e_scheduling_latency_milliseconds_sum", 0.0) / 1000,
    )


def served(metrics: str) -> Counter[tuple[str, str]]:
    """What an API server answered to all its clients, by verb and resource, its own requests to itself included.

    Only Kubernetes' own server tells; of others it is empty.
    """
    found: Counter[tuple[str, str]] = Counter()
    for line in metrics.splitlines():
        if match := _SERVED.match(line):
            labels = dict(_LABEL.findall(match[1]))
            resource = "/".join(part for part in (labels.get("resource"), labels.get("subresource")) if part)
            found[labels.get("verb", ""), resource] += int(float(match[2]))
    return found


def cpu_seconds(pid: int) -> float:
    """CPU time of a process of this machine, such as an etcd that tells nothing of it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Process:
    """One process of the measurement; ``url`` is where its probes and metrics are, empty for none."""

    probe = "/readyz"

    def __init__(self, name: str, words: Sequence[str], log: Path, url: str = "") -> None:
        self.name, self.url = name, url
        with log.open("ab") as stream:
            self._child = subprocess.Popen(words, stdout=stream, stderr=stream)

    def usage(self) -> Usage:
        """What it cost so far."""
        return usage_of(self.get("/metrics"))

    async def ready(self) -> None:
        """Wait until the component does its work.

        Raises:
            RuntimeError: it ended, or needs too long.
        """
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            self.alive()
            if await asyncio.to_thread(self._works):
                return
            await asyncio.sleep(0.1)
        raise RuntimeError(f"{self.name} is not ready after {_PATIENCE:.0f} s")

    def alive(self) -> None:
        """Say when it has ended by itself.

        Raises:
            RuntimeError: with its exit code.
        """
        if self._child.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self._child.returncode}")

    def _works(self) -> bool:
        return self.get(self.probe) == "ok" and _LEADS.search(self.get("/metrics")) is not None

    def stop(self) -> None:
        """End it; a process that does not listen is killed."""
        self._child.terminate()
        try:
            self._child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def get(self, path: str) -> str:
        """What it answers under a path; empty when it does not."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, OSError):
            return ""


def free_port() -> int:
    """A free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def component(name: str, kubeconfig: Path, folder: Path, *arguments: str, elects: bool = True) -> Process:
    """``unisono NAME`` against the cluster of ``kubeconfig``; ``elects`` is said of those that have an election."""
    listen = f"127.0.0.1:{free_port()}"
    alone = ["--no-leader-elect"] if elects else []
    words = [
        sys.executable,
        "-m",
        "unisono",
        name,
        "--kubeconfig",
        str(kubeconfig),
        "--listen",
        listen,
        *alone,
        *arguments,
    ]
    return Process(name, [*words, "--log-level", "warning"], folder / f"{name}.log", f"http://{listen}")
