"""Faults are written into the books of nodes, once, and have nodes checked or taken out."""

from __future__ import annotations

from typing import Any

from controller_world import ControllerWorld
from unreliable import Fault, every_write_once

from support.build import node, node_check, pod
from unisono.api.base import ObjectMeta
from unisono.api.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Event,
    EventSource,
    NodeCondition,
    ObjectReference,
)
from unisono.api.kinds import EVENTS, NODE_CHECKS, NODES, PODS
from unisono.api.node_checks import book_of, quarantined_by
from unisono.api.node_faults import faults_of
from unisono.api.times import rfc3339
from unisono.controllers.node_checks.controller import NodeCheckController
from unisono.controllers.node_faults import NodeFaultsController
from unisono.kube.controller import Controller


class World(ControllerWorld):
    def make_controllers(self) -> list[Controller]:
        return [NodeFaultsController(self.recorder), NodeCheckController(self.recorder)]

    async def begin(self, **spec: Any) -> None:
        self.client.put(NODES, node("n0", gpu=8))
        if spec:
            await self.client.create(NODE_CHECKS, node_check(**spec))
        await self.advance(3)

    async def condition(self, kind: str, status: str = "True") -> None:
        there = await self.client.get(NODES, "n0")
        made = NodeCondition(type=kind, status=status, last_transition_time=rfc3339(self.clock.time()))
        others = [one for one in there.status.conditions or () if one.type != kind]
        there.status.conditions = [*others, made]
        self.client.put(NODES, there)
        await self.advance(5)

    async def warn(self, reason: str, name: str = "e") -> None:
        told = Event(
            metadata=ObjectMeta(name=name, namespace="default"),
            involved_object=ObjectReference(kind="Node", name="n0"),
            type="Warning",
            reason=reason,
            source=EventSource(component="npd"),
            last_timestamp=rfc3339(self.clock.time()),
        )
        self.client.put(EVENTS, told)
        await self.advance(5)

    async def fail(
        self, job: str, number: int, *, deleted: bool = False, reason: str | None = None, namespace: str = "default"
    ) -> None:
        there = pod(f"{job}-{number}", job, node="n0", phase="Running", namespace=namespace, cpu=1)
        self.client.put(PODS, there)
        await self.advance(1)
        end = ContainerStateTerminated(exit_code=1, finished_at=rfc3339(self.clock.time()))
        there.status.container_statuses = [ContainerStatus(name="main", state=ContainerState(terminated=end))]
        there.status.phase, there.status.reason = "Failed", reason
        there.metadata.deletion_timestamp = rfc3339(self.clock.time()) if deleted else None
        self.client.put(PODS, there)
        await self.advance(5)

    async def book(self) -> dict[str, float]:
        there = await self.client.get(NODES, "n0")
        return {name: round(one.number, 2) for name, one in faults_of(there.metadata.annotations).items()}

    async def stands(self) -> tuple[str, str]:
        there = await self.client.get(NODES, "n0")
        mark = book_of(there.metadata.annotations).get("gpus")
        return (mark.state if mark else "", quarantined_by(there.spec.taints))


async def test_conditions_and_events_count_each_time_they_come() -> None:
    async with World() as it:
        await it.begin()
        await it.condition("XIDErrors")
        await it.condition("XIDErrors", "False")
        assert await it.book() == {"xid": 1.0}
        await it.condition("XIDErrors")
        await it.warn("LinkFlapping")
        await it.warn("LinkFlapping")
        assert await it.book() == {"xid": 2.0, "link": 2.0}
        assert len(it.recorder.of("NodeFault")) == 4


async def test_what_is_known_is_not_counted_again_by_one_that_starts() -> None:
    async with World() as it:
        await it.begin()
        await it.condition("XIDErrors")
        await it.warn("EccError")
        await it.restart()
        await it.advance(5)
        assert await it.book() == {"xid": 1.0, "ecc": 1.0}


async def test_failures_of_a_namespace_count_once_a_day_and_only_where_there_is_a_check() -> None:
    async with World() as it:
        await it.begin()
        await it.fail("early", 0)
        assert await it.book() == {}
        await it.client.create(NODE_CHECKS, node_check(when=["AfterFault"]))
        await it.advance(3)
        for number in range(3):
            await it.fail("again", number)
            await it.advance(100)
        await it.fail("other", 0)
        assert await it.book() == {"job-failure": 1.0}
        await it.fail("other", 0, namespace="others")
        assert await it.book() == {"job-failure": 2.0}
        await it.advance(86_400)
        await it.fail("another", 0)
        assert await it.book() == {"job-failure": 2.0}


async def test_no_namespace_alone_takes_nodes_out_by_jobs_that_fail() -> None:
    async with World() as it:
        await it.begin(when=[], quarantine_after_faults=3)
        for number in range(20):
            await it.fail(f"j{number}", 0)
            await it.advance(7200)
        assert await it.stands() == ("", "")
        await it.fail("theirs", 0, namespace="a")
        await it.fail("theirs", 0, namespace="b")
        assert await it.stands() == ("Failed", "gpus")


async def test_pods_that_are_deleted_or_evicted_or_out_of_time_say_nothing_about_their_node() -> None:
    async with World() as it:
        await it.begin(when=["AfterFailure", "AfterFault"])
        await it.fail("stopped", 0, deleted=True)
        await it.fail("evicted", 0, reason="Evicted")
        await it.fail("late", 0, reason="DeadlineExceeded")
        assert await it.book() == {}
        assert await it.stands() == ("", "")
        await it.fail("broken", 0)
        assert await it.book() == {"job-failure": 1.0}
        assert await it.stands() == ("Checking", "")


async def test_a_fault_has_the_node_checked() -> None:
    async with World() as it:
        await it.begin(when=["AfterFault"])
        assert await it.stands() == ("", "")
        await it.condition("XIDErrors")
        assert await it.stands() == ("Checking", "")


async def test_many_faults_take_a_node_out_and_who_lifts_that_begins_anew() -> None:
    async with World() as it:
        await it.begin(when=[], quarantine_after_faults=2)
        await it.warn("XIDError")
        assert await it.stands() == ("", "")
        await it.warn("XIDError")
        assert await it.stands() == ("Failed", "gpus")
        (told,) = it.recorder.of("NodeQuarantined")
        assert told.startswith("faults were told of it: xid=2@")
        await it.client.patch(NODES, "n0", {"spec": {"taints": None}})
        await it.advance(5)
        assert await it.stands() == ("Lifted", "")
        assert await it.book() == {"xid": 0.2}
        await it.warn("XIDError")
        assert await it.stands() == ("Lifted", "")


async def test_a_write_that_fails_loses_nothing() -> None:
    for fault in Fault:
        async with World() as it:
            await it.begin()
            it.client.faults = every_write_once(fault)
            await it.condition("XIDErrors")
            await it.advance(30)
            assert await it.book() == {"xid": 1.0}
