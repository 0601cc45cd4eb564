"""Drawn fleets: members of drawn sizes, gangs of 1 GPU up to all of them, and what must hold at every moment."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

from fleet_world import GPU, World, fleet, template

from unisono.api.annotations import NETWORK, ORIGIN_UID
from unisono.api.kind_families import HYPER_JOBS, PYTORCH_JOBS
from unisono.api.kinds import JOBS, NODES, POD_GROUPS, PODS

START_SECONDS, ROOM_SECONDS = 10, 2


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

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        names = [f"m{number}" for number in range(self.rng.randint(2, 4))]
        self.sizes = {name: [self.rng.choice((1, 2, 4, 8)) for _ in range(self.rng.randint(1, 2))] for name in names}
        self.config = self.rng.choice(list(CONFIGS))
        self.said: list[str] = [f"seed {seed}: {self.sizes}, configuration {self.config}"]
        self.number = 0
        self.owners: dict[str, str] = {}

    def shape(self) -> tuple[str, Any]:
        """A gang that fits the empty fleet, by construction: what it is, and its parts by size."""
        total, most = sum(map(sum, self.sizes.values())), max(map(sum, self.sizes.values()))
        form = self.rng.choice(("hyper", "hyper", "divided", "divided", "plain", "training"))
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

    async def submit(self, world: World, form: str, size: Any) -> tuple[str, int]:
        name, self.number = f"g{self.number}", self.number + 1
        self.said.append(f"{name}: {form} {size}")
        if form == "hyper":
            await world.hyper(name, *({"name": f"p{at}", "pods": pods} for at, pods in enumerate(size)))
            return name, sum(size)
        if form == "training":
            roles = {"Worker": {"replicas": size, "template": template(1)}}
            meta = {"name": name, "namespace": "default"}
            await world.create(PYTORCH_JOBS, {"metadata": meta, "spec": {"pytorchReplicaSpecs": roles}})
        else:
            await world.job(name, size)
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
        doubled = {uid: names for uid, names in where.items() if len(names) > 1}
        self.expect(not doubled, f"runs twice: {doubled}")
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

    async def delete(self, world: World, name: str, form: str) -> None:
        kind = {"hyper": HYPER_JOBS, "training": PYTORCH_JOBS}.get(form, JOBS)
        await world.hub_client.delete(kind, name, "default")
        for _ in range(ROOM_SECONDS):
            world.hub_client.collect_garbage()
            await self.tick(world)
        left = {member: [pod.key for pod in client.objects(PODS)] for member, client in world.members.items()}
        self.expect(not any(left.values()), f"{name} is deleted and keeps room: {left}")
        self.expect(not world.hub_client.objects(POD_GROUPS), f"{name} is deleted and keeps its group")


async def calm(seed: int, rounds: int = 4) -> None:
    """Gangs one after the other, each of which the empty fleet can take: each starts in time and leaves nothing."""
    drawn = Drawn(seed)
    async with fleet(*drawn.sizes, config=CONFIGS[drawn.config]) as world:
        for name, sizes in drawn.sizes.items():
            await world.whole(name, sizes, CONFIGS[drawn.config])
            world.join(name, [], **{NETWORK: "mesh"})
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
            await drawn.delete(world, name, form)
