"""Components as processes of their own, as Deployments run them: they can be killed, frozen, and have a wrong clock."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from integration_ledger import Ledger
from integration_servers import PREFIX
from integration_world import PATIENCE, job

from support.accounts import Accounts
from unisono.api.annotations import CYCLES_LEASE
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.kinds import JOBS, LEASES, NAMESPACES, NODES, PODS
from unisono.errors import ApiError, NotFound
from unisono.install.rights import NODE_LEASES
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig

SECONDS = 1200.0
"""Longest time of one test: leases last 15 seconds, and a busy machine may need ten times as long for all else."""
NODES_COUNT = 8


@dataclass
class Process:
    """One component; ``before`` are words before its command, such as those of faketime."""

    arguments: list[str]
    log: Path
    before: tuple[str, ...] = ()
    child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as stream:
            words = [*self.before, sys.executable, "-m", "unisono", *self.arguments]
            self.child = subprocess.Popen(words, stdout=stream, stderr=stream, start_new_session=True)

    def send(self, number: signal.Signals) -> None:
        if self.child is not None:
            # A program such as faketime is a parent of its own.
            with suppress(ProcessLookupError):
                os.killpg(self.child.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        if self.child is not None:
            self.child.wait()

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


@dataclass
class Crowd:
    """What a test has in hands."""

    client: HttpClient
    namespace: str
    ledger: Ledger
    folder: Path
    kubeconfigs: dict[str, Path]
    processes: dict[str, Process] = field(default_factory=dict)

    def start(self, component: str, name: str = "", before: tuple[str, ...] = ()) -> Process:
        """One more replica of a component."""
        name = name or component
        elects = ["--lease-namespace", self.namespace]
        own = {
            "scheduler": [
                *elects,
                "--heartbeat-lease",
                f"{self.namespace}/{CYCLES_LEASE}",
                f"--gang-patience={PATIENCE}",
            ],
            "controllers": elects,
            "agent": ["--simulate", str(NODES_COUNT), "--no-leader-elect"],
        }[component]
        words = [component, "--kubeconfig", str(self.kubeconfigs[component]), "--listen", "", *own]
        process = self.processes[name] = Process(words, self.folder / f"{name}.log", before)
        process.start()
        return process

    async def submit(self, names: list[str], pods: int = 4, seconds: float = 0.5) -> None:
        for name in names:
            await self.client.create(JOBS, job(name, self.namespace, pods, seconds=seconds))

    async def completed(self, names: list[str]) -> None:
        """Return when all have come to their end; nothing that must hold may break on the way."""

        def over() -> bool:
            assert not self.ledger.broken, self.ledger.broken
            phases = {name: self.ledger.phase(name) for name in names}
            wrong = {name: phase for name, phase in phases.items() if phase in ("Failed", "Aborted", "Terminated")}
            assert not wrong
            return set(phases.values()) == {"Completed"}

        await self.ledger.until(over)

    async def holder(self, component: str) -> str:
        """Who leads, once somebody does."""
        while True:
            with suppress(NotFound):
                lease = await self.client.get(LEASES, f"unisono-{component}", self.namespace)
                if lease.spec.holder_identity:
                    return lease.spec.holder_identity
            await asyncio.sleep(0.2)

    def held(self, names: list[str], pods: int = 4) -> None:
        """Each job got its pods once, none ran in part for long, and no log has a traceback."""
        assert not self.ledger.broken
        jobs = {name: self.ledger.jobs.get(f"{self.namespace}/{name}") for name in names}
        assert {name: found.status.succeeded if found else None for name, found in jobs.items()} == dict.fromkeys(
            names, pods
        )
        assert self.ledger.longest_partial() < 4 * PATIENCE
        told = {name: process.said() for name, process in self.processes.items()}
        assert not {name: text[-3000:] for name, text in told.items() if "Traceback" in text}


def _kubeconfig(config: ClusterConfig, path: Path) -> Path:
    cluster = {"server": config.server, "insecure-skip-tls-verify": config.insecure}
    if config.ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(config.ca).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": config.token}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(document))
    return path


@asynccontextmanager
async def crowd(config: ClusterConfig, folder: Path) -> AsyncIterator[Crowd]:
    """A namespace with accounts, and no process yet; everything is gone at the end."""
    client = HttpClient(config)
    made = await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(generate_name=PREFIX)))
    namespace = made.metadata.name
    ledger = Ledger(client, namespace)
    watching = asyncio.create_task(ledger.run())
    accounts = Accounts(client, namespace, hooks=namespace)
    found = Crowd(client, namespace, ledger, folder, {})
    try:
        async with asyncio.timeout(SECONDS):
            await ledger.synced()
            await accounts.make()
            for name in ("scheduler", "controllers", "agent"):
                found.kubeconfigs[name] = _kubeconfig(
                    await accounts.config(name, config), folder / f"{name}.kubeconfig"
                )
            yield found
    except TimeoutError as error:
        logs = {name: process.said()[-2000:] for name, process in found.processes.items()}
        raise AssertionError(f"not there after {SECONDS:.0f} s; {ledger.summary()}; {logs}") from error
    finally:
        for process in found.processes.values():
            process.kill()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await accounts.remove()
        for pod in (await client.list(PODS, namespace)).items:
            with suppress(ApiError):
                await client.delete(PODS, pod.metadata.name, namespace, grace_seconds=0)
        with suppress(ApiError):
            await client.delete(NAMESPACES, namespace)
        for node in (await client.list(NODES)).items:
            for kind, place in ((NODES, None), (LEASES, NODE_LEASES)):
                with suppress(ApiError):
                    await client.delete(kind, node.metadata.name, place)
        await client.close()
