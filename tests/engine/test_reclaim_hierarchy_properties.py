"""Reclaim in a tree of queues: the parent is full, one sibling has borrowed, the other comes for what it deserves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from eviction_world import Plane, running_pods
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from support.build import group, node, pod, queue
from support.examples import examples
from unisono.engine.config_file.reader import load_config

CONFIG = """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: conformance
  - name: gang
    enableReclaimable: {protected}
  - name: predicates
  - name: capacity
    enableHierarchy: true
  - name: nodeorder
"""
OPEN = load_config(CONFIG.format(protected="false"))
"""Gangs go whole where the queue may spare all of it, and what they have beyond their minimum one by one."""
GUARDED = load_config(CONFIG.format(protected="true"))
"""A gang gives only what it has beyond its minimum; in a tier before that of `capacity` it would be asked in vain."""


@dataclass(frozen=True)
class World:
    """Gangs as (minimum, pods): ``lent`` run in queue a, ``come`` wait in queue b; ``outside`` pods run elsewhere."""

    lent: tuple[tuple[int, int], ...]
    come: tuple[tuple[int, int], ...]
    outside: int
    spare: int
    deserved: int
    grace: int

    @property
    def capability(self) -> int:
        """Of the parent: what queue a holds, all of it."""
        return sum(pods for _, pods in self.lent)

    @property
    def asked(self) -> int:
        """Pods of queue b."""
        return sum(pods for _, pods in self.come)

    def plane(self, config: Any) -> Plane:
        most, size = self.capability, 4
        theirs, own = {"cpu": self.deserved}, {"cpu": most - self.deserved}
        things: list[Any] = [
            queue("root"),
            queue("org", parent="root", deserved={"cpu": most}, capability={"cpu": most}),
            queue("a", parent="org", deserved=own),
            queue("b", parent="org", deserved=theirs),
            queue("other", parent="root", deserved={"cpu": self.outside + self.spare}),
        ]
        total = most + self.outside + self.spare
        places = [f"n{at // size}" for at in range(total)]
        things += [node(f"n{at}", cpu=size) for at in range(-(-total // size))]
        for at, (minimum, pods) in enumerate([*self.lent, (1, self.outside)]):
            where = "other" if at == len(self.lent) else "a"
            mine, places = places[:pods], places[pods:]
            things += [group(f"{where}{at}", minimum, queue=where, phase="Running")]
            things += running_pods(f"{where}{at}", mine)
        for at, (minimum, pods) in enumerate(self.come):
            things += [
                group(f"b{at}", minimum, queue="b", resources={"cpu": minimum}, phase="Pending", created=10.0 + at)
            ]
            things += [pod(f"b{at}-w-{index}", f"b{at}", cpu=1, created=10.0 + at) for index in range(pods)]
        return Plane(config, *things, grace=self.grace)


def gangs(least: int, most: int, *, rigid: bool = False) -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    shape = st.integers(1, 5).flatmap(lambda pods: st.tuples(st.integers(pods if rigid else 1, pods), st.just(pods)))
    return st.lists(shape, min_size=least, max_size=most).map(tuple)


worlds = st.builds(
    World,
    gangs(1, 5),
    gangs(1, 4, rigid=True),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 12),
    st.integers(0, 2),
).filter(lambda world: world.asked <= world.deserved <= world.capability)
greedy = st.builds(
    World, gangs(1, 5), gangs(1, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 12), st.integers(0, 2)
).filter(lambda world: world.deserved <= world.capability)
slow = hypothesis_settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def live(world: World, config: Any) -> tuple[Plane, Counter[str]]:
    """Cycles until nothing happens any more, with the limits looked at in each; pods per queue at the end."""
    plane, quiet, cycles = world.plane(config), 0, 0
    pods = len(plane.pods())
    while quiet < 3:
        decisions = plane.cycle()
        held = sum(bool(each.spec.node_name) for each in plane.pods() if each.metadata.name[0] in "ab")
        assert held <= world.capability, "the parent's capability, with pods that are leaving"
        cycles += 1
        assert cycles <= 12 + 8 * pods, f"it does not come to rest; evicted {plane.evicted}"
        quiet = 0 if decisions.binds or decisions.evictions or decisions.pipelined or plane.leaving else quiet + 1
    assert sum(len(jobs) for jobs in plane.evicted) <= pods, f"a pod is evicted again and again: {plane.evicted}"
    totals = Counter[str]()
    for job, number in plane.running().items():
        totals[job.rstrip("0123456789")] += number
    assert totals["other"] == world.outside, "what is beside the tree's branch loses nothing"
    return plane, totals


def whole(world: World, plane: Plane) -> bool:
    """Whether no gang runs in part."""
    running = plane.running()
    jobs = [(f"a{at}", minimum) for at, (minimum, _) in enumerate(world.lent)]
    jobs += [(f"b{at}", minimum) for at, (minimum, _) in enumerate(world.come)]
    return all(running.get(job, 0) == 0 or running[job] >= minimum for job, minimum in jobs)


@slow
@given(worlds.map(lambda world: replace(world, lent=tuple((1, pods) for _, pods in world.lent))))
def test_a_sibling_gives_back_what_the_other_deserves(world: World) -> None:
    """All that comes is deserved, so all of it runs; the borrower keeps what is deserved by it."""
    plane, held = live(world, OPEN)
    assert held["b"] == world.asked
    assert held["a"] >= world.capability - world.deserved
    assert all(plane.running().get(f"b{at}", 0) == pods for at, (_, pods) in enumerate(world.come))


@slow
@given(worlds)
def test_no_gang_is_left_in_part_by_a_tier_that_does_not_protect_them(world: World) -> None:
    plane, held = live(world, OPEN)
    assert whole(world, plane)
    assert held["a"] >= world.capability - world.deserved


@slow
@given(worlds)
def test_gangs_stay_whole_where_they_are_protected(world: World) -> None:
    """What gangs have beyond their minimum is given back; if that is enough, the sibling has all that it asked for."""
    plane, held = live(world, GUARDED)
    assert whole(world, plane)
    if sum(pods - minimum for minimum, pods in world.lent) >= world.asked:
        assert held["b"] == world.asked


@slow
@given(greedy, st.booleans())
def test_whatever_is_asked_for_it_comes_to_rest_within_limits(world: World, protected: bool) -> None:
    """More may be asked for than is deserved, or than the parent may have."""
    plane, held = live(world, GUARDED if protected else OPEN)
    assert held["b"] <= max(world.deserved, world.capability - held["a"])
    assert held["a"] >= min(world.capability, world.capability - world.deserved)
    assert whole(world, plane)
