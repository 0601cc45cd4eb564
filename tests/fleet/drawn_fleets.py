"""Drawn fleets: members of drawn sizes, gangs of 1 GPU up to all of them, and what must hold at every moment."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

from fleet_world import GPU, World, fleet, template

from unisono.agent.simulated.nodes import SimulatedNodes, parse_specs
from unisono.api.annotations import CLUSTER_ID, DISPATCH, NETWORK, ORIGIN_UID, WORKER_LOST_TIMEOUT
from unisono.api.kind import Kind
from unisono.api.kind_families import HYPER_JOBS, PYTORCH_JOBS
from unisono.api.kinds import JOBS, NODES, POD_GROUPS, PODS
from unisono.fleet.jobs.translation import is_to_come

START_SECONDS, ROOM_SECONDS = 10, 2
FOUND_SECONDS = 15
"""A member that has returned has given up its older copies by then."""
STUCK_SECONDS = 150
STUCK_GROWING_SECONDS = 600
"""A group of machines is changed every two minutes at most."""
CAPACITY = {"cpu": 32, "memory": "128Gi", GPU: 8}
LIMIT = 4
"""GPUs of the queue ``limited``."""
LOST = {WORKER_LOST_TIMEOUT: "20s"}


def _conf(actions: str, *plugins: str) -> str:
    lines = "\n".join(f"  - name: {each}" for each in plugins)
    return f'actions: "{actions}"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n{lines}\n'


CONFIGS: Mapping[str, str] = {
    "default": "",
    "binpack": _conf("enqueue, allocate, backfill", "predicates", "proportion", "binpack"),
    "capacity": _conf("enqueue, allocate, reclaim, backfill", "predicates", "capacity", "nodeorder"),
    "preempting": _conf("enqueue, allocate, preempt, reclaim, backfill", "drf", "predicates", "proportion"),
    "bare": _conf("allocate", "predicates"),
    "overcommit": _conf("enqueue, allocate, backfill", "overcommit", "drf", "predicates", "proportion", "nodeorder"),
}


class Drawn:
    """One fleet and what happens to it."""

    def __init__(self, seed: int, *, named: bool = False, growing: bool = False) -> None:
        """``named``: pods have names across members, so that training jobs are divided, too.

        ``growing``: machines may come in members, some of which have no nodes.
        """
        self.rng, self.named = random.Random(seed), named
        names = [f"m{number}" for number in range(self.rng.randint(2, 4))]
        self.sizes = {name: [self.rng.choice((1, 2, 4, 8)) for _ in range(self.rng.randint(1, 2))] for name in names}
        self.config = self.rng.choice(list(CONFIGS))
        self.machines = dict.fromkeys(names, 0)
        if growing:
            self.machines = {name: self.rng.choice((0, 1, 2)) for name in names}
            self.sizes |= {name: [] for name in names[1:] if self.machines[name] and self.rng.random() < 0.5}
        self.said: list[str] = [f"seed {seed}: {self.sizes}, {self.machines}, configuration {self.config}"]
        self.number = 0
        self.forms: dict[str, str] = {}
        self.quiet = 0
        """Seconds since a member was last lost or found."""

    def shape(self) -> tuple[str, Any]:
        """A gang that fits the empty fleet, by construction: what it is, and its parts by size."""
        total, most = sum(map(sum, self.sizes.values())), max(map(sum, self.sizes.values()))
        form = self.rng.choice(("hyper", "hyper", "divided", "divided", "plain", "training"))
        if any(self.machines.values()) and self.rng.random() < 0.7:
            return "plain", self.rng.randint(
                1, max(sum(self.sizes[each]) + 8 * more for each, more in self.machines.items())
            )
        if self.named and form == "training":
            return form, self.rng.randint(min(most + 1, total), total)
        if form in ("plain", "training"):
            return form, self.rng.randint(1, most)
        if form == "divided":
            return form, self.rng.choice((total, self.rng.randint(1, total)))
        left = {name: sum(sizes) for name, sizes in self.sizes.items()}
        parts = []
        for _ in range(self.rng.randint(2, 4)):
            open_ = [name for name, free in left.items() if free]
            if not open_:
                break
            name = self.rng.choice(open_)
            size = self.rng.choice((left[name], self.rng.randint(1, left[name])))
            left[name] -= size
            parts.append(size)
        return form, parts

    def groups(self, name: str) -> list[dict[str, Any]]:
        """Machines that may come in a member."""
        most = self.machines[name]
        spec = {"name": f"{name}-spot", "max": most, "price": 2.0, "bootSeconds": 20, "capacity": CAPACITY}
        return [spec] if most else []

    def labels(self, name: str) -> dict[str, str]:
        return {NETWORK: "mesh", **({CLUSTER_ID: name} if self.named else {})}

    async def submit(self, world: World, form: str, size: Any) -> tuple[str, int]:
        name, self.number = f"g{self.number}", self.number + 1
        self.forms[name] = form
        self.said.append(f"{name}: {form} {size}")
        if form == "hyper":
            parts = ({"name": f"p{at}", "pods": pods} for at, pods in enumerate(size))
            await world.hyper(name, *parts, marks=dict(LOST))
            return name, sum(size)
        if form == "training":
            roles = {"Worker": {"replicas": size, "template": template(1)}}
            meta = {"name": name, "namespace": "default", "annotations": dict(LOST)}
            await world.create(PYTORCH_JOBS, {"metadata": meta, "spec": {"pytorchReplicaSpecs": roles}})
        else:
            queue = "limited" if form == "limited" else "default"
            await world.job(name, size, queue=queue, annotations=dict(LOST))
        return name, size

    async def tick(self, world: World) -> None:
        """A second passes, and what must always hold is looked at."""
        await world.run_whole(1)
        world.hub_client.collect_garbage()
        running: Counter[str] = Counter()
        where: dict[str, set[str]] = {}
        for name, client in world.members.items():
            used: Counter[str] = Counter()
            for pod in client.objects(PODS):
                if pod.spec.node_name and pod.status.phase == "Running":
                    used[pod.spec.node_name] += int(pod.spec.containers[0].resources.limits[GPU])
                    uid = (pod.metadata.labels or {}).get(ORIGIN_UID, "")
                    running[uid] += 1
                    where.setdefault(uid, set()).add(name)
            rooms = {node.metadata.name: int(node.status.allocatable[GPU]) for node in client.objects(NODES)}
            self.expect(all(used[node] <= rooms[node] for node in used), f"nodes of {name} are over-full: {used}")
        self.quiet = 0 if world.cut else self.quiet + 1
        doubled = {uid: names for uid, names in where.items() if uid and len(names) > 1}
        self.expect(not doubled or self.quiet < FOUND_SECONDS, f"runs twice: {doubled}")
        limited = sum(
            task.replicas or 0
            for name, client in world.members.items()
            if name not in world.cut
            for job in client.objects(JOBS)
            if job.spec.queue == "limited" and not job.metadata.deletion_timestamp
            for task in job.spec.tasks
        )
        self.expect(limited <= LIMIT or self.quiet < FOUND_SECONDS, f"queue limited has {limited} GPUs of {LIMIT}")
        parts: dict[str, list[str]] = {}
        for job in world.hub_client.objects(JOBS):
            owner = next(iter(job.metadata.owner_references or ()), None)
            if owner is not None:
                parts.setdefault(owner.name, []).append(job.metadata.uid)
        for job in world.hub_client.objects(JOBS):
            uids = [job.metadata.uid, *parts.get(job.metadata.name, ())]
            if job.status.state.phase == "Running" and not world.cut:
                self.expect(any(running[uid] for uid in uids), f"{job.metadata.name} says Running without a pod")

    def expect(self, holds: bool, text: str) -> None:
        assert holds, "\n".join((*self.said, text))

    def pods(self, world: World) -> int:
        return sum(world.running().values())

    def kind(self, name: str) -> Kind[Any]:
        return {"hyper": HYPER_JOBS, "training": PYTORCH_JOBS}.get(self.forms[name], JOBS)

    def running(self, world: World) -> list[str]:
        """Gangs all of whose pods run."""
        found = []
        parts: dict[str, list[Any]] = {}
        for job in world.hub_client.objects(JOBS):
            for owner in job.metadata.owner_references or ():
                parts.setdefault(owner.name, []).append(job)
        for name in self.forms:
            kind = self.kind(name)
            job = world.hub_client.find(kind, f"default/{name}")
            self.expect(job is not None, f"{name} is lost")
            if kind is PYTORCH_JOBS:
                runs = any((each.type, each.status) == ("Running", "True") for each in job.status.conditions or ())
            elif kind is JOBS:
                runs = job.status.state.phase == "Running"
            else:
                own = parts.get(name, ())
                runs = bool(own) and all(each.status.state.phase == "Running" for each in own)
            found += [name] if runs else []
        return found

    async def delete(self, world: World, name: str) -> None:
        await world.hub_client.delete(self.kind(name), name, "default")
        for _ in range(ROOM_SECONDS):
            world.hub_client.collect_garbage()
            await self.tick(world)
        left = {member: [pod.key for pod in client.objects(PODS)] for member, client in world.members.items()}
        self.expect(not any(left.values()), f"{name} is deleted and keeps room: {left}")
        self.expect(not world.hub_client.objects(POD_GROUPS), f"{name} is deleted and keeps its group")


async def calm(seed: int, rounds: int = 4, *, named: bool = False) -> None:
    """Gangs one after the other, each of which the empty fleet can take: each starts in time and leaves nothing."""
    drawn = Drawn(seed, named=named)
    async with fleet(*drawn.sizes, config=CONFIGS[drawn.config]) as world:
        for name, sizes in drawn.sizes.items():
            await world.whole(name, sizes, CONFIGS[drawn.config])
            world.join(name, [], **drawn.labels(name))
        world.start()
        await world.run_whole(8)
        for _ in range(rounds):
            form, size = drawn.shape()
            name, pods = await drawn.submit(world, form, size)
            for _ in range(START_SECONDS):
                await drawn.tick(world)
                if drawn.pods(world) == pods:
                    break
            drawn.expect(drawn.pods(world) == pods, f"{name} does not run after {START_SECONDS} s: {world.running()}")
            await drawn.tick(world)
            await drawn.delete(world, name)


class Troubles:
    """What befalls a fleet: its members and its hub."""

    def __init__(self, drawn: Drawn, world: World) -> None:
        self.drawn, self.world, self.rng = drawn, world, drawn.rng
        self.hub: list[asyncio.Task[None]] = []
        self.grown = 0

    def start(self) -> None:
        before = len(self.world.tasks)
        self.world.start()
        self.hub = self.world.tasks[before:]

    async def die(self) -> None:
        """The hub is killed and starts again."""
        for task in self.hub:
            self.world.tasks.remove(task)
            task.cancel()
            closing = asyncio.gather(task, return_exceptions=True)
            for _ in range(5):
                await self.world.clock.advance(0.2)
            await closing
        self.start()

    def lose(self) -> None:
        if not self.world.cut:
            self.world.lose(self.rng.choice(list(self.world.members)))

    def find(self) -> None:
        for name in list(self.world.cut):
            self.world.find(name)

    def grow(self) -> None:
        """A member has one more node."""
        name, self.grown = self.rng.choice(list(self.world.members)), self.grown + 1
        client, size = self.world.members[name], self.rng.choice((1, 2, 4))
        specs = [{"name": f"x{self.grown}", "count": 1, "capacity": {"cpu": 32, "memory": "128Gi", GPU: size}}]
        nodes = SimulatedNodes(client, parse_specs(specs), self.world.clock)
        self.world.tasks.append(asyncio.create_task(nodes.run()))

    async def lie(self) -> None:
        """A member says what cannot be true of a copy, renumbers it, or throws it away."""
        have = [(name, job) for name, client in self.world.members.items() for job in client.objects(JOBS)]
        if not have:
            return
        name, job = self.rng.choice(have)
        client, what = self.world.members[name], self.rng.choice(("status", "number", "away"))
        self.drawn.said.append(f"{name} lies about {job.metadata.name}: {what}")
        if what == "status":
            body = {"status": {"running": -3, "state": {"phase": "Flying"}}}
            await client.patch(JOBS, job.metadata.name, body, namespace="default", subresource="status")
        elif what == "number":
            body = {"metadata": {"labels": {DISPATCH: "99"}}}
            await client.patch(JOBS, job.metadata.name, body, namespace="default")
        else:
            await client.delete(JOBS, job.metadata.name, "default")

    async def befall(self) -> None:
        what = self.rng.choice(("lose", "find", "find", "die", "grow", "lie", "none", "none"))
        self.drawn.said.append(what)
        if what in ("die", "lie"):
            await {"die": self.die, "lie": self.lie}[what]() if not self.world.cut or what == "die" else None
        elif what != "none":
            {"lose": self.lose, "find": self.find, "grow": self.grow}[what]()


async def troubled(seed: int, steps: int = 8, *, named: bool = False, growing: bool = False) -> None:
    """Gangs beside each other while members and the hub come and go: none is lost, doubled, stuck or over its queue."""
    drawn = Drawn(seed, named=named, growing=growing)
    async with fleet(*drawn.sizes, config=CONFIGS[drawn.config]) as world:
        world.queue("limited", capability={"cpu": "1000", GPU: str(LIMIT)})
        for name, sizes in drawn.sizes.items():
            await world.whole(name, sizes, CONFIGS[drawn.config], drawn.groups(name))
            world.join(name, [], **drawn.labels(name))
        troubles = Troubles(drawn, world)
        troubles.start()
        await world.run_whole(8)
        for _ in range(steps):
            if drawn.rng.random() < 0.6:
                form, size = drawn.shape()
                if drawn.rng.random() < 0.3:
                    form, size = "limited", drawn.rng.randint(1, min(LIMIT, max(map(sum, drawn.sizes.values()))))
                await drawn.submit(world, form, size)
            await troubles.befall()
            for _ in range(drawn.rng.choice((1, 3, 8, 25))):
                await drawn.tick(world)
        troubles.find()
        waited = 0
        while drawn.forms:
            await drawn.tick(world)
            waited += 1
            for name in drawn.running(world):
                drawn.said.append(f"{name} has run after {waited} s")
                waited = 0
                kind = drawn.kind(name)
                await world.hub_client.delete(kind, name, "default")
                del drawn.forms[name]
            most = STUCK_GROWING_SECONDS if growing else STUCK_SECONDS
            drawn.expect(waited < most, f"stuck: {sorted(drawn.forms)} with {world.running()}")
        for _ in range(FOUND_SECONDS + 20):
            await drawn.tick(world)
        left = {member: [pod.key for pod in client.objects(PODS)] for member, client in world.members.items()}
        drawn.expect(not any(left.values()), f"all are deleted and keep room: {left}")
        promised = {name: [each.promised for each in world.hub.machines.summary(name)] for name in world.members}
        drawn.expect(not any(map(sum, promised.values())), f"all are deleted and keep machines: {promised}")
        names = world.hub.members_state.feed.state.nodes.wanted()
        drawn.expect(not any(map(is_to_come, names)), f"machines that nobody waits for are left: {names}")
