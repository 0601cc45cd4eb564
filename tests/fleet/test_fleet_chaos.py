"""A whole hub over members that are lost and return, and that itself dies and starts again, at random moments."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest
from fleet_world import World, fleet, node

from unisono.api.annotations import DISPATCH, ORIGIN_UID, WORKER_LOST_TIMEOUT
from unisono.api.kinds import JOBS

MEMBERS = ("a", "b", "c")
LIMIT = 8
PODS = 4


def check(world: World, *, settled: bool = False) -> None:
    """What must hold at every moment, whatever is lost."""
    held: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for name, client in world.members.items():
        for job in client.objects(JOBS):
            labels = job.metadata.labels
            held[labels[ORIGIN_UID]].append((name, int(labels[DISPATCH])))
    for copies in held.values():
        numbers = [number for _, number in copies]
        assert len(numbers) == len(set(numbers)), "one dispatch has two copies"
        assert len(copies) <= 1 or not settled, "members that all answer have two copies of a job"


def gpus_of_queue(world: World) -> int:
    """GPUs that the copies in the limited queue ask for, in members that the hub can reach."""
    return sum(
        task.replicas or 0
        for name, client in world.members.items()
        if name not in world.cut
        for job in client.objects(JOBS)
        if job.spec.queue == "limited" and job.metadata.deletion_timestamp is None
        for task in job.spec.tasks
    )


@pytest.mark.more
@pytest.mark.parametrize("seed", range(6))
async def test_no_job_runs_twice_and_none_is_lost(seed: int) -> None:
    rng = random.Random(seed)
    async with fleet(*MEMBERS) as world:
        world.queue("limited", capability={"cpu": "1000", "nvidia.com/gpu": str(LIMIT)})
        for name in MEMBERS:
            world.join(name, [node("n1", 8), node("n2", 4)])
        world.start()
        marks = {WORKER_LOST_TIMEOUT: "1m"}
        for number in range(6):
            await world.job(f"j{number}", PODS, queue="limited" if number % 2 else "default", annotations=marks)
        await world.hyper("llm", {"name": "p", "pods": 2, "replicas": 2}, marks=marks)
        for _ in range(25):
            step = rng.choice(("lose", "find", "find", "die", "wait", "play", "delete", "long"))
            member = rng.choice(MEMBERS)
            if step == "lose" and len(world.cut) < 1 + (rng.random() < 0.3):
                world.lose(member)
            elif step == "find":
                world.find(member)
            elif step == "die":
                await world.stop()
                world.start()
            elif step == "play":
                world.play()
            elif step == "delete" and rng.random() < 0.2:
                name = f"j{rng.randrange(6)}"
                if world.where().get(name) is not None:
                    await world.hub_client.delete(JOBS, name, "default")
            await world.run(100 if step == "long" else rng.uniform(0.1, 15))
            check(world)
        for member in MEMBERS:
            world.find(member)
        await world.run(200)
        world.play()
        await world.run(200)
        check(world, settled=True)
        here = Counter(name for names in world.copies().values() for name in names)
        assert set(here.values()) <= {1}
        for name, cluster in world.where().items():
            assert here[name] == bool(cluster), f"{name} belongs to {cluster or 'no member'}"
        assert gpus_of_queue(world) <= LIMIT
        waiting = [name for name, cluster in world.where().items() if not cluster]
        assert gpus_of_queue(world) == LIMIT or not [name for name in waiting if int(name[1:2]) % 2], waiting
        parts = [name for name in world.where() if name.startswith("llm-")]
        assert len({bool(world.where()[name]) for name in parts}) == 1, "a gang is partial"
