from __future__ import annotations

from typing import Any

import msgspec
import pytest
from job_world import World, job, task

from unisono.api.base import ObjectMeta, OwnerReference
from unisono.api.groups.batch import Command
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.kinds import COMMANDS, POD_GROUPS, QUEUES
from unisono.controllers.queue import count_groups, decide, next_state


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize(
    ("state", "opened", "closed", "synced"),
    [
        ("", "Open", "Closing|Closed", "Open"),
        ("Open", "Open", "Closing|Closed", "Open"),
        ("Closed", "Open", "Closed", "Closed"),
        ("Closing", "Open", "Closing|Closed", "Closing|Closed"),
        ("Unknown", "Open", "Closing|Closed", "Unknown"),
        ("Strange", "Open", "Closing|Closed", "Unknown"),
    ],
)
def test_queue_states(state, opened, closed, synced, busy):
    def pick(text: str) -> str:
        return text.split("|")[0 if busy else -1]

    assert next_state(state, "OpenQueue", busy) == pick(opened)
    assert next_state(state, "CloseQueue", busy) == pick(closed)
    assert next_state(state, "Bogus", busy) == pick(synced)


def queue(name: str, parent: str = "root", state: str = "Open", **annotations: str) -> Queue:
    value = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"parent": parent},
        "status": {"state": state},
    }
    return msgspec.convert(value, Queue)


def group(phase: str | None, name: str = "g", queue: str = "q") -> PodGroup:
    value: dict[str, Any] = {"metadata": {"name": name, "namespace": "default"}, "spec": {"queue": queue}}
    return msgspec.convert(value | {"status": {"phase": phase} if phase else {}}, PodGroup)


def order(action: str) -> Command:
    target = OwnerReference(api_version=QUEUES.api_version, kind="Queue", name="q", uid="")
    return Command(metadata=ObjectMeta(name="c", namespace="default"), action=action, target=target)


def test_counts_by_phase():
    groups = [group(None), group("Pending"), group("Inqueue"), group("Running"), group("Completed"), group("Odd")]
    assert count_groups(groups) == {"pending": 2, "inqueue": 1, "running": 1, "completed": 1, "unknown": 1}


@pytest.mark.parametrize(
    ("state", "by_parent", "parent_state", "action", "after", "after_by_parent"),
    [
        ("Open", None, "Open", None, "Open", None),
        ("Open", None, "Closed", None, "Closed", "true"),
        ("Closed", "true", "Open", None, "Open", "false"),
        ("Closed", None, "Open", None, "Closed", None),
        ("Closed", "true", "Closing", "OpenQueue", "Closed", None),
        ("Closed", "true", "Open", "OpenQueue", "Open", "false"),
        ("Open", None, "Open", "CloseQueue", "Closed", None),
        ("Closed", None, "Open", "OpenQueue", "Open", None),
    ],
)
def test_queues_follow_their_parent(state, by_parent, parent_state, action, after, after_by_parent):
    annotations = {"volcano.sh/closed-by-parent": by_parent} if by_parent else {}
    plan = decide(
        queue("q", "p", state, **annotations), queue("p", state=parent_state), [], [order(action)] if action else []
    )
    assert plan.status.get("state", state) == after
    written = plan.patch.get("metadata", {}).get("annotations", {}).get("volcano.sh/closed-by-parent")
    assert written == after_by_parent
    assert len(plan.commands) == bool(action)


def test_opening_below_a_closed_parent_is_refused_in_words():
    plan = decide(queue("q", "p", "Closed"), queue("p", state="Closed"), [], [order("OpenQueue")])
    assert plan.events == [
        (
            "Warning",
            "OpenQueue",
            "Failed to open queue q because its parent queue p is closing or closed. Open the parent queue first.",
        )
    ]


def test_root_stays_open():
    plan = decide(queue("root", ""), None, [], [order("CloseQueue")])
    assert plan.status == {}
    assert plan.patch == {}
    assert plan.events[0][0] == "Warning"


def test_finished_work_does_not_keep_a_queue_from_closing():
    assert decide(queue("q", state="Closing"), None, [group("Completed")]).status["state"] == "Closed"
    assert "state" not in decide(queue("q", state="Closing"), None, [group("Running")]).status


async def test_root_and_default_are_made_at_the_start_and_left_alone_later():
    async with World() as world:
        made = {q.metadata.name: q for q in world.client.objects(QUEUES)}
        assert set(made) == {"root", "default"}
        assert (made["root"].spec.reclaimable, made["root"].spec.weight, made["root"].spec.parent) == (False, 1, None)
        assert (made["default"].spec.reclaimable, made["default"].spec.parent) == (True, "root")
        assert {q.status.state for q in made.values()} == {"Open"}
        before = len(world.client.writes)
        await world.restart()
        assert len(world.client.writes) == before


async def test_a_new_queue_gets_a_parent_a_state_and_counts():
    async with World() as world:
        await world.client.create(QUEUES, Queue(metadata=ObjectMeta(name="q")))
        await world.settle()
        found = world.client.find(QUEUES, "q")
        assert (found.spec.parent, found.status.state) == ("root", "Open")
        await world.submit(job(task("a", 1), queue="q"))
        assert world.client.find(QUEUES, "q").status.pending == 1
        await world.admit()
        assert world.client.find(QUEUES, "q").status.pending == 1, "counts are written once a second"
        await world.client.clock.advance(1)
        await world.settle()
        status = world.client.find(QUEUES, "q").status
        assert (status.pending, status.inqueue) == (0, 1)
        await world.all_pods("Succeeded")
        await world.client.clock.advance(1)
        await world.settle()
        status = world.client.find(QUEUES, "q").status
        assert (status.pending, status.inqueue, status.completed) == (0, 0, None)


async def test_what_the_scheduler_wrote_is_kept():
    async with World() as world:
        await world.client.create(QUEUES, Queue(metadata=ObjectMeta(name="q")))
        await world.settle()
        await world.client.patch(QUEUES, "q", {"status": {"allocated": {"cpu": "3"}}}, subresource="status")
        await world.submit(job(task("a", 1), queue="q"))
        assert world.client.find(QUEUES, "q").status.allocated == {"cpu": "3"}


async def send(world: World, action: str, name: str) -> None:
    target = OwnerReference(
        api_version=QUEUES.api_version, kind="Queue", name=name, uid=world.client.find(QUEUES, name).metadata.uid
    )
    meta = ObjectMeta(generate_name="c-", namespace="default")
    await world.client.create(COMMANDS, Command(metadata=meta, action=action, target=target))
    await world.settle()


async def test_closing_and_opening_goes_down_the_hierarchy():
    def states(world: World) -> list[str | None]:
        return [world.client.find(QUEUES, name).status.state for name in ("q1", "q11", "q2")]

    async with World() as world:
        for name, parent in (("q1", None), ("q11", "q1"), ("q2", None)):
            value = {"metadata": {"name": name}, "spec": {"parent": parent} if parent else {}}
            await world.client.create(QUEUES, msgspec.convert(value, Queue))
        await world.settle()
        await send(world, "CloseQueue", "q1")
        assert states(world) == ["Closed", "Closed", "Open"]
        await send(world, "OpenQueue", "q11")
        assert states(world) == ["Closed", "Closed", "Open"]
        await send(world, "OpenQueue", "q1")
        assert states(world) == ["Open", "Open", "Open"]
        assert world.client.objects(COMMANDS) == []


async def test_a_closing_queue_is_closed_when_its_last_job_goes():
    async with World() as world:
        await world.client.create(QUEUES, Queue(metadata=ObjectMeta(name="q")))
        await world.submit(job(task("a", 1), queue="q"))
        await send(world, "CloseQueue", "q")
        assert world.client.find(QUEUES, "q").status.state == "Closing"
        await world.admit()
        await world.all_pods("Succeeded")
        assert world.client.find(QUEUES, "q").status.state == "Closed"


async def test_a_closed_state_written_by_hand_stays():
    async with World() as world:
        await world.client.create(QUEUES, Queue(metadata=ObjectMeta(name="q")))
        await world.settle()
        await world.client.patch(QUEUES, "q", {"status": {"state": "Closed"}}, subresource="status")
        await world.settle()
        await world.client.create(POD_GROUPS, group("Running", "g", "q"))
        await world.settle()
        assert world.client.find(QUEUES, "q").status.state == "Closed"
