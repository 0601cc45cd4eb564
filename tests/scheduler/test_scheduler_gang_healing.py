"""A gang of which some binds failed: its places stay taken until it is whole, or it is given back in bounded time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from scheduler_world import fill, group, world

from support.memory import MemoryClient
from unisono.api.kinds import EVENTS, NODES, POD_GROUPS, PODS
from unisono.cluster.status import TaskStatus
from unisono.errors import ApiError, Unavailable


class Refusing:
    """Refuses binds of one pod, the first ``times`` of them."""

    def __init__(self, client: MemoryClient, pod: str, times: int, error: ApiError) -> None:
        self.client, self.pod, self.left, self.error = client, pod, times, error
        self.tries: list[float] = []
        client.interceptor = self

    def __call__(self, operation: str, resource: str, namespace: str, name: str) -> None:
        if operation == "bind" and name == self.pod:
            self.tries.append(self.client.clock.monotonic())
            if self.left > 0:
                self.left -= 1
                raise self.error


FORBIDDEN = ApiError("not now", code=403, reason="Forbidden")
BROKEN = ApiError("etcd is slow", code=500, reason="InternalError")
BUSY = Unavailable("busy")


@pytest.mark.parametrize("error", [FORBIDDEN, BROKEN, BUSY], ids=["refused", "broken", "busy"])
async def test_the_place_of_a_missing_member_is_kept_from_jobs_that_wait_for_it(error: ApiError) -> None:
    client = MemoryClient()
    # One node with two places: whoever gets the second one keeps the other from starting.
    fill(client, nodes=1, gangs={"b-gang": 2, "c-waits": 1})
    refusing = Refusing(client, "b-gang-1", 5, error)
    async with world(client, gang_patience=60.0) as it:
        await it.run(0.1)
        # A smaller job that sorts before the gang comes while the gang is incomplete.
        fill(client, nodes=0, gangs={"a-late": 1})
        it.nudge()
        await it.run(30)
        assert it.nodes_of("b-gang") == {"b-gang-0": "n0", "b-gang-1": "n0"}
        assert it.nodes_of("a-late") == {"a-late-0": None}
        assert len(refusing.tries) == 6


async def test_tries_come_slower_and_slower() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 2})
    # Five pauses, each of up to twice the one before: a sixth would meet the cap, where jitter alone decides.
    refusing = Refusing(client, "a-1", 5, FORBIDDEN)
    async with world(client, gang_patience=120.0) as it:
        await it.run(40)
        assert None not in it.nodes_of().values()
        assert len(refusing.tries) == 6
        gaps = [after - before for before, after in pairwise(refusing.tries)]
        assert gaps[0] < 0.5 and gaps == sorted(gaps)


async def test_a_place_that_never_works_is_given_up_and_the_gang_is_back_after_its_patience() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"b-gang": 2})
    Refusing(client, "b-gang-1", 10_000, FORBIDDEN)
    async with world(client, gang_patience=30.0) as it:
        await it.run(5)
        assert it.scheduler.feed.state.tasks["team/b-gang-1"].status is TaskStatus.BINDING
        await it.run(40)
        assert {write.key for write in it.writes("delete", "pods")} == {"team/b-gang-0"}
        assert "GangReleased" in {event.reason for event in client.objects(EVENTS)}


async def test_a_node_that_goes_takes_the_place_along_and_the_member_goes_elsewhere() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 2})
    refusing = Refusing(client, "a-1", 10_000, FORBIDDEN)
    async with world(client, gang_patience=120.0) as it:
        await it.run(0.1)
        assert it.nodes_of() == {"a-0": "n0", "a-1": None}
        fill(client, nodes=3, gangs={})
        client.remove(NODES, "n0")
        refusing.left = 0
        await it.run(10)
        assert it.nodes_of("a-1")["a-1"] in ("n1", "n2")


async def test_a_missing_member_that_is_deleted_frees_its_place() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 2, "b": 1})
    Refusing(client, "a-1", 10_000, FORBIDDEN)
    async with world(client, gang_patience=120.0) as it:
        await it.run(1)
        assert it.nodes_of("b") == {"b-0": None}
        client.remove(PODS, "team/a-1")
        await it.run(10)
        assert it.nodes_of("b") == {"b-0": "n0"}


async def test_a_gang_that_stands_without_the_member_holds_nothing_for_it() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 2, "b": 1})
    client.put(POD_GROUPS, group("a", 1))
    Refusing(client, "a-1", 10_000, FORBIDDEN)
    async with world(client, gang_patience=60.0) as it:
        await it.run(30)
        assert it.scheduler.feed.state.tasks["team/a-1"].status is TaskStatus.PENDING
        assert it.writes("delete", "pods") == []


async def test_a_gang_none_of_whose_binds_worked_holds_nothing() -> None:
    client = MemoryClient()
    fill(client, nodes=1, gangs={"a": 2})

    def refuse(operation: str, resource: str, namespace: str, name: str) -> None:
        if operation == "bind" and name.startswith("a-"):
            raise FORBIDDEN

    client.interceptor = refuse
    async with world(client, gang_patience=60.0) as it:
        await it.run(30)
        assert not it.scheduler.feed.state.tasks_on.get("n0")
