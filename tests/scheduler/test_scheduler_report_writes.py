"""How many writes a gang costs the scheduler that comes, gets its pods and places, and runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from scheduler_world import SlotEngine, fill, group, world

from support.memory import MemoryClient
from support.virtual_clock import VirtualClock
from unisono.api.annotations import VERDICT
from unisono.api.kinds import POD_GROUPS
from unisono.cluster.snapshot import Snapshot
from unisono.engine.decisions import Condition, Decisions, PodCondition, PodGroupUpdate
from unisono.engine.verdict import Cause, Verdict
from unisono.kube.pace import WritePace
from unisono.scheduler.metrics import Metrics
from unisono.scheduler.outbox import Outbox


class Story:
    """What the engine says of the gang ``team/a``; a test changes it as the story goes on."""

    def __init__(self, phase: str, cause: Cause | None = None, running: int = 0) -> None:
        self.phase, self.cause, self.running = phase, cause, running
        self.engine = SlotEngine(slots=0)
        self.engine.extra = self.say

    def say(self, snapshot: Snapshot, decisions: Decisions) -> None:
        conditions: tuple[Condition, ...] = (Condition("Scheduled", "True", "tasks in gang are ready", ""),)
        if self.cause is not None:
            conditions = (Condition("Unschedulable", "True", "NotEnoughTasks", str(self.cause)),)
            decisions.verdicts["team/a"] = Verdict(job="team/a", cause=self.cause, message="it waits")
            for task in snapshot.tasks.values():
                decisions.pod_conditions.append(
                    PodCondition(task.namespace, task.name, task.uid, "Unschedulable", "it waits")
                )
        uid = snapshot.jobs["team/a"].uid
        decisions.pod_groups.append(PodGroupUpdate("team", "a", uid, self.phase, self.running, 0, 0, conditions))

    async def tell(self, it: Any, seconds: float, **changes: Any) -> list[dict[str, Any]]:
        for name, value in changes.items():
            setattr(self, name, value)
        it.nudge()
        await it.run(seconds)
        return [write.body for write in it.writes("patch", "podgroups")]


def gang(pods: int, phase: str) -> MemoryClient:
    client = MemoryClient()
    fill(client, gangs={"a": pods})
    client.put(POD_GROUPS, group("a", 2, phase=phase))
    return client


@pytest.mark.parametrize(("pods", "cause"), [(0, Cause.NO_PODS), (1, Cause.TOO_FEW_PODS)])
async def test_a_gang_whose_pods_are_being_made_is_told_its_admission_and_nothing_else(pods: int, cause: Cause) -> None:
    client, story = gang(pods, "Pending"), Story("Inqueue", cause)
    async with world(client, story.engine) as it:
        (write,) = await story.tell(it, 3.0)
        assert write["status"]["phase"] == "Inqueue"
        assert not write["status"]["conditions"] and "annotations" not in write["metadata"]
        assert it.writes("patch", "pods") == []
        assert len(await story.tell(it, 10.0)) == 2, "the pods did not come: that is news"
        raw = client.raw(POD_GROUPS, "team/a")
        assert VERDICT in raw["metadata"]["annotations"]
        assert raw["status"]["conditions"][0]["type"] == "Unschedulable"
        assert len(it.writes("patch", "pods")) == pods


@pytest.mark.parametrize(("cause", "patience"), [(Cause.TOO_FEW_PODS, 30.0), (Cause.NODES_FULL, 10.0)])
async def test_in_a_rush_missing_pods_are_told_later_than_a_lack_of_room(cause: Cause, patience: float) -> None:
    client, story = gang(1, "Inqueue"), Story("Inqueue", cause)
    story.engine.extra = lambda *_: None
    async with world(client, story.engine) as it:
        for _ in range(30):
            with client.pace.urgent(), client.pace.write():
                await it.clock.advance(0.4)
        story.engine.extra = story.say
        with client.pace.urgent(), client.pace.write():
            assert await story.tell(it, patience - 1.0) == []
            assert it.writes("patch", "pods") == []
            assert len(await story.tell(it, 2.0)) == 1
            assert len(it.writes("patch", "pods")) == 1


@pytest.mark.parametrize(("cause", "patience"), [(Cause.TOO_FEW_PODS, 30.0), (Cause.NODES_FULL, 1.0)])
async def test_while_pods_of_others_are_bound_missing_pods_are_no_news_on_a_fast_server_either(
    cause: Cause, patience: float
) -> None:
    client, story = gang(1, "Inqueue"), Story("Inqueue", cause)
    async with world(client, story.engine) as it:
        with client.pace.urgent():
            assert not client.pace.rush, "the server is fast"
            assert await story.tell(it, patience - 0.5) == []
            assert it.writes("patch", "pods") == []
            assert len(await story.tell(it, 1.0)) == 1
            assert len(it.writes("patch", "pods")) == 1


async def test_missing_pods_are_told_some_seconds_after_the_last_pod_of_others_was_bound() -> None:
    client, story = gang(1, "Inqueue"), Story("Inqueue", Cause.TOO_FEW_PODS)
    async with world(client, story.engine) as it:
        with client.pace.urgent():
            assert await story.tell(it, 12.0) == []
        assert await story.tell(it, 4.0) == []
        with client.pace.urgent():
            pass
        assert await story.tell(it, 4.5) == [], "one more was bound, after a pause"
        assert len(await story.tell(it, 1.0)) == 1


async def test_a_wish_does_not_inherit_the_haste_of_the_one_whose_place_it_takes() -> None:
    """The admission was written while the next cycle still asked for it; the one after that asks for what can wait."""
    clock, written = VirtualClock(), list[str]()

    async def write(_key: str, wish: str) -> bool:
        written.append(wish)
        return True

    metrics = Metrics(CollectorRegistry())
    outbox: Outbox[str] = Outbox("groups", write, clock, metrics, interval=2.0, pace=WritePace(clock))
    outbox.put("a", "admitted")
    outbox.put("a", "pods are missing", urgent=False, settle=5.0)
    running = asyncio.create_task(outbox.run())
    try:
        await clock.advance(4.0)
        assert written == []
        await clock.advance(2.0)
        assert written == ["pods are missing"]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_who_waits_for_the_cluster_is_told_after_a_moment() -> None:
    client, story = gang(2, "Inqueue"), Story("Inqueue", Cause.NODES_FULL)
    async with world(client, story.engine) as it:
        assert len(await story.tell(it, 2.0)) == 1
        assert len(it.writes("patch", "pods")) == 2


async def test_a_gang_that_gets_its_places_and_runs_costs_one_write() -> None:
    client, story = gang(2, "Inqueue"), Story("Running")
    async with world(client, story.engine) as it:
        await story.tell(it, 0.3)
        await story.tell(it, 0.3, running=1)
        (write,) = await story.tell(it, 2.0, running=2)
        assert (write["status"]["phase"], write["status"]["running"]) == ("Running", 2)


async def test_pods_that_take_seconds_to_start_are_told_with_their_places() -> None:
    client, story = gang(2, "Inqueue"), Story("Running")
    async with world(client, story.engine) as it:
        assert await story.tell(it, 3.0) == []
        assert await story.tell(it, 1.0, running=1) == []
        (write,) = await story.tell(it, 2.0, running=2)
        assert (write["status"]["phase"], write["status"]["running"]) == ("Running", 2)


async def test_places_are_told_when_the_pods_do_not_start() -> None:
    client, story = gang(2, "Inqueue"), Story("Running")
    async with world(client, story.engine) as it:
        (write,) = await story.tell(it, 6.0)
        assert (write["status"]["phase"], write["status"]["running"]) == ("Running", None)
        *_, last = await story.tell(it, 3.0, running=2)
        assert last["status"]["running"] == 2


async def test_a_gang_that_was_said_to_wait_is_told_at_once_that_it_does_not_any_more() -> None:
    client, story = gang(2, "Inqueue"), Story("Inqueue", Cause.NODES_FULL)
    async with world(client, story.engine) as it:
        assert len(await story.tell(it, 3.0)) == 1
        assert len(await story.tell(it, 0.2, phase="Running", cause=None)) == 2
        assert VERDICT not in (client.raw(POD_GROUPS, "team/a")["metadata"].get("annotations") or {})


@pytest.mark.parametrize("removed", [True, False], ids=["its-owner-removes-it", "nobody-removes-it"])
async def test_the_end_of_a_gang_is_told_only_if_its_pod_group_stays(removed: bool) -> None:
    client, story = gang(2, "Running"), Story("Completed")
    async with world(client, story.engine) as it:
        assert await story.tell(it, 0.9) == []
        if removed:
            client.remove(POD_GROUPS, "team/a")
        told = await story.tell(it, 3.0)
        assert [write["status"]["phase"] for write in told] == ([] if removed else ["Completed"])
