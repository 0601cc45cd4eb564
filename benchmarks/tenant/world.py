"""A control plane with two users: one attacks from a namespace of his own, the other one only wants to work."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.api.load import checked
from benchmarks.hostile import plane
from benchmarks.hostile.watching import Work, cpu_seconds, family, resident
from unisono.errors import UnisonoError
from unisono.kube.http import HttpClient
from unisono.kube.transport import Transport

Body = dict[str, Any]
VICTIM = "bystander"
MARK = "secret-of-the-bystander"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_AT_ONCE = 16
# Custom resources must say what they are.
_KINDS = {
    "batch.volcano.sh/v1alpha1": {"jobs": "Job", "cronjobs": "CronJob"},
    "flow.volcano.sh/v1alpha1": {"jobtemplates": "JobTemplate", "jobflows": "JobFlow"},
    "training.volcano.sh/v1alpha1": {"hyperjobs": "HyperJob"},
    "bus.volcano.sh/v1alpha1": {"commands": "Command"},
    "scheduling.volcano.sh/v1beta1": {"podgroups": "PodGroup"},
}
_CARDS = 'device.driver == "cards.example.com"'


@dataclass
class World:
    """What an attack may use.

    Attributes:
        admin: the administrator; attacks use it only to look at what they have done.
        user: of the attacker, who has the role ``edit`` in ``namespace`` and nothing else.
        machine: name of the node whose pods are processes, empty without an agent.
        faults: what the attack has got that it must not.
    """

    running: plane.Plane
    admin: HttpClient
    user: HttpClient
    namespace: str
    machine: str
    folder: Path
    faults: list[str] = field(default_factory=list)
    held: list[asyncio.Task[None]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)

    def fault(self, what: str) -> None:
        """The attack has succeeded."""
        self.faults.append(what)

    def path(self, plural: str, name: str = "", namespace: str = "", api: str = "") -> str:
        """URL of a collection or object; ``api`` is group and version, empty for the core's."""
        parts = [f"/apis/{api}" if api else "/api/v1", "namespaces", namespace or self.namespace, plural]
        return "/".join([*parts, *filter(None, [name])])

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        media: str = "application/json",
        client: HttpClient | None = None,
    ) -> tuple[int, bytes]:
        """Status and body of the answer to the attacker; 599 without one."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            status, _, answer = await (client or self.user).request(method, path, body=data, content_type=media)
        except UnisonoError as error:
            status, answer = 599, str(error).encode()
        self.answers.append(status)
        if 500 <= status < 599 and status not in (501, 503, 504, 507):
            self.fault(f"{method} {path[:100]}: {status} {answer[:200]!r}")
        return status, answer

    async def post(self, plural: str, body: Body, api: str = "", *, media: str = "application/json") -> int:
        """Create something in the attacker's namespace."""
        if api in _KINDS and plural in _KINDS[api]:
            body = {"apiVersion": api, "kind": _KINDS[api][plural], **body}
        return (await self.ask("POST", self.path(plural, api=api), body, media))[0]

    async def many(self, works: Iterable[Awaitable[Any]], at_once: int = _AT_ONCE) -> list[Any]:
        """All of them, some at a time."""
        turn = asyncio.Semaphore(at_once)

        async def one(work: Awaitable[Any]) -> Any:
            async with turn:
                return await work

        return await asyncio.gather(*(one(work) for work in works))

    async def pod(self, name: str, spec: Body, seconds: float = 20.0, **meta: Any) -> tuple[str, str]:
        """Phase and log of a pod on the real machine, when it has ended or the time is over."""
        wanted = {"restartPolicy": "Never", "nodeSelector": {"kubernetes.io/hostname": self.machine}, **spec}
        body = {"metadata": {"name": name, **meta}, "spec": wanted}
        status, answer = await self.ask("POST", self.path("pods"), body)
        if status >= 300:
            return "Refused", json.loads(answer).get("message", "")
        end, phase = time.monotonic() + seconds, ""
        while time.monotonic() < end and phase not in ("Succeeded", "Failed"):
            await asyncio.sleep(0.2)
            _, answer = await self.ask("GET", self.path("pods", name))
            phase = json.loads(answer).get("status", {}).get("phase", "")
        return phase, (await self.ask("GET", self.path("pods", f"{name}/log")))[1].decode(errors="replace")

    async def run(self, name: str, script: str, seconds: float = 20.0, **spec: Any) -> tuple[str, str]:
        """As ``pod``, of a shell that carries out ``script``."""
        return await self.pod(name, {"containers": [shell(script)], **spec}, seconds)

    async def raw(self, data: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection of the attacker's own; ``data`` is sent on it. The token goes in for ``@TOKEN@``."""
        config = self.user.config
        context = ssl.create_default_context(cadata=config.ca.decode() if config.ca else None)
        host, _, port = config.server.removeprefix("https://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=context, limit=1024)
        writer.write(data.replace(b"@TOKEN@", config.token.encode()))
        return reader, writer

    def hold(self, work: Awaitable[None]) -> None:
        """Keep something going until the bystander has been looked at."""

        async def quietly() -> None:
            with suppress(OSError, UnisonoError, asyncio.IncompleteReadError):
                await work

        self.held.append(asyncio.create_task(quietly()))

    async def unread(self, path: str, count: int) -> None:
        """Requests whose answers are not read, each on a connection of its own."""

        async def one() -> None:
            head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer @TOKEN@\r\n\r\n"
            reader, writer = await self.raw(head.encode())
            try:
                await reader.readline()
                await asyncio.sleep(3600)
            finally:
                writer.transport.abort()

        for _ in range(count):
            self.hold(one())
        await asyncio.sleep(2)

    async def end(self) -> None:
        """Let go of what is held, and remove the namespace."""
        for task in self.held:
            task.cancel()
        await asyncio.gather(*self.held, return_exceptions=True)
        self.held.clear()
        await self.user.close()


def shell(script: str, **more: Any) -> Body:
    """A container that runs ``script``."""
    return {"name": "main", "image": "x", "command": ["sh", "-c", script], **more}


def config_map(name: str, size: int = 0, **data: str) -> Body:
    """A ConfigMap with ``size`` bytes of text."""
    return {"metadata": {"name": name}, "data": {**({"x": "y" * size} if size else {}), **data}}


@dataclass
class Felt:
    """What the bystander felt of an attack: seconds and bytes; ``cpu`` is what the control plane got meanwhile."""

    reads: list[float]
    waited: float
    own: float
    started: bool
    grown: int
    kept: int
    said: str
    cpu: float


class Bystander:
    """Reads a small object all the time, and starts a job when the attack is at its height."""

    def __init__(self, running: plane.Plane, client: HttpClient) -> None:
        self._running, self._client, self._number = running, client, 0

    async def feels(self, attack: Callable[[], Awaitable[None]], patience: float) -> Felt:
        """Carry out the attack and look what becomes of the bystander."""
        reads: list[float] = []
        processes = family(self._running.pid)
        before = {pid: resident(pid) for pid in processes}
        probing = asyncio.create_task(self._probe(reads))
        try:
            await attack()
            busy = cpu_seconds(processes)
            waited, own, started, said = await self._job(processes, patience)
            busy = cpu_seconds(processes) - busy
            grown = max(resident(pid) - size for pid, size in before.items())
        finally:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
        return Felt(reads, waited, own, started, grown, 0, said, busy)

    def memory(self) -> int:
        """Bytes of the control plane's own processes."""
        return sum(resident(pid) for pid, line in family(self._running.pid).items() if "unisono" in line)

    async def _probe(self, reads: list[float]) -> None:
        while True:
            sent = time.perf_counter()
            with suppress(UnisonoError):
                await checked(self._client, "GET", f"/api/v1/namespaces/{VICTIM}/configmaps/cheap")
            reads.append(time.perf_counter() - sent)
            await asyncio.sleep(0.01)

    async def _job(self, processes: dict[int, str], patience: float) -> tuple[float, float, bool, str]:
        self._number += 1
        name, began, before = f"job-{self._number}", time.perf_counter(), Work.of(processes)
        started, said = False, ""
        try:
            await plane.start_job(self._client, VICTIM, name)
            while not started and time.perf_counter() - began < patience:
                started = await plane.runs(self._client, VICTIM, name)
                await asyncio.sleep(0.05)
        except UnisonoError:
            pass
        waited = time.perf_counter() - began
        own = Work.of(processes).own_share(waited, before)
        with suppress(UnisonoError):
            said = "" if started else await plane.told(self._running.client, VICTIM, name)
            await plane.remove_job(self._client, VICTIM, name)
        return waited, own, started, said


async def _account(admin: HttpClient, namespace: str, name: str) -> HttpClient:
    """A client of a service account that has ``edit`` in its namespace."""
    base = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await checked(admin, "POST", base, body=json.dumps({"metadata": {"name": name}}).encode())
    answer = await checked(
        admin, "POST", f"{base}/{name}/token", body=json.dumps({"spec": {"expirationSeconds": 86_400}}).encode()
    )
    token = json.loads(answer)["status"]["token"]
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
    }
    await checked(admin, "POST", f"{_RBAC}/namespaces/{namespace}/rolebindings", body=json.dumps(binding).encode())
    config = replace(admin.config, token=token, client_certificate=None, client_key=None)
    return HttpClient(config, transport=Transport(config))


@asynccontextmanager
async def bystander(running: plane.Plane, machine: str) -> AsyncIterator[Bystander]:
    """Another user with a namespace, a Secret, and, where there is a machine, a pod that has it."""
    admin = running.client
    await plane.namespace(admin, VICTIM, {})
    client = await _account(admin, VICTIM, "bystander")
    base = f"/api/v1/namespaces/{VICTIM}"
    cards = {"metadata": {"name": "cards"}, "spec": {"selectors": [{"cel": {"expression": _CARDS}}]}}
    await checked(admin, "POST", "/apis/resource.k8s.io/v1/deviceclasses", body=json.dumps(cards).encode())
    try:
        await checked(client, "POST", f"{base}/configmaps", body=json.dumps(config_map("cheap", a="b")).encode())
        secret = {"metadata": {"name": "mine"}, "stringData": {"key": MARK}}
        await checked(client, "POST", f"{base}/secrets", body=json.dumps(secret).encode())
        if machine:
            script = f"echo {MARK} > /data/file; sleep 36000"
            container = shell(
                script,
                env=[{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "mine", "key": "key"}}}],
                volumeMounts=[{"name": "d", "mountPath": "/data"}, {"name": "s", "mountPath": "/secret"}],
            )
            spec = {
                "nodeSelector": {"kubernetes.io/hostname": machine},
                "containers": [container],
                "volumes": [{"name": "d", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "mine"}}],
            }
            body = {"metadata": {"name": "keeper", "labels": {"app": "keeper"}}, "spec": spec}
            await checked(client, "POST", f"{base}/pods", body=json.dumps(body).encode())
        yield Bystander(running, client)
    finally:
        await client.close()


@asynccontextmanager
async def attacker(running: plane.Plane, namespace: str, machine: str, folder: Path) -> AsyncIterator[World]:
    """A user with ``edit`` in a new namespace; all of that goes with the context."""
    await plane.namespace(running.client, namespace, {})
    world = World(
        running, running.client, await _account(running.client, namespace, "mallory"), namespace, machine, folder
    )
    try:
        yield world
    finally:
        await world.end()
        await remove(running.client, namespace)


async def remove(admin: HttpClient, namespace: str) -> None:
    """Delete the namespace and release what finalizers hold in it."""
    await admin.request("DELETE", f"/api/v1/namespaces/{namespace}")
    for turn in range(240):
        if (await admin.request("GET", f"/api/v1/namespaces/{namespace}"))[0] == 404:
            return
        if turn % 10 == 5:
            await _release(admin, namespace)
        await asyncio.sleep(0.5)


async def _release(admin: HttpClient, namespace: str) -> None:
    core = f"/api/v1/namespaces/{namespace}"
    claims = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    jobs = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"
    held = [f"{core}/{plural}" for plural in ("pods", "configmaps", "persistentvolumeclaims", "services")]
    for place in (*held, claims, jobs, f"/apis/apps/v1/namespaces/{namespace}/deployments"):
        _, _, answer = await admin.request("GET", place)
        for item in json.loads(answer).get("items", []):
            if item["metadata"].get("finalizers"):
                path = f"{place}/{item['metadata']['name']}"
                body = json.dumps({"metadata": {"finalizers": None}}).encode()
                await admin.request("PATCH", path, body=body, content_type=MERGE)
