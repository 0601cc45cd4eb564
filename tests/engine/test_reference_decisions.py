"""Decisions that follow from the formulas, orders and votes of Volcano: each case is worked out by hand from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.build import cluster, config, gang, group, node, placed, pod, priority_class, queue, schedule
from unisono.api.core import (
    Affinity,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    Toleration,
)
from unisono.cluster.state import ClusterState
from unisono.engine.config_file.reader import load_config
from unisono.engine.decisions import Decisions

GI = 1024**3


def one(*things: Any, plugins: tuple[str, ...], arguments: Any = None, actions: str = "allocate") -> Decisions:
    """One cycle with priority, gang and predicates before ``plugins``."""
    settings = config(("priority", "gang"), ("predicates", *plugins), actions=actions, arguments=arguments)
    decisions = schedule(cluster(*things), settings)
    assert not decisions.violations
    return decisions


def where(decisions: Decisions) -> str:
    """The node of the only pod that is bound."""
    (bind,) = decisions.binds
    return bind.node


def lone(name: str = "j", **parts: Any) -> list[Any]:
    """A job of one pod."""
    return [group(name), pod(f"{name}-0", name, **parts)]


def busy(where: str, name: str = "", **amounts: Any) -> list[Any]:
    """A pod that runs on a node."""
    name = name or f"on-{where}"
    return [group(name, phase="Running"), pod(f"{name}-0", name, node=where, **amounts)]


def prefers(*terms: tuple[str, int]) -> Affinity:
    wishes = [
        PreferredSchedulingTerm(
            weight=weight,
            preference=NodeSelectorTerm(match_expressions=[NodeSelectorRequirement(key=key, operator="Exists")]),
        )
        for key, weight in terms
    ]
    return Affinity(node_affinity=NodeAffinity(preferred_during_scheduling_ignored_during_execution=wishes))


ONLY = {
    f"{name}.weight": 0
    for name in (
        "leastrequested",
        "mostrequested",
        "nodeaffinity",
        "podaffinity",
        "balancedresource",
        "tainttoleration",
        "imagelocality",
        "podtopologyspread",
    )
}


def nodeorder(**weights: int) -> dict[str, Any]:
    return {"nodeorder": {**ONLY, **{f"{name}.weight": weight for name, weight in weights.items()}}}


NODE: dict[str, tuple[Callable[[], Decisions], str]] = {
    # binpack: (sum of w * (used + asked) / allocatable over what is asked) / sum of w
    "binpack takes the fuller node": (
        lambda: one(node("a", cpu=8), node("b", cpu=8), busy("b", cpu=2), lone(cpu=1), plugins=("binpack",)),
        "b",
    ),
    "binpack does not look at GPUs that are not listed": (
        lambda: one(
            node("a", cpu=8, gpu=8),
            node("b", cpu=9, gpu=8),
            busy("b", cpu=1, gpu=6),
            lone(cpu=1, gpu=1),
            plugins=("binpack",),
            arguments={"binpack": {"binpack.memory": 0}},
        ),
        "b",  # 1/8 against 2/9
    ),
    "binpack with GPUs listed and heavy": (
        lambda: one(
            node("a", cpu=8, gpu=8),
            node("b", cpu=8, gpu=8),
            busy("a", cpu=4),
            busy("b", gpu=2),
            lone(cpu=1, gpu=1),
            plugins=("binpack",),
            arguments={"binpack": {"binpack.resources": "nvidia.com/gpu", "binpack.resources.nvidia.com/gpu": 10}},
        ),
        "b",
    ),
    "binpack of weight 0 says nothing": (
        lambda: one(
            node("a", cpu=8),
            node("b", cpu=8),
            busy("b", cpu=2),
            lone(cpu=1),
            plugins=("binpack",),
            arguments={"binpack": {"binpack.weight": 0}},
        ),
        "a",
    ),
    "binpack of a negative weight of cpu is 1": (
        lambda: one(
            node("a", cpu=8),
            node("b", cpu=8),
            busy("b", cpu=2),
            lone(cpu=1),
            plugins=("binpack",),
            arguments={"binpack": {"binpack.cpu": -5}},
        ),
        "b",
    ),
    # nodeorder
    "least requested: mean of cpu and memory, in whole points": (
        lambda: one(
            node("a", cpu=100, mem="100Gi"),
            node("b", cpu=100, mem="100Gi"),
            busy("a", cpu=50, mem="10Gi"),
            busy("b", cpu=30, mem="30Gi"),
            lone(cpu=1, mem="1Gi"),
            plugins=("nodeorder",),
            arguments=nodeorder(leastrequested=1),
        ),
        "a",  # (49 + 89) / 2 = 69 and (69 + 69) / 2 = 69: a tie, first by name
    ),
    "most requested": (
        lambda: one(
            node("a", cpu=100, mem="100Gi"),
            node("b", cpu=100, mem="100Gi"),
            busy("b", cpu=10, mem="10Gi"),
            lone(cpu=1, mem="1Gi"),
            plugins=("nodeorder",),
            arguments=nodeorder(mostrequested=1),
        ),
        "b",
    ),
    "a container that asks for nothing counts 100m and 200 MiB": (
        lambda: one(
            node("a", cpu=1, mem="1Gi"),
            node("b", cpu=1, mem="1Gi"),
            busy("a", "x"),
            busy("a", "y"),
            busy("b", cpu="150m", mem="300Mi"),
            lone(cpu="10m"),
            plugins=("nodeorder",),
            arguments=nodeorder(leastrequested=1),
        ),
        "b",  # a counts 200m and 400Mi
    ),
    "balanced: towards what evens a node out": (
        lambda: one(
            node("a", cpu=10, mem="10Gi"),
            node("b", cpu=10, mem="10Gi"),
            busy("a", cpu=4),
            busy("b", mem="4Gi"),
            lone(cpu=2),
            plugins=("nodeorder",),
            arguments=nodeorder(balancedresource=1),
        ),
        "b",
    ),
    "node affinity: shares of the largest sum": (
        lambda: one(
            node("a", labels={"x": "1"}),
            node("b", labels={"x": "1", "y": "1"}),
            node("c", labels={"y": "1"}),
            lone(cpu=1, affinity=prefers(("x", 3), ("y", 2))),
            plugins=("nodeorder",),
            arguments=nodeorder(nodeaffinity=2),
        ),
        "b",
    ),
    "node affinity in points against least requested in points": (
        # a: 2 * 100 * 1/1 = 200; b: least requested 90 of weight 1
        lambda: one(
            node("a", cpu=10, labels={"x": "1"}),
            node("b", cpu=10),
            busy("a", cpu=9),
            lone(cpu=1, affinity=prefers(("x", 1))),
            plugins=("nodeorder",),
            arguments=nodeorder(nodeaffinity=2, leastrequested=1),
        ),
        "a",
    ),
    "taints to avoid: those tolerated do not count": (
        lambda: one(
            node("a", taints=[("k", "", "PreferNoSchedule"), ("l", "", "PreferNoSchedule")]),
            node("b", taints=[("m", "", "PreferNoSchedule")]),
            lone(cpu=1, tolerations=[Toleration(key="k", operator="Exists"), Toleration(key="l", operator="Exists")]),
            plugins=("nodeorder",),
            arguments=nodeorder(tainttoleration=3),
        ),
        "a",
    ),
    "a toleration of NoSchedule does not count for taints to avoid": (
        lambda: one(
            node("a", taints=[("k", "", "PreferNoSchedule")]),
            node("b"),
            lone(cpu=1, tolerations=[Toleration(key="k", operator="Exists", effect="NoSchedule")]),
            plugins=("nodeorder",),
            arguments=nodeorder(tainttoleration=3),
        ),
        "b",
    ),
    # resource-strategy-fit
    "fit: most of GPUs against least of cpu": (
        lambda: one(
            node("a", cpu=8, gpu=8),
            node("b", cpu=8, gpu=8),
            busy("a", cpu=4, gpu=4),
            lone(cpu=2, gpu=2),
            plugins=("resource-strategy-fit",),
            arguments={
                "resource-strategy-fit": {
                    "resources": {
                        "nvidia.com/gpu": {"type": "MostAllocated", "weight": 2},
                        "cpu": {"type": "LeastAllocated", "weight": 1},
                    }
                }
            },
        ),
        "a",  # (2 * 0.75 + 0.25) / 3 against (2 * 0.25 + 0.75) / 3
    ),
    "fit: scarce resources are avoided by who does not ask": (
        lambda: one(
            node("a", cpu=8, gpu=8),
            node("b", cpu=8),
            busy("b", cpu=6),
            lone(cpu=1),
            plugins=("resource-strategy-fit",),
            arguments={"resource-strategy-fit": {"sra": {"enable": True, "resources": "nvidia.com/gpu", "weight": 10}}},
        ),
        "b",  # 10 * 12.5 + 1000 against 10 * 87.5 (memory alike)
    ),
    # choice among groups of nodes
    "a node that is free now goes before a better one that will be": (
        lambda: one(
            node("a", cpu=4),
            node("b", cpu=4),
            [group("v", phase="Running"), pod("v-0", "v", node="b", cpu=4, deleting=True)],
            lone(cpu=1),
            plugins=("binpack",),
        ),
        "a",
    ),
    "a nominated node is asked first": (
        lambda: one(node("a", cpu=4), node("b", cpu=4), lone(cpu=1, nominated="b"), plugins=("binpack",)),
        "b",
    ),
    "a nominated node without room is not the only one": (
        lambda: one(
            node("a", cpu=4), node("b", cpu=4), busy("b", cpu=4), lone(cpu=1, nominated="b"), plugins=("binpack",)
        ),
        "a",
    ),
}


@pytest.mark.parametrize(("decide", "name"), NODE.values(), ids=NODE)
def test_which_node(decide: Callable[[], Decisions], name: str) -> None:
    assert where(decide()) == name


LOW, HIGH = priority_class("low", 1), priority_class("high", 100)
PROPORTION = load_config(
    """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: proportion
"""
)
CAPACITY = load_config(
    """
actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: capacity
"""
)


def spread(*queues: tuple[str, int], cpu: int = 1, jobs: int = 40) -> list[Any]:
    """A backlog of single pods in each queue; all are as old."""
    return [[queue(name, weight), [lone_in(name, at, cpu) for at in range(jobs)]] for name, weight in queues]


def lone_in(name: str, at: int, cpu: int = 1, **parts: Any) -> list[Any]:
    return [group(f"{name}-{at:02}", queue=name), pod(f"{name}-{at:02}-0", f"{name}-{at:02}", cpu=cpu, **parts)]


def count(decisions: Decisions) -> dict[str, int]:
    """Binds by queue, which is the first part of the pod's name."""
    found: dict[str, int] = {}
    for name in placed(decisions):
        found[name.partition("-")[0]] = found.get(name.partition("-")[0], 0) + 1
    return found


def state(*things: Any) -> ClusterState:
    return cluster(*things)


SHARES: dict[str, tuple[list[Any], Any, dict[str, int]]] = {
    "by weight": ([node("n", cpu=30), spread(("a", 1), ("b", 2))], PROPORTION, {"a": 10, "b": 20}),
    "what one does not ask for goes to the others by weight": (
        [node("n", cpu=30), spread(("a", 1), ("b", 2)), queue("c", 3), lone_in("c", 0)],
        PROPORTION,
        {"a": 9, "b": 19, "c": 1},  # 29 by one to two; thirds of a cpu fit no pod
    ),
    "a capability cuts, the rest goes on": (
        [
            node("n", cpu=30),
            spread(("b", 2)),
            queue("a", 1, capability={"cpu": 4}),
            [lone_in("a", at) for at in range(9)],
        ],
        PROPORTION,
        {"a": 4, "b": 26},
    ),
    "a guarantee is out of reach of others, even of an idle queue": (
        [node("n", cpu=30), spread(("b", 1)), queue("a", 1, guarantee={"cpu": 12}), lone_in("a", 0)],
        PROPORTION,
        {"a": 1, "b": 18},
    ),
    "capacity: deserved is no limit": (
        [node("n", cpu=30), queue("a", deserved={"cpu": 4}), [lone_in("a", at) for at in range(9)]],
        CAPACITY,
        {"a": 9},
    ),
    "capacity: capability is": (
        [
            node("n", cpu=30),
            queue("a", deserved={"cpu": 4}, capability={"cpu": 6}),
            [lone_in("a", at) for at in range(9)],
        ],
        CAPACITY,
        {"a": 6},
    ),
    "capacity: the smaller share of what is deserved is served first": (
        [
            node("n", cpu=12),
            queue("a", deserved={"cpu": 4}),
            queue("b", deserved={"cpu": 8}),
            [lone_in(name, at) for name in "ab" for at in range(20)],
        ],
        CAPACITY,
        {"a": 4, "b": 8},
    ),
    "capacity: a queue that deserves nothing comes after those within their share": (
        [
            node("n", cpu=6),
            queue("a"),  # its share is 1 always; of equal shares the queue that deserves something comes first
            queue("b", deserved={"cpu": 4}),
            [lone_in(name, at) for name in "ab" for at in range(20)],
        ],
        CAPACITY,
        {"a": 1, "b": 5},
    ),
    "priority of queues before shares": (
        [
            node("n", cpu=5),
            queue("a", priority=1, deserved={"cpu": 1}),
            queue("b", deserved={"cpu": 5}),
            [lone_in(name, at) for name in "ab" for at in range(20)],
        ],
        CAPACITY,
        {"a": 5},
    ),
}


@pytest.mark.parametrize(("things", "settings", "wanted"), SHARES.values(), ids=SHARES)
def test_shares_of_queues(things: list[Any], settings: Any, wanted: dict[str, int]) -> None:
    assert count(schedule(state(*things), settings)) == wanted


def admitted(settings: str, *things: Any) -> list[str]:
    found = schedule(cluster(*things), load_config(settings))
    return sorted(update.key.partition("/")[2] for update in found.pod_groups if update.phase == "Inqueue")


ENQUEUE = """
actions: "enqueue"
tiers:
- plugins:
  - name: gang
- plugins:
  - name: {}
"""


def waiting(name: str, cpu: float, queue: str = "default", created: float = 0.0) -> Any:
    return group(name, queue=queue, phase="Pending", resources={"cpu": cpu}, created=created)


def test_overcommit_promises_a_fifth_more_than_there_is_in_order_and_passes_over_what_is_too_large() -> None:
    jobs = [waiting("a", 8), waiting("b", 5, created=1), waiting("c", 4, created=2), waiting("d", 0.1, created=3)]
    assert admitted(ENQUEUE.format("overcommit"), node("n", cpu=10), *jobs) == ["a", "c"]


def test_overcommit_takes_off_what_runs_including_pods_of_others() -> None:
    foreign = pod("x", node="n", cpu=6, scheduler="default-scheduler")
    assert admitted(ENQUEUE.format("overcommit"), node("n", cpu=10), foreign, waiting("a", 6), waiting("b", 7)) == ["a"]


def test_a_group_that_states_no_resources_is_admitted_without_a_vote() -> None:
    assert admitted(ENQUEUE.format("overcommit"), node("n", cpu=1), group("a", 50, phase="Pending")) == ["a"]


def test_sla_admits_what_has_waited_only_from_an_earlier_tier() -> None:
    late = waiting("late", 100)
    early = ENQUEUE.format("overcommit").replace(
        "  - name: gang", "  - name: gang\n  - name: sla\n    arguments: {sla-waiting-time: 10m}"
    )
    same = ENQUEUE.format("overcommit").replace(
        "  - name: overcommit", "  - name: sla\n    arguments: {sla-waiting-time: 10m}\n  - name: overcommit"
    )
    assert admitted(early, node("n", cpu=1), late) == ["late"]
    assert admitted(same, node("n", cpu=1), late) == []


def test_a_gang_counts_its_roles_only_where_the_minimum_covers_them() -> None:
    """minTaskMember 2 + 2 counts with minMember 4, and not with minMember 3."""
    for minimum, bound in ((4, 0), (3, 3)):
        head = group("g", minimum, roles={"ps": 2, "worker": 2})
        pods = [
            pod(f"g-{role}-{at}", "g", role=role, cpu=1) for role, n in (("ps", 1), ("worker", 3)) for at in range(n)
        ]
        decisions = schedule(cluster(node("n", cpu=minimum), head, pods))
        assert len(decisions.binds) == bound


def test_surplus_of_an_elastic_job_comes_after_the_minimum_of_others() -> None:
    things = [node("n", cpu=6), gang("a", 6, 2, created=0.0), gang("b", 2, created=1.0)]
    names = placed(schedule(cluster(*things)))
    assert sum(name.startswith("b-") for name in names) == 2
    assert sum(name.startswith("a-") for name in names) == 4
