"""Floating resources: sources are asked in bounds, failures are told, and what is held here is counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from controller_world import ControllerWorld

from support.build import floating, group, pod, queue
from unisono.agent.node import Ledger
from unisono.api.annotations import LICENSES
from unisono.api.base import ObjectMeta
from unisono.api.groups.quota import FloatingResource, FloatingResourceSpec, FloatingSource
from unisono.api.kinds import FLOATING_RESOURCES, POD_GROUPS, PODS
from unisono.api.topology_sources import SourceFailed
from unisono.cluster.floating import floating_of
from unisono.controllers.elastic.decide import Allowances
from unisono.controllers.floating import MOST_BYTES, FloatingResourceController, read_answer
from unisono.controllers.node_scaling.decide import demand_of, promised
from unisono.controllers.podgroup.decide import pod_group_for
from unisono.kube.controller import Controller

URL = "https://licences.example.com/matlab"
SOURCE = FloatingSource(url=URL, amount_pointer="/total", in_use_pointer="/others")


class Network:
    """Answers with a document, or fails."""

    def __init__(self) -> None:
        self.document: Any = {"total": 10, "others": 2}
        self.fails = ""
        self.asked = 0

    async def get(self, url: str, *, credentials: Mapping[str, str], verify: bool = True, most_bytes: int = 0) -> bytes:
        assert (url, verify, dict(credentials), most_bytes) == (URL, True, {}, MOST_BYTES)
        self.asked += 1
        if self.fails:
            raise SourceFailed(self.fails)
        return json.dumps(self.document).encode()


class World(ControllerWorld):
    def __init__(self) -> None:
        super().__init__()
        self.network = Network()

    def make_controllers(self) -> list[Controller]:
        return [FloatingResourceController(self.network)]

    async def begin(self, **spec: Any) -> None:
        resource = FloatingResource(metadata=ObjectMeta(name="matlab"), spec=FloatingResourceSpec(**spec))
        await self.client.create(FLOATING_RESOURCES, resource)
        await self.advance(3)

    async def floating(self) -> FloatingResource:
        return await self.client.get(FLOATING_RESOURCES, "matlab")

    async def condition(self) -> tuple[str, str, str]:
        (found,) = (await self.floating()).status.conditions or ()
        return found.status, found.reason or "", found.message or ""


async def test_a_source_is_asked_time_and_again_and_written_down_when_it_says_something_new() -> None:
    async with World() as it:
        await it.begin(source=SOURCE)
        status = (await it.floating()).status
        assert (status.amount, status.elsewhere, (await it.condition())[0]) == (10, 2, "True")
        writes = len(it.client.writes)
        await it.advance(60)
        assert it.network.asked >= 3
        assert len(it.client.writes) == writes, "an equal answer is no news"
        it.network.document = {"total": 12, "others": 0}
        await it.advance(31)
        status = (await it.floating()).status
        assert (status.amount, status.elsewhere) == (12, 0)
        writes = len(it.client.writes)
        await it.advance(160)
        assert len(it.client.writes) == writes + 1, "half of its time is over"


async def test_nothing_starts_once_the_last_answer_is_too_old() -> None:
    async with World() as it:
        await it.begin(source=SOURCE)
        it.network.fails = "it cannot be reached"
        await it.advance(60)
        assert await it.condition() == ("False", "SourceFailed", "it cannot be reached")
        record, now = floating_of(await it.floating()), it.clock.time()
        assert record.at(now).most == 8000, "its last answer counts for a while"
        await it.advance(300)
        later = floating_of(await it.floating()).at(it.clock.time())
        assert later.most == 0
        assert later.problem == "its source was last read more than 300 seconds ago"
        it.network.fails = ""
        await it.advance(31)
        assert floating_of(await it.floating()).at(it.clock.time()).most == 8000
        assert (await it.condition())[0] == "True"


async def test_a_resource_without_a_source_says_itself_how_many_there_are() -> None:
    async with World() as it:
        await it.begin(amount=5)
        assert (await it.condition())[1] == "Stated"
        assert it.network.asked == 0
        writes = len(it.client.writes)
        await it.advance(3600)
        assert len(it.client.writes) == writes


async def test_what_pods_and_jobs_hold_is_counted() -> None:
    async with World() as it:
        await it.begin(amount=5)
        await it.client.create(POD_GROUPS, group("j", namespace="default", annotations={LICENSES: "matlab=2"}))
        for name, place in (("a", "n1"), ("b", "n1"), ("c", "")):
            made = pod(name, "j", namespace="default", node=place, matlab=1)
            await it.client.create(PODS, made)
        await it.advance(3)
        assert (await it.floating()).status.in_use == 4
        for name in "ab":
            with it.client.hands():
                await it.client.patch(
                    PODS, name, {"status": {"phase": "Succeeded"}}, namespace="default", subresource="status"
                )
        await it.advance(3)
        assert (await it.floating()).status.in_use == 0


@pytest.mark.parametrize(
    ("answer", "pointer", "told"),
    [
        ('{"a": [{"b/c": 7}]}', "/a/0/b~1c", 7),
        ('{"a": 3.0}', "/a", 3),
        ('{"a": 3.5}', "/a", "no whole number"),
        ('{"a": -1}', "/a", "no whole number"),
        ('{"a": true}', "/a", "no whole number"),
        ('{"a": 1e300}', "/a", "no whole number"),
        ('{"a": "3"}', "/a", "no whole number"),
        ('{"a": 3}', "/b", "nothing at /b"),
        ("<html>", "/b", "does not answer with JSON"),
        ("[" * 5000, "/b", "does not answer with JSON"),
    ],
)
def test_what_answers_mean(answer: str, pointer: str, told: int | str) -> None:
    source = FloatingSource(url=URL, amount_pointer=pointer)
    if isinstance(told, int):
        assert read_answer(answer.encode(), source) == (told, None)
        return
    with pytest.raises(SourceFailed, match=told):
        read_answer(answer.encode(), source)


@pytest.mark.parametrize(
    ("amount", "left"), [(10, 5000), (5, 0), (4, -1000), (None, None)], ids=["some", "none", "too few", "unknown"]
)
def test_elastic_jobs_grow_as_far_as_there_are_licences(amount: int | None, left: int | None) -> None:
    """Two pods hold one each, a third one waits for its own, and the job as a whole holds two."""
    job = group("j", 2, phase="Running", annotations={LICENSES: "matlab=2"})
    pods = [pod(f"j-{at}", "j", node="n1" if at < 2 else "", matlab=1) for at in range(3)]
    there = [] if amount is None else [floating("matlab", amount)]
    allowances = Allowances([queue("default")], [], [job], lambda _: pods, lambda _: pods, there)
    (claim,) = (one for one in allowances.claims(job, pods[0], 1) if "matlab" in one.limit.what)
    assert claim.limit.closed == (left is None)
    if left is not None:
        assert claim.limit.left == {"licenses.unisono.io/matlab": left}


def test_no_node_is_made_for_licences() -> None:
    assert demand_of(pod("p", cpu=1, matlab=2).spec).requests == {"cpu": 1000}
    waiting = group("g", 2, resources={"cpu": 2, "matlab": 2})
    assert [each.requests for each in promised(waiting)] == [{"cpu": 1000}]


@pytest.mark.parametrize(
    ("of_owner", "of_pod", "asked"),
    [({LICENSES: "ansys"}, {}, "ansys"), ({}, {LICENSES: "matlab"}, "matlab"), ({LICENSES: "a"}, {LICENSES: "b"}, "a")],
)
def test_a_pod_group_that_is_made_for_pods_asks_for_what_their_owner_says_or_they_do(
    of_owner: dict[str, str], of_pod: dict[str, str], asked: str
) -> None:
    made = pod_group_for(pod("p", annotations=of_pod), of_owner, "")
    assert (made.metadata.annotations or {})[LICENSES] == asked


def test_a_kubelet_takes_pods_with_licences() -> None:
    ledger = Ledger({"cpu": 1000, "pods": 10})
    assert ledger.admit(pod("p", cpu=1, matlab=2)) is None
    assert ledger.admit(pod("q", cpu=1, matlab=2)) is not None
