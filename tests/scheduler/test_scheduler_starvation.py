"""Jobs that the API server never lets start must not keep others from starting."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from scheduler_world import Fixed, fill, group, node, pod, queue, world

from support.build import config
from support.examples import examples
from support.memory import MemoryClient
from unisono.api.annotations import VERDICT
from unisono.api.base import ObjectMeta
from unisono.api.core import PriorityClass
from unisono.api.kinds import NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES
from unisono.engine import run
from unisono.errors import ApiError

NODE_COUNT, CPUS = 4, 4
PATIENCE = 15.0
BOUND = 3 * PATIENCE + 60.0
"""Longest time in seconds for which jobs that can start may wait for those that cannot."""

TAKING = config(
    ("priority", "gang"),
    ("drf", "predicates", "proportion", "overcommit", "nodeorder"),
    actions="enqueue, allocate, preempt, reclaim, backfill",
)
"""Shares are divided, admission looks at what is promised, and urgent jobs evict others."""


@dataclass
class Story:
    """Jobs that are refused, and jobs that are not.

    Attributes:
        refused: size of each refused gang and what is refused: every pod, its first pod only, or every pod but on one
            node only.
        fine: sizes of the others; together they fit.
        urgent: the refused gangs come first in the order.
        apart: they are in a queue of their own.
        taking: with shares, admission and eviction.

    """

    refused: list[tuple[int, str]]
    fine: list[int]
    urgent: bool = True
    apart: bool = False
    taking: bool = False
    tried: dict[str, int] = field(default_factory=dict)


stories = st.builds(
    Story,
    st.lists(st.tuples(st.integers(1, 12), st.sampled_from(["all", "one", "node"])), min_size=1, max_size=3),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


def submit(client: MemoryClient, name: str, members: int, queue_name: str, priority: str) -> None:
    made = group(name, members)
    made.spec.queue, made.spec.priority_class_name = queue_name, priority
    made.spec.min_resources = {"cpu": str(members)}
    client.put(POD_GROUPS, made)
    for index in range(members):
        client.put(PODS, pod(f"{name}-{index}", name))


class Refusing:
    """An API server whose admission refuses some binds for ever."""

    def __init__(self, story: Story) -> None:
        self.story, self.client = story, MemoryClient()
        self._bind = self.client.bind
        self.client.bind = self.bind  # type: ignore[method-assign,assignment]

    async def bind(self, namespace: str, pod: str, node: str, **options: object) -> None:
        job, _, index = pod.rpartition("-")
        if job.startswith("bad"):
            what = self.story.refused[int(job[3:])][1]
            if what == "all" or (what == "one" and index == "0") or (what == "node" and node == "n0"):
                self.story.tried[job] = self.story.tried.get(job, 0) + 1
                raise ApiError("admission said no", code=403, reason="Forbidden")
        await self._bind(namespace, pod, node, **options)  # type: ignore[arg-type]

    def replace_deleted(self) -> None:
        """Pods that were told to end have ended, and their controller makes new ones."""
        for one in [one for one in self.client.objects(PODS) if one.metadata.deletion_timestamp]:
            self.client.remove(PODS, one.key)
            self.client.put(PODS, pod(one.metadata.name, one.metadata.name.rpartition("-")[0]))


async def play(story: Story) -> None:
    server = Refusing(story)
    client = server.client
    for index in range(NODE_COUNT):
        client.put(NODES, node(f"n{index}", str(CPUS)))
    client.put(QUEUES, queue())
    client.put(QUEUES, queue("other"))
    client.put(PRIORITY_CLASSES, PriorityClass(metadata=ObjectMeta(name="urgent"), value=100))
    for at, (size, what) in enumerate(story.refused):
        where = "other" if story.apart else "default"
        if story.apart and story.taking:
            size = min(size, 4)  # a gang that is larger than its queue's share is never tried, and keeps that share
        if what == "node":
            size = 1  # it starts elsewhere, and there is room for all of them beside the others
        submit(client, f"bad{at}", size, where, "urgent" if story.urgent else "")
    for at, size in enumerate(story.fine):
        submit(client, f"fine{at}", size, "default", "")
    settings_of = Fixed()
    settings_of.config = TAKING if story.taking else config(("priority", "gang"), ("predicates", "nodeorder"))
    waiting = {f"fine{at}" for at in range(len(story.fine))}
    async with world(client, run, config=settings_of, gang_patience=PATIENCE) as it:
        for _ in range(int(BOUND)):
            await it.run(1.0)
            started = it.nodes_of("fine")
            waiting -= {job for job in waiting if all(started[pod] for pod in started if pod.startswith(f"{job}-"))}
            server.replace_deleted()
    assert not waiting, f"{sorted(waiting)} never got a place; tried in vain: {story.tried}"


@pytest.mark.more
@example(Story([(16, "all")], [4, 4, 4]))
@example(Story([(16, "one")], [4, 4, 4]))
@example(Story([(4, "all")], [4, 4, 4], apart=True, taking=True))
@example(Story([(4, "all"), (8, "one")], [3, 2], taking=True))
@settings(
    max_examples=examples(4),
    phases=(Phase.explicit, Phase.generate),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(stories)
def test_no_job_that_is_refused_keeps_others_from_starting(story: Story) -> None:
    asyncio.run(play(story))


async def test_others_get_the_room_of_a_job_that_waits_for_its_next_attempt() -> None:
    server = Refusing(Story([(4, "all")], []))
    client = server.client
    fill(client, nodes=1, gangs={"bad0": 4})
    async with world(client, run, config=default()) as it:
        await it.run(5)
        fill(client, nodes=0, gangs={"late": 4})
        await it.run(2)
        assert set(it.nodes_of("late").values()) == {"n0"}
        assert set(it.nodes_of("bad").values()) == {None}


async def test_the_verdict_says_what_the_server_said_and_when_it_is_tried_again() -> None:
    server = Refusing(Story([(2, "all")], []))
    client = server.client
    fill(client, nodes=1, gangs={"bad0": 2})
    async with world(client, run, config=default()) as it:
        await it.run(12)
        (waits,) = client.objects(POD_GROUPS)
        verdict = json.loads((waits.metadata.annotations or {})[VERDICT])
        assert verdict["cause"] == "BindFailed"
        assert "times in a row, the last time on node n0: admission said no; tried again at " in verdict["message"]
        (condition,) = waits.status.conditions or ()
        assert condition.type == "Unschedulable" and "admission said no" in (condition.message or "")


async def test_a_job_that_is_let_in_at_last_starts_and_is_explained_no_more() -> None:
    story = Story([(2, "all")], [])
    server = Refusing(story)
    client = server.client
    fill(client, nodes=1, gangs={"bad0": 2})
    async with world(client, run, config=default()) as it:
        await it.run(12)
        story.refused[0] = (2, "nothing")
        await it.run(40)
        assert set(it.nodes_of().values()) == {"n0"}
        assert it.scheduler.verdict("team/bad0") is None
        assert not it.scheduler.feed.state.setbacks


@pytest.mark.parametrize("nodes", [1, 2])
async def test_a_node_that_refused_is_used_only_where_no_other_takes_the_job(nodes: int) -> None:
    """The same node would be chosen again for ever."""
    story = Story([(1, "node")], [])
    server = Refusing(story)
    client = server.client
    fill(client, nodes=nodes, gangs={"bad0": 1})
    async with world(client, run, config=default()) as it:
        await it.run(5)
        assert it.nodes_of() == {"bad0-0": "n1" if nodes == 2 else None}
        assert story.tried["bad0"] == 1 if nodes == 2 else story.tried["bad0"] > 1


async def test_nobody_is_evicted_for_a_job_that_was_refused() -> None:
    story = Story([(4, "all")], [])
    server = Refusing(story)
    client = server.client
    taking = Fixed()
    taking.config = TAKING
    client.put(PRIORITY_CLASSES, PriorityClass(metadata=ObjectMeta(name="urgent"), value=100))
    client.put(QUEUES, queue())
    client.put(NODES, node("n0", "4"))
    submit(client, "bad0", 4, "default", "urgent")
    async with world(client, run, config=taking) as it:
        await it.run(5)
        submit(client, "fine0", 4, "default", "")
        await it.run(60)
        assert set(it.nodes_of("fine").values()) == {"n0"}
        assert it.writes("delete", "pods") == []


def default() -> Fixed:
    source = Fixed()
    source.config = config(("priority", "gang"), ("predicates", "nodeorder"))
    return source
