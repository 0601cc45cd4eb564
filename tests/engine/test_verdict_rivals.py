"""Jobs that wait for the same thing: what each is told is enough although the others are there and may come first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_verdict_changes import GANG, Objects, check, starts_after
from verdict_scenarios import CAPPED, PROMISING

from support.build import config, flatten, gang, group, node, pod, queue, quota, schedule
from support.examples import examples
from unisono.engine.changes import AddNodes, RaiseCapability, RaiseQuota
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.verdict import Cause, Verdict

QUOTAS = config(("gang", "resourcequota"), ("predicates",))


def told(chosen: SchedulerConfig, *things: Any) -> dict[str, Verdict]:
    """Verdicts by name of the job; each change has been made beside all other jobs."""
    return {one.job.partition("/")[2]: one for one in check(flatten(things), chosen)}


def waiting(names: str, cpu: int) -> list[Any]:
    """PodGroups that ask for their quota before they have pods."""
    return [group(name, 2, phase="Pending", resources={"cpu": cpu}, created=at) for at, name in enumerate(names)]


def test_a_quota_is_raised_for_all_that_are_admitted_first() -> None:
    verdicts = told(QUOTAS, node("a", cpu=64), quota("team", cpu=2), waiting("abcd", 2))
    assert "a" not in {name for name, one in verdicts.items() if one.cause is Cause.QUOTA}
    raised = {name: one.changes for name, one in verdicts.items() if one.cause is Cause.QUOTA}
    assert raised == {
        "b": (RaiseQuota("team", {"cpu": 2000}),),
        "c": (RaiseQuota("team", {"cpu": 4000}),),
        "d": (RaiseQuota("team", {"cpu": 6000}),),
    }


def test_a_quota_that_lets_no_pod_be_created_is_raised_for_all_that_lack_some() -> None:
    jobs = [gang("a", 1, 3, cpu=1), gang("b", 2, 3, cpu=1), gang("c", 1, cpu=1)]
    verdicts = told(GANG, node("n", cpu=64), quota("team", cpu=4), jobs)
    for name in "ab":
        assert verdicts[name].cause is Cause.QUOTA
        assert RaiseQuota("team", {"cpu": 3000}) in verdicts[name].changes


def test_a_capability_is_raised_for_the_jobs_before_as_well() -> None:
    things = [node("n", cpu=64), queue("q", capability={"cpu": 4})]
    things += [
        gang(name, 4, queue="q", phase="Pending", min_resources=True, created=at) for at, name in enumerate("abc")
    ]
    verdicts = told(CAPPED, *things)
    raised = {
        name: next(change.amounts for change in one.changes if isinstance(change, RaiseCapability))
        for name, one in verdicts.items()
    }
    assert raised == {"b": {"cpu": 4000}, "c": {"cpu": 8000}}


def test_promises_that_others_take_first_are_counted_in() -> None:
    things = [node("n", cpu=8), pod("x", node="n", cpu=8)]
    things += [gang(name, 4, phase="Pending", min_resources=True, created=at) for at, name in enumerate("ab")]
    verdicts = told(PROMISING, *things)
    assert {one.cause for one in verdicts.values()} == {Cause.CLUSTER_OVERCOMMITTED}
    assert {name: one.changes for name, one in verdicts.items()} == {
        "a": (AddNodes("n", 1),),
        "b": (AddNodes("n", 1),),
    }


@settings(max_examples=examples(12), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=2),
    st.integers(2, 6),
    st.integers(0, 4),
)
def test_no_fewer_nodes_would_do(jobs: list[tuple[int, int]], size: int, taken: int) -> None:
    things: list[Any] = [node("n", cpu=size)]
    things += [pod(f"x{at}", node="n", cpu=1, created=at) for at in range(min(taken, size))]
    things += [gang(f"j{at}", members, cpu=min(cpu, size), created=at) for at, (members, cpu) in enumerate(jobs)]
    objects = flatten(things)
    world = Objects(objects)
    world.carry_out(schedule(world.state(), GANG))
    for verdict in check(objects, GANG):
        for change in verdict.changes:
            if isinstance(change, AddNodes) and change.count > 1:
                fewer = AddNodes(change.like, change.count - 1)
                assert not starts_after(Objects(world.all.values()), verdict.job, fewer, GANG), (verdict.job, change)


@pytest.mark.parametrize("jobs", [1, 4])
def test_who_else_waits_does_not_double_the_nodes(jobs: int) -> None:
    things = [node("n", cpu=2), *(gang(f"j{at}", 3, cpu=2, created=at) for at in range(jobs))]
    verdicts = told(GANG, *things)
    assert AddNodes("n", 3 * jobs - 1) in verdicts[f"j{jobs - 1}"].changes
