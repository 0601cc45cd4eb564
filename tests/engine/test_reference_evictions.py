"""Evictions that follow from Volcano's orders and votes: each case is worked out by hand from their description."""

from __future__ import annotations

from typing import Any

import pytest
from eviction_world import Plane, running_pods
from test_reference_decisions import HIGH, LOW, PROPORTION, busy, lone_in

from support.build import START, cluster, config, gang, group, node, placed, pod, priority_class, queue, unadvised
from unisono.engine.config_file.reader import load_config
from unisono.engine.decisions import Decisions


def evicting(actions: str, plugins: str = "", quota: str = "proportion", first: str = "") -> Any:
    return load_config(
        f"""
actions: "allocate, {actions}"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
    enableReclaimable: false
  - name: conformance
{first}
- plugins:
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: {quota}
  - name: nodeorder
{plugins}
"""
    )


def runs(
    name: str,
    where: str,
    number: int,
    *,
    cls: str = "low",
    priority: int = 1,
    minimum: int = 1,
    queue: str = "default",
    cpu: Any = 1,
    created: float = 0.0,
    **parts: Any,
) -> list[Any]:
    head = group(name, minimum, queue=queue, phase="Running", priority_class=cls, created=created)
    return [
        head,
        *running_pods(name, [where] * number, cpu=cpu, priority=priority, priority_class=cls, created=created, **parts),
    ]


def wants(
    name: str,
    number: int,
    *,
    cls: str = "high",
    priority: int = 100,
    queue: str = "default",
    cpu: Any = 1,
    minimum: int | None = None,
    created: float = 50.0,
    **parts: Any,
) -> list[Any]:
    return gang(
        name, number, minimum, queue=queue, priority_class=cls, priority=priority, cpu=cpu, created=created, **parts
    )


def victims(decisions: Decisions) -> list[str]:
    return sorted(eviction.pod for eviction in decisions.evictions)


CLASSES = [LOW, HIGH, priority_class("middle", 50)]
FULL = node("n", cpu=4)
VICTIMS: dict[str, tuple[list[Any], Any, list[str]]] = {
    "preempt: the lowest priority first, the last pod of a job first": (
        [FULL, runs("a", "n", 2), runs("b", "n", 2, cls="middle", priority=50), wants("j", 1)],
        evicting("preempt"),
        ["a-w-1"],
    ),
    "preempt: not of equal priority": (
        [FULL, runs("a", "n", 4, cls="high", priority=100), wants("j", 1)],
        evicting("preempt"),
        [],
    ),
    "preempt: not of another queue": (
        [FULL, queue("q"), runs("a", "n", 4, queue="q"), wants("j", 1)],
        evicting("preempt"),
        [],
    ),
    "preempt: a job that never preempts": ([FULL, runs("a", "n", 4), [*wants("j", 1)]], "never", []),
    "preempt: the younger of two alike jobs gives": (
        [FULL, runs("a", "n", 2, created=1.0), runs("b", "n", 2, created=2.0), wants("j", 1)],
        evicting("preempt"),
        ["b-w-1"],
    ),
    "preempt: all that a gang needs, or nothing": (
        [FULL, runs("a", "n", 2), runs("b", "n", 2, cls="high", priority=100), wants("j", 3)],
        evicting("preempt"),
        [],
    ),
    "preempt: system-critical pods stay": (
        [FULL, runs("a", "n", 4, cls="system-node-critical", priority=1), wants("j", 1)],
        evicting("preempt"),
        [],
    ),
    "reclaim: from the queue above its share, down to it": (
        [FULL, queue("q"), queue("r"), runs("a", "n", 4, queue="q"), wants("j", 3, queue="r", cls="low", priority=1)],
        evicting("reclaim"),
        [],  # r deserves 2 of 4, so a gang of 3 never fits
    ),
    "reclaim: two of four": (
        [FULL, queue("q"), queue("r"), runs("a", "n", 4, queue="q"), wants("j", 2, queue="r", cls="low", priority=1)],
        evicting("reclaim"),
        ["a-w-2", "a-w-3"],
    ),
    "reclaim: not from a queue that is not reclaimable": (
        [FULL, queue("q", reclaimable=False), queue("r"), runs("a", "n", 4, queue="q"), wants("j", 2, queue="r")],
        evicting("reclaim"),
        [],
    ),
    "reclaim: a guarantee stays": (
        [
            FULL,
            queue("q", deserved={"cpu": 1}, guarantee={"cpu": 3}),
            queue("r", deserved={"cpu": 3}),
            runs("a", "n", 4, queue="q"),
            wants("j", 1, queue="r"),
        ],
        evicting("reclaim", quota="capacity"),
        ["a-w-3"],
    ),
    "reclaim: nothing below the guarantee": (
        [
            FULL,
            queue("q", deserved={"cpu": 1}, guarantee={"cpu": 3}),
            queue("r", deserved={"cpu": 3}),
            runs("a", "n", 3, queue="q"),
            busy("n", "own", cpu=1),
            wants("j", 1, queue="r"),
        ],
        evicting("reclaim", quota="capacity"),
        ["own-0"],  # of queue default, which deserves nothing
    ),
    "reclaim: a pod that says it may not be preempted stays": (
        [
            FULL,
            queue("q"),
            queue("r"),
            runs("a", "n", 4, queue="q", annotations={"volcano.sh/preemptable": "false"}),
            wants("j", 1, queue="r"),
        ],
        evicting("reclaim"),
        [],
    ),
}


@pytest.mark.parametrize(("things", "settings", "wanted"), VICTIMS.values(), ids=VICTIMS)
def test_who_makes_room(things: list[Any], settings: Any, wanted: list[str]) -> None:
    if settings == "never":
        settings = evicting("preempt")
        for thing in things[-1][1:]:
            thing.spec.preemption_policy = "Never"
    decisions = unadvised(cluster(CLASSES, *things), settings)
    assert not decisions.violations
    assert victims(decisions) == wanted


def test_drf_serves_the_job_with_the_smaller_dominant_share() -> None:
    things = [
        node("n", cpu=10, mem="100Gi"),
        runs("a", "n", 1, cls="", priority=0, cpu=2, mem="1Gi"),  # 2/10
        runs("b", "n", 1, cls="", priority=0, cpu=1, mem="50Gi"),  # 50/100
        pod("a-more", "a", cpu=7),
        pod("b-more", "b", cpu=7),
    ]
    settings = config(("priority",), ("drf", "predicates"), actions="allocate")
    assert list(placed(unadvised(cluster(*things), settings))) == ["a-more"]


def test_tdm_counts_percent_of_a_budget_up_and_leaves_at_least_what_it_says() -> None:
    settings = load_config(
        """
actions: "allocate, shuffle"
tiers:
- plugins:
  - name: gang
  - name: tdm
    arguments: {tdm.revocable-zone.z: "00:00-00:01"}
- plugins:
  - name: predicates
"""
    )
    for note, number in (
        ({"volcano.sh/jdb-max-unavailable": "30%"}, 2),
        ({"volcano.sh/jdb-min-available": "1"}, 3),
        ({}, 1),
    ):
        head = group("j", phase="Running", annotations=note)
        pods = running_pods("j", ["n"] * 4, cpu=1, annotations={"volcano.sh/preemptable": "true"})
        state = cluster(node("n", labels={"volcano.sh/revocable-zone": "z"}), head, pods)
        assert len(unadvised(state, settings, now=START + 3600 * 20).evictions) == number


def test_pods_of_a_closing_queue_that_run_stay_and_new_ones_wait() -> None:
    things = [
        node("n", cpu=4),
        queue("q", state="Closing"),
        runs("a", "n", 1, queue="q", cls="", priority=0),
        lone_in("q", 0),
    ]
    assert not unadvised(cluster(*things), PROPORTION).binds


def test_a_place_that_was_taken_back_comes_back_to_the_beneficiary() -> None:
    settings = evicting("preempt")
    plane = Plane(settings, CLASSES, FULL, runs("a", "n", 4), wants("j", 2))
    plane.settle()
    assert plane.running() == {"a": 2, "j": 2}
