"""Numbers of verdicts against a count of their own: pods that would find a place, what is asked for, what is free."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.build import cluster, flatten, group, node, pod, schedule
from support.examples import examples
from unisono.engine.config_file.reader import default_config
from unisono.engine.verdict import Cause, Verdict

POOLS = ("a", "b", "c")
NOWHERE = "nowhere"
_PLACED = re.compile(r"(\d+) of (\d+) tasks can be placed")


@dataclass(frozen=True)
class World:
    """Nodes as (pool, CPUs, CPUs in use) and roles of one gang as (pool, pods of 1 CPU)."""

    nodes: list[tuple[str, int, int]]
    roles: list[tuple[str, int]]

    @property
    def members(self) -> int:
        return sum(number for _, number in self.roles)

    def free(self, pool: str) -> int:
        return sum(cpus - used for name, cpus, used in self.nodes if name == pool)

    def placeable(self) -> int:
        """Pools have no node in common, so every pool takes as many pods as it has free CPUs."""
        wanted: Counter[str] = Counter()
        for pool, number in self.roles:
            wanted[pool] += number
        return sum(min(self.free(pool), number) for pool, number in wanted.items())

    def things(self, phase: str = "Inqueue") -> list[Any]:
        made = []
        for at, (pool, cpus, used) in enumerate(self.nodes):
            made.append(node(f"n{at}", cpu=cpus, labels={"pool": pool}))
            if used:
                made += [group(f"h{at}", 1), pod(f"h{at}-w", f"h{at}", node=f"n{at}", cpu=used)]
        made.append(group("j", self.members, phase=phase, resources={"cpu": self.members}))
        for at, (pool, number) in enumerate(self.roles):
            made += [pod(f"j-{at}-{n}", "j", cpu=1, role=f"r{at}", selector={"pool": pool}) for n in range(number)]
        return made


@st.composite
def worlds(draw: st.DrawFn) -> World:
    nodes = []
    for _ in range(draw(st.integers(1, 5))):
        cpus = draw(st.integers(1, 4))
        nodes.append((draw(st.sampled_from(POOLS)), cpus, draw(st.integers(0, cpus))))
    roles = draw(st.lists(st.tuples(st.sampled_from((*POOLS, NOWHERE)), st.integers(1, 4)), min_size=1, max_size=3))
    return World(nodes, roles)


@settings(max_examples=examples(150), deadline=None)
@given(worlds())
def test_the_count_of_pods_that_would_find_a_place_is_true(world: World) -> None:
    decisions = schedule(cluster(*flatten(world.things())))
    verdict: Verdict | None = decisions.verdicts.get("ns/j")
    if world.placeable() >= world.members:
        assert len([one for one in decisions.binds if one.pod.startswith("j-")]) == world.members
        return
    assert verdict is not None
    assert (verdict.tasks_placeable, verdict.tasks_needed) == (world.placeable(), world.members), verdict.message
    for placed, members in _PLACED.findall(verdict.message):
        assert (int(placed), int(members)) == (world.placeable(), world.members)
    if verdict.cause is not Cause.FILTERS and verdict.task:
        role = int(verdict.task.split("-")[1])
        pool = world.roles[role][0]
        assert verdict.have == {"cpu": world.free(pool) * 1000}
        alike = sum(count for other, count in world.roles if other == pool)
        assert verdict.need == {"cpu": min(world.members - world.placeable(), alike) * 1000}


@settings(max_examples=examples(100), deadline=None)
@given(worlds())
def test_the_count_is_true_where_admission_refuses_the_gang(world: World) -> None:
    verdict = schedule(cluster(*flatten(world.things("Pending"))), default_config()).verdicts.get("ns/j")
    if verdict is None or verdict.cause is not Cause.CLUSTER_OVERCOMMITTED:
        return
    assert verdict.tasks_placeable == min(world.placeable(), world.members), verdict.message
    assert verdict.need == {"cpu": world.members * 1000}
    assert verdict.have["cpu"] <= sum(cpus - used for _, cpus, used in world.nodes) * 1000


@pytest.mark.parametrize("workers", [1, 2])
def test_a_pod_that_asks_for_nothing_counts_once(workers: int) -> None:
    """Allocate and backfill both find a place for it, and both give it back with its gang."""
    launcher = pod("j-0", "j", role="launcher")
    made = [pod(f"j-w-{n}", "j", cpu=8, role="worker") for n in range(workers)]
    full = [group("h", 1), pod("h-0", "h", node="n", cpu=8)]
    decisions = schedule(cluster(node("n", cpu=8), *full, group("j", 1 + workers), launcher, *made))
    verdict = decisions.verdicts["ns/j"]
    assert (verdict.tasks_placeable, verdict.tasks_needed) == (1, 1 + workers), verdict.message
    (update,) = [one for one in decisions.pod_groups if one.name == "j"]
    (stated,) = [one for one in update.conditions if one.type == "Unschedulable"]
    assert f"{workers}/{1 + workers} tasks in gang unschedulable" in stated.message, stated.message
