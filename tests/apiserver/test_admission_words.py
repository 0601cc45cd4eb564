"""What is accepted without effect is told: on jobs, on other objects, and on clusters that are no hub."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.backends import OPTIONS, job_body, namespace_body, opened
from unisono.api.kind import Kind
from unisono.api.kind_families import ATTACHED_CLUSTERS, FLEETS, PROPAGATION_POLICIES, RAY_CLUSTERS
from unisono.api.kinds import JOBS, NAMESPACES, PODS
from unisono.apiserver.backend import Backend
from unisono.errors import Invalid


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    async with opened() as it:
        yield it


def body(kind: Kind[Any], spec: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", **meta}, "spec": spec}


POD = {"containers": [{"name": "c", "image": "busybox"}]}
RAY = {
    "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
    "headGroupSpec": {"rayStartParams": {}, "template": {"spec": POD}},
}
POLICY = {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": {}}


@pytest.mark.parametrize(
    ("kind", "obj", "told"),
    [
        (NAMESPACES, namespace_body("lab") | {"metadata": {"name": "lab", "annotations": {
            "yunikorn.apache.org/namespace.quota": "{}"}}}, "is YuniKorn's (limit of a namespace)"),
        (PODS, body(PODS, POD, labels={"kai.scheduler/queue": "q"}), "is KAI's (queue)"),
        (PODS, body(PODS, POD | {"schedulerName": "yunikorn"}), "spec.schedulerName: yunikorn is YuniKorn's"),
        (PODS, body(PODS, POD, annotations={"unisono.io/min-runtime": "5m"}), "did you mean unisono.io/min-run-time?"),
        (RAY_CLUSTERS, body(RAY_CLUSTERS, RAY), "spec.gcsFaultToleranceOptions has no effect"),
        (FLEETS, body(FLEETS, {}), "no cluster is attached"),
        (PROPAGATION_POLICIES, body(PROPAGATION_POLICIES, POLICY), "no cluster is attached"),
    ],
    ids=lambda value: value.kind if isinstance(value, Kind) else "",
)  # fmt: skip
async def test_it_is_told_when_it_is_made(backend: Backend, kind: Kind[Any], obj: dict[str, Any], told: str) -> None:
    written = await backend.service.create(kind, "default" if kind.namespaced else None, obj, OPTIONS)
    (warning,) = written.warnings
    assert told in warning


async def test_a_cluster_with_members_is_a_hub(backend: Backend) -> None:
    await backend.service.create(
        ATTACHED_CLUSTERS, "default", body(ATTACHED_CLUSTERS, {"kubeconfig": {"name": "k", "key": "config"}}), OPTIONS
    )
    assert not (await backend.service.create(FLEETS, "default", body(FLEETS, {}), OPTIONS)).warnings


@pytest.mark.parametrize("least", [None, 1, 3])
async def test_a_task_that_needs_more_pods_than_it_has_is_refused(backend: Backend, least: int | None) -> None:
    job = job_body("j")
    job["spec"]["minAvailable"] = least
    job["spec"]["tasks"][0] |= {"replicas": 2, "minAvailable": 3}
    with pytest.raises(Invalid, match="'minAvailable' is greater than 'replicas' in task"):
        await backend.service.create(JOBS, "default", job, OPTIONS)
