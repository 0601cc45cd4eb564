"""capacity: quotas on devices of resource claims."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from plugins_world import World, a_pod, class_of, job_of, queue_of

from unisono.api import kinds
from unisono.api.core import ResourceClaim
from unisono.engine.answers import Refusal, Vote
from unisono.engine.config.arguments import Flags
from unisono.engine.verdict import Cause

GPU = "deviceclass/gpu.com"


def claim(world: World, name: str, number: int | None = 1, of: str = "gpu.com", **more: Any) -> World:
    exact = {"deviceClassName": of, **({"count": number} if number is not None else {}), **more}
    return claim_for(world, name, {"name": "r", "exactly": exact})


def claim_for(world: World, name: str, *requests: dict[str, Any]) -> World:
    value = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"devices": {"requests": list(requests)}}}
    world.state.apply("ADDED", kinds.RESOURCE_CLAIMS, msgspec.convert(value, ResourceClaim))
    return world


def using(*claims: str, **pod: Any) -> dict[str, Any]:
    return a_pod(
        resourceClaims=[{"name": f"c{at}", "resourceClaimName": name} for at, name in enumerate(claims)], **pod
    )


def limited(**amounts: Any) -> World:
    return World().node("n1").queue("q", capability={GPU: "2", **amounts})


def room(world: World, job: str = "j", queue: str = "q", **given: Any) -> int:
    session, plugin = world.open("capacity", **given)
    return int(plugin.headroom(queue_of(session, queue), class_of(session, f"{job}-0")))


@pytest.mark.parametrize(("number", "fits"), [(None, 1), (1, 1), (2, 1), (3, 0)])
def test_devices_are_counted(number: int | None, fits: int) -> None:
    world = claim(limited(), "c", number).job("j", using("c"))
    assert room(world) == fits
    session, plugin = world.open("capacity")
    refusal = plugin.allocatable(queue_of(session, "q"), class_of(session, "j-0"))
    if fits:
        assert refusal is None
    else:
        assert refusal.cause is Cause.OVER_CAPABILITY
        assert refusal.message == "queue q has no deviceclass/gpu.com left for the claims of the pod"


def test_other_classes_and_pods_without_claims_pass() -> None:
    world = claim(limited(), "nic", 99, of="nic.com").job("j", using("nic")).job("k", a_pod("1"))
    assert room(world) == 1
    assert room(world, "k") == 10


def test_what_runs_is_counted_and_shared_claims_once() -> None:
    world = claim(claim(claim(limited(), "one"), "two"), "three")
    world.job("old", using("one", node="n1"), using("one", node="n1")).job("j", using("two"))
    session, plugin = world.open("capacity")
    queue, job, pod_class = queue_of(session, "q"), job_of(session, "j"), class_of(session, "j-0")
    assert plugin.headroom(queue, pod_class) == 1
    plugin.placed(job, pod_class, [0])
    assert plugin.headroom(queue, pod_class) == 1  # the same claim is no further device
    assert plugin.headroom(queue, class_of(session, "old-0")) == 1
    world.job("k", using("three"))
    session, plugin = world.open("capacity")
    plugin.placed(job, pod_class, [0])
    assert plugin.headroom(queue, class_of(session, "k-0")) == 0
    plugin.removed(job, pod_class, [0])
    assert plugin.headroom(queue, class_of(session, "k-0")) == 1


def test_what_cannot_be_known_before_is_not_counted() -> None:
    world = claim(limited(), "all", allocationMode="All")
    claim_for(world, "some", {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu.com", "count": 9}]})
    assert room(world.job("j", using("all", "some", "absent"))) == 1


@pytest.mark.parametrize(("amount", "consumable", "fits"), [("40Gi", True, 1), ("41Gi", True, 0), ("41Gi", False, 1)])
def test_amounts_that_devices_share_out(amount: str, consumable: bool, fits: int) -> None:
    world = claim(limited(**{"memory.deviceclass/gpu.com": "40Gi"}), "c", capacity={"requests": {"memory": amount}})
    assert room(world.job("j", using("c")), **{"capacity.DRAConsumableCapacityEnable": consumable}) == fits


def test_quotas_on_devices_can_be_switched_off() -> None:
    world = claim(limited(), "c", 9).job("j", using("c"))
    assert room(world, **{"capacity.DynamicResourceAllocationEnable": False}) == 10


def test_ancestors_limit_devices_too() -> None:
    world = World().node("n1").queue("root").queue("top", parent="root", capability={GPU: "1"})
    world = claim(world.queue("q", parent="top"), "c", 2).job("j", using("c"))
    session, plugin = world.open("capacity", Flags(hierarchy=True))
    refusal = plugin.allocatable(queue_of(session, "q"), class_of(session, "j-0"))
    assert refusal.message == "queue top has no deviceclass/gpu.com left for the claims of the pod"


def waiting(world: World, name: str, *pods: dict[str, Any], **spec: Any) -> World:
    return world.job(name, *pods, phase="Pending", minResources={"cpu": "1"}, **spec)


@pytest.mark.parametrize(
    ("spec", "votes"),
    [
        ({"minMember": 1}, [True, True, False]),
        ({"minMember": 2}, [True, False, False]),
        ({"minMember": 2, "minTaskMember": {"worker": 1}}, [True, True, False]),
        ({"minMember": 2, "minTaskMember": {"worker": 2}}, [True, False, False]),
        ({"minMember": 3, "minTaskMember": {"worker": 3}}, [False, False, False]),
    ],
)
def test_admission_keeps_devices_for_the_gang(spec: dict[str, Any], votes: list[bool]) -> None:
    world = limited()
    for name in "abc":
        claim(claim(world, f"{name}0"), f"{name}1")
        waiting(world, name, *[{**using(f"{name}{at}"), "role": "worker"} for at in range(2)], **spec)
    session, plugin = world.open("capacity")
    found = []
    for job in (job_of(session, name) for name in "abc"):
        answer = plugin.enqueueable(job)
        found.append(answer is Vote.PERMIT)
        if isinstance(answer, Refusal):
            assert answer.message.startswith("queue resource quota insufficient: insufficient dra-resource-exceeded")
        else:
            session.book.promise(job)
    assert found == votes


def test_admitted_jobs_keep_what_they_do_not_hold_yet() -> None:
    world = claim(claim(claim(claim(limited(), "a0"), "a1"), "b"), "c")
    world.job("a", using("a0", node="n1"), using("a1"), minMember=2, minResources={"cpu": "1"})
    waiting(world, "b", using("b"), minMember=1)
    session, plugin = world.open("capacity")
    assert isinstance(plugin.enqueueable(job_of(session, "b")), Refusal)
