"""Writes through ``scale``: who owns the replicas then, and whom an applied Scale meets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unisono.api.kinds import find
from unisono.apiserver.backend import Backend
from unisono.apiserver.types import PatchType, WriteOptions
from unisono.errors import ApiError, Conflict

DEPLOYMENTS = find("apps/v1", "Deployment")
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}}
REPLICAS = {"f:spec": {"f:replicas": {}}}


@pytest.fixture
async def backend() -> Any:
    backend = await Backend.open()
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    await backend.service.create(DEPLOYMENTS, "default", body, WriteOptions(field_manager="maker"))
    yield backend
    await backend.close()


async def scaled(
    backend: Backend, manager: str, body: dict[str, Any], how: PatchType = "apply", *, force: bool = False
) -> dict[str, Any]:
    options = WriteOptions(field_manager=manager, force=force)
    done = await backend.service.patch(DEPLOYMENTS, "default", "web", body, how, options, "scale")
    return json.loads(done.object)


async def owners(backend: Backend) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = json.loads(await backend.service.get(DEPLOYMENTS, "default", "web"))
    return {
        (one["manager"], one["operation"], one.get("subresource", "")): one
        for one in found["metadata"]["managedFields"]
    }


async def test_a_patched_scale_belongs_to_who_patched_it(backend: Backend) -> None:
    assert (await scaled(backend, "kubectl", {"spec": {"replicas": 5}}, "merge"))["spec"] == {"replicas": 5}
    found = await owners(backend)
    assert found["kubectl", "Update", "scale"]["fieldsV1"] == REPLICAS
    assert found["kubectl", "Update", "scale"]["apiVersion"] == "apps/v1"
    assert "f:replicas" not in found["maker", "Update", ""]["fieldsV1"]["f:spec"]


async def test_an_applied_scale_meets_the_owner_of_the_replicas(backend: Backend) -> None:
    with pytest.raises(Conflict, match=r'conflict with "maker" using autoscaling/v1: \.spec\.replicas'):
        await scaled(backend, "tuner", {**SCALE, "spec": {"replicas": 4}})
    assert "f:replicas" in (await owners(backend))["maker", "Update", ""]["fieldsV1"]["f:spec"]
    assert (await scaled(backend, "tuner", {**SCALE, "spec": {"replicas": 4}}, force=True))["spec"]["replicas"] == 4
    found = await owners(backend)
    assert found["tuner", "Apply", "scale"]["fieldsV1"] == REPLICAS
    assert "f:replicas" not in found["maker", "Update", ""]["fieldsV1"]["f:spec"]


async def test_replicas_may_be_shared_and_go_with_their_last_applier(backend: Backend) -> None:
    await scaled(backend, "one", {**SCALE, "spec": {"replicas": 4}}, force=True)
    await scaled(backend, "two", {**SCALE, "spec": {"replicas": 4}})
    assert {("one", "Apply", "scale"), ("two", "Apply", "scale")} <= set(await owners(backend))
    assert (await scaled(backend, "two", SCALE))["spec"]["replicas"] == 4
    assert ("two", "Apply", "scale") not in await owners(backend)
    assert (await scaled(backend, "one", SCALE))["spec"]["replicas"] == 0


async def test_the_status_of_an_applied_scale_is_left_to_others(backend: Backend) -> None:
    body = {**SCALE, "spec": {"replicas": 2}, "status": {"replicas": 9}}
    assert (await scaled(backend, "tuner", body))["status"] == {"replicas": 0, "selector": "app=web"}
    assert (await owners(backend))["tuner", "Apply", "scale"]["fieldsV1"] == REPLICAS


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({**SCALE, "spec": {"replicasx": 3}}, r"\.spec\.replicasx: field not declared in schema"),
        ({**SCALE, "apiVersion": "apps/v1"}, "Incorrect version"),
        ({**SCALE, "kind": "Deployment"}, "does not match the expected kind"),
        ({**SCALE, "metadata": {"name": "other"}, "spec": {"replicas": 1}}, "does not match the name on the URL"),
        ({**SCALE, "spec": {"replicas": "many"}}, "replicas"),
        ({**SCALE, "spec": {"replicas": -1}}, "must be greater than or equal to 0"),
    ],
)
async def test_what_is_no_scale_is_refused(backend: Backend, body: dict[str, Any], words: str) -> None:
    before = await backend.service.get(DEPLOYMENTS, "default", "web")
    with pytest.raises(ApiError, match=words):
        await scaled(backend, "tuner", body, force=True)
    assert await backend.service.get(DEPLOYMENTS, "default", "web") == before
