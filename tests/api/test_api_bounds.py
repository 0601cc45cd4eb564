"""Amounts of resources have an upper bound: sums stop there, and admission refuses what is beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from unisono.api import kind_families, kinds
from unisono.api.core import Container, PodSpec, ResourceRequirements
from unisono.api.decode import decode
from unisono.api.defaulting import apply_defaults
from unisono.api.kind import Kind
from unisono.api.resources import LARGEST, add, pod_limits, pod_requests, resource_list
from unisono.api.validation import validate

INT64 = "9223372036854775807"
HUGE = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"memory": INT64}}}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": HUGE}
TASK = {"name": "w", "replicas": 1, "template": TEMPLATE}
IN_CONTAINER = "containers[0].resources.requests[memory]"


def problems(kind: Kind[Any], body: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    meta: dict[str, Any] = {"name": "o"} | ({"namespace": "ns"} if kind.namespaced else {})

    def made(given: dict[str, Any]) -> Any:
        decoded = decode(kind, {"metadata": dict(meta), **given})
        assert not decoded.type_errors
        apply_defaults(kind, decoded.obj)
        return decoded.obj

    errors = validate(kind, made(body), None if old is None else made(old))
    return [error.message() for error in errors if "must be less than or equal to" in error.detail]


@pytest.mark.parametrize(
    ("kind", "body", "path"),
    [
        (kinds.PODS, {"spec": HUGE}, f"spec.{IN_CONTAINER}"),
        (kinds.PODS, {"spec": {**HUGE, "containers": [], "initContainers": HUGE["containers"]}}, "spec.initContainers"),
        (kinds.PODS, {"spec": {"containers": [], "overhead": {"cpu": INT64}}}, "spec.overhead[cpu]"),
        (kinds.JOBS, {"spec": {"tasks": [TASK]}}, f"spec.tasks[0].template.spec.{IN_CONTAINER}"),
        (kind_families.BATCH_JOBS, {"spec": {"template": TEMPLATE}}, f"spec.template.spec.{IN_CONTAINER}"),
        (kind_families.DEPLOYMENTS, {"spec": {"template": TEMPLATE}}, f"spec.template.spec.{IN_CONTAINER}"),
        (
            kind_families.JOB_TEMPLATES,
            {"spec": {"tasks": [TASK]}},
            f"spec.tasks[0].template.spec.{IN_CONTAINER}",
        ),
        (kinds.QUEUES, {"spec": {"capability": {"cpu": INT64}}}, "spec.capability[cpu]"),
        (kinds.QUEUES, {"spec": {"deserved": {"nvidia.com/gpu": INT64}}}, "spec.deserved[nvidia.com/gpu]"),
        (
            kinds.QUEUES,
            {"spec": {"guarantee": {"resource": {"memory": INT64}}}},
            "spec.guarantee.resource[memory]",
        ),
        (kinds.POD_GROUPS, {"spec": {"minResources": {"memory": INT64}}}, "spec.minResources[memory]"),
        (kinds.RESOURCE_QUOTAS, {"spec": {"hard": {"requests.memory": INT64}}}, "spec.hard[requests.memory]"),
        (kinds.NODES, {"status": {"allocatable": {"memory": INT64}}}, "status.allocatable[memory]"),
        (kinds.NODES, {"status": {"allocatable": {"pods": INT64}}}, "status.allocatable[pods]"),
        (
            kinds.PERSISTENT_VOLUME_CLAIMS,
            {"spec": {"resources": {"requests": {"storage": INT64}}}},
            "spec.resources.requests[storage]",
        ),
        (kinds.PERSISTENT_VOLUMES, {"spec": {"capacity": {"storage": INT64}}}, "spec.capacity[storage]"),
        (
            kinds.LIMIT_RANGES,
            {"spec": {"limits": [{"type": "Container", "max": {"cpu": INT64}}]}},
            "spec.limits[0].max[cpu]",
        ),
    ],
)
def test_a_quantity_beyond_the_bound_is_refused_with_its_field(
    kind: Kind[Any], body: dict[str, Any], path: str
) -> None:
    found = problems(kind, body)
    assert found
    assert any(message.startswith(path) for message in found), found


def test_the_bound_is_named_in_the_unit_of_the_resource() -> None:
    assert problems(kinds.QUEUES, {"spec": {"capability": {"memory": "65Pi"}}}) == [
        'spec.capability[memory]: Invalid value: "65Pi": must be less than or equal to 64Pi'
    ]
    assert problems(kinds.QUEUES, {"spec": {"capability": {"cpu": "80T"}}}) == [
        'spec.capability[cpu]: Invalid value: "80T": must be less than or equal to 72057594037927'
    ]


def test_amounts_up_to_the_bound_pass() -> None:
    assert not problems(kinds.QUEUES, {"spec": {"capability": {"memory": "64Pi", "cpu": "72T"}}})


def test_what_is_stored_already_may_stay_and_nothing_else_may_join_it() -> None:
    old = {"spec": {"capability": {"cpu": INT64}}}
    assert not problems(kinds.QUEUES, {"spec": {"capability": {"cpu": INT64, "memory": "1"}}}, old)
    assert problems(kinds.QUEUES, {"spec": {"capability": {"cpu": INT64, "memory": INT64}}}, old)


def container(restart: str | None = None) -> Container:
    amounts: dict[str, Any] = {"memory": INT64, "cpu": INT64, "example.com/x": INT64}
    needs = ResourceRequirements(requests=dict(amounts), limits=dict(amounts))
    return Container(name="c", resources=needs, restart_policy=restart)


@pytest.mark.parametrize(
    "spec",
    [
        PodSpec(containers=[container(), container()]),
        PodSpec(containers=[container()], init_containers=[container("Always"), container("Always"), container()]),
        PodSpec(containers=[container()], overhead={"memory": INT64, "cpu": INT64, "example.com/x": INT64}),
    ],
)
def test_the_sum_of_a_pod_stops_at_the_bound(spec: PodSpec) -> None:
    everything = {"memory": LARGEST, "cpu": LARGEST, "example.com/x": LARGEST}
    assert pod_requests(spec) == everything
    assert pod_limits(spec) == everything


def test_amounts_are_bounded_where_they_are_read_and_where_they_are_added() -> None:
    assert resource_list({"memory": INT64, "cpu": "1e300", "pods": INT64}) == dict.fromkeys(
        ("memory", "cpu", "pods"), LARGEST
    )
    total = {"cpu": 1}
    add(total, {"cpu": 2**31 * LARGEST})
    assert total == {"cpu": LARGEST}
