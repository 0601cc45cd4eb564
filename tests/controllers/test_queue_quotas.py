"""Amounts of queues that follow the nodes: at once where some come, and later where they only do not answer."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from job_world import World

from unisono.api.annotations import QUOTAS
from unisono.api.core import Node
from unisono.api.groups.scheduling import Queue
from unisono.api.kinds import NODES, QUEUES
from unisono.api.queues import quotas_of
from unisono.api.resources import resource_list
from unisono.api.times import rfc3339
from unisono.controllers.queue_quotas import HOLD_SECONDS, amounts_of, changes, ready_amounts
from unisono.errors import Invalid


def node(name: str, *, ready: bool = True, since: float = 0.0, cordoned: bool = False, **amounts: str) -> Node:
    condition = {"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": rfc3339(since)}
    value = {
        "metadata": {"name": name},
        "spec": {"unschedulable": cordoned},
        "status": {"allocatable": amounts or {"cpu": "8", "nvidia.com/gpu": "8"}, "conditions": [condition]},
    }
    return msgspec.convert(value, Node)


def queue(**notes: str) -> Queue:
    meta = {"name": "research", "annotations": {QUOTAS: notes["quotas"]} if notes else {}}
    return msgspec.convert({"metadata": meta, "spec": {"parent": "root", "weight": 1}}, Queue)


def test_parts_are_read() -> None:
    assert quotas_of("deserved.nvidia.com/gpu = 80%, guarantee.cpu=12.5%") == {
        ("deserved", "nvidia.com/gpu"): Fraction(4, 5),
        ("guarantee", "cpu"): Fraction(1, 8),
    }


def test_what_does_not_answer_counts_for_a_while_and_what_is_cordoned_does_not() -> None:
    nodes = [node("a"), node("b", ready=False, since=1000.0), node("c", ready=False), node("d", cordoned=True)]
    assert ready_amounts(nodes, 1100.0) == ({"cpu": 16000, "nvidia.com/gpu": 16000}, HOLD_SECONDS - 100)
    assert ready_amounts(nodes, 1000.0 + HOLD_SECONDS) == ({"cpu": 8000, "nvidia.com/gpu": 8000}, None)
    assert ready_amounts([Node()], 0.0) == ({}, None)


def test_amounts_are_whole() -> None:
    shares = quotas_of("deserved.nvidia.com/gpu=80%,deserved.cpu=33.3%,guarantee.memory=50%,capability.gone=10%")
    total = {"nvidia.com/gpu": 8000 * 3, "cpu": 1001, "memory": 2**30 + 1}
    assert amounts_of(shares, total) == {
        "deserved": {"nvidia.com/gpu": "19", "cpu": "333m"},
        "guarantee": {"memory": "512Mi"},
        "capability": {"gone": "0"},
    }


def test_pods_have_their_part_too() -> None:
    found = amounts_of(quotas_of("capability.pods=50%,deserved.pods=0.1%"), resource_list({"pods": "330"}))
    assert found == {"capability": {"pods": "165"}, "deserved": {"pods": "0"}}


def test_only_what_differs_is_written() -> None:
    made = queue()
    made.spec.deserved = {"cpu": "4000m", "memory": "1Gi"}
    assert changes(made, {"deserved": {"cpu": "4", "memory": "2Gi"}}) == {"deserved": {"memory": "2Gi"}}
    assert changes(made, {"guarantee": {"cpu": "1"}}) == {"guarantee": {"resource": {"cpu": "1"}}}


def stated(it: World) -> dict[str, Any]:
    found = it.client.find(QUEUES, "research")
    assert found is not None
    return {name: str(amount) for name, amount in (found.spec.deserved or {}).items()}


async def put(it: World, made: Node) -> None:
    with it.client.hands():
        it.client.put(NODES, made)
    await it.settle()


async def test_a_queue_follows_the_nodes_and_outlasts_a_restart_of_one() -> None:
    async with World() as it:
        now = it.client.clock.time
        for name in "abc":
            await put(it, node(name))
        with it.client.hands():
            await it.client.create(QUEUES, queue(quotas="deserved.nvidia.com/gpu=50%"))
        await it.settle()
        assert stated(it) == {"nvidia.com/gpu": "12"}
        await put(it, node("d"))
        assert stated(it) == {"nvidia.com/gpu": "16"}, "what comes counts at once"
        await put(it, node("d", ready=False, since=now()))
        await it.advance(120.0)
        await put(it, node("d"))
        await it.advance(600.0)
        assert stated(it) == {"nvidia.com/gpu": "16"}, "a machine was restarted"
        await put(it, node("d", ready=False, since=now()))
        await it.advance(HOLD_SECONDS - 10)
        assert stated(it) == {"nvidia.com/gpu": "16"}
        await it.advance(20.0)
        assert stated(it) == {"nvidia.com/gpu": "12"}
        with it.client.hands():
            await it.client.patch(QUEUES, "research", {"spec": {"deserved": {"nvidia.com/gpu": "99"}}})
        await it.settle()
        assert stated(it) == {"nvidia.com/gpu": "12"}, "the annotation decides"
        with it.client.hands():
            it.client.remove(NODES, "a")
        await it.settle()
        assert stated(it) == {"nvidia.com/gpu": "8"}, "what was removed is gone"
        writes = len(it.client.writes)
        await it.advance(3600.0)
        assert len(it.client.writes) == writes


async def test_what_the_server_refuses_is_told_and_tried_again() -> None:
    async with World() as it:

        def refuse(operation: str, resource: str, _: str, name: str) -> None:
            if (operation, resource, name) == ("patch", "queues", "research"):
                raise Invalid("deserved is more than the parent's")

        await put(it, node("a"))
        it.client.interceptor = refuse
        with it.client.hands():
            await it.client.create(QUEUES, queue(quotas="deserved.nvidia.com/gpu=50%"))
        await it.settle()
        assert stated(it) == {}
        assert any("more than the parent's" in str(each) for each in it.recorder.of("QuotasNotWritten"))
        it.client.interceptor = None
        await it.advance(61.0)
        assert stated(it) == {"nvidia.com/gpu": "4"}


@pytest.mark.parametrize("text", ["nonsense", "deserved.=1%", "deserved.cpu=1", "other.cpu=5%", "deserved.cpu=-5%"])
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match="must be such as"):
        quotas_of(text)
