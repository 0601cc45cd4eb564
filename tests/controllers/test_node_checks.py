"""Nodes are checked between jobs, and those that fail leave, are told of, and come back."""

from __future__ import annotations

from typing import Any

import pytest
from controller_world import ControllerWorld
from unreliable import Fault, every_write_once, writes_of

from support.build import node, node_check, pod
from unisono.api.annotations import NODE_CHECK, QUARANTINE
from unisono.api.core import Pod, PodCondition
from unisono.api.groups.health import NodeCheck
from unisono.api.kinds import NODE_CHECKS as CHECKS
from unisono.api.kinds import NODES, PODS
from unisono.api.node_checks import BY_HAND, book_of, lifting, quarantined_by, taking_out
from unisono.controllers.node_checks.controller import NodeCheckController
from unisono.controllers.owners import owned_by
from unisono.kube.controller import Controller

EVICTED = PodCondition(type="DisruptionTarget", status="True")


class World(ControllerWorld):
    def make_controllers(self) -> list[Controller]:
        return [NodeCheckController(self.recorder)]

    async def begin(self, nodes: int = 1, **spec: Any) -> None:
        for at in range(nodes):
            self.client.put(NODES, node(f"n{at}", gpu=8))
        await self.client.create(CHECKS, node_check(**spec))
        await self.advance(3)

    async def check(self) -> NodeCheck:
        return await self.client.get(CHECKS, "gpus")

    async def state(self, name: str = "n0") -> str:
        there = await self.client.get(NODES, name)
        mark = book_of(there.metadata.annotations).get("gpus")
        out = quarantined_by(there.spec.taints)
        return f"{mark.state if mark else ''}{f' out:{out}' if out else ''}"

    def tries(self, name: str = "n0") -> list[Pod]:
        found = [one for one in self.pods() if (one.metadata.labels or {}).get(NODE_CHECK)]
        return [one for one in found if one.spec.node_name == name and not one.metadata.deletion_timestamp]

    async def end(self, name: str = "n0", *, code: int = 0) -> None:
        """The kubelet tells how the check of a node ended."""
        (there,) = [one for one in self.tries(name) if one.status.phase not in ("Succeeded", "Failed")]
        where = there.spec.node_name
        self.set_pod(there, "Failed" if code else "Succeeded", code)
        there.spec.node_name = where
        self.client.put(PODS, there)
        await self.advance(3)

    async def use(self, name: str = "u", **options: Any) -> Pod:
        there = pod(name, "g", node="n0", phase="Running", namespace="default", **{"gpu": 8, **options})
        self.client.put(PODS, there)
        await self.advance(3)
        return there


async def test_a_node_is_checked_before_its_first_job_and_after_each_use() -> None:
    async with World() as it:
        await it.begin()
        assert await it.state() == "Checking"
        await it.end()
        assert await it.state() == "Passed"
        assert it.tries() == []
        there = await it.use()
        assert await it.state() == "InUse"
        await it.client.delete(PODS, there.metadata.name, "default", grace_seconds=0)
        await it.advance(4)
        assert await it.state() == "Checking"
        await it.end()
        assert await it.state() == "Passed"
        status = (await it.check()).status
        assert (status.nodes, status.passed, status.waiting, status.checking, status.quarantined) == (1, 1, 0, 0, 0)


async def test_nothing_is_written_while_nothing_happens() -> None:
    async with World() as it:
        await it.begin(nodes=3)
        for name in ("n0", "n1", "n2"):
            await it.end(name)
        writes = len(it.client.writes)
        await it.advance(3600)
        assert len(it.client.writes) == writes


async def test_a_node_that_fails_every_try_leaves_and_its_last_pod_stays_for_its_owner_to_look_at() -> None:
    async with World() as it:
        await it.begin(nodes=3, max_concurrent=3)
        await it.end("n0", code=7)
        assert await it.state() == "Checking"
        assert len(it.tries()) == 1
        await it.end("n0", code=7)
        assert await it.state() == "Failed out:gpus"
        (last,) = it.tries()
        assert last.status.phase == "Failed"
        there = await it.client.get(NODES, "n0")
        why = (there.metadata.annotations or {})[QUARANTINE]
        assert why.startswith("NodeCheck gpus failed 2 times, last at ")
        assert why.endswith(": exit code 7")
        (told,) = it.recorder.of("NodeQuarantined")
        assert told == "NodeCheck gpus failed 2 times: exit code 7; the node takes no jobs until 'unisono node lift n0'"
        assert len(it.recorder.of("NodeCheckFailed")) == 1
        assert (await it.check()).status.quarantined == 1


@pytest.mark.parametrize(("check", "becomes"), [(False, "Lifted"), (True, "Checking")])
async def test_a_quarantine_is_lifted_with_or_without_another_check(check: bool, becomes: str) -> None:
    async with World() as it:
        await it.begin(retries=0)
        await it.end(code=1)
        there = await it.client.get(NODES, "n0")
        await it.client.patch(NODES, "n0", lifting(there, it.clock.time(), check=check))
        await it.advance(4)
        assert await it.state() == becomes
        there = await it.client.get(NODES, "n0")
        assert QUARANTINE not in (there.metadata.annotations or {})
        assert len(it.tries()) == int(check)


async def test_who_removes_the_taint_has_lifted_the_quarantine() -> None:
    async with World() as it:
        await it.begin(retries=0)
        await it.end(code=1)
        await it.client.patch(NODES, "n0", {"spec": {"taints": None}})
        await it.advance(3)
        assert await it.state() == "Lifted"
        assert it.recorder.of("QuarantineLifted") == ["of NodeCheck gpus: its taint was removed"]
        assert QUARANTINE not in ((await it.client.get(NODES, "n0")).metadata.annotations or {})


async def test_a_quarantine_for_a_time_ends_with_another_check() -> None:
    async with World() as it:
        await it.begin(retries=0, quarantine_for="1h")
        await it.end(code=1)
        await it.advance(3500)
        assert await it.state() == "Failed out:gpus"
        await it.advance(110)
        assert await it.state() == "Checking"
        await it.end()
        assert await it.state() == "Passed"


async def test_a_faulty_check_takes_a_part_of_the_nodes_out_and_is_named() -> None:
    async with World() as it:
        await it.begin(nodes=10, retries=0, max_concurrent="100%")
        for at in range(10):
            await it.end(f"n{at}", code=1)
        states = sorted([await it.state(f"n{at}") for at in range(10)])
        assert states == ["Failed out:gpus"] * 3 + ["Kept"] * 7
        (condition,) = (await it.check()).status.conditions or ()
        assert (condition.type, condition.status) == ("Suspected", "True")
        assert len(it.recorder.of("NodeCheckSuspected")) == 1


@pytest.mark.parametrize(("conditions", "becomes"), [([], "Checking"), ([EVICTED], "")], ids=["failed", "evicted"])
async def test_a_failed_job_has_its_node_checked_and_one_that_was_evicted_does_not(
    conditions: list[PodCondition], becomes: str
) -> None:
    async with World() as it:
        await it.begin(when=["AfterFailure"])
        there = await it.use(gpu=0, cpu=1)
        it.set_pod(there, "Failed", 1)
        there.spec.node_name, there.status.conditions = "n0", conditions
        it.client.put(PODS, there)
        await it.advance(4)
        assert await it.state() == becomes


async def test_what_starts_again_goes_on_where_it_was() -> None:
    async with World() as it:
        await it.begin()
        await it.end(code=1)
        await it.restart()
        await it.advance(3)
        assert len(it.tries()) == 1
        await it.end(code=1)
        await it.restart()
        await it.advance(3)
        assert await it.state() == "Failed out:gpus"


async def test_a_check_whose_pods_are_refused_takes_nobody_out_and_says_so() -> None:
    async with World() as it:
        it.client.faults = writes_of("create", "pods")
        await it.begin(retries=0)
        await it.advance(1200)
        assert await it.state() == "Checking"
        assert any("cannot be checked" in one for one in it.recorder.of("NodeCheckNotMade"))


async def test_a_check_that_goes_leaves_no_marks_and_its_quarantines_stay() -> None:
    async with World() as it:
        await it.begin(nodes=4, retries=0, max_concurrent=4)
        await it.end("n0", code=1)
        await it.end("n1")
        await it.client.delete(CHECKS, "gpus")
        await it.advance(3)
        assert [await it.state("n0"), await it.state("n1")] == [" out:gpus", ""]


async def test_a_node_that_the_check_is_not_about_any_more_is_left_alone() -> None:
    async with World() as it:
        await it.begin()
        await it.client.patch(CHECKS, "gpus", {"spec": {"nodes": ["other"]}})
        await it.advance(3)
        assert await it.state() == ""
        assert (await it.check()).status.nodes == 0


async def test_a_node_that_somebody_took_out_goes_on_to_be_checked_and_stays_out() -> None:
    async with World() as it:
        await it.begin()
        there = await it.client.get(NODES, "n0")
        await it.client.patch(NODES, "n0", taking_out(there, BY_HAND, "fans", it.clock.time()))
        await it.end()
        assert await it.state() == "Passed out:by-hand"


@pytest.mark.parametrize("fault", list(Fault))
async def test_whatever_write_fails_the_end_is_the_same(fault: Fault) -> None:
    async with World() as it:
        it.client.put(NODES, node("n0", gpu=8))
        await it.client.create(CHECKS, node_check(retries=1))
        it.client.faults = every_write_once(fault)
        await it.advance(20)
        await it.end(code=1)
        await it.advance(20)
        await it.end(code=1)
        await it.advance(20)
        assert await it.state() == "Failed out:gpus"
        assert len(it.tries()) == 1


@pytest.mark.parametrize("owned", [False, True], ids=["labelled", "owned"])
async def test_pods_in_other_namespaces_that_say_they_check_a_node_are_pods_of_jobs(owned: bool) -> None:
    async with World() as it:
        await it.begin(retries=0, when=["AfterUse"])
        assert await it.state() == ""
        forged = pod("u", "g", node="n0", phase="Running", namespace="team", labels={NODE_CHECK: "gpus"}, gpu=8)
        if owned:
            forged.metadata.owner_references = [owned_by(CHECKS, await it.check())]
        it.client.put(PODS, forged)
        await it.advance(3)
        assert await it.state() == "InUse"  # nothing is checked beside it


async def test_nobody_but_the_check_ends_a_try() -> None:
    async with World() as it:
        await it.begin(retries=0)
        (real,) = it.tries()
        forged = pod(real.metadata.name, node="n0", phase="Failed", namespace="a", labels={NODE_CHECK: "gpus"})
        forged.metadata.owner_references = real.metadata.owner_references
        it.client.put(PODS, forged)
        await it.restart()  # who starts reads pods in order of their namespaces
        await it.advance(3)
        assert await it.state() == "Checking"
        await it.end()
        assert await it.state() == "Passed"


async def test_who_says_that_another_check_is_at_work_holds_no_node() -> None:
    async with World() as it:
        forged = pod("u", node="n0", phase="Running", namespace="team", labels={NODE_CHECK: "other"}, cpu=1)
        it.client.put(PODS, forged)
        await it.begin()
        assert await it.state() == "Checking"
