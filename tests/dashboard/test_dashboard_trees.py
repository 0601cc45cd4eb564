"""Queues by their parents, and nodes by their place, from objects alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from unisono.api.core import Lease, Node, Pod
from unisono.api.groups.scheduling import PodGroup, Queue
from unisono.api.groups.topology import HyperNode
from unisono.api.verdict import Verdict, encode
from unisono.dashboard.views.nodes import NodeQuery, Usage, node_cells, nodes_view
from unisono.dashboard.views.overview import scheduler_view
from unisono.dashboard.views.rows import queues_view


def queue(name: str, parent: str | None = None, used: dict[str, Any] | None = None, **spec: Any) -> Queue:
    value = {
        "metadata": {"name": name},
        "spec": {**({"parent": parent} if parent else {}), **spec},
        "status": {"state": "Open", "allocated": used or {}},
    }
    return msgspec.convert(value, Queue)


def node(name: str, gpus: int = 8, **spec: Any) -> Node:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    ready = [{"type": "Ready", "status": "True"}]
    value = {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": amounts, "conditions": ready}}
    return msgspec.convert(value, Node)


def group(name: str, queue: str, position: int = 0, phase: str = "Pending") -> PodGroup:
    told = {"unisono.io/verdict": encode(Verdict(cause="NodesFull", message="m", position=position))}
    value = {
        "metadata": {"name": name, "namespace": "default", "annotations": told if position else {}},
        "spec": {"queue": queue, "minMember": 1},
        "status": {"phase": phase},
    }
    return msgspec.convert(value, PodGroup)


@pytest.mark.parametrize(
    ("parents", "order"),
    [
        ({}, []),
        ({"root": None, "a": None, "b": "root"}, [("root", 0), ("a", 1), ("b", 1)]),
        (
            {"root": None, "b": "root", "a": "b", "c": "a", "d": "root"},
            [("root", 0), ("b", 1), ("a", 2), ("c", 3), ("d", 1)],
        ),
        ({"a": "gone"}, [("a", 0)]),
        ({"a": "b", "b": "a", "c": "c"}, [("c", 0), ("a", 0), ("b", 0)]),
    ],
)
def test_queues_stand_below_their_parents(parents: dict[str, str | None], order: list[tuple[str, int]]) -> None:
    view = queues_view([queue(name, parent) for name, parent in parents.items()], [], [], editable=False)
    assert [(name, view.rows[name].depth) for name in view.order] == order


def test_a_queue_tells_what_it_uses_and_who_is_next() -> None:
    found = queue("q", used={"nvidia.com/gpu": "4"}, deserved={"nvidia.com/gpu": 6}, capability={"nvidia.com/gpu": 12})
    groups = [group("third", "q"), group("second", "q", 2), group("first", "q", 1), group("runs", "q", 0, "Running")]
    view = queues_view([found], groups, [node("n1"), node("n2")], editable=True)
    told = view.rows["q"]
    assert (told.line, told.waiting, told.running) == (["default/first", "default/second", "default/third"], 3, 1)
    share = next(each for each in told.shares if each.name == "nvidia.com/gpu")
    assert (share.used, share.deserved, share.guarantee, share.capability) == ("4", "6", "", "12")
    assert (share.used_part, share.deserved_part, share.capability_part) == (0.25, 0.375, 0.75)
    assert "capability:" in told.spec


def test_without_a_measure_no_part_of_it_is_told() -> None:
    """Of a viewer who may see queues and no nodes: what is used is not all that there is."""
    told = queues_view([queue("q", used={"nvidia.com/gpu": "4"})], [], [], editable=False).rows["q"].shares
    assert [(each.name, each.used, each.total, each.used_part) for each in told] == [("nvidia.com/gpu", "4", "", 0.0)]


def pod(name: str, on: str, gang: str = "") -> Pod:
    limits = {"cpu": "2", "nvidia.com/gpu": 3}
    value = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"scheduling.k8s.io/group-name": gang} if gang else {},
        },
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": {"requests": limits}}]},
        "status": {"phase": "Running"},
    }
    return msgspec.convert(value, Pod)


def switch(name: str, tier: int, *members: str, kind: str = "Node") -> HyperNode:
    listed = [{"type": kind, "selector": {"exactMatch": {"name": each}}} for each in members]
    return msgspec.convert({"metadata": {"name": name}, "spec": {"tier": tier, "members": listed}}, HyperNode)


PLACES = [switch("s1", 1, "n1"), switch("s0", 1, "n2"), switch("spine", 2, "s0", "s1", kind="HyperNode")]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (NodeQuery(), ["n2", "n1", "n3"]),
        (NodeQuery(q="spine"), ["n2", "n1"]),
        (NodeQuery(state="drain"), ["n3"]),
        (NodeQuery(q="none"), []),
        (NodeQuery(offset=1, limit=1), ["n1"]),
    ],
)
def test_nodes_are_shown_by_their_place(query: NodeQuery, names: list[str]) -> None:
    nodes = [node("n1"), node("n2"), node("n3", unschedulable=True)]
    pods = [pod("a", "n1", "train"), pod("b", "n1", "train"), pod("c", "n1"), pod("d", "gone")]
    usage = Usage()
    for each in pods:
        usage.note("ADDED", each)
    view = nodes_view(node_cells(nodes, usage.snapshot(), PLACES), query, cordons=True)
    assert (view.order, view.total) == (names, 3)
    if "n1" in names:
        cell = view.rows["n1"]
        assert (cell.path, cell.cards, cell.cards_used, cell.pods) == (["spine", "s1"], 8, 9, 3)
        assert [(each.job, each.amount) for each in cell.held] == [
            ("default/train", "6 GPUs, 4 CPUs"),
            ("pod default/c", "3 GPUs, 2 CPUs"),
        ]


@pytest.mark.parametrize(
    ("has", "asked", "expected"),
    [
        ({"nvidia.com/gpu": 8, "rdma/hca": 4}, {"nvidia.com/gpu": 2, "rdma/hca": 1}, (8, 2, 0.25)),
        ({"rdma/hca": 4}, {"rdma/hca": 1}, (4, 1, 0.25)),
        (
            {"aliyun.com/gpu-count": 2, "aliyun.com/gpu-mem": 32, "aliyun.com/gpu-core": 200},
            {"aliyun.com/gpu-mem": 16, "aliyun.com/gpu-core": 20},
            (2, 1, 0.5),
        ),
        ({}, {}, (0, 0, 0.5)),
    ],
)
def test_what_is_no_card_is_not_counted_as_one(
    has: dict[str, int], asked: dict[str, int], expected: tuple[float, float, float]
) -> None:
    one = node("n1")
    one.status.allocatable = {"cpu": 4, **has}
    two = pod("a", "n1")
    assert two.spec.containers is not None
    two.spec.containers[0].resources.requests = {"cpu": 2, **asked}
    usage = Usage()
    usage.note("ADDED", two)
    cell = nodes_view(node_cells([one], usage.snapshot(), []), NodeQuery(), cordons=True).rows["n1"]
    assert (cell.cards, cell.cards_used, cell.share) == expected


LEASES: list[Lease] = []
METRICS = """# TYPE volcano_e2e_scheduling_latency_milliseconds histogram
volcano_e2e_scheduling_latency_milliseconds_bucket{le="+Inf"} 4.0
volcano_e2e_scheduling_latency_milliseconds_count 4.0
volcano_e2e_scheduling_latency_milliseconds_sum 10.0
# TYPE volcano_action_scheduling_latency_milliseconds histogram
volcano_action_scheduling_latency_milliseconds_count{action="enqueue"} 4.0
volcano_action_scheduling_latency_milliseconds_sum{action="enqueue"} 2.0
volcano_action_scheduling_latency_milliseconds_count{action="allocate"} 4.0
volcano_action_scheduling_latency_milliseconds_sum{action="allocate"} 6.0
volcano_action_scheduling_latency_milliseconds_count{action="preempt"} 0.0
# TYPE other counter
other_total 7.0
"""


def test_times_of_a_cycle_are_told_the_longest_first() -> None:
    told = [(each.kind, each.name, each.count, each.mean) for each in scheduler_view(LEASES, METRICS, 0.0).times]
    assert told == [("cycle", "", 4, 2.5), ("action", "allocate", 4, 1.5), ("action", "enqueue", 4, 0.5)]


@pytest.mark.parametrize("text", ["", "no metrics", "a{", '{"kind":"Status"}'])
def test_a_text_that_is_no_metrics_has_no_times(text: str) -> None:
    view = scheduler_view(LEASES, text, 0.0)
    assert (view.times, view.metrics, view.violations) == ([], False, 0)


HISTOGRAM = """# TYPE volcano_e2e_scheduling_latency_milliseconds histogram
volcano_e2e_scheduling_latency_milliseconds_bucket{le="1.0"} 90.0
volcano_e2e_scheduling_latency_milliseconds_bucket{le="5.0"} 99.0
volcano_e2e_scheduling_latency_milliseconds_bucket{le="10.0"} 99.0
volcano_e2e_scheduling_latency_milliseconds_bucket{le="+Inf"} 100.0
volcano_e2e_scheduling_latency_milliseconds_count 100.0
volcano_e2e_scheduling_latency_milliseconds_sum 120.0
# TYPE unisono_scheduler_violations counter
unisono_scheduler_violations_total 3.0
"""


def test_the_slowest_cycles_and_broken_invariants_are_told() -> None:
    view = scheduler_view(LEASES, HISTOGRAM, 0.0, configuration="actions: x")
    assert [(each.mean, each.most) for each in view.times] == [(1.2, 5.0)]
    assert (view.violations, view.configuration) == (3, "actions: x")


@pytest.mark.parametrize(("hidden", "names"), [((), ["scheduler"]), (("nodes", "leases"), [])])
def test_a_viewer_who_may_not_see_leases_is_told_of_no_dead_scheduler(
    hidden: tuple[str, ...], names: list[str]
) -> None:
    view = scheduler_view(LEASES, "", 0.0, hidden=hidden)
    assert [each.name for each in view.components] == names
    assert view.hidden == [kind for kind in hidden if kind == "leases"]


def test_a_bucket_without_a_bound_bounds_nothing() -> None:
    text = HISTOGRAM.replace("99.0", "90.0")
    assert [each.most for each in scheduler_view(LEASES, text, 0.0).times] == [0.0]
