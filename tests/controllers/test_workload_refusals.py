"""Workloads whose pods are refused by their node: they try again, and they do not flood the cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from workload_world import WorkloadWorld, workload

from unisono.api.base import ObjectMeta
from unisono.api.core import ContainerState, ContainerStateRunning, ContainerStatus, Pod, PodStatus
from unisono.api.kind_families import REPLICA_SETS, STATEFUL_SETS
from unisono.api.kinds import PODS
from unisono.api.times import rfc3339
from unisono.controllers.workloads.templates import LONGEST_SECONDS, refusal_wait

NOON = 1_700_000_000.0


def pod(number: int, created: float, *, accepted: bool = False, phase: str = "Failed") -> Pod:
    """A pod that was refused, or one whose container has run."""
    state = ContainerState(running=ContainerStateRunning()) if accepted else ContainerState()
    meta = ObjectMeta(name=f"p{number}", uid=f"u{number}", creation_timestamp=rfc3339(NOON + created))
    return Pod(
        metadata=meta, status=PodStatus(phase=phase, container_statuses=[ContainerStatus(name="c", state=state)])
    )


def refused(*times: float) -> list[Pod]:
    return [pod(number, time) for number, time in enumerate(times)]


@pytest.mark.parametrize(
    ("pods", "missing", "now", "wait"),
    [
        ([], 3, 0, 0),
        (refused(0), 1, 0, 0),
        (refused(0, 0), 1, 0, 1),
        (refused(0, 0), 1, 1, 0),
        (refused(0, 0, 1), 1, 1, 2),
        (refused(0, 0, 1, 3), 1, 4, 3),
        # Three pods that are refused together are one refusal.
        (refused(0, 0, 0), 3, 0, 0),
        (refused(0, 0, 0, 0, 0, 0), 3, 0, 1),
        # What a node took since then makes the refusals before it a thing of the past.
        ([*refused(0, 0, 1, 3), pod(9, 7, accepted=True, phase="Running")], 1, 8, 0),
        ([*refused(0, 0, 1, 3), pod(9, 7, accepted=True)], 1, 8, 0),
        ([pod(9, -7, accepted=True, phase="Running"), *refused(0, 0)], 1, 0, 1),
        # One that waits for a node says nothing yet.
        ([*refused(0, 0), pod(9, 1, phase="Pending")], 1, 0, 1),
        (refused(*range(40)), 1, 39, LONGEST_SECONDS),
        (refused(0, 0), 0, 0, 0),
    ],
)
def test_how_long_successors_wait(pods, missing, now, wait):
    assert refusal_wait(pods, missing, NOON + now) == wait


@given(st.lists(st.integers(0, 1000), max_size=30), st.integers(1, 5), st.integers(1000, 3000))
def test_a_wait_ends_and_grows_with_refusals(times, missing, now):
    pods = refused(*sorted(times))
    wait = refusal_wait(pods, missing, NOON + now)
    assert 0 <= wait <= LONGEST_SECONDS
    assert refusal_wait(pods, missing, NOON + now + wait) == 0
    later = [*pods, *(pod(100 + number, now) for number in range(missing))]
    assert refusal_wait(later, missing, NOON + now) >= wait


async def refuse(world: WorkloadWorld, seconds: int) -> list[int]:
    """A full node refuses whatever comes for so long; answers how many pods were made by each second."""
    made = []
    for _ in range(seconds):
        for each in world.pods(deleting=False):
            if each.status.phase in (None, "Pending"):
                world.set_pod(each, "Failed", reason="OutOfcpu")
        await world.advance(1)
        made.append(sum(write.operation == "create" and write.resource == "pods" for write in world.client.writes))
    return made


async def test_a_replica_set_on_a_full_node_slows_down_and_goes_on_when_there_is_room():
    async with WorkloadWorld() as world:
        await world.make(REPLICA_SETS, workload(REPLICA_SETS, replicas=2))
        made = await refuse(world, 600)
        # Without a wait there would be two at every look.
        assert made[10] <= 12
        assert made[-1] <= 24
        assert made[-1] > made[300]
        await world.advance(LONGEST_SECONDS)
        await world.ready()
        assert world.one(REPLICA_SETS).status.ready_replicas == 2
        # The past is forgotten: what is refused now is replaced at once.
        victim = next(each for each in world.pods() if each.status.phase == "Running")
        await world.client.delete(PODS, victim.metadata.name, "default", grace_seconds=0)
        await world.settle()
        for each in world.pods(deleting=False):
            if each.status.phase in (None, "Pending"):
                world.set_pod(each, "Failed", reason="OutOfcpu")
        await world.settle()
        assert any(each.status.phase in (None, "Pending") for each in world.pods())


async def test_a_restart_of_the_controller_starts_no_new_rush():
    async with WorkloadWorld() as world:
        await world.make(REPLICA_SETS, workload(REPLICA_SETS, replicas=1))
        made = await refuse(world, 100)
        await world.restart()
        assert (await refuse(world, 2))[-1] <= made[-1] + 1


async def test_a_stateful_set_tries_a_refused_pod_again_after_a_while():
    async with WorkloadWorld() as world:
        await world.make(STATEFUL_SETS, workload(STATEFUL_SETS, replicas=1, serviceName="web"))
        made = await refuse(world, 100)
        assert 5 <= made[-1] <= 11
        await world.advance(20)
        await world.ready()
        assert world.one(STATEFUL_SETS).status.ready_replicas == 1
