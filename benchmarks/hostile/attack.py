"""Batches of hostile objects against a running control plane, and a bystander's job after each of them."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Container, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from benchmarks.api.load import percentile
from benchmarks.hostile import plane
from benchmarks.hostile.forge import Attempt, Forge, Offered
from benchmarks.hostile.watching import Log, Work, family, resident
from unisono.errors import UnisonoError
from unisono.kube.http import HttpClient
from unisono.kube.transport import Transport

BATCH = 50
_AT_ONCE = 8
_BYSTANDER = "bystander"
_SHOWN = 3
# Batches after which imports, connections and caches are there.
_WARM = 20
# Created and answered without being stored, or what the attack itself stands on.
_LEFT_OUT = frozenset({"namespaces"})
_MERGE = "application/merge-patch+json"


@dataclass
class Finding:
    """Harm that a batch did: what, and the objects that may have done it."""

    seed: int
    what: str
    objects: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        told = f"seed {self.seed}: {self.what}"
        if len(self.objects) > _SHOWN:
            names = ", ".join(f"{one['kind']} {one['metadata']['name']}" for one in self.objects)
            return f"{told}\none of {names}"
        return "---\n".join(
            [f"{told}\n", *(yaml.safe_dump(one, sort_keys=False, width=120)[:4000] for one in self.objects)]
        )


@dataclass(frozen=True)
class Ceilings:
    """What others must bear at most.

    Attributes:
        wait: seconds until the bystander's job runs, without the time in which the control plane had no processor.
        memory: bytes that a process may grow by for 1,000 objects, once it is warm, the watch history left out.
        log: bytes of log for 1,000 objects.
    """

    wait: float = 5.0
    memory: int = 32 * 2**20
    log: int = 200_000


@dataclass
class Report:
    """What an attack has shown. Times in seconds, memory and log in bytes.

    ``own_waits`` are the waits without the time in which the control plane's processes had no processor: what remains
    of them when the machine has nothing else to do. ``history`` is the part of the first process's memory that holds
    the changes kept for watches. It has a bound of its own, which a run may or may not reach, so it is no growth.
    """

    objects: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)
    own_waits: list[float] = field(default_factory=list)
    memory: list[list[int]] = field(default_factory=list)
    history: list[int] = field(default_factory=list)
    log_bytes: int = 0
    events: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        """The figures of the documentation."""
        return {
            "objects": self.objects,
            "accepted": sum(self.accepted.values()),
            "answers": dict(self.answers.most_common()),
            "never accepted": sorted(kind for kind in self.tried if not self.accepted[kind]),
            "bystander seconds": _shares(self.waits),
            "of these with a processor": _shares(self.own_waits),
            "MiB": [round(value / 2**20) for value in (self.memory[-1] if self.memory else [])],
            "of these watch history": round(self.history[-1] / 2**20) if self.history else 0,
            "KiB grown per 1,000 objects": [round(value / 1024) for value in self.grown()],
            "log bytes per 1,000 objects": round(self.log_bytes / max(self.objects, 1) * 1000),
            "log": dict(self.events.most_common(30)),
            "findings": len(self.findings),
        }

    def grown(self) -> list[float]:
        """Bytes for 1,000 objects that each process has grown by since it was warm; empty before that.

        What the watch history has grown by is left out.
        """
        batches = len(self.memory) - _WARM
        if batches <= 0:
            return []
        first, last = self.memory[_WARM - 1], self.memory[-1]
        bounded = [self.history[-1] - self.history[_WARM - 1], *[0] * (len(first) - 1)]
        grown = (after - before - held for before, after, held in zip(first, last, bounded, strict=False))
        return [value / (batches * BATCH) * 1000 for value in grown]

    def over(self, ceilings: Ceilings) -> Iterator[str]:
        """Which ceilings of a whole run are passed."""
        for index, grown in enumerate(self.grown()):
            if grown > ceilings.memory:
                yield f"process {index} grows by {grown / 2**20:.0f} MiB for 1,000 objects"
        log = self.log_bytes / max(self.objects, 1) * 1000
        if self.objects >= 1000 and log > ceilings.log:
            yield f"{log:.0f} bytes of log for 1,000 objects"


def _shares(values: list[float]) -> dict[str, float]:
    shares = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    return {name: round(percentile(values, share), 2) for name, share in shares} if values else {}


class Attack:
    """Attacks one control plane; ``patience`` bounds the wait for the bystander's job, in seconds."""

    def __init__(
        self, running: plane.Plane, forge: Forge, user: HttpClient, patience: float, ceilings: Ceilings
    ) -> None:
        self._plane, self.forge, self._user, self._patience = running, forge, user, patience
        self._ceilings = ceilings
        self._admin = running.client
        self._log = Log(running.log)
        self._processes = family(running.pid)
        self._last: Attempt | None = None
        self.report = Report()

    async def batch(self, number: int, size: int = BATCH, only: Container[int] | None = None) -> None:
        """Objects ``number * size`` and on, the bystander, and then what is left of them is removed.

        ``only`` picks some of the objects by their number.
        """
        namespace = f"hostile-{number}"
        await plane.namespace(self._admin, namespace, {"hostile": "hooked"})
        await plane.grant(self._admin, namespace)
        numbers = range(number * size, (number + 1) * size)
        attempts = [self.forge.attempt(each) for each in numbers if only is None or each in only]
        turn = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for attempt in attempts:
                group.create_task(self._send(attempt, namespace, turn))
        self.report.objects += size
        await self._bystander(number, attempts)
        await self._clean(namespace, attempts)
        await self._look(attempts)

    async def _send(self, attempt: Attempt, namespace: str, turn: asyncio.Semaphore) -> None:
        offered, body = attempt.offered, attempt.body
        if offered.kind == "CustomResourceDefinition":
            _name_definition(body, attempt.number)
        name = body["metadata"]["name"]
        async with turn:
            self.report.tried[offered.kind] += 1
            status = await self._ask("POST", offered.path(namespace), body, attempt)
            if status == 403 and offered.namespaced and offered.kind != "Command":
                # Some kinds of a namespace are for administrators; a Command of theirs closes queues, and rightly so.
                status = await self._ask("POST", offered.path(namespace), body, attempt, self._admin)
            self.report.accepted[offered.kind] += status < 300
            if status >= 300:
                return
            for step, what in attempt.then:
                path = offered.path(namespace, name)
                if step == "patch":
                    await self._ask("PATCH", path, what, attempt)
                elif step in ("status", "scale"):
                    client = self._admin if step == "status" else None
                    await self._ask("PATCH", f"{path}/{step}", what, attempt, client)
                elif step == "eviction":
                    eviction = {
                        "apiVersion": "policy/v1",
                        "kind": "Eviction",
                        "metadata": {"name": name, "namespace": namespace},
                    }
                    await self._ask("POST", f"{path}/eviction", eviction, attempt)
                else:
                    await self._ask(
                        "DELETE",
                        path,
                        {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": what},
                        attempt,
                    )

    async def _ask(self, method: str, path: str, body: Any, attempt: Attempt, client: HttpClient | None = None) -> int:
        """Status of the answer; an answer that no client should ever get is a finding."""
        chosen = client or (self._user if attempt.offered.namespaced else self._admin)
        data = json.dumps(body).encode()
        kind = _MERGE if method == "PATCH" else "application/json"
        began = time.perf_counter()
        try:
            status, _, answer = await chosen.request(method, path, body=data, content_type=kind)
        except UnisonoError as error:
            self._find(f"{method} {path}: no answer: {error}", attempt)
            return 599
        self.report.answers[str(status)] += 1
        if status >= 500:
            self._find(f"{method} {path}: {status} {answer[:500]!r}", attempt)
        if (took := time.perf_counter() - began) > 20:
            self._find(f"{method} {path}: answered after {took:.0f} s", attempt)
        return status

    def _find(self, what: str, *attempts: Attempt) -> None:
        bodies = [{**attempt.body, "# then": attempt.then} if attempt.then else attempt.body for attempt in attempts]
        self.report.findings.append(Finding(self.forge.seed, what, json.loads(json.dumps(bodies))))

    async def _bystander(self, number: int, attempts: list[Attempt]) -> None:
        began, before = time.perf_counter(), Work.of(self._processes)
        name = f"job-{number}"
        try:
            await plane.start_job(self._admin, _BYSTANDER, name)
            while not await plane.runs(self._admin, _BYSTANDER, name):
                if time.perf_counter() - began > self._patience:
                    told = await plane.told(self._admin, _BYSTANDER, name)
                    self._find(f"the bystander's job did not start in {self._patience:g} s: {told}", *attempts)
                    break
                await asyncio.sleep(0.05)
            waited = time.perf_counter() - began
            own = Work.of(self._processes).own_share(waited, before)
            self.report.waits.append(waited)
            self.report.own_waits.append(own)
            if own > self._ceilings.wait:
                self._find(f"the bystander's job took {own:.1f} s of the control plane's own time", *attempts)
            await plane.remove_job(self._admin, _BYSTANDER, name)
        except UnisonoError as error:
            self._find(f"the bystander got no answer: {error}", *attempts)

    async def _clean(self, namespace: str, attempts: list[Attempt]) -> None:
        for attempt in attempts:
            if not attempt.offered.namespaced:
                await self._remove(attempt.offered.path("", attempt.body["metadata"]["name"]))
            elif "finalizers" in attempt.body["metadata"]:
                await self._release(attempt.offered.path(namespace, attempt.body["metadata"]["name"]))
        await self._remove(f"/api/v1/namespaces/{namespace}")

    async def _remove(self, path: str) -> None:
        await self._admin.request("DELETE", path)
        if not path.startswith("/api/v1/namespaces/"):
            await self._release(path)

    async def _release(self, path: str) -> None:
        body = json.dumps({"metadata": {"finalizers": None}}).encode()
        await self._admin.request("PATCH", path, body=body, content_type=_MERGE)

    async def _look(self, attempts: list[Attempt]) -> None:
        now = family(self._plane.pid)
        if now.keys() != self._processes.keys():
            gone = [line for pid, line in self._processes.items() if pid not in now]
            self._find(f"processes ended: {gone}", *attempts)
            self._processes = now
        self.report.memory.append([resident(pid) for pid in now])
        self.report.history.append(await plane.history(self._admin))
        before = self._log.size
        for line in self._log.news()[:5]:
            self._find(f"the log: {line}", *_named(line, attempts))
        self.report.log_bytes += self._log.size - before
        self.report.events = self._log.events


def _named(line: str, attempts: list[Attempt]) -> list[Attempt]:
    """The attempts whose name a line of the log has, or all."""
    return [attempt for attempt in attempts if f"{attempt.body['metadata']['name']}" in line] or attempts[:0]


def _name_definition(body: dict[str, Any], number: int) -> None:
    """A definition's name is that of its resource; each gets a group of its own."""
    spec = body.get("spec")
    if isinstance(spec, dict) and isinstance(names := spec.get("names"), dict):
        spec["group"] = f"g{number}.hostile.example"
        body["metadata"]["name"] = f"{names.get('plural')}.{spec['group']}"


@asynccontextmanager
async def attacking(
    folder: Path,
    seed: int,
    *,
    patience: float,
    ceilings: Ceilings = Ceilings(),
    chosen: Callable[[Offered], bool] = lambda _: True,
    config: str = "",
) -> AsyncIterator[Attack]:
    """An attack on a control plane of its own in ``folder``; both end with the context."""
    async with plane.running(folder, config) as running:
        offered = [one for one in await plane.offered(running.client) if one.plural not in _LEFT_OUT and chosen(one)]
        await plane.namespace(running.client, _BYSTANDER, {})
        token = await plane.token(running.client)
        user = HttpClient(
            running.client.config,
            transport=Transport(replace(running.client.config, token=token, client_certificate=None, client_key=None)),
        )
        try:
            yield Attack(running, Forge(offered, seed), user, patience, ceilings)
        finally:
            await user.close()
