"""Gangs that lose pods keep their minimum or go whole, and nobody is bound and evicted in one cycle."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from eviction_world import PREEMPT, Plane, settings
from topology_world import job, racks, spine, wish, world

from support.build import group, node, pod, priority_class, schedule
from unisono.engine.config.model import SchedulerConfig
from unisono.engine.config_file.reader import load_config
from unisono.engine.cycle.context import Cycle
from unisono.engine.decisions import Decisions
from unisono.engine.eviction.search import Evictions
from unisono.engine.eviction.whole_gangs import _Plan

RANKS = [priority_class("low", 1), priority_class("mid", 5), priority_class("high", 10)]
RACKS = [racks({"a": 2, "b": 2}), spine("s", "a", "b"), RANKS]


def whole(actions: str = "enqueue, allocate, gangpreempt, backfill", more: str = "") -> SchedulerConfig:
    names = ("predicates", "capacity", "network-topology-aware")
    plugins = "".join(f"\n  - name: {name}" for name in names)
    first = "".join(f"\n  - name: {name}" for name in ("priority", "gang", "conformance"))
    return load_config(f'actions: "{actions}"\ntiers:\n- plugins:{first}\n- plugins:{plugins}\n{more}')


def ranked(name: str, size: int, rank: str, **given: Any) -> list[Any]:
    things = job(name, size, given.pop("topology", None), **given)
    things[0].spec.priority_class_name = rank
    things[0].status.phase = "Running" if given.get("running") else "Inqueue"
    return things


def left(decisions: Decisions, sizes: dict[str, int]) -> dict[str, int]:
    """Pods that each job goes on with."""
    assert decisions.violations == []
    gone = Counter(eviction.pod.rpartition("-w-")[0] for eviction in decisions.evictions)
    return {name: size - gone[name] for name, size in sizes.items()}


@pytest.mark.parametrize(
    ("victims", "size", "expected"),
    [
        # a gang of both racks goes from both, though only rack a is wanted
        ([ranked("v", 4, "low", minimum=4, running={0: "a-0", 1: "a-1", 2: "b-0", 3: "b-1"})], 2, {"v": 0}),
        # what it can spare is enough
        ([ranked("v", 4, "low", minimum=3, running={0: "a-0", 1: "a-1", 2: "b-0", 3: "b-1"})], 1, {"v": 3}),
        # what it can spare is not enough
        ([ranked("v", 4, "low", minimum=3, running={0: "a-0", 1: "a-1", 2: "b-0", 3: "b-1"})], 2, {"v": 0}),
        # the other rack has a gang of its own, which stays
        (
            [
                ranked("v", 2, "low", minimum=2, running={0: "a-0", 1: "a-1"}),
                ranked("w", 2, "mid", minimum=2, running={0: "b-0", 1: "b-1"}),
            ],
            2,
            {"v": 0, "w": 2},
        ),
        # a gang that is broken goes as a whole: none of it is of use
        ([ranked("v", 3, "low", minimum=4, running={0: "a-0", 1: "b-0", 2: "b-1"})], 2, {"v": 0}),
    ],
)
def test_victims_keep_their_minimum_or_go_whole(victims: list[list[Any]], size: int, expected: dict[str, int]) -> None:
    sizes = {things[0].metadata.name: len(things) - 1 for things in victims}
    decisions = schedule(world(RACKS, victims, ranked("g", size, "high", topology=wish(1))), whole())
    assert decisions.evictions
    assert left(decisions, sizes) == expected


@pytest.mark.parametrize("outside", [False, True])
def test_a_gang_of_which_a_pod_must_stay_goes_not_at_all(outside: bool) -> None:
    things = ranked("v", 4, "low", minimum=4, running={0: "a-0", 1: "a-1", 2: "b-0", 3: "b-1"})
    things[4 if outside else 1].metadata.annotations["volcano.sh/preemptable"] = "false"
    decisions = schedule(world(RACKS, things, ranked("g", 2, "high", topology=wish(1))), whole())
    assert left(decisions, {"v": 4}) == {"v": 4}


def test_of_what_a_gang_wants_beyond_its_minimum_each_kind_of_pod_may_make_room() -> None:
    """Another pod, for which nobody can make room, does not keep it from that: else a lower job takes its place."""
    tiers = (["priority", "conformance"], ["gang", "predicates", "capacity", "network-topology-aware"])
    plugins = "".join(f"\n- plugins: [{', '.join(f'{{name: {name}}}' for name in tier)}]" for tier in tiers)
    config = load_config(f'actions: "enqueue, allocate, gangpreempt"\ntiers:{plugins}\n')
    wanting = ranked("j", 3, "high", topology=wish(1), minimum=1, running={0: "a-0"}, cpu=1)
    wanting[2].spec.node_selector = {"disk": "none"}
    held = ranked("v", 1, "low", running={0: "a-0"}, cpu=1)
    decisions = schedule(world(racks({"a": 1}, cpu=2), RANKS, wanting, held), config)
    assert left(decisions, {"v": 1}) == {"v": 0}
    assert [(one.pod, one.node) for one in decisions.pipelined] == [("j-w-2", "a-0")]


ELASTIC = [
    node("n0", cpu=2),
    node("n1", cpu=2),
    group("v", 2, phase="Running", priority_class="low"),
    *(pod(f"v-w-{at}", "v", node=f"n{at // 2}", cpu=1) for at in range(3)),
    pod("v-w-3", "v", cpu=1),
]


@pytest.mark.parametrize("config", [whole(), PREEMPT, settings("enqueue, preempt, allocate, backfill")])
def test_nobody_is_bound_and_evicted_in_one_cycle(config: SchedulerConfig) -> None:
    """An elastic gang is given its fourth pod while others of it would have to go."""
    plane = Plane(config, RANKS, ELASTIC, group("g", 1, priority_class="high"), pod("g-w-0", "g", cpu=2))
    for _ in range(6):
        decisions = plane.cycle()
        bound = {bind.job for bind in decisions.binds}
        gone = {f"ns/{eviction.pod.rpartition('-w-')[0]}" for eviction in decisions.evictions}
        assert not bound & gone
    assert plane.running()["g"] == 1


def test_the_invariants_see_a_gang_that_is_bound_and_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Evictions, "may_lose", staticmethod(lambda job, actor: True))
    things = [RANKS, ELASTIC, group("g", 1, priority_class="high"), pod("g-w-0", "g", cpu=2)]
    decisions = schedule(world(things), whole())
    assert [violation.message for violation in decisions.violations] == [
        "pods of PodGroup ns/v would be evicted while others of it are bound"
    ]
    assert [bind.pod for bind in decisions.binds] == ["v-w-3"]
    assert not decisions.evictions


def test_the_invariants_see_a_gang_that_is_left_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Plan, "_complete", lambda self, bundle: True)
    victim = ranked("v", 4, "low", minimum=4, running={0: "a-0", 1: "a-1", 2: "b-0", 3: "b-1"})
    decisions = schedule(world(RACKS, victim, ranked("g", 2, "high", topology=wish(1))), whole())
    assert [violation.message for violation in decisions.violations] == ["PodGroup ns/v would go on with 2 of 4 pods"]
    assert not decisions.evictions


@pytest.mark.parametrize(
    ("beneficiary", "said"),
    [("ns/g", "no pod gets their places"), ("ns/nobody", "no pod gets"), ("", "no pod gets")],
)
def test_the_invariants_see_evictions_for_nobody(monkeypatch: pytest.MonkeyPatch, beneficiary: str, said: str) -> None:
    """The loop goes on: what is right of a cycle is carried out."""
    write_out = Cycle.commit

    def commit(self: Cycle, since: int, job: Any) -> None:
        write_out(self, since, job)
        self.evicted = [(placement, beneficiary) for placement, _ in self.evicted]
        for placement in reversed(self.transaction.log):
            if placement.job.name == "g":
                self.transaction.log.remove(placement)

    monkeypatch.setattr(Cycle, "commit", commit)
    things = [RANKS, node("n0", cpu=1), node("n1", cpu=4), group("v", 1, phase="Running", priority_class="low")]
    things += [pod("v-0", "v", node="n1", cpu=4), group("g", 1, priority_class="high"), pod("g-0", "g", cpu=2)]
    things += [group("h", 1), pod("h-0", "h", cpu=1)]
    decisions = schedule(world(things), PREEMPT)
    assert [violation.message.endswith(said) or said in violation.message for violation in decisions.violations] == [
        True
    ]
    assert not decisions.evictions
    assert [bind.pod for bind in decisions.binds] == ["h-0"]


def test_the_invariants_see_a_beneficiary_that_gets_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    from unisono.engine.answers import Vote
    from unisono.engine.plugins.gang import GangPlugin

    monkeypatch.setattr(GangPlugin, "pipelined", lambda self, job: Vote.PERMIT)
    things = [RANKS, node("n1", cpu=4), group("v", 0, phase="Running", priority_class="low")]
    things += [pod("v-0", "v", node="n1", cpu=4), group("g", 3, priority_class="high")]
    things += [pod(f"g-{at}", "g", cpu=2) for at in range(3)]
    decisions = schedule(world(things), PREEMPT)
    assert "the gang would have 2 of 3 pods" in decisions.violations[0].message
    assert not decisions.evictions


def test_a_gang_gets_room_for_its_minimum_where_all_of_it_would_never_fit() -> None:
    victim = ranked("v", 1, "low", running={0: "n"})
    gang = ranked("g", 5, "high", minimum=4)
    decisions = schedule(world([node("n", cpu=16), RANKS], [victim], gang), whole())
    assert [eviction.beneficiary for eviction in decisions.evictions] == ["ns/g"]
