from __future__ import annotations

from itertools import pairwise

import pytest
from scheduler_world import SlotEngine, fill, world

from support.memory import MemoryClient
from support.virtual_clock import settle
from unisono.api.kinds import EVENTS, NODES, PODS
from unisono.cluster.status import TaskStatus
from unisono.engine.decisions import Eviction
from unisono.errors import ApiError, Unavailable


def reasons(client: MemoryClient) -> list[tuple[str | None, str | None]]:
    return sorted((event.reason, event.involved_object.name) for event in client.objects(EVENTS))


async def test_a_bound_pod_has_an_event() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1})
    async with world(client) as it:
        await it.run()
        (event,) = client.objects(EVENTS)
        assert (event.reason, event.message) == ("Scheduled", "Successfully assigned team/a-0 to n0")


@pytest.mark.parametrize("times", [1, 3])
async def test_a_busy_server_gets_the_same_bind_again_and_the_place_is_kept(times: int) -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 2, "b": 1})
    left = [times]

    def busy(operation: str, resource: str, namespace: str, name: str) -> None:
        if operation == "bind" and name == "a-0" and left[0] > 0:
            left[0] -= 1
            raise Unavailable("busy")

    client.interceptor = busy
    async with world(client) as it:
        await it.run(20)
        assert it.nodes_of() == {"a-0": "n0", "a-1": "n0", "b-0": None}
        assert it.nodes_of("b") == {"b-0": None}


async def test_a_bind_whose_answer_was_lost_is_not_done_twice() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1})
    lost = [True]
    original = client.bind

    async def bind(*args: object, **options: object) -> None:
        await original(*args, **options)  # type: ignore[arg-type]
        if lost.pop() if lost else False:
            raise Unavailable("connection lost")

    client.bind = bind  # type: ignore[method-assign,assignment]
    async with world(client) as it:
        await it.run(20)
        assert len(it.writes("bind", "pods")) == 1
        assert it.nodes_of() == {"a-0": "n0"}
        assert ("Scheduled", "a-0") in reasons(client)


async def test_a_pod_that_someone_else_bound_stays_where_it_is() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 1})

    def elsewhere(operation: str, resource: str, namespace: str, name: str) -> None:
        if operation == "bind":
            client.interceptor = None
            value = client.find(PODS, "team/a-0")
            assert value is not None
            value.spec.node_name = "n1"
            client.put(PODS, value)

    client.interceptor = elsewhere
    async with world(client) as it:
        await it.run(5)
        assert it.nodes_of() == {"a-0": "n1"}
        task = it.scheduler.feed.state.tasks["team/a-0"]
        assert (task.node, task.status) == ("n1", TaskStatus.BOUND)


async def test_a_pod_deleted_before_its_bind_frees_its_place() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})

    def gone(operation: str, *_: str) -> None:
        if operation == "bind":
            client.interceptor = None
            client.remove(PODS, "team/a-0")

    client.interceptor = gone
    async with world(client) as it:
        await it.run(5)
        assert "team/a-0" not in it.scheduler.feed.state.tasks
        assert not it.scheduler.feed.state.tasks_on.get("n0")


async def test_a_refused_bind_is_placed_again_at_once_then_with_back_off() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 2})
    tries: list[float] = []

    def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
        if operation == "bind" and name == "a-1":
            tries.append(client.clock.monotonic())
            if len(tries) < 4:
                raise ApiError("admission said no", code=403, reason="Forbidden")

    client.interceptor = refuse
    async with world(client) as it:
        await it.run(30)
        assert None not in it.nodes_of().values()
        assert tries[1] - tries[0] < 0.5
        gaps = [after - before for before, after in pairwise(tries)]
        assert gaps == sorted(gaps) and len(tries) == 4
        failed = [e for e in client.objects(EVENTS) if e.reason == "FailedScheduling"]
        assert failed[0].message == "failed to bind to node n0: admission said no"


async def test_half_a_gang_is_given_back_after_its_patience() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 3, "b": 1})

    def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
        if operation == "bind" and name == "a-2":
            raise ApiError("never", code=403, reason="Forbidden")

    client.interceptor = refuse
    async with world(client, gang_patience=20.0) as it:
        await it.run(15)
        assert it.nodes_of("a") == {"a-0": "n0", "a-1": "n0", "a-2": None}
        await it.run(10)
        removed = {write.key for write in it.writes("delete", "pods")}
        assert removed == {"team/a-0", "team/a-1"}
        assert ("GangReleased", "a") in reasons(client)
        for key in ("team/a-0", "team/a-1"):
            found = client.find(PODS, key)
            assert found is not None
            conditions = {c.type: c.status for c in found.status.conditions or ()}
            assert conditions["DisruptionTarget"] == "True"


async def test_a_gang_left_half_bound_by_a_crash_is_completed_after_the_restart() -> None:
    client = MemoryClient()
    fill(client, gangs={"a": 3})
    await client.bind("team", "a-1", "n1")
    async with world(client) as it:
        await it.run()
        assert it.nodes_of() == {"a-0": "n0", "a-1": "n1", "a-2": "n0"}


async def test_a_gang_left_half_bound_that_cannot_be_completed_is_given_back() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 3})
    await client.bind("team", "a-1", "n0")
    async with world(client, gang_patience=20.0) as it:
        await it.run(30)
        assert [write.key for write in it.writes("delete", "pods")] == ["team/a-1"]


async def test_a_running_member_is_never_given_back() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 3})
    await client.bind("team", "a-1", "n0")
    await client.patch(PODS, "a-1", {"status": {"phase": "Running"}}, namespace="team", subresource="status")
    async with world(client, gang_patience=20.0) as it:
        await it.run(60)
        assert it.writes("delete", "pods") == []


async def test_binds_of_one_cycle_are_bounded_in_number() -> None:
    client = MemoryClient()
    fill(client, nodes=20, gangs={"a": 40})
    under_way, most = [0], [0]
    original = client.bind

    async def bind(*args: object, **options: object) -> None:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        await client.clock.sleep(0.5)
        await original(*args, **options)  # type: ignore[arg-type]
        under_way[0] -= 1

    client.bind = bind  # type: ignore[method-assign,assignment]
    async with world(client, bind_concurrency=8) as it:
        await it.run(10)
        assert None not in it.nodes_of().values()
        assert most[0] == 8


async def test_assumed_places_are_not_given_twice_while_binds_are_slow() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 2})
    original = client.bind

    async def bind(*args: object, **options: object) -> None:
        await client.clock.sleep(5)
        await original(*args, **options)  # type: ignore[arg-type]

    client.bind = bind  # type: ignore[method-assign,assignment]
    async with world(client) as it:
        await it.run(1)
        fill(client, nodes=1, gangs={"b": 1})
        await it.run(20)
        assert it.nodes_of() == {"a-0": "n0", "a-1": "n0", "b-0": None}


async def test_evictions_name_their_beneficiary_and_happen_once() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 1})
    engine = SlotEngine()

    def evict(snapshot: object, decisions: object) -> None:
        task = snapshot.tasks.get("team/a-0")  # type: ignore[attr-defined]
        if task is not None and task.node:
            decisions.evictions.append(  # type: ignore[attr-defined]
                Eviction("team", "a-0", task.uid, task.node, "preempt", "team/b")
            )

    engine.extra = evict
    async with world(client, engine) as it:
        await it.run(2)
        client.put(NODES, client.objects(NODES)[0])
        await settle()
        await it.run(2)
        assert [write.key for write in it.writes("delete", "pods")] == ["team/a-0"]
        found = client.find(PODS, "team/a-0")
        assert found is not None and found.metadata.deletion_timestamp
        (event,) = [event for event in client.objects(EVENTS) if event.reason == "Evict"]
        assert event.message == "Pod is evicted, because of preempt for team/b"
