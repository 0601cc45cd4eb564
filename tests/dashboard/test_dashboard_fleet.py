"""Members of a fleet, models of devices and fragmentation, from objects alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.build import START, budget
from unisono.api.annotations import QUARANTINE
from unisono.api.core import Node, Pod
from unisono.api.groups.fleet import AttachedCluster
from unisono.api.groups.scheduling import PodGroup
from unisono.api.node_checks import quarantine
from unisono.dashboard.views.nodes import node_cells
from unisono.dashboard.views.overview import fleet_view, overview_view
from unisono.dashboard.views.rows import cards_of
from unisono.sdk.overview.overview import CalendarLine
from unisono.sdk.overview.queues import budget_lines, used_by_node

GPU = "nvidia.com/gpu"


def member(name: str, namespace: str = "default", **status: Any) -> AttachedCluster:
    meta = {"name": name, "namespace": namespace, "labels": {"topology.kubernetes.io/region": "eu"}}
    return msgspec.convert({"metadata": meta, "status": status}, AttachedCluster)


def test_members_are_told_with_what_they_have() -> None:
    one = member(
        "gpu1",
        ready=True,
        kubernetesVersion="v1.36.0",
        nodeSummary={"totalNum": 3, "readyNum": 2},
        resourceSummary={
            "allocatable": {"cpu": "64", "memory": "256Gi", GPU: "16", "pods": "220"},
            "allocated": {"cpu": "16", GPU: "12"},
        },
        accelerators=[
            {"resource": GPU, "type": "nvidia-t4", "total": 8, "free": 4, "largestFreeBlock": 3},
            {"resource": GPU, "type": "nvidia-a100", "total": 8, "free": 0, "largestFreeBlock": 0},
        ],
    )
    lost = member(
        "gpu0",
        ready=False,
        lostSince="2026-01-01T00:00:00Z",
        conditions=[{"type": "Ready", "status": "False", "reason": "x", "message": "it does not answer"}],
    )
    view = fleet_view([one, lost], {"gpu1": 5, "gone": 2}, waiting=3)
    assert (view.order, view.waiting) == (["default/gpu0", "default/gpu1"], 3)
    found = view.rows["default/gpu1"]
    assert (found.ready, found.nodes, found.jobs, found.region, found.version) == (True, 2, 5, "eu", "v1.36.0")
    assert [(each.name, each.used, each.total, each.share, each.largest) for each in found.resources] == [
        (GPU, "12", "16", 0.75, "3"),
        ("cpu", "16", "64", 0.25, ""),
        ("memory", "0 B", "256 GiB", 0.0, ""),
    ]
    assert found.resources[0].model == "nvidia-a100, nvidia-t4"
    told = view.rows["default/gpu0"]
    assert (told.ready, told.message, told.lost, told.jobs) == (False, "it does not answer", 1767225600.0, 0)


def test_a_member_that_was_never_looked_at_says_so() -> None:
    assert "has not looked" in fleet_view([member("new")], {}, 0).rows["default/new"].message


def test_a_member_with_amounts_that_are_none_is_shown_without_them() -> None:
    broken = member("odd", ready=True, resourceSummary={"allocatable": {"cpu": "many"}})
    fine = member("fine", ready=True, resourceSummary={"allocatable": {"cpu": "4"}})
    view = fleet_view([broken, fine], {}, 0)
    assert [len(view.rows[name].resources) for name in view.order] == [1, 0]


def node(name: str, gpus: int, model: str = "") -> Node:
    status = {
        "allocatable": {"cpu": "16", **({GPU: str(gpus)} if gpus else {})},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    labels = {"nvidia.com/gpu.product": model} if model else {}
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "status": status}, Node)


def pod(on: str, gpus: int, phase: str = "Running", name: str = "p") -> Pod:
    spec = {"nodeName": on, "containers": [{"name": "main", "resources": {"limits": {GPU: gpus}}}]}
    meta = {"name": name, "namespace": "default"}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, Pod)


@pytest.mark.parametrize(
    ("nodes", "rows"),
    [
        ([node("a", 8), node("b", 8)], [(GPU, "", "4", "16"), ("cpu", "", "0", "32")]),
        ([node("a", 8, "H100"), node("b", 0)], [(GPU, "", "4", "8"), ("cpu", "", "0", "32")]),
        (
            [node("a", 8, "H100"), node("b", 4, "A100"), node("c", 2)],
            [
                (GPU, "", "4", "14"),
                (GPU, "other", "0", "2"),
                (GPU, "A100", "0", "4"),
                (GPU, "H100", "4", "8"),
                ("cpu", "", "0", "48"),
            ],
        ),
    ],
)
def test_devices_of_several_models_are_told_apart(nodes: list[Node], rows: list[tuple[str, str, str, str]]) -> None:
    view = overview_view(nodes, used_by_node([pod("a", 4)]), [], [], [], 0.0)
    assert [(each.name, each.model, each.used, each.total) for each in view.resources] == rows


def test_the_calendar_is_shown_with_its_times() -> None:
    line = CalendarLine("reservation/exam", True, "2026-01-01T08:00:00Z", "2026-01-01T10:00:00Z", "2 nodes, for ann")
    (shown,) = overview_view([], {}, [], [], [], 0.0, calendar=[line]).calendar
    assert (shown.title, shown.holds, shown.text) == (line.title, True, line.text)
    assert shown.end - shown.start == 7200.0


def test_budgets_that_are_used_up_come_first() -> None:
    budgets = [
        budget("fine", {"cpu": 100}, {"cpu": 10}),
        budget("gone", {"cpu": 10}, {"cpu": 11}, period="Day"),
        budget("near", {"cpu": 100}, {"cpu": 95}),
        budget("wrong", {"cpu": 10}, period="Day", half_life="1h"),
    ]
    rows = overview_view([], {}, [], [], [], START, budgets=budget_lines(budgets, START)).budgets
    assert [(row.name, row.state) for row in rows] == [
        ("gone", "over"), ("wrong", "invalid"), ("near", "near"), ("fine", "fine"),
    ]  # fmt: skip
    assert (rows[0].left, rows[0].unit, rows[0].part, rows[0].end > START) == ("-1", "hours of cpu", 1.1, True)


def test_a_node_in_quarantine_takes_no_pods_and_says_why() -> None:
    out = node("bad", 8)
    out.spec.taints = [quarantine("gpu-test", 0.0)]
    out.metadata.annotations = {QUARANTINE: "row remapping failed"}
    (cell,) = node_cells([out], {}, [])
    assert (cell.state, cell.cordoned, cell.quarantine) == ("drain", False, "by gpu-test: row remapping failed")
    view = overview_view([out, node("good", 8)], {}, [], [], [], 0.0)
    assert (view.nodes_ready, view.nodes_quarantined, view.nodes_cordoned) == (1, ["bad"], [])


def test_free_devices_are_counted_by_node() -> None:
    nodes = [node("a", 8), node("b", 8), node("c", 8)]
    view = overview_view(nodes, used_by_node([pod("a", 6)]), [], [], [], 0.0)
    assert [(each.value, each.count) for each in view.resources[0].holes] == [("8", 2), ("2", 1)]


@pytest.mark.parametrize(
    ("least", "pods", "cards"),
    [
        ({}, [], 0.0),
        ({GPU: "16"}, [], 16.0),
        ({GPU: "16", f"requests.{GPU}": "16", f"limits.{GPU}": "16"}, [], 16.0),
        ({f"requests.{GPU}": "4"}, [], 4.0),
        ({GPU: "16"}, [pod("a", 8)], 16.0),
        ({GPU: "1"}, [pod("a", 8), pod("b", 8)], 16.0),
        ({}, [pod("a", 8, "Succeeded")], 0.0),
        ({GPU: "many"}, [pod("a", 2)], 2.0),
        ({"cpu": "4"}, [], 0.0),
    ],
)
def test_a_job_s_cards_are_those_of_its_gang_or_its_pods(least: dict[str, str], pods: list[Pod], cards: float) -> None:
    value = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minResources": least}}
    assert cards_of([msgspec.convert(value, PodGroup)], pods) == cards
