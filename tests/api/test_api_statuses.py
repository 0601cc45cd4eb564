"""What statuses say: conditions by their type, whether a pod has ended, and its containers."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api.base import ObjectMeta
from unisono.api.conditions import find_condition, is_true
from unisono.api.core import ContainerStatus, Pod, PodCondition, PodSpec, PodStatus
from unisono.api.pod_states import container_statuses, failed_by_itself, failed_on_its_node, has_ended


@pytest.mark.parametrize(("status", "true"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_condition_is_true_by_its_status_alone(status: str, true: bool) -> None:
    conditions = [PodCondition(type="Initialized", status="True"), PodCondition(type="Ready", status=status)]
    found = find_condition(conditions, "Ready")
    assert found is conditions[1]
    assert is_true(conditions, "Ready") is true


def test_a_condition_that_is_not_there_is_not_true() -> None:
    for conditions in (None, [], [PodCondition(type="Initialized", status="True")]):
        assert find_condition(conditions, "Ready") is None
        assert not is_true(conditions, "Ready")


@pytest.mark.parametrize(
    ("phase", "ended"),
    [(None, False), ("Pending", False), ("Running", False), ("Unknown", False), ("Succeeded", True), ("Failed", True)],
)
def test_a_pod_ends_with_its_phase(phase: str | None, ended: bool) -> None:
    assert has_ended(Pod(status=PodStatus(phase=phase))) is ended


@pytest.mark.parametrize(
    ("pod", "itself", "on_its_node"),
    [
        ({}, True, True),
        ({"phase": "Succeeded"}, False, False),
        ({"phase": "Running"}, False, False),
        ({"deleting": True}, False, False),
        ({"disrupted": "True"}, False, False),
        ({"disrupted": "False"}, True, True),
        ({"reason": "Evicted"}, False, False),
        ({"reason": "Terminated"}, False, False),
        ({"reason": "OOMKilled"}, True, True),
        ({"reason": "DeadlineExceeded"}, True, False),
        ({"node": ""}, True, False),
    ],
    ids=str,
)
def test_a_failure_is_an_end_to_which_nobody_else_brought_the_pod(
    pod: dict[str, Any], itself: bool, on_its_node: bool
) -> None:
    conditions = [PodCondition(type="DisruptionTarget", status=pod["disrupted"])] if "disrupted" in pod else []
    there = Pod(
        metadata=ObjectMeta(name="p", deletion_timestamp="2026-01-01T00:00:00Z" if "deleting" in pod else None),
        spec=PodSpec(node_name=pod.get("node", "n0")),
        status=PodStatus(phase=pod.get("phase", "Failed"), reason=pod.get("reason"), conditions=conditions),
    )
    assert (failed_by_itself(there), failed_on_its_node(there)) == (itself, on_its_node)


def test_init_containers_come_first() -> None:
    main, first = ContainerStatus(name="main"), ContainerStatus(name="first")
    pod = Pod(status=PodStatus(container_statuses=[main], init_container_statuses=[first]))
    assert container_statuses(pod) == [first, main]
    assert container_statuses(Pod()) == []
