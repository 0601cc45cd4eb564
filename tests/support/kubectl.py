"""A real kubectl against a real server, both on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import CollectorRegistry

from unisono.api.pod_states import LogOptions
from unisono.apiserver.backend import Backend
from unisono.apiserver.server import ApiServer
from unisono.kube.client import Client

PATIENCE = 600.0
OPEN = "apiserver_longrunning_requests"


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


class Logs:
    """A log source with three lines; following gives one more."""

    async def open(
        self,
        namespace: str,
        pod: str,
        uid: str,
        container: str,
        options: LogOptions,
    ) -> AsyncIterator[bytes]:
        lines = [f"{pod}/{container} line {index}\n".encode() for index in range(3)]
        for line in lines if options.tail_lines is None else lines[len(lines) - options.tail_lines :]:
            yield line
        if options.follow:
            await asyncio.sleep(0)
            yield b"last line\n"


@dataclass
class Plane:
    """A running server, kubectl for it, and a client that plays the controllers and the node."""

    server: ApiServer
    backend: Backend
    client: Client
    home: Path
    binary: str
    metrics: CollectorRegistry

    async def run(self, *words: str, stdin: str = "") -> Done:
        """kubectl with its own home, so that neither its cache nor a user's configuration matters."""
        process = await self._start(*words)
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate(stdin.encode())
        return Done(process.returncode or 0, out.decode(), err.decode())

    async def ok(self, *words: str, stdin: str = "") -> str:
        """The output of a kubectl that must succeed."""
        done = await self.run(*words, stdin=stdin)
        assert done.code == 0, f"kubectl {' '.join(words)}: {done.out}{done.err}"
        return done.out

    async def fails(self, *words: str, stdin: str = "") -> str:
        """The error output of a kubectl that must fail."""
        done = await self.run(*words, stdin=stdin)
        assert done.code != 0, f"kubectl {' '.join(words)}: {done.out}"
        return done.err

    async def apply(self, *objects: dict[str, Any]) -> str:
        return await self.ok("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))

    async def watched(self) -> None:
        """Wait until a watch is open."""
        async with asyncio.timeout(PATIENCE):
            while not self._watches():
                await asyncio.sleep(0.01)

    def _watches(self) -> float:
        return self.metrics.get_sample_value(OPEN, {"verb": "watch", "resource": "pods"}) or 0.0

    @asynccontextmanager
    async def reading(self, *words: str) -> AsyncIterator[asyncio.StreamReader]:
        """kubectl's output while it runs."""
        while self._watches():
            await asyncio.sleep(0.01)
        process = await self._start(*words)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE):
                yield process.stdout
        finally:
            # Not ``terminate``: that would reap a process which has just ended, before asyncio does.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
            await process.communicate()

    async def _start(self, *words: str) -> asyncio.subprocess.Process:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "KUBECACHEDIR": str(self.home / "cache"),
            "KUBECONFIG": str(self.server.kubeconfig_path),
        }
        return await asyncio.create_subprocess_exec(
            self.binary,
            *words,
            env=environment,
            cwd=self.home,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
