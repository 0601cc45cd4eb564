"""Fair shares over members of different size, quota released when work ends, and many jobs of a lost member."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from fleet_world import World, fleet, node

from unisono.api.annotations import WORKER_LOST_TIMEOUT
from unisono.api.base import ObjectMeta
from unisono.api.core import PriorityClass
from unisono.api.kinds import JOBS, PRIORITY_CLASSES
from unisono.fleet.jobs.copies import placement_of

SHARES = """
actions: "enqueue, allocate, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


def held(world: World) -> Counter[str]:
    """GPUs that each queue has in members, by the copies there."""
    found: Counter[str] = Counter()
    for client in world.members.values():
        for job in client.objects(JOBS):
            if job.status.state.phase != "Completed":
                found[job.spec.queue] += sum(task.replicas or 0 for task in job.spec.tasks)
    return found


async def live(world: World, seconds: float) -> None:
    """Members run what they have, and the hub hears of it."""
    for _ in range(int(seconds / 5)):
        await world.run(5)
        world.play()


async def test_queues_end_at_their_weights_over_members_of_different_size():
    async with fleet("small", "middle", "large", config=SHARES) as world:
        world.queue("one", weight=1, reclaimable=True)
        world.queue("two", weight=2, reclaimable=True)
        for name, nodes in (("small", 1), ("middle", 2), ("large", 3)):
            world.join(name, [node(f"n{number}", 4) for number in range(nodes)])
        world.start()
        # The first queue takes everything; the second comes later, and more is asked for than there is.
        for number in range(14):
            await world.job(f"one-{number:02}", 2, queue="one")
        await live(world, 30)
        assert held(world) == {"one": 24}
        for number in range(14):
            await world.job(f"two-{number:02}", 2, queue="two")
        await live(world, 240)
        assert held(world) == {"one": 8, "two": 16}
        assert_nothing_twice(world)


async def test_quota_is_released_when_work_ends_and_taken_again():
    async with fleet("small", "large", config=SHARES) as world:
        world.queue("q", capability={"cpu": "1000", "nvidia.com/gpu": "8"})
        world.join("small", [node("n0", 4)])
        world.join("large", [node("n0", 8)])
        world.start()
        for number in range(5):
            await world.job(f"j{number}", 4, queue="q")
        await live(world, 30)
        for done in range(3):
            at_work = [name for name, cluster in world.where().items() if cluster and not ended(world, name)]
            assert (held(world), len(at_work)) == ({"q": 8}, 2), done
            world.say(world.where()[at_work[0]], at_work[0], {"state": {"phase": "Completed"}, "succeeded": 4})
            world.stop_playing.add(at_work[0])
            await live(world, 30)
        assert sum(ended(world, name) for name in world.where()) == 3


@pytest.mark.parametrize("config", ["", SHARES], ids=["default", "proportion"])
async def test_a_gang_that_no_member_has_room_for_keeps_its_queue_for_nobody(config: str):
    async with fleet("a", "b", "c", config=config) as world:
        world.queue("q", capability={"cpu": "1000", "nvidia.com/gpu": "9"})
        for name in ("a", "b"):
            world.join(name, [node("n0", 4)])
        world.start()
        await world.job("large", 8, queue="q")
        await world.run(5)
        await world.job("small", 2, queue="q")
        await world.run(15)
        assert (world.where()["large"], bool(world.where()["small"])) == ("", True)
        world.join("c", [node("n0", 8)])
        await live(world, 30)
        assert world.where()["large"] == ""  # 2 of 9 are held
        world.say(world.where()["small"], "small", {"state": {"phase": "Completed"}, "succeeded": 2})
        world.stop_playing.add("small")
        await live(world, 30)
        assert world.where()["large"] == "c"


async def test_a_queue_has_its_limit_also_when_the_hub_starts_again_and_members_are_slow():
    async with fleet("a", "b", config=SHARES) as world:
        world.queue("q", capability={"cpu": "1000", "nvidia.com/gpu": "8"})
        for name in ("a", "b"):
            world.join(name, [node("n0", 8)])
        world.start()
        for number in range(4):
            await world.job(f"j{number}", 4, queue="q")
        await world.run(30)
        before = world.where()
        assert (held(world), sum(map(bool, before.values()))) == ({"q": 8}, 2)
        # No member has made a pod yet: all that the new hub knows is where it sent the jobs.
        for lost in ("", "a"):
            await world.stop()
            if lost:
                world.lose(lost)
            world.start()
            await world.run(30)
            assert (held(world), world.where()) == ({"q": 8}, before)
        world.find("a")
        await live(world, 30)
        assert (held(world), world.where()) == ({"q": 8}, before)


async def test_a_gang_over_members_counts_in_its_queue_and_gives_it_back():
    async with fleet("a", "b", config=SHARES) as world:
        world.queue("q", capability={"cpu": "1000", "nvidia.com/gpu": "8"})
        world.join("a", [node("n0", 4)])
        world.join("b", [node("n0", 4), node("n1", 4)])
        world.start()
        await world.hyper("llm", {"name": "stage", "pods": 4, "replicas": 2, "queue": "q"})
        await live(world, 30)
        await world.job("next", 4, queue="q")
        await live(world, 30)
        assert world.where()["next"] == ""
        for name in ("llm-stage-0", "llm-stage-1"):
            world.say(world.where()[name], name, {"state": {"phase": "Completed"}, "succeeded": 4})
            world.stop_playing.add(name)
        await live(world, 60)
        assert world.where()["next"] != ""


async def test_forty_jobs_outlive_the_loss_of_a_member_and_run_once_each():
    names = ("a", "b", "c", "d")
    async with fleet(*names) as world:
        for name in names:
            world.join(name, [node(f"n{number}", 8) for number in range(2)])
        world.start()
        for number in range(40):
            movable = {WORKER_LOST_TIMEOUT: "1m"} if number % 4 else {WORKER_LOST_TIMEOUT: "24h"}
            await world.job(f"j{number:02}", 1, annotations=movable)
        await live(world, 40)
        before = world.where()
        assert all(before.values())
        lost = max(names, key=lambda name: sum(cluster == name for cluster in before.values()))
        there = {name for name, cluster in before.items() if cluster == lost}
        stay = {name for name in there if int(name[1:]) % 4 == 0}
        assert stay < there
        old = set(world.copies()[lost])
        world.lose(lost)
        # A probe, 30 seconds until it counts as lost, and the timeout of the jobs.
        await live(world, 150)
        after = world.where()
        assert {name for name in before if before[name] != after[name]} == there - stay
        assert all(after[name] not in ("", lost) for name in there - stay)
        assert dispatches(world) == {name: 3 if name in there - stay else 1 for name in before}
        assert_nothing_twice(world, but=lost)
        assert set(world.copies()[lost]) == old
        world.find(lost)
        taken = await first_work(world, lost)
        assert set(world.copies()[lost]) - taken == stay
        assert world.where() == after
        assert_nothing_twice(world)
        assert dispatches(world) == {name: 3 if name in there - stay else 1 for name in before}


async def first_work(world: World, member: str) -> set[str]:
    """Time passes until a member takes work; no copy is older than its job then. Answers what came since."""
    for _ in range(60):
        await world.run(1)
        world.play()
        if world.hub.members_state.is_open(member):
            break
    placements = {job.metadata.name: placement_of(job) for job in world.hub_client.objects(JOBS)}
    left = world.members[member].objects(JOBS)
    assert all(placements[job.metadata.name].cluster == member for job in left)
    before = {job.metadata.name for job in left}
    await live(world, 30)
    return set(world.copies()[member]) - before


def ended(world: World, name: str) -> bool:
    return world.hub_client.find(JOBS, f"default/{name}").status.state.phase == "Completed"


def dispatches(world: World) -> dict[str, int]:
    return {job.metadata.name: placement_of(job).generation for job in world.hub_client.objects(JOBS)}


def assert_nothing_twice(world: World, but: str = "") -> None:
    copies = Counter(name for cluster, found in world.copies().items() if cluster != but for name in found)
    assert not [name for name, number in copies.items() if number > 1]


async def test_the_rate_of_evictions_is_bounded_over_all_members():
    """``eviction-guard`` counts pods of all members: of four victims two are taken back in its window."""
    guard = {"name": "eviction-guard", "arguments": {"eviction-guard.maxPerWindow": 4, "eviction-guard.window": "5m"}}
    plugins = [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}, guard]
    rest = [{"name": "predicates"}, {"name": "proportion"}]
    actions = "enqueue, allocate, preempt, backfill"
    config = json.dumps({"actions": actions, "tiers": [{"plugins": plugins}, {"plugins": rest}]})
    async with fleet("a", "b", config=config) as world:
        for name, value in (("high", 1000), ("low", 1)):
            world.hub_client.put(PRIORITY_CLASSES, PriorityClass(metadata=ObjectMeta(name=name), value=value))
        for name in "ab":
            world.join(name, [node("n", 4)])
        world.start()
        await world.run(10)
        for number in range(4):
            await world.job(f"low{number}", 2, priorityClassName="low")
        await world.run(5)
        world.play()
        await world.tell_running()
        await world.run(5)
        for number in range(2):
            await world.job(f"high{number}", 4, priorityClassName="high")
        for _ in range(15):
            await world.run(2)
            world.play()
        placed = {name for name, cluster in world.where().items() if cluster}
        assert len(placed & {"high0", "high1"}) == 1
        assert len(placed & {f"low{number}" for number in range(4)}) == 2
