"""What a pod class knows about its pods."""

from __future__ import annotations

import pytest

from support.build import pod
from unisono.api.core import Container, ContainerPort, Pod, ResourceRequirements
from unisono.cluster.interning import PodClasses, task_of
from unisono.cluster.podclass import PodClass
from unisono.cluster.resources import ResourceRegistry

MINE = frozenset({"volcano"})
MIB = 1024 * 1024


def class_of(obj: Pod) -> PodClass:
    return PodClasses(ResourceRegistry()).intern(obj.spec)


def test_the_vector_holds_requests_and_one_pod() -> None:
    pod_class = class_of(pod("p", cpu=2, gpu=1))
    assert pod_class.vector.tolist() == [2000, 0, 1, 1000]
    assert pod_class.rows.tolist() == [0, 2, 3]
    assert not pod_class.best_effort


def test_a_pod_without_requests_is_best_effort() -> None:
    pod_class = class_of(pod("p"))
    assert pod_class.best_effort
    assert pod_class.nonzero.tolist() == [100, 200 * MIB]


def test_scoring_requests_count_each_container_that_states_nothing() -> None:
    obj = pod("p", cpu=1)
    obj.spec.containers.append(Container(name="second"))
    assert class_of(obj).nonzero.tolist() == [1100, 400 * MIB]


def test_init_containers_count_by_their_maximum() -> None:
    obj = pod("p", cpu=1, mem="1Gi")
    big = ResourceRequirements(requests={"cpu": "3", "memory": "1Mi"})
    obj.spec.init_containers = [Container(name="init", resources=big)]
    assert class_of(obj).vector[:2].tolist() == [3000, 1024 * MIB]
    assert class_of(obj).nonzero.tolist() == [3000, 1024 * MIB]


def test_host_ports() -> None:
    obj = pod("p", ports=[80, 80, 443])
    assert class_of(obj).host_ports == (("TCP", "", 80), ("TCP", "", 443))
    obj.spec.containers[0].ports = [ContainerPort(container_port=80), ContainerPort(container_port=1, host_port=2)]
    assert class_of(obj).host_ports == (("TCP", "", 2),)


@pytest.mark.parametrize(
    ("name", "ordinal"), [("job-worker-12", 12), ("job-1", -1), ("single", -1), ("a-b-c", -1), ("a-b-07", 7)]
)
def test_ordinals_of_names(name: str, ordinal: int) -> None:
    assert task_of(pod(name), PodClasses(ResourceRegistry()), MINE).ordinal == ordinal


@pytest.mark.parametrize(
    ("annotations", "labels", "expected"),
    [
        ({}, {}, True),
        ({"volcano.sh/preemptable": "false"}, {}, False),
        ({}, {"volcano.sh/preemptable": "false"}, False),
        ({"volcano.sh/preemptable": "true"}, {"volcano.sh/preemptable": "false"}, True),
        ({"volcano.sh/preemptable": "perhaps"}, {}, False),
    ],
)
def test_preemptable(annotations: dict[str, str], labels: dict[str, str], expected: bool) -> None:
    task = task_of(pod("p", annotations=annotations, labels=labels), PodClasses(ResourceRegistry()), MINE)
    assert task.preemptable is expected


@pytest.mark.parametrize(("annotation", "spec", "expected"), [("", None, 1), ("", 7, 7), ("9", 7, 9), ("high", 7, 7)])
def test_task_priority(annotation: str, spec: int | None, expected: int) -> None:
    notes = {"volcano.sh/task-priority": annotation} if annotation else {}
    task = task_of(pod("p", priority=spec, annotations=notes), PodClasses(ResourceRegistry()), MINE)
    assert task.priority == expected
