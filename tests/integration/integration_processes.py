"""Components as processes of their own, as Deployments run them: they can be killed, frozen, and have a wrong clock."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from integration_ledger import Ledger
from integration_link import Link, linked
from integration_servers import PREFIX
from integration_world import PATIENCE, job
from prometheus_client.parser import text_string_to_metric_families

from support.accounts import Accounts
from support.ports import free_port
from support.watching import seen
from unisono.api.annotations import CYCLES_LEASE
from unisono.api.base import ObjectMeta
from unisono.api.core import Namespace
from unisono.api.kinds import JOBS, LEASES, NAMESPACES, NODES, PODS
from unisono.errors import ApiError
from unisono.install.rights import NODE_LEASES
from unisono.kube.http import HttpClient
from unisono.kube.kubeconfig import ClusterConfig

SECONDS = 1200.0
"""Longest time of one test: leases last 15 seconds, and a busy machine may need ten times as long for all else."""
NODES_COUNT = 8
SEEN: list[str] = []
"""What the faults of the running test came to, in words; the summary of the run tells it."""


@dataclass
class Process:
    """One component.

    Attributes:
        arguments: after the program.
        port: of its metrics.
        before: words before its command, such as those of a wrong clock.
        program: words that start another version of Unisono; none for this one.
        child: while it runs and nobody has ended it.
        requests: what earlier processes asked of the server, by (method, resource, code).

    """

    arguments: list[str]
    port: int
    log: Path
    before: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    child: subprocess.Popen[bytes] | None = None
    requests: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def start(self) -> None:
        with self.log.open("ab") as stream:
            program = self.program or (sys.executable, "-m", "unisono")
            words = [*self.before, *program, *self.arguments, "--listen", f"127.0.0.1:{self.port}"]
            self.child = subprocess.Popen(words, stdout=stream, stderr=stream, start_new_session=True)

    def send(self, number: signal.Signals) -> None:
        if self.child is not None:
            # The words before its command may be a program that is its parent.
            with suppress(ProcessLookupError):
                os.killpg(self.child.pid, number)

    def note(self) -> None:
        """Add up what the process asked so far, as its end is near; another version answers for itself."""
        if self.program:
            return
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            for family in text_string_to_metric_families(answer.read().decode()):
                for sample in family.samples:
                    if sample.name == "rest_client_requests_total":
                        labels = sample.labels
                        self.requests[labels["method"], labels["resource"], labels["code"]] += int(sample.value)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        """Ask the process to end, as a rollout does, and return when it has."""
        self.send(signal.SIGTERM)
        self.wait()

    def wait(self) -> None:
        """Return when the process, which was told to end, has ended."""
        child, self.child = self.child, None
        if child is not None:
            child.wait()

    def gone(self) -> bool:
        """Whether the process ended though nobody told it to."""
        child = self.child
        return child is not None and child.poll() is not None

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
    configs: dict[str, ClusterConfig] = field(default_factory=dict)

    @asynccontextmanager
    async def link(self, component: str) -> AsyncIterator[Link]:
        """The network of the component's replicas that are started from now on."""
        direct = self.kubeconfigs[component]
        async with linked(self.configs[component]) as (config, link):
            self.kubeconfigs[component] = _kubeconfig(config, self.folder / f"{component}-linked.kubeconfig")
            try:
                yield link
            finally:
                self.kubeconfigs[component] = direct

    def start(
        self,
        component: str,
        name: str = "",
        before: tuple[str, ...] = (),
        program: tuple[str, ...] = (),
        linked: bool = True,
    ) -> Process:
        """One more replica of a component; behind its link, if there is one and ``linked`` says so."""
        name = name or component
        kubeconfig = self.folder / f"{component}.kubeconfig" if not linked else self.kubeconfigs[component]
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
        words = [component, "--kubeconfig", str(kubeconfig), *own]
        process = Process(words, free_port(), self.folder / f"{name}.log", before, program)
        self.processes[name] = process
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

    async def holder(self, component: str, other_than: str = "") -> str:
        """Who leads, once somebody does, other than the one that is given."""
        lease = await seen(
            self.client,
            LEASES,
            f"unisono-{component}",
            self.namespace,
            lambda lease: lease.spec.holder_identity not in (None, "", other_than),
        )
        return str(lease.spec.holder_identity)

    def useless(self) -> Counter[str]:
        """Writes to what was not there any more, by method and resource."""
        found: Counter[str] = Counter()
        for process in self.processes.values():
            process.note()
            for (method, resource, code), count in process.requests.items():
                # The first heartbeat finds no Lease, and makes it.
                if code == "404" and method in ("DELETE", "PATCH") and resource != "leases":
                    found[f"{method} {resource}"] += count
        return found

    def held(self, names: list[str], pods: int = 4) -> None:
        """Each job got its pods once, none ran in part for long, no log has a traceback, and hardly a write was vain.

        A status that was on its way when its job ended may come too late; nobody deletes what is gone.
        """
        found, longest = self.useless(), self.ledger.longest_partial()
        wasted = ", ".join(f"{count} {what}" for what, count in sorted(found.items())) or "none"
        SEEN.append(f"{len(names)} jobs, longest partial gang {longest:.2f} s, useless requests: {wasted}")
        assert not self.ledger.broken
        jobs = {name: self.ledger.jobs.get(f"{self.namespace}/{name}") for name in names}
        assert {name: found.status.succeeded if found else None for name, found in jobs.items()} == dict.fromkeys(
            names, pods
        )
        assert longest < 4 * PATIENCE
        told = {name: process.said() for name, process in self.processes.items()}
        assert not {name: text[-3000:] for name, text in told.items() if "Traceback" in text}
        assert not [what for what in found if what.startswith("DELETE")], found
        assert found.total() <= -(-len(names) // 5), found


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


async def _guard(processes: dict[str, Process], limit: asyncio.Timeout) -> None:
    """End the test as soon as a process ended on its own: what it waits for would never come."""
    while not any(process.gone() for process in processes.values()):
        await asyncio.sleep(0.5)
    limit.reschedule(asyncio.get_running_loop().time())


@asynccontextmanager
async def crowd(config: ClusterConfig, folder: Path) -> AsyncIterator[Crowd]:
    """A namespace with accounts, and no process yet; everything is gone at the end."""
    client = HttpClient(config)
    made = await client.create(NAMESPACES, Namespace(metadata=ObjectMeta(generate_name=PREFIX)))
    namespace = made.metadata.name
    ledger = Ledger(client, namespace, leader="unisono-scheduler")
    watching = asyncio.create_task(ledger.run())
    accounts = Accounts(client, namespace, hooks=namespace)
    found = Crowd(client, namespace, ledger, folder, {})
    guard = None
    try:
        async with asyncio.timeout(SECONDS) as limit:
            guard = asyncio.create_task(_guard(found.processes, limit))
            await ledger.synced()
            await accounts.make()
            for name in ("scheduler", "controllers", "agent"):
                found.configs[name] = await accounts.config(name, config)
                found.kubeconfigs[name] = _kubeconfig(found.configs[name], folder / f"{name}.kubeconfig")
            yield found
    except TimeoutError as error:
        logs = {name: process.said()[-2000:] for name, process in found.processes.items()}
        gone = sorted(name for name, process in found.processes.items() if process.gone())
        why = f"ended on their own: {', '.join(gone)}" if gone else f"not there after {SECONDS:.0f} s"
        raise AssertionError(f"{why}; {ledger.summary()}; {logs}") from error
    finally:
        if guard is not None:
            guard.cancel()
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
