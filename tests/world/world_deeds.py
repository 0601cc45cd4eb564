"""What people do in a world, and what breaks there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from world_configured import NAMESPACE
from world_disk import Pump
from world_loop import WorldClock
from world_network import Wire
from world_nevers import plural
from world_server import Server
from world_story import Deed

from unisono.agent.simulated.nodes import SimulatedNodes
from unisono.agent.simulated.specs import parse_specs
from unisono.api.kinds import ALL_KINDS, JOBS, LEASES
from unisono.apiserver.types import DeleteOptions, WriteOptions
from unisono.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable

_KINDS = {(kind.api_version, kind.kind): kind for kind in ALL_KINDS}

_ORDINARY = {"create", "patch", "delete", "delete-pod", "order", "bind-again", "stale", "flutter", "configure"}


@dataclass(slots=True)
class Process:
    """One process of the plane and its life."""

    name: str
    work: Callable[[Wire, WorldClock], Awaitable[None]]
    clock: WorldClock
    wire: Wire | None = None
    task: asyncio.Task[None] | None = None
    lives: int = 0
    ended: list[asyncio.Task[None]] = field(default_factory=list)


class Deeds(Server):
    """Each ``_do_X`` is a deed of a story."""

    _processes: dict[str, Process]

    def _add(self, name: str, work: Callable[[Wire, WorldClock], Awaitable[None]]) -> None:
        raise NotImplementedError

    async def _kill(self, name: str) -> None:
        raise NotImplementedError

    def _revive(self, name: str) -> None:
        raise NotImplementedError

    async def _do(self, deed: Deed) -> None:
        self.note(f"deed {deed}")
        what, given = deed.what, deed.given
        # A dead agent and binds that fail do not hinder those who give a part of a gang back.
        harmless = (deed.what == "refuse" and given[0] == "bind") or (deed.what == "kill" and given[0] == "nodes")
        breaks = what not in _ORDINARY and not harmless
        if breaks:
            self._broke()
        try:
            await getattr(self, f"_do_{what.replace('-', '_')}")(*given)
        except (ApiError, OSError) as error:
            self.note(f"in vain: {error}")
        if breaks:
            self._broke()

    async def _do_create(self, user: str, body: dict[str, Any]) -> None:
        kind = _KINDS[body["apiVersion"], body["kind"]]
        options = WriteOptions(
            field_validation="Strict", field_manager="kubectl", user=user, groups=("system:masters",)
        )
        service = await self._service()
        namespace = body["metadata"].get("namespace")
        # The server may change what it is given.
        copied = msgspec.json.decode(msgspec.json.encode(body))
        await self._asked(service.create(kind, namespace, copied, options))

    async def _do_patch(self, version: str, word: str, name: str, patch: dict[str, Any]) -> None:
        kind = _KINDS[version, word]
        options = WriteOptions(field_manager="kubectl", user="admin", groups=("system:masters",))
        namespace = "default" if kind.namespaced else None
        service = await self._service()
        self.truth.hands[f"{kind.plural} {namespace}/{name}" if namespace else f"{kind.plural} {name}"] += 1
        await self._asked(service.patch(kind, namespace, name, patch, "merge", options, ""))

    async def _do_delete(self, version: str, word: str, name: str, namespace: str = "default") -> None:
        kind = _KINDS[version, word]
        service = await self._service()
        policy = "Foreground" if self.draw.random() < 0.3 else "Background"
        options = DeleteOptions(propagation_policy=policy, user="admin", groups=("system:masters",))
        await self._asked(service.delete(kind, namespace if kind.namespaced else None, name, options))

    async def _do_configure(self, name: str, data: dict[str, str], sound: bool) -> None:
        """Somebody writes a ConfigMap of the scheduler's configuration, or deletes it where there is no ``data``."""
        kind, service = _KINDS["v1", "ConfigMap"], await self._service()
        if not data:
            options = DeleteOptions(user="admin", groups=("system:masters",))
            await self._asked(service.delete(kind, NAMESPACE, name, options))
            return
        self.truth.configured.write(data, sound)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}}
        try:
            await self._do_create("admin", {**body, "data": data})
        except AlreadyExists:
            write = WriteOptions(field_manager="kubectl", user="admin", groups=("system:masters",))
            patch = [{"op": "replace", "path": "/data", "value": data}]
            await self._asked(service.patch(kind, NAMESPACE, name, patch, "json", write, ""))

    async def _do_order(self, action: str, name: str) -> None:
        """A Command to a job, as vcctl gives it."""
        jobs = next((found for one, found in self.truth.objects.items() if one == JOBS.resource), {})
        job = jobs.get(f"default/{name}")
        if job is None:
            return
        target = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": name, "uid": job["metadata"]["uid"]}
        metadata = {"generateName": f"{name}-", "namespace": "default", "ownerReferences": [target]}
        body = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": metadata}
        await self._do_create("admin", {**body, "action": action, "target": target})

    async def _do_delete_pod(self, number: int) -> None:
        pods = sorted(key for one, found in self.truth.objects.items() if plural(one) == "pods" for key in found)
        if pods:
            await self._do_delete("v1", "Pod", pods[number % len(pods)].partition("/")[2])

    async def _do_drain(self, node: str) -> None:
        await self._do_patch("v1", "Node", node, {"spec": {"unschedulable": True}})
        pods = [
            key
            for one, found in self.truth.objects.items()
            if plural(one) == "pods"
            for key, body in sorted(found.items())
            if body["spec"].get("nodeName") == node
        ]
        for key in pods:
            with suppress(ApiError):
                await self._do_delete("v1", "Pod", key.partition("/")[2])
        await asyncio.sleep(10)
        await self._do_patch("v1", "Node", node, {"spec": {"unschedulable": None}})

    async def _do_shrink(self, node: str, cpu: int) -> None:
        """A device plug-in or a person takes CPUs of a node away for a while."""
        service = await self._service()
        options = WriteOptions(field_manager="kubelet", user="admin", groups=("system:masters",))
        kind = _KINDS["v1", "Node"]
        nodes = next((found for one, found in self.truth.objects.items() if plural(one) == "nodes"), {})
        if node not in nodes:
            return
        full = nodes[node]["status"]["allocatable"]["cpu"]
        for amount in (str(cpu), full):
            patch = {"status": {"allocatable": {"cpu": amount}}}
            with suppress(ApiError):
                await self._asked(service.patch(kind, None, node, patch, "merge", options, "status"))
            await asyncio.sleep(12)
            service = await self._service()

    async def _do_join(self, like: str, count: int) -> None:
        """Nodes join that are like one that is there."""
        node = next(found for one, found in self.truth.objects.items() if plural(one) == "nodes")[like]
        name = f"nodes-{len(self._processes)}"
        spec = {"name": f"more-{len(self._processes)}", "count": count, "capacity": node["status"]["allocatable"]}

        async def simulate(wire: Wire, clock: WorldClock) -> None:
            await SimulatedNodes(wire, parse_specs([spec]), clock, volumes=True).run()

        self._add(name, simulate)

    async def _do_kill(self, name: str, down: float) -> None:
        await self._kill(name)
        await asyncio.sleep(down)
        self._revive(name)

    async def _do_pause(self, name: str, lasts: float) -> None:
        """The machine of a process stands still, and does not know it."""
        self._loop.pause(name)
        await asyncio.sleep(lasts)
        self._loop.go_on(name)

    async def _do_stale(self, number: int) -> None:
        """A client writes a stale version of an object."""
        one = self.truth.stale(number)
        if one is None:
            return
        kind, namespace, name, version = one
        known = next(found for found in ALL_KINDS if found.resource == kind)
        patch = {"metadata": {"resourceVersion": str(version), "labels": {"stale": "true"}}}
        options = WriteOptions(field_manager="kubectl", user="admin", groups=("system:masters",))
        service = await self._service()
        with suppress(Conflict, NotFound):
            await self._asked(service.patch(known, namespace or None, name, patch, "merge", options, ""))
            self.truth.say(f"{known.plural} {name} takes a change of what it was at an older revision")

    async def _do_flutter(self, lasts: float) -> None:
        """Clients change one object many times a second, and remember what was refused for good."""
        ends, kind = self._loop.time() + lasts, _KINDS["scheduling.k8s.io/v1", "PriorityClass"]
        options = WriteOptions(field_manager="kubectl", user="admin", groups=("system:masters",))

        async def change(label: str) -> None:
            service = await self._service()
            patch = {"metadata": {"labels": {label: "here"}}}
            try:
                await self._asked(service.patch(kind, None, "low", patch, "merge", options, ""))
            except Unavailable:
                self.truth.refuse(label)
            except (ApiError, OSError):
                pass

        tasks: list[asyncio.Task[None]] = []
        while self._loop.time() < ends:
            tasks.append(asyncio.create_task(change(f"flutter-{len(tasks)}-{1000 * ends:.0f}")))
            await asyncio.sleep(self.draw.random() * 0.3)
        await asyncio.gather(*tasks)

    async def _do_storm(self, lasts: float, trouble: float, cutting: float) -> None:
        self.weather.trouble, self.weather.cutting = trouble, cutting
        await asyncio.sleep(lasts)
        self.weather.trouble, self.weather.cutting = 0.0, 0.0

    async def _do_slow(self, lasts: float, slowest: float, often: bool = False) -> None:
        self.weather.slowest, self.weather.often = slowest, often
        await asyncio.sleep(lasts)
        self.weather.slowest, self.weather.often = 0.02, False

    async def _do_lag(self, lasts: float, seconds: float, whom: str) -> None:
        """Watches tell of changes late."""
        self.weather.lag, self.weather.slowed = seconds, whom
        await asyncio.sleep(lasts)
        self.weather.lag = 0.0

    async def _do_refuse(self, verb: str, lasts: float, share: float, how: str) -> None:
        """A webhook, or a part of the server, fails requests of one verb."""
        self.weather.refusals[verb] = (share, how)
        await asyncio.sleep(lasts)
        self.weather.refusals.pop(verb, None)

    async def _do_bind_again(self, number: int, node: str) -> None:
        """Somebody binds a pod that is bound."""
        client = self.local("somebody")
        pods = [
            key
            for one, found in self.truth.objects.items()
            if plural(one) == "pods"
            for key, body in sorted(found.items())
            if body["spec"].get("nodeName")
        ]
        if pods and client is not None:
            namespace, _, name = pods[number % len(pods)].partition("/")
            await self._asked(client.bind(namespace, name, node))

    async def _do_cut(self, name: str) -> None:
        process = self._processes.get(name)
        if process is not None and process.wire is not None:
            process.wire.cut()

    async def _do_part(self, name: str, lasts: float) -> None:
        process = self._processes.get(name)
        if process is None or process.wire is None:
            return
        self.weather.parted |= {process.wire.process}
        await asyncio.sleep(lasts)
        self.weather.parted = frozenset()

    async def _do_power(self, how: str, down: float) -> None:
        await self._lose_power(how, down)

    async def _do_full(self, lasts: float, share: float) -> None:
        """The disk has room for some writes only, and is slow, so that others are prepared while one fails."""
        if self._disk is not None:
            self._disk.fullness = share
        self._pump.slowest = 0.3
        await asyncio.sleep(lasts)
        self._pump.slowest = Pump.slowest
        if self._disk is not None:
            self._disk.fullness = 0.0

    async def _do_clock(self, name: str, seconds: float) -> None:
        process = self._processes.get(name)
        if process is not None:
            process.clock.ahead = seconds

    async def _do_abdicate(self) -> None:
        """Somebody takes the scheduler's lease away."""
        service = await self._service()
        options = WriteOptions(field_manager="kubectl", user="admin", groups=("system:masters",))
        patch = {"spec": {"holderIdentity": "somebody"}}
        await self._asked(service.patch(LEASES, "default", "world-scheduler", patch, "merge", options, ""))
