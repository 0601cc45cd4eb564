"""What a waiting job is told of the pods that do not make room for it: the plug-in that keeps them, and no other."""

from __future__ import annotations

from typing import Any

import pytest
from eviction_world import running_pods

from support.build import START, cluster, gang, group, node, priority_class, schedule
from unisono.api.times import rfc3339
from unisono.engine.config_file.reader import load_config


def settings(*, gang_votes: bool, guard: str = "") -> Any:
    return load_config(
        f"""
actions: "enqueue, allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: {str(gang_votes).lower()}
{guard}
- plugins:
  - name: overcommit
  - name: predicates
"""
    )


GUARD = """
  - name: eviction-guard
    arguments: {eviction-guard.minRunTime: 10m}
"""


@pytest.mark.parametrize(
    ("gang_votes", "guard", "told"),
    [
        (True, "", "no preemption: ns/low has no pods beyond its minimum, 4"),
        (
            False,
            GUARD,
            "2 of 2 pods that would have to go have run for less than their minimum (ns/low-w-0 for 100 s of 600 s)",
        ),
        (True, GUARD, "no preemption: ns/low has no pods beyond its minimum, 4"),
        (False, "", ""),
    ],
)
def test_the_plug_in_that_keeps_the_pods_is_named(gang_votes: bool, guard: str, told: str) -> None:
    young = running_pods("low", ["n"] * 4, cpu=1, priority=1, priority_class="low")
    for each in young:
        each.status.start_time = rfc3339(START + 900)
    classes = [priority_class("low", 1), priority_class("high", 100)]
    holder = group("low", 4, phase="Running", priority_class="low")
    waits = gang("high", 2, priority_class="high", priority=100, created=50.0)
    state = cluster(node("n", cpu=4), classes, holder, young, waits)
    decisions = schedule(state, settings(gang_votes=gang_votes, guard=guard))
    if not told:
        assert decisions.evictions
        return
    assert not decisions.evictions
    assert told in decisions.verdicts["ns/high"].message
