"""What statuses say: conditions by their type, whether a pod has ended, and its containers."""

from __future__ import annotations

import pytest

from unisono.api.conditions import find_condition, is_true
from unisono.api.core import ContainerStatus, Pod, PodCondition, PodStatus
from unisono.api.pod_states import container_statuses, has_ended


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


def test_init_containers_come_first() -> None:
    main, first = ContainerStatus(name="main"), ContainerStatus(name="first")
    pod = Pod(status=PodStatus(container_statuses=[main], init_container_statuses=[first]))
    assert container_statuses(pod) == [first, main]
    assert container_statuses(Pod()) == []
