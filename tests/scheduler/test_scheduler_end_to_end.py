"""The real engine with its default configuration, from objects in the API to binds and explanations."""

from __future__ import annotations

import json

from scheduler_world import fill, group, node, pod, queue, world

from support.memory import MemoryClient
from unisono.api.annotations import VERDICT
from unisono.api.kinds import EVENTS, NODES, POD_GROUPS, PODS, QUEUES
from unisono.engine import run
from unisono.scheduler.settings import FixedConfig


def real(client: MemoryClient, **options: object):
    return world(client, run, config=FixedConfig(), **options)


def written(client: MemoryClient) -> int:
    """Writes other than the heartbeat."""
    return sum(write.resource != "leases" for write in client.writes)


async def test_a_gang_is_admitted_bound_and_running() -> None:
    client = MemoryClient()
    client.put(QUEUES, queue())
    for name in ("n0", "n1"):
        client.put(NODES, node(name, cpu="4"))
    client.put(POD_GROUPS, group("a", 6, phase="Pending"))
    for index in range(6):
        client.put(PODS, pod(f"a-{index}", "a"))
    async with real(client) as it:
        await it.run(5)
        placed = it.nodes_of()
        assert None not in placed.values()
        assert sorted(placed.values()).count("n0") <= 4 and sorted(placed.values()).count("n1") <= 4  # type: ignore[type-var]
        for name in placed:
            await client.patch(PODS, name, {"status": {"phase": "Running"}}, namespace="team", subresource="status")
        await it.run(5)
        status = client.raw(POD_GROUPS, "team/a")["status"]
        assert (status["phase"], status["running"]) == ("Running", 6)
        assert client.raw(QUEUES, "default")["status"]["allocated"]["cpu"] == "6"
        assert VERDICT not in (client.raw(POD_GROUPS, "team/a")["metadata"].get("annotations") or {})
        quiet = written(client)
        await it.run(120)
        assert written(client) == quiet


async def test_a_gang_that_does_not_fit_says_why_with_numbers_and_starts_when_it_does() -> None:
    client = MemoryClient()
    fill(client, nodes=2, gangs={"a": 9})
    async with real(client) as it:
        await it.run(5)
        assert set(it.nodes_of().values()) == {None}
        raw = client.raw(POD_GROUPS, "team/a")
        verdict = json.loads(raw["metadata"]["annotations"][VERDICT])
        assert verdict["tasksNeeded"] == 9 and verdict["message"]
        conditions = {c["type"]: c for c in raw["status"]["conditions"]}
        assert conditions["Unschedulable"]["reason"] == "NotEnoughResources"
        assert any(character.isdigit() for character in conditions["Unschedulable"]["message"])
        pod_conditions = client.raw(PODS, "team/a-0")["status"]["conditions"]
        assert [c["status"] for c in pod_conditions if c["type"] == "PodScheduled"] == ["False"]
        assert any(e.reason == "FailedScheduling" for e in client.objects(EVENTS))
        await it.run(20)
        quiet = written(client)
        await it.run(60)
        assert written(client) - quiet <= 4
        await client.patch(POD_GROUPS, "a", {"spec": {"minMember": 8}}, namespace="team")
        await it.run(5)
        bound = [name for name, where in it.nodes_of().items() if where]
        assert len(bound) == 8


async def test_gangs_that_fit_only_one_at_a_time_follow_each_other() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 3, "b": 3})
    async with real(client) as it:
        await it.run(5)
        first = {name[0] for name, where in it.nodes_of().items() if where}
        assert len(first) == 1
        (name,) = first
        for index in range(3):
            key = f"{name}-{index}"
            await client.patch(PODS, key, {"status": {"phase": "Succeeded"}}, namespace="team", subresource="status")
        await it.run(5)
        assert all(it.nodes_of().values())


async def test_a_failed_bind_of_a_member_is_healed() -> None:
    from unisono.errors import ApiError

    client = MemoryClient()
    fill(client, nodes=2, gangs={"a": 6})
    failures = [3]

    def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
        if operation == "bind" and name in ("a-2", "a-4") and failures[0] > 0:
            failures[0] -= 1
            raise ApiError("no", code=403, reason="Forbidden")

    client.interceptor = refuse
    async with real(client) as it:
        await it.run(20)
        placed = list(it.nodes_of().values())
        assert None not in placed
        assert placed.count("n0") <= 4 and placed.count("n1") <= 4


async def test_a_scheduler_that_is_restarted_at_any_moment_binds_everything_once() -> None:
    for moment in (0.0, 0.02, 0.021, 0.03, 0.05):
        client = MemoryClient()
        fill(client, nodes=4, gangs={"a": 5, "b": 5, "c": 6})
        async with real(client) as it:
            await it.run(moment)
        async with real(client) as it:
            await it.run(20)
            placed = it.nodes_of()
            assert None not in placed.values()
            assert max(list(placed.values()).count(f"n{index}") for index in range(4)) <= 4
            bound = [write.key for write in it.writes("bind", "pods")]
            assert len(bound) == len(set(bound)) == 16
