"""Autoscalers under both of their versions, and replication controllers: what clients of each see."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS as V2
from unisono.api.kind_families import HORIZONTAL_POD_AUTOSCALERS_V1 as V1
from unisono.api.kind_families import REPLICATION_CONTROLLERS
from unisono.apiserver.backend import Backend
from unisono.apiserver.encoding import from_stored, to_stored
from unisono.apiserver.tables.render import layout
from unisono.apiserver.types import WriteOptions

OPTIONS = WriteOptions(field_manager="kubectl")
TARGET = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
MEMORY = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}}
METRICS = "autoscaling.alpha.kubernetes.io/metrics"


@pytest.fixture
async def backend() -> Any:
    backend = await Backend.open()
    yield backend
    await backend.close()


async def create(backend: Backend, kind: Any, **spec: Any) -> dict[str, Any]:
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec},
    }
    found: dict[str, Any] = json.loads((await backend.service.create(kind, "default", body, OPTIONS)).object)
    return found


async def read(backend: Backend, kind: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await backend.service.get(kind, "default", "web"))
    return found


async def test_one_autoscaler_has_two_versions(backend: Backend) -> None:
    made = await create(backend, V1, targetCPUUtilizationPercentage=50)
    assert (made["apiVersion"], made["spec"]["targetCPUUtilizationPercentage"]) == ("autoscaling/v1", 50)
    assert made["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    assert made["metadata"]["managedFields"][0]["fieldsV1"] == {
        "f:spec": {
            "f:maxReplicas": {},
            "f:minReplicas": {},
            "f:scaleTargetRef": {},
            "f:targetCPUUtilizationPercentage": {},
        }
    }
    seen = await read(backend, V2)
    assert (seen["apiVersion"], seen["spec"]["metrics"]) == ("autoscaling/v2", [CPU])
    assert seen["status"] == {"desiredReplicas": 0}
    assert seen["metadata"]["uid"] == made["metadata"]["uid"]


async def test_a_client_of_v1_keeps_what_it_does_not_know(backend: Backend) -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    made = await create(backend, V2, metrics=[MEMORY, CPU], behavior=behavior)
    seen = await read(backend, V1)
    assert seen["spec"]["targetCPUUtilizationPercentage"] == 50
    assert json.loads(seen["metadata"]["annotations"][METRICS]) == [MEMORY]
    seen["spec"]["maxReplicas"] = 7
    await backend.service.update(V1, "default", "web", seen, OPTIONS)
    after = await read(backend, V2)
    assert after["spec"] == {**made["spec"], "maxReplicas": 7}
    assert "annotations" not in after["metadata"]


async def test_a_patch_of_v1_changes_the_one_object(backend: Backend) -> None:
    await create(backend, V2, metrics=[CPU])
    change = {"spec": {"targetCPUUtilizationPercentage": 70}}
    await backend.service.patch(V1, "default", "web", change, "strategic", OPTIONS)
    (metric,) = (await read(backend, V2))["spec"]["metrics"]
    assert metric["resource"]["target"]["averageUtilization"] == 70


_PERCENT = st.integers(1, 100).map(
    lambda number: {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": number}},
    }
)
_OTHER = st.sampled_from(["q1", "q2"]).map(
    lambda name: {
        "type": "Pods",
        "pods": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": "1"}},
    }
)


@given(st.lists(_OTHER, max_size=3), st.lists(_PERCENT, max_size=2), st.sampled_from([None, {"note": "x"}]))
def test_nothing_is_lost_on_the_way_through_v1(
    others: list[Any], percents: list[Any], annotations: dict[str, str] | None
) -> None:
    metadata = {"name": "web", **({"annotations": annotations} if annotations else {})}
    spec = {"maxReplicas": 3, "metrics": [*others, *percents]}
    stored = {"apiVersion": "autoscaling/v2", "kind": V2.kind, "metadata": metadata, "spec": spec, "status": {}}
    back = to_stored(from_stored(stored))
    same = sorted(map(repr, back["spec"].get("metrics", [])))
    assert same == sorted(map(repr, spec["metrics"]))
    assert (back["metadata"].get("annotations") or None) == annotations


@pytest.mark.parametrize("text", ["no JSON", "7", "", "[" * 20_000])
def test_annotations_that_say_nothing_do_no_harm(text: str) -> None:
    value = {
        "metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/behavior": text}},
        "spec": {"maxReplicas": 1},
    }
    assert to_stored(value)["spec"]["maxReplicas"] == 1


@pytest.mark.parametrize(
    ("metrics", "current", "shown"),
    [
        ([], [], "<none>"),
        ([CPU], [], "cpu: <unknown>/50%"),
        (
            [CPU],
            [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 30}}}],
            "cpu: 30%/50%",
        ),
        ([CPU, MEMORY, CPU], [], "cpu: <unknown>/50%, memory: <unknown>/1Gi + 1 more..."),
    ],
)
def test_the_table_shows_metrics_and_their_targets(metrics: list[Any], current: list[Any], shown: str) -> None:
    spec = {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 3, "metrics": metrics}
    row = {"metadata": {"name": "web"}, "spec": spec, "status": {"currentMetrics": current}}
    assert layout(V2).cells(row, 0.0)[:6] == ["web", "Deployment/web", shown, "1", 3, 0]
    if len(metrics) == 1:
        assert layout(V1).cells(from_stored(row), 0.0)[2] == shown


async def test_a_replication_controller_is_scaled_by_its_labels(backend: Backend) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    body = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "web"},
        "spec": {"template": template},
    }
    await backend.service.create(REPLICATION_CONTROLLERS, "default", body, OPTIONS)
    change = {"spec": {"replicas": 4}}
    done = await backend.service.patch(REPLICATION_CONTROLLERS, "default", "web", change, "merge", OPTIONS, "scale")
    scale = json.loads(done.object)
    assert (scale["spec"], scale["status"]) == ({"replicas": 4}, {"replicas": 0, "selector": "app=web"})
    row = json.loads(await backend.service.get(REPLICATION_CONTROLLERS, "default", "web"))
    assert layout(REPLICATION_CONTROLLERS).cells(row, 0.0)[:4] == ["web", 4, 0, 0]
    assert layout(REPLICATION_CONTROLLERS).cells(row, 0.0)[-3:] == ["main", "x", "app=web"]
