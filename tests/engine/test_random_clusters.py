"""A fixed part of what ``python -m benchmarks.check`` searches, and that the rules find what is wrong."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.check import facts, life, rules, world
from benchmarks.check.rules import conserving, quarrels

from unisono.engine.closing.invariants import enforce
from unisono.engine.cycle.context import Cycle
from unisono.engine.plugins.capacity.plugin import QueueCapacity
from unisono.engine.session.budgets import BudgetLimit
from unisono.engine.session.floating import FloatingLimit, floating_limits
from unisono.engine.session.limit import Limit
from unisono.engine.session.queue_limits import limits_of

ROOT = Path(__file__).parents[2]

_EACH = 50


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(seed, marks=pytest.mark.more) for seed in range(_EACH, 300, _EACH))]
)
def test_nothing_is_found_in_random_clusters(first: int) -> None:
    assert not [finding for seed in range(first, first + _EACH) if (finding := life.examine(seed)) is not None]


# Found by the search, and cured.
_FOUND = [
    62,
    220,
    311,
    493,
    560,
    661,
    808,
    888,
    925,
    933,
    20067,
    20540,
    21518,
    22746,
    22788,
    22943,
    23829,
    23961,
    24111,
]
_FOUND += [24656, 40405, 41216, 301099, 400248, 400274, 400681, 400840, 401004, 402078]
_FOUND += [403524, 403650, 403724, 412377, 413040, 602332, 605690, 605995, 606615, 610942, 611847, 612655]
_FOUND += [612696, 900119, 903777, 930553, 1000725, 1004080, 1008024, 1009939, 1020559]


@pytest.mark.parametrize("seed", _FOUND)
def test_what_was_found_once_is_found_no_more(seed: int) -> None:
    assert life.examine(seed) is None


def test_sums_over_queues_are_what_the_queues_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches and limits follow placements, evictions and their undoing, and are no second opinion."""
    seen = Counter[str]()

    def compare(cycle: Cycle) -> None:
        session = cycle.session
        queues, fresh = session.queues, dict[str, Limit](limits_of(session.snapshot, session.registry))
        fresh |= {limit.name: limit for limit in floating_limits(session.snapshot, session.now, queues)}
        for plugin, _ in cycle.hooks.flat["headroom"]:
            for branch in plugin.branches.values() if isinstance(plugin, QueueCapacity) else ():
                held = sum((queues[name].claimed for name in branch.members), session.registry.zeros())
                assert branch.held == held.tolist(), branch.name
                seen["branch"] += bool(held.any())
        limits = {limit for queue in queues.values() for limit in queue.limits}
        for limit in (
            limit for limit in limits if not isinstance(limit, BudgetLimit)
        ):  # which count hours, and no pods
            moved = sum((queues[name].claimed - queues[name].record.allocated for name in limit.family), 0)
            rows = [limit.row] if isinstance(limit, FloatingLimit) else slice(None)
            assert (limit.held == fresh[limit.name].held + moved)[rows].all(), limit.name
            seen["limit"] += bool(np.any(moved))
        enforce(cycle)

    monkeypatch.setattr("unisono.engine.one_cycle.enforce", compare)
    for seed in range(12):
        life.examine(seed)
    assert min(seen["branch"], seen["limit"]) > 20


def test_a_seed_always_makes_the_same_cluster() -> None:
    assert world.World(7).objects() == world.World(7).objects()


def test_the_rules_share_nothing_with_what_they_check() -> None:
    for file in [ROOT / "benchmarks/check/facts.py", *(ROOT / "benchmarks/check/rules").glob("*.py")]:
        for found in ast.walk(ast.parse(file.read_text())):
            named = [one.name for one in found.names] if isinstance(found, ast.Import) else []
            named += [found.module or ""] if isinstance(found, ast.ImportFrom) else []
            assert not any(name.startswith("unisono") for name in named), file


# ---- what the rules find


def a_node(name: str = "n1", **more: Any) -> Any:
    allocatable = {"cpu": "4", "pods": "2"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"zone": name, "kubernetes.io/hostname": name}},
        "spec": {**more},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def a_pod(name: str, group: str = "j", *, cpu: str = "1", node: str = "", **spec: Any) -> Any:
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "labels": {"app": "a"},
            "annotations": {"scheduling.k8s.io/group-name": group},
        },
        "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}], "nodeName": node, **spec},
        "status": {"phase": "Running" if node else "Pending"},
    }


def a_group(name: str = "j", minimum: int = 1, **spec: Any) -> Any:
    meta, wanted = {"name": name, "namespace": "ns"}, {"minMember": minimum, **spec}
    return {"kind": "PodGroup", "metadata": meta, "spec": wanted, "status": {"phase": "Inqueue"}}


def a_queue(name: str = "default", state: str = "Open", **spec: Any) -> Any:
    return {"kind": "Queue", "metadata": {"name": name}, "spec": spec, "status": {"state": state}}


def gone(thing: Any) -> Any:
    changed = deepcopy(thing)
    changed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return changed


# A gang of two on two nodes; one eviction leaves it broken.
PAIR = [a_group("pair", 2), a_pod("p", "pair", node="n1"), a_pod("q", "pair", node="n2")]
LIMITED = {**a_queue(), "metadata": {"name": "default", "annotations": {"unisono.io/user-limits": "pods=1"}}}
PLUGINS = ("priority", "gang", "conformance", "pdb", "predicates", "network-topology-aware", "capacity", "user-limits")
CONFIG = {"actions": "allocate, preempt, reclaim", "tiers": [{"plugins": [{"name": name} for name in PLUGINS]}]}
AWAY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    }
}
TAINT = [{"key": "k", "effect": "NoSchedule"}]
LEAVES = [
    {
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": name}}}]},
    }
    for name in ("n1", "n2")
]
HARD = {"mode": "hard", "highestTierAllowed": 1}
HIGH = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
BUDGET = {
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b", "namespace": "ns"},
    "spec": {"minAvailable": 1, "selector": {}},
}
RUNNING = a_pod("r", "old", node="n1", cpu="4")
OLD = a_group("old", 0)

WRONG: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("is bound 2 times", [a_pod("a")], {"binds": [("ns/a", "n1"), ("ns/a", "n2")]}),
    ("would hold 5.0", [a_pod("a", cpu="5")], {"binds": [("ns/a", "n1")]}),
    ("would hold 5.0", [a_pod("a"), OLD, gone(RUNNING)], {"binds": [("ns/a", "n1")]}),
    ("takes 2 pods", [a_pod(name, cpu="0") for name in "abc"], {"binds": [(f"ns/{name}", "n1") for name in "abc"]}),
    ("does not tolerate", [a_pod("a"), a_node("n3", taints=TAINT)], {"binds": [("ns/a", "n3")]}),
    ("does not tolerate", [a_pod("a"), a_node("n3", unschedulable=True)], {"binds": [("ns/a", "n3")]}),
    ("affinity forbids", [a_pod("a", nodeSelector={"zone": "n2"})], {"binds": [("ns/a", "n1")]}),
    ("repel each other", [a_pod("a"), a_pod("b", affinity=AWAY)], {"binds": [("ns/a", "n1"), ("ns/b", "n1")]}),
    ("does not wait", [a_pod("a", schedulingGates=[{"name": "g"}])], {"binds": [("ns/a", "n1")]}),
    ("another scheduler", [a_pod("a", schedulerName="other")], {"binds": [("ns/a", "n1")]}),
    ("1 of 2 pods", [a_group(minimum=2), a_pod("a"), a_pod("b")], {"binds": [("ns/a", "n1")]}),
    ("0 of 1 pods of role", [a_group(minTaskMember={"m": 1}), a_pod("a")], {"binds": [("ns/a", "n1")]}),
    (
        "may not leave tier 1",
        [*LEAVES, a_group(networkTopology=HARD), a_pod("a"), a_pod("b", cpu="0")],
        {"binds": [("ns/a", "n1"), ("ns/b", "n2")]},
    ),
    ("may hold 1 of cpu", [a_queue(capability={"cpu": "1"}), a_pod("a", cpu="2")], {"binds": [("ns/a", "n1")]}),
    (
        "queue root may hold 4",
        [a_queue("root", capability={"cpu": "4"}), OLD, gone(RUNNING), a_pod("a")],
        {"binds": [("ns/a", "n2")]},
    ),
    ("is Closed", [a_queue(state="Closed"), a_pod("a")], {"binds": [("ns/a", "n1")]}),
    ("for no job", [OLD, RUNNING], {"evictions": [("ns/r", "preempt", "")]}),
    ("which gets nothing", [HIGH, OLD, RUNNING, a_pod("a")], {"evictions": [("ns/r", "preempt", "ns/j")]}),
    ("no higher priority", [OLD, RUNNING, a_pod("a")], {"evictions": [("ns/r", "preempt", "ns/j")]}),
    ("of the same queue", [OLD, RUNNING, a_pod("a")], {"evictions": [("ns/r", "reclaim", "ns/j")]}),
    ("budget ns/b allows 0", [BUDGET, OLD, RUNNING, a_pod("a")], {"evictions": [("ns/r", "preempt", "ns/j")]}),
    ("is left with 1 of 2", [*PAIR, a_pod("a")], {"evictions": [("ns/p", "gangpreempt", "ns/j")]}),
    (
        "loses pods in one cycle",
        [*PAIR, a_pod("a"), a_pod("r", "pair")],
        {"evictions": [("ns/p", "gangpreempt", "ns/j")], "binds": [("ns/r", "n2")]},
    ),
    (
        "may hold 1 of pods",
        [LIMITED, a_pod("a"), a_pod("b", cpu="0")],
        {"binds": [("ns/a", "n1"), ("ns/b", "n1")]},
    ),
    (
        "is served before",
        [HIGH, a_group("up", priorityClassName="high"), a_pod("a"), a_pod("b", "up")],
        {"binds": [("ns/a", "n1")]},
    ),
]


@pytest.mark.parametrize(("words", "things", "decided"), WRONG, ids=[words for words, *_ in WRONG])
def test_the_rules_find_what_is_wrong(words: str, things: list[Any], decided: dict[str, Any]) -> None:
    objects = [a_node("n1"), a_node("n2"), a_group(), a_queue(), *things]  # of two of a name the last one counts
    nothing: dict[str, Any] = {"binds": [], "evictions": [], "promised": {}, "phases": {}}
    turn = facts.Turn(facts=facts.Facts.of(objects), config=CONFIG, now=0.0, **{**nothing, **decided})
    assert any(words in finding for finding in rules.check(turn)), rules.check(turn)


CONSERVED = {**CONFIG, "actions": "enqueue, allocate, backfill"}
FULL = [a_pod("r", "old", node=name, cpu="4") for name in ("n1", "n2")]
FULL[1]["metadata"]["name"] = "s"
TWO = [a_group(minimum=2), a_pod("a", cpu="3"), a_pod("b", cpu="3")]
PENDING = {**a_group(minResources={"cpu": "8"}), "status": {"phase": "Pending"}}

FITTING: list[tuple[str, bool, list[Any], dict[str, Any]]] = [
    ("a gang beside nobody", True, TWO, {}),
    ("nodes are full", False, [*TWO, OLD, *FULL], {}),
    ("the room is promised", False, [*TWO, OLD, a_pod("x", "old", cpu="3")], {"promised": {"ns/x": "n1"}}),
    ("the room is given away", False, [*TWO, OLD, a_pod("x", "old", cpu="3")], {"binds": [("ns/x", "n1")]}),
    ("it is placed", False, TWO, {"binds": [("ns/a", "n1"), ("ns/b", "n2")]}),
    ("too few pods", False, TWO[:2], {}),
    ("capability", False, [*TWO, a_queue(capability={"cpu": "5"})], {}),
    ("a closed queue", False, [*TWO, a_queue(state="Closed")], {}),
    ("another queue's guarantee", False, [*TWO, a_queue("o", guarantee={"resource": {"cpu": "3"}})], {}),
    ("limit of a user", False, [*TWO, LIMITED], {}),
    ("taint", False, [*TWO, a_node("n2", taints=TAINT)], {}),
    ("anti-affinity", True, [TWO[0], *(a_pod(name, affinity=AWAY) for name in "ab")], {}),
    ("anti-affinity of three", False, [a_group(minimum=3), *(a_pod(name, affinity=AWAY) for name in "abc")], {}),
    ("one domain", False, [*LEAVES, a_group(minimum=2, networkTopology=HARD), *TWO[1:]], {}),
    ("an open gate", True, [PENDING, a_pod("a")], {}),
    (
        "a promise that can be used",
        False,
        [PENDING, a_pod("a"), a_group("other", minResources={"cpu": "8"}), a_pod("x", "other")],
        {},
    ),
    (
        "a promise that cannot be used",
        True,
        [PENDING, a_pod("a"), a_group("other", minResources={"cpu": "8"}), a_pod("x", "other", cpu="9")],
        {},
    ),
]


@pytest.mark.parametrize(("what", "fits", "things", "decided"), FITTING, ids=[what for what, *_ in FITTING])
def test_which_gangs_fit(what: str, fits: bool, things: list[Any], decided: dict[str, Any]) -> None:
    objects = [a_node("n1"), a_node("n2"), a_queue(), *things]
    nothing: dict[str, Any] = {"binds": [], "evictions": [], "promised": {}, "phases": {}}
    config = {**CONSERVED, "tiers": [*CONSERVED["tiers"], {"plugins": [{"name": "overcommit"}]}]}
    turn = facts.Turn(facts=facts.Facts.of(objects), config=config, now=0.0, **{**nothing, **decided})
    assert ("ns/j" in conserving.fitting(turn)) == fits


def test_evictions_must_help_and_come_to_an_end() -> None:
    objects = [a_node("n1"), a_queue(), a_group(), a_pod("a"), OLD, RUNNING]
    evicting = facts.Turn(facts.Facts.of(objects), CONFIG, 0.0, [], [("ns/r", "preempt", "ns/j")], {}, {})
    quarrel = quarrels.Quarrel(evicting)
    assert [text for _ in range(3) for text in quarrel.seen(evicting)] == [
        "pods were evicted 3 cycles ago for ns/j, which has 0 of 1 pods"
    ]
    assert len(quarrel.end()) == 2


def test_what_is_right_is_not_found() -> None:
    objects = [a_node("n1"), a_queue(), a_group(minimum=2), a_pod("a"), a_pod("b")]
    turn = facts.Turn(facts.Facts.of(objects), CONFIG, 0.0, [("ns/a", "n1"), ("ns/b", "n1")], [], {}, {})
    assert rules.check(turn) == []


def test_a_finding_is_shrunk_to_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    check: Callable[[Any], list[str]] = lambda turn: [f"pod {key} is bound" for key, _ in turn.binds]  # noqa: E731
    monkeypatch.setattr(life, "check", check)
    finding = next(found for seed in range(40) if (found := life.examine(seed)) is not None)
    objects, shrunk = life.shrink(finding)
    assert shrunk.texts
    assert len(objects) < len(world.World(finding.seed).objects())
