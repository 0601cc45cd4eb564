"""gangpreempt and gangreclaim: room for whole gangs, in one domain, at the least cost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as settings_of
from hypothesis import strategies as st
from topology_world import job, racks, spine, wish, world

from support.build import confirm, flatten, priority_class, queue, schedule
from support.examples import examples
from unisono.api import kinds
from unisono.api.annotations import APART, NEAR
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.decisions import Decisions


def settings(action: str, more: str = "") -> SchedulerConfig:
    return load_config(f"""
actions: "enqueue, allocate, {action}, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: capacity
  - name: network-topology-aware
{more}""")


PREEMPT, RECLAIM = settings("gangpreempt"), settings("gangreclaim")
CLASSES = [priority_class("low", 1), priority_class("high", 10)]
FOUR = [racks({"a": 2, "b": 2}), spine("s", "a", "b"), CLASSES]


def ranked(name: str, size: int, rank: str, **given: Any) -> list[Any]:
    """A job of a priority class; ``queue`` names its queue."""
    where = given.pop("queue", "default")
    things = job(name, size, given.pop("topology", None), **given)
    things[0].spec.priority_class_name = rank
    things[0].spec.queue = where
    things[0].status.phase = "Running" if given.get("running") else "Inqueue"
    return things


def full(*, minimum: int = 1, **given: Any) -> list[Any]:
    """Two jobs of low priority that fill racks a and b."""
    first = ranked("va", 2, "low", minimum=minimum, running={0: "a-0", 1: "a-1"}, **given)
    second = ranked("vb", 2, "low", minimum=minimum, running={0: "b-0", 1: "b-1"}, created=1, **given)
    return [first, second]


def evicted(decisions: Decisions) -> list[str]:
    assert not decisions.violations
    return sorted(eviction.pod for eviction in decisions.evictions)


def test_the_rack_where_least_is_missing_is_cleared() -> None:
    """Rack a is full, rack b half: one pod less has to go there, although a comes first."""
    first = ranked("va", 2, "low", running={0: "a-0", 1: "a-1"})
    second = ranked("vb", 1, "low", running={0: "b-0"}, created=1)
    things = [*FOUR, first, second, ranked("j", 2, "high", topology=wish(1))]
    assert evicted(schedule(world(things), PREEMPT)) == ["vb-w-0"]


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        ([full(minimum=2), ranked("j", 2, "high", topology=wish(1))], ["va-w-0", "va-w-1"]),
        ([full(minimum=1), ranked("j", 1, "high", topology=wish(1))], ["va-w-0"]),
        ([full(minimum=1), ranked("j", 2, "high", topology=wish(2))], ["va-w-0", "vb-w-0"]),
        ([full(minimum=2), ranked("j", 3, "high", topology=wish(1))], []),
        ([full(minimum=2), ranked("j", 2, "low", topology=wish(1))], []),
        ([full(minimum=2), ranked("j", 1, "high")], ["vb-w-0", "vb-w-1"]),
        ([ranked("va", 1, "low", running={0: "a-0"}), ranked("j", 2, "high", topology=wish(1))], []),
    ],
    ids=[
        "a whole gang in the first rack that works",
        "one spare pod",
        "spare pods of both in the spine",
        "no rack is that large",
        "not from equals",
        "jobs without topology as well",
        "nothing where there is room",
    ],
)
def test_gangpreempt(things: list[Any], expected: list[str]) -> None:
    assert evicted(schedule(world(FOUR, *things), PREEMPT)) == expected


def test_the_gang_gets_the_room_in_the_next_cycles() -> None:
    state = world(FOUR, full(minimum=2), ranked("j", 2, "high", topology=wish(1)))
    decisions = schedule(state, PREEMPT)
    assert {entry.node for entry in decisions.pipelined} == {"a-0", "a-1"}
    assert {condition.nominated_node for condition in decisions.pod_conditions if condition.pod.startswith("j")} == {
        "a-0",
        "a-1",
    }
    from unisono.api.kinds import PODS

    for eviction in decisions.evictions:
        gone = next(pod for pod in full(minimum=2)[0][1:] if pod.metadata.name == eviction.pod)
        state.apply("DELETED", PODS, gone)
    after = schedule(state, PREEMPT)
    assert not after.evictions
    assert {bind.node for bind in after.binds} == {"a-0", "a-1"}
    confirm(state, after)
    assert not schedule(state, PREEMPT).evictions


def test_gangs_that_must_not_be_preempted_and_whole_gangs() -> None:
    victims = full(minimum=2)
    for things in victims:
        things[0].metadata.annotations = {"volcano.sh/preemptable": "false"}
    beneficiary = ranked("j", 2, "high", topology=wish(1))
    assert evicted(schedule(world(FOUR, victims, beneficiary), PREEMPT)) == []
    only_spare = settings(
        "gangpreempt", "configurations:\n- name: gangpreempt\n  arguments: {allowWholeBundle: false}\n"
    )
    assert evicted(schedule(world(FOUR, full(minimum=2), beneficiary), only_spare)) == []


def test_pods_that_never_preempt() -> None:
    things = ranked("j", 2, "high", topology=wish(1))
    for each in things[1:]:
        each.spec.preemption_policy = "Never"
    assert evicted(schedule(world(FOUR, full(minimum=2), things), PREEMPT)) == []


QUEUES = [queue("mine", deserved={"cpu": 8, "mem": "128Gi"}), queue("theirs", deserved={"cpu": 8, "mem": "128Gi"})]


@pytest.mark.parametrize(
    ("things", "expected"),
    [
        ([full(queue="theirs"), ranked("j", 2, "low", topology=wish(1), queue="mine")], 2),
        ([full(queue="theirs"), ranked("j", 3, "low", topology=wish(2), queue="mine")], 0),
        ([full(queue="theirs"), ranked("j", 2, "low", queue="mine")], 2),
    ],
    ids=["up to the share, in one rack", "not beyond the share", "without topology"],
)
def test_gangreclaim(things: list[Any], expected: int) -> None:
    decisions = schedule(world(FOUR, QUEUES, *things), RECLAIM)
    assert len(evicted(decisions)) == expected
    if expected and "topology" in str(things[1][0].spec.network_topology):
        assert len({eviction.node[0] for eviction in decisions.evictions}) == 1


def test_preempt_and_reclaim_leave_bounded_jobs_alone() -> None:
    legacy = settings("preempt")
    assert evicted(schedule(world(FOUR, full(minimum=1), ranked("j", 2, "high", topology=wish(1))), legacy)) == []


def test_a_placement_outside_of_the_domain_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    from unisono.engine.plugins.network_topology_aware.plugin import NetworkTopologyAwarePlugin

    monkeypatch.setattr(NetworkTopologyAwarePlugin, "domain_gradients", lambda self, job, group, top, *, evict: [[top]])
    decisions = schedule(world(FOUR, ranked("j", 3, "high", topology=wish(1))), PREEMPT)
    assert not decisions.binds
    assert "outside of the domain" in decisions.violations[0].message


SIZES = st.integers(1, 4)


@settings_of(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.tuples(SIZES, SIZES, st.sampled_from([1, 2, 4]), st.sampled_from(["low", "high"])), max_size=5),
    st.lists(st.tuples(SIZES, st.sampled_from([1, 2, 3]), st.sampled_from([2, 4])), min_size=1, max_size=2),
    st.sampled_from(["gangpreempt", "gangreclaim"]),
)
def test_victims_only_for_gangs_that_get_all_their_places(
    victims: list[tuple[int, int, int, str]], takers: list[tuple[int, int, int]], action: str
) -> None:
    tree = [racks({"a": 2, "b": 2, "c": 1}), spine("s", "a", "b"), spine("top", "s", "c", tier=3), CLASSES, QUEUES]
    free = {f"{rack}-{index}": 4 for rack, size in (("a", 2), ("b", 2), ("c", 1)) for index in range(size)}
    things: list[Any] = [tree]
    for number, (size, minimum, cpu, rank) in enumerate(victims):
        running: dict[int, str] = {}
        for index in range(size):
            name = next((name for name, left in free.items() if left >= cpu), "")
            if name:
                free[name] -= cpu
                running[index] = name
        if running:
            least = min(minimum, len(running))
            things.append(
                ranked(f"v{number}", len(running), rank, minimum=least, running=running, cpu=cpu, queue="theirs")
            )
    own = "theirs" if action == "gangpreempt" else "mine"
    for number, (size, tier, cpu) in enumerate(takers):
        things.append(ranked(f"j{number}", size, "high", topology=wish(tier), cpu=cpu, queue=own, created=9 + number))
    state = world(*things)
    snapshot = state.snapshot()
    decisions = schedule(state, settings(action))
    assert not decisions.violations
    promised: dict[str, list[str]] = {}
    for entry in decisions.pipelined:
        promised.setdefault(entry.job, []).append(entry.node)
    for eviction in decisions.evictions:
        record = snapshot.jobs[eviction.beneficiary]
        assert len(promised[eviction.beneficiary]) >= record.min_member
        loser = snapshot.jobs[snapshot.tasks[f"{eviction.namespace}/{eviction.pod}"].job]
        if action == "gangpreempt":
            assert loser.priority_class == "low"
        else:
            assert loser.queue != record.queue
        if record.topology is not None and record.topology.tier == 1:
            assert len({node[0] for node in promised[eviction.beneficiary]}) == 1


@pytest.mark.parametrize(("word", "expected"), [(NEAR, ["vb0-w-0", "vb1-w-0"]), (APART, ["va0-w-0", "va1-w-0"])])
@pytest.mark.parametrize("tier", [1, None], ids=["hard", "unbound"])
def test_room_is_made_where_the_gang_may_stand(word: str, expected: list[str], tier: int | None) -> None:
    things: list[Any] = [racks({"a": 3, "b": 3}), CLASSES, ranked("there", 1, "high", running={0: "b-2"})]
    things += ranked("pad", 1, "high", running={0: "a-2"})
    things += [ranked(f"v{rack}{at}", 1, "low", running={0: f"{rack}-{at}"}) for rack in "ab" for at in range(2)]
    gang = ranked("g", 2, "high", topology=None if tier is None else wish(tier))
    gang[0].metadata.annotations = {word: "app=there@tier-1"}
    state = world(*things, gang)
    for one in (obj for obj in flatten(things) if obj.metadata.name == "there-w-0"):
        one.metadata.labels = {"app": "there"}
        state.apply("MODIFIED", kinds.PODS, one)
    assert evicted(schedule(state, PREEMPT)) == expected
