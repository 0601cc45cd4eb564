"""Changes for the one job that is asked for: together they start it, with all that wait before it."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_verdict_changes import CONFIGS, SHARES, build, deserved, some
from verdict_world import Objects

from support.build import START, config, flatten, gang, group, node, pod, priority_class, queue
from support.examples import examples
from unisono import engine
from unisono.api.annotations import GANG_PARTS
from unisono.api.base import Object
from unisono.api.core import PodCondition
from unisono.api.gang_parts import Part, encode_parts
from unisono.engine.changes import AddNodes, RaiseCapability, RequestAtMost, Together, UseLabel, UsePriority
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.verdict import Asked, Verdict
from unisono.engine.verdicts.compose import beside, together

CAPPED = config(("priority", "gang"), ("overcommit", "predicates", "proportion", "nodeorder"))
ENDLESS = 1e9


def asked(objects: list[Object], key: str, chosen: SchedulerConfig, seconds: float = ENDLESS) -> Verdict | None:
    """The verdict of one job; each change that it offers is made, and starts the job."""
    world = Objects(objects)
    ticks = count()
    world.carry_out(engine.run(world.state().snapshot(), chosen, START + 1000.0))
    decisions = engine.run(
        world.state().snapshot(),
        chosen,
        START + 1000.0,
        monotonic=lambda: float(next(ticks)),
        verdicts=Asked(key.__eq__, seconds),
    )
    assert decisions.violations == []
    verdict = decisions.verdicts.get(key)
    for change in verdict.changes if verdict is not None else ():
        again = Objects(world.all.values())
        for one in change.changes if isinstance(change, Together) else (change,):
            again.make(one, key)
        assert any(starts(again, key, chosen) for _ in range(3)), (key, change)
    return verdict


def starts(world: Objects, key: str, chosen: SchedulerConfig) -> bool:
    """Whether the next cycle starts the job, or admits it where it has no pods; it is carried out."""
    decisions = engine.run(world.state().snapshot(), chosen, START + 1001.0)
    world.carry_out(decisions)
    if not world.pods(key):
        return world.group(key).status.phase != "Pending"
    return any(bind.job == key for bind in decisions.binds)


@pytest.mark.parametrize("name", ["capacity", "gang", "shares"])
@settings(max_examples=examples(8), deadline=None)
@given(seed=st.integers(0, 10**9), share=deserved)
def test_what_is_offered_to_one_job_starts_it(name: str, seed: int, share: dict[str, int] | None) -> None:
    nodes, jobs = some(Random(seed))
    objects = build(nodes, jobs, share if name == "capacity" else None)
    for number in range(len(jobs)):
        asked(objects, f"ns/j{number}", CONFIGS[name])


def line(number: int, **options: Any) -> list[Any]:
    """Jobs that come before ``j`` and wait for the same."""
    return [gang(f"b{at}", 1, created=at, **options) for at in range(number)]


FULL = [node("a", cpu=4), pod("x", node="a", cpu=4)]
TWO_KINDS = [
    *[node("a", cpu=4, labels={"kind": "a"}), pod("x", node="a", cpu=4)],
    *[node("b", cpu=4, labels={"kind": "b"})],
]
PENDING = {"phase": "Pending", "min_resources": True}
TOGETHER: dict[str, tuple[list[Any], SchedulerConfig, str]] = {
    "a full cluster, and others before it": (
        [*FULL, priority_class("high", 10), line(9), gang("j", 1, created=20)],
        SHARES,
        "give it the priority class high and add 1 node like a",
    ),
    "without another priority nodes for all before it": (
        [*FULL, line(9), gang("j", 1, created=20)],
        SHARES,
        "add 3 nodes like a",
    ),
    "a queue's capability for all before it": (
        [
            node("a", cpu=32),
            queue("q", capability={"cpu": 1}),
            pod("x-0", "x", node="a", cpu=1),
            group("x", 1, queue="q", phase="Running"),
            line(9, queue="q", **PENDING),
            gang("j", 1, queue="q", created=20, **PENDING),
        ],
        CAPPED,
        "raise the capability of queue q: cpu by 10",
    ),
    "a queue's capability and a full cluster": (
        [
            *FULL,
            queue("q", capability={"cpu": 1}),
            gang("j", 1, cpu=2, queue="q", created=20, **PENDING),
        ],
        CAPPED,
        "raise the capability of queue q: cpu by 1 and add 1 node like a",
    ),
    "the capability of a queue and of the one above it, which the API wants to be raised first": (
        [
            node("a", cpu=32),
            queue("p", capability={"cpu": 1}),
            queue("q", capability={"cpu": 1}, parent="p"),
            pod("x-0", "x", node="a", cpu=1),
            group("x", 1, queue="q", phase="Running"),
            gang("j", 1, queue="q", created=20, **PENDING),
        ],
        CAPPED,
        "raise the capability of queue p: cpu by 1 and raise the capability of queue q: cpu by 1",
    ),
    "a closed queue and a taint": (
        [node("a", taints=[("t", "", "NoSchedule")]), queue("q", state="Closed"), gang("j", 1, queue="q")],
        SHARES,
        "open queue q and let its pods tolerate the taint t:NoSchedule",
    ),
    "nodes that it selects are full, others are not": (
        [*TWO_KINDS, gang("j", 1, cpu=2, selector={"kind": "a"})],
        SHARES,
        "add 1 node like a",
    ),
}


@pytest.mark.parametrize("name", sorted(TOGETHER))
def test_changes_are_found_that_are_enough_together(name: str) -> None:
    things, chosen, wanted = TOGETHER[name]
    verdict = asked(flatten(things), "ns/j", chosen)
    assert verdict is not None
    assert wanted in [change.text() for change in verdict.changes]


def test_nodes_with_room_are_offered_where_those_that_a_pod_selects_are_full() -> None:
    verdict = asked(flatten([*TWO_KINDS, gang("j", 1, cpu=2, selector={"kind": "a"})]), "ns/j", SHARES)
    assert verdict is not None
    assert UseLabel("kind", "b", "kind", "a") in verdict.changes


def test_a_job_that_has_to_be_made_again_is_admitted_again() -> None:
    """Other nodes have room, but more is promised already than admission lets be: a new job would not come in."""
    promised = group("p", 1, resources={"cpu": 9}, created=999)  # its pods are still to come
    things = [*TWO_KINDS, promised, gang("j", 1, cpu=2, selector={"kind": "a"}, created=20, min_resources=True)]
    verdict = asked(flatten(things), "ns/j", CAPPED)
    assert verdict is not None
    assert UseLabel("kind", "b", "kind", "a") not in verdict.changes
    assert AddNodes("a", 1) in verdict.changes


def _one_more_in_vain(name: str, created: float = 0.0) -> list[Any]:
    """An admitted job whose pod found no place."""
    spec = pod(name, name, cpu=1, selector={"kind": "gone"}).spec
    notes = {GANG_PARTS: encode_parts([Part("w", 1, 1, spec=spec)])}
    told = pod(f"{name}-w-0", name, cpu=1, selector={"kind": "gone"})
    told.status.conditions = [PodCondition(type="PodScheduled", status="False", reason="Unschedulable", message="no")]
    return [group(name, 1, resources={"cpu": 1}, annotations=notes, created=created), told]


def test_a_job_that_is_mended_is_not_like_those_that_wait_in_vain() -> None:
    """More is promised than admission lets be, in vain: with another selector it is let in to try."""
    late = group("late", 1, resources={"cpu": 5})  # its pods cannot be made
    things = [*TWO_KINDS, priority_class("high", 10), late, *(_one_more_in_vain(f"b{at}") for at in range(9))]
    verdict = asked(flatten([*things, *_one_more_in_vain("j", 20)]), "ns/j", CAPPED)
    assert verdict is not None
    assert verdict.changes[0].text() == "select nodes by kind=b in place of kind=gone"


def test_what_was_tried_in_vain_is_not_offered_untried() -> None:
    """More nodes alone do not open the queue."""
    things = [*FULL, queue("q", capability={"cpu": 1}), gang("j", 1, cpu=2, queue="q", created=20, **PENDING)]
    verdict = asked(flatten(things), "ns/j", CAPPED)
    assert verdict is not None
    assert not any(isinstance(one, AddNodes) for one in (*verdict.changes, *verdict.untried))


def test_the_search_ends_with_its_time() -> None:
    things = [*FULL, priority_class("high", 10), line(9), gang("j", 1, created=20)]
    verdict = asked(flatten(things), "ns/j", SHARES, seconds=1e-9)
    assert verdict is not None
    assert verdict.changes == ()


def test_more_of_a_change_is_one_change_and_nodes_come_last() -> None:
    parts = beside((AddNodes("a", 2), RaiseCapability("q", {"cpu": 1})), AddNodes("!added-0", 3))
    assert parts == (AddNodes("a", 5), RaiseCapability("q", {"cpu": 1}))
    assert beside(parts, RaiseCapability("q", {"cpu": 2, "memory": 5})) == (
        AddNodes("a", 5),
        RaiseCapability("q", {"cpu": 3, "memory": 5}),
    )
    assert beside(parts, RaiseCapability("r", {"cpu": 2})) == (RaiseCapability("r", {"cpu": 2}), *parts)
    assert beside(parts, AddNodes("b", 1)) is None
    assert beside((UsePriority("low"),), UsePriority("high")) == (UsePriority("high"),)
    assert beside((RequestAtMost({"cpu": 1}),), RequestAtMost({"memory": 1})) == (
        RequestAtMost({"cpu": 1, "memory": 1}),
    )
    assert together(parts) == Together((RaiseCapability("q", {"cpu": 1}), AddNodes("a", 5)))


def test_where_many_wait_three_changes_together_start_the_job() -> None:
    """Between them others take what each brings: that is tried as well."""
    asks = {"queue": "q", **PENDING}
    things = [*FULL, queue("q", capability={"cpu": 1}), priority_class("high", 10)]
    verdict = asked(flatten([*things, line(9, cpu=2, **asks), gang("j", 1, cpu=2, created=20, **asks)]), "ns/j", CAPPED)
    assert verdict is not None
    assert "give it the priority class high and raise the capability of queue q: cpu by 1 and add 1 node like a" in [
        change.text() for change in verdict.changes
    ]


def test_where_many_wait_nothing_is_offered_that_was_not_tried() -> None:
    """Neither the priority nor nodes alone would start it, and the time ends before more is known."""
    things = [*FULL, priority_class("high", 10), line(9), gang("j", 1, created=20)]
    verdict = asked(flatten(things), "ns/j", SHARES, seconds=3.0)
    assert verdict is not None
    assert (verdict.changes, verdict.untried) == ((), ())


def test_jobs_that_the_same_cycle_admits_take_what_a_change_brings() -> None:
    """Their pods come before anybody can make a change."""
    parts = {GANG_PARTS: encode_parts([Part("w", 1, 1, spec=pod("o", "o", cpu=1).spec)])}
    admitted = group("o", 1, phase="Pending", resources={"cpu": 1}, annotations=parts)
    things = [node("a", cpu=8), pod("x", node="a", cpu=8), admitted, gang("j", 1, cpu=8, created=20, **PENDING)]
    ticks = count()
    decisions = engine.run(
        Objects(flatten(things)).state().snapshot(),
        CAPPED,
        START + 1000.0,
        monotonic=lambda: float(next(ticks)),
        verdicts=Asked("ns/j".__eq__, ENDLESS),
    )
    assert [(update.key, update.phase) for update in decisions.pod_groups if update.phase == "Inqueue"] == [
        ("ns/o", "Inqueue")
    ]
    assert [change.text() for change in decisions.verdicts["ns/j"].changes] == ["add 2 nodes like a"]
