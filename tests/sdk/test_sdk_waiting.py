"""What is said of pods that no scheduler has looked at, and of scheduling gates."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.core import Pod
from unisono.api.decode import decode
from unisono.api.kinds import PODS
from unisono.sdk.state.waiting import SCHEDULER, Misnamed, gates_text, unbound_pods, unscheduled, unserved


def pod(name: str = "p", node: str | None = None, **spec: Any) -> Pod:
    body = {"metadata": {"name": name}, "spec": {"containers": [], "nodeName": node, **spec}}
    return decode(PODS, body).obj


@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [
        (None, "no running scheduler has looked at it yet (schedulerName default-scheduler)"),
        ("volcano", "no running scheduler has looked at it yet (schedulerName volcano)"),
        ("volcno", "serves its schedulerName volcno; jobs and pods of Unisono say schedulerName: volcano"),
        ("unisno", "serves its schedulerName unisno; jobs and pods of Unisono say schedulerName: unisono"),
        ("yunikorn", "serves its schedulerName yunikorn; jobs and pods of Unisono say schedulerName: volcano"),
    ],
)
def test_the_scheduler_that_a_pod_waits_for_is_named(scheduler: str | None, expected: str) -> None:
    assert unscheduled(scheduler).endswith(expected)
    assert [each.why for each in unbound_pods([pod(schedulerName=scheduler)])] == [unscheduled(scheduler)]


@pytest.mark.parametrize(
    ("scheduler", "near"),
    [(None, None), ("default-scheduler", None), ("volcno", "volcano"), ("unisno", "unisono"), ("yunikorn", "volcano")],
)
def test_a_scheduler_name_that_nothing_serves_comes_with_the_one_to_write(
    scheduler: str | None, near: str | None
) -> None:
    wrong = Misnamed(SCHEDULER, scheduler or "", near) if near else None
    assert unserved(scheduler) == wrong
    (unbound,) = unbound_pods([pod(schedulerName=scheduler)])
    assert unbound.misnamed == wrong
    assert set(unbound.json()) == {"name", "reason", "message"}


def test_a_pod_that_a_scheduler_has_looked_at_names_nothing_wrong() -> None:
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    body = {"metadata": {"name": "p"}, "spec": {"schedulerName": "x"}, "status": {"conditions": [told]}}
    assert [each.misnamed for each in unbound_pods([decode(PODS, body).obj])] == [None]


def test_only_pods_that_have_gates_are_counted() -> None:
    gates = [{"name": "example.com/wait"}]
    pods = [pod("a", schedulingGates=gates), pod("b"), pod("c", node="n", schedulingGates=gates)]
    assert gates_text(pods) == "1 of 3 pods (a) has the scheduling gate example.com/wait"
    assert gates_text([pod("a", schedulingGates=gates), pod("b", schedulingGates=[*gates, {"name": "b"}])]) == (
        "2 of 2 pods (a, b) have the scheduling gates b, example.com/wait"
    )
    assert gates_text([pod("b")]) == ""
