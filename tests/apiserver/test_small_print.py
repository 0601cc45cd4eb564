"""What every cluster does on the side: certificates, service accounts, taints of new nodes, counts that are zero."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from unisono.api.kinds import CONFIG_MAPS, NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS, find
from unisono.apiserver.backend import Backend
from unisono.apiserver.housekeeping.gc import NAME
from unisono.apiserver.types import DeleteOptions, WriteOptions
from unisono.errors import ApiError

OPTIONS = WriteOptions()
DAEMON_SETS = find("apps/v1", "DaemonSet")
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
SELECTING = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}


@pytest.fixture
async def backend() -> Any:
    backend = await Backend.open()
    yield backend
    await backend.close()


async def create(backend: Backend, api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    found = find(api_version, kind)
    assert found is not None
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, **fields}
    done = await backend.service.create(found, "default" if found.namespaced else None, body, OPTIONS)
    value: dict[str, Any] = json.loads(done.object)
    return value


async def settled(backend: Backend) -> None:
    while not backend.idle:
        await asyncio.sleep(0)


async def certificate(backend: Backend, namespace: str) -> Any:
    return json.loads(await backend.service.get(CONFIG_MAPS, namespace, NAME))["data"]["ca.crt"]


async def test_every_namespace_gets_the_certificate_and_keeps_it(backend: Backend) -> None:
    await create(backend, "v1", "Namespace")
    backend.service.publish_certificate("PEM")
    await settled(backend)
    assert [await certificate(backend, name) for name in ("default", "kube-system", "one")] == ["PEM"] * 3
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}}
    await backend.service.create(NAMESPACES, None, body, OPTIONS)
    await backend.service.patch(CONFIG_MAPS, "one", NAME, {"data": {"ca.crt": "other"}}, "merge", OPTIONS)
    await backend.service.delete(CONFIG_MAPS, "default", NAME, DeleteOptions())
    await settled(backend)
    assert [await certificate(backend, name) for name in ("default", "late", "one")] == ["PEM"] * 3
    backend.service.publish_certificate("renewed")
    await settled(backend)
    assert await certificate(backend, "late") == "renewed"


async def test_a_pod_runs_under_an_account_that_exists(backend: Backend) -> None:
    spec = {**TEMPLATE["spec"], "serviceAccountName": "robot"}
    with pytest.raises(
        ApiError, match='error looking up service account default/robot: serviceaccount "robot" not f'
    ) as no:
        await create(backend, "v1", "Pod", spec=spec)
    assert no.value.code == 403
    await backend.service.create(
        SERVICE_ACCOUNTS,
        "default",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}},
        OPTIONS,
    )
    assert (await create(backend, "v1", "Pod", spec=spec))["spec"]["serviceAccountName"] == "robot"
    # What runs already goes on when the account goes.
    await backend.service.delete(SERVICE_ACCOUNTS, "default", "robot", DeleteOptions())
    await backend.service.patch(PODS, "default", "one", {"metadata": {"labels": {"a": "b"}}}, "merge", OPTIONS)


READY = [{"type": "Ready", "status": "True"}]
GONE = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
MINE = {"key": "gpu", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("fields", "taints"),
    [
        ({}, [GONE]),
        ({"spec": {"taints": [MINE]}}, [MINE, GONE]),
        ({"spec": {"taints": [GONE]}}, [GONE]),
        ({"status": {"conditions": READY}}, []),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, [GONE]),
    ],
)
async def test_a_new_node_is_not_ready_until_it_says_so(
    backend: Backend, fields: dict[str, Any], taints: list[dict[str, str]]
) -> None:
    made = await create(backend, "v1", "Node", **fields)
    assert made["spec"].get("taints", []) == taints if "spec" in made else not taints
    assert made["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    await backend.service.patch(NODES, None, "one", {"spec": {"taints": None}}, "merge", OPTIONS)
    assert "taints" not in json.loads(await backend.service.get(NODES, None, "one")).get("spec", {})


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "status"),
    [
        ("apps/v1", "ReplicaSet", SELECTING, {"replicas": 0}),
        ("apps/v1", "StatefulSet", {**SELECTING, "serviceName": "s"}, {"replicas": 0, "availableReplicas": 0}),
        (
            "apps/v1",
            "DaemonSet",
            SELECTING,
            dict.fromkeys(("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0),
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {"minAvailable": 1},
            dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0),
        ),
    ],
)
async def test_counts_of_a_new_status_are_told(
    backend: Backend, api_version: str, kind: str, spec: dict[str, Any], status: dict[str, int]
) -> None:
    assert (await create(backend, api_version, kind, spec=spec))["status"] == status


async def test_daemon_sets_count_the_changes_of_their_template(backend: Backend) -> None:
    key = "deprecated.daemonset.template.generation"
    assert (await create(backend, "apps/v1", "DaemonSet", spec=SELECTING))["metadata"]["annotations"] == {key: "1"}

    async def patched(change: dict[str, Any]) -> Any:
        done = await backend.service.patch(DAEMON_SETS, "default", "one", change, "merge", OPTIONS)
        return json.loads(done.object)["metadata"]["annotations"][key]

    assert await patched({"metadata": {"labels": {"a": "b"}}}) == "1"
    assert await patched({"metadata": {"annotations": {key: "9"}}}) == "1"
    assert await patched({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}}}) == "2"
