"""Servers in processes of their own, and what they cost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from unisono.errors import UnisonoError
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import load

_PATIENCE_SECONDS = 120.0


class Server:
    """A running server: a client for it, and its memory."""

    def __init__(self, child: subprocess.Popen[bytes], client: HttpClient, start_seconds: float) -> None:
        self.client, self.start_seconds = client, start_seconds
        self._pid = child.pid

    def resident(self) -> int:
        """Bytes of memory that the process of the API has in use."""
        pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> list[float]:
        """CPU time of the process of the API, and of each of its children."""
        return [_cpu_seconds(pid) for pid in self.pids()]

    def pids(self) -> list[str]:
        """Process ids: the API's, and those of its children."""
        children = Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()
        return [str(self._pid), *children]


def _cpu_seconds(pid: str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def api_alone(folder: Path, nodes: int = 0, pods: int = 0) -> AsyncIterator[Server]:
    """An embedded API and nothing else; its data is in ``folder`` and stays there."""
    command = [sys.executable, "-m", "benchmarks.e2e.server", str(folder), str(nodes), str(pods)]
    async with _running(command, folder) as server:
        yield server


@asynccontextmanager
async def whole_plane(folder: Path, nodes_file: Path) -> AsyncIterator[Server]:
    """``unisono up`` with simulated nodes: the API in one process, scheduler, controllers and nodes in another."""
    command = [sys.executable, "-m", "unisono", "up", "--data-dir", str(folder), "--no-agent"]
    command += ["--nodes", str(nodes_file), "--log-level", "warning"]
    async with _running(command, folder) as server:
        yield server


@asynccontextmanager
async def _running(command: list[str], folder: Path) -> AsyncIterator[Server]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kubeconfig").unlink(missing_ok=True)
    start = time.perf_counter()
    with (folder / "log").open("ab") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        client = await _answering(folder / "kubeconfig", child, start)
        try:
            yield Server(child, client, time.perf_counter() - start)
        finally:
            await client.close()
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(child.wait, 30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


async def _answering(kubeconfig: Path, child: subprocess.Popen[bytes], start: float) -> HttpClient:
    while time.perf_counter() - start < _PATIENCE_SECONDS:
        if child.poll() is not None:
            raise RuntimeError(f"the server ended with {child.returncode}: see {kubeconfig.parent / 'log'}")
        if kubeconfig.exists():
            client = HttpClient(load(kubeconfig))
            try:
                status, _, _ = await client.request("GET", "/readyz")
            except UnisonoError:
                status = 0
            if status == 200:
                return client
            await client.close()
        await asyncio.sleep(0.05)
    raise RuntimeError(f"the server did not answer in {_PATIENCE_SECONDS:.0f} s: see {kubeconfig.parent / 'log'}")
