"""The server refuses objects that ask for more pods than it takes from one object."""

from __future__ import annotations

from typing import Any

import pytest

from support.backends import OPTIONS, job_body, opened, read
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_JOBS, DEPLOYMENTS
from unisono.api.kinds import JOBS
from unisono.apiserver.admission import Admission, Settings
from unisono.errors import ApiError

POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def deployment(replicas: int) -> dict[str, Any]:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": POD}
    meta = {"name": "d", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def batch(parallelism: int, completions: int) -> dict[str, Any]:
    template = {"spec": {**POD["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": parallelism, "completions": completions, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "default"}, "spec": spec}


def volcano(replicas: int) -> dict[str, Any]:
    body = job_body("v")
    body["spec"]["tasks"][0]["replicas"] = replicas
    return body


@pytest.mark.parametrize(
    ("kind", "body"),
    [(DEPLOYMENTS, deployment(2**31 - 1)), (BATCH_JOBS, batch(2**31 - 1, 2**31 - 1)), (JOBS, volcano(2**31 - 1))],
    ids=["deployment", "job", "volcano job"],
)
async def test_an_object_that_asks_for_too_many_pods_is_refused(kind: Kind[Any], body: dict[str, Any]) -> None:
    async with opened() as backend:
        with pytest.raises(ApiError) as refused:
            await backend.service.create(kind, "default", body, OPTIONS)
        assert refused.value.code == 403
        assert "asks for 2147483647 pods, more than the limit of 50000 for one object" in str(refused.value)


async def test_completions_are_no_pods() -> None:
    async with opened() as backend:
        await backend.service.create(BATCH_JOBS, "default", batch(10, 2**31 - 1), OPTIONS)


async def test_the_limit_is_a_setting_and_what_is_larger_may_shrink_but_not_grow() -> None:
    async with opened(admission=Admission(Settings(most_pods=20))) as backend:
        await backend.service.create(DEPLOYMENTS, "default", deployment(20), OPTIONS)
        with pytest.raises(ApiError, match="more than the limit of 20"):
            await backend.service.patch(DEPLOYMENTS, "default", "d", {"spec": {"replicas": 21}}, "merge", OPTIONS)
        with pytest.raises(ApiError, match="more than the limit of 20"):
            await backend.service.patch(
                DEPLOYMENTS, "default", "d", {"spec": {"replicas": 21}}, "merge", OPTIONS, "scale"
            )


async def test_an_object_from_before_the_limit_may_be_changed_as_long_as_it_does_not_grow(tmp_path: Any) -> None:
    async with opened(tmp_path / "db") as backend:
        await backend.service.create(DEPLOYMENTS, "default", deployment(40), OPTIONS)
    async with opened(tmp_path / "db", admission=Admission(Settings(most_pods=20))) as backend:
        await backend.service.patch(DEPLOYMENTS, "default", "d", {"spec": {"replicas": 30}}, "merge", OPTIONS)
        with pytest.raises(ApiError, match="more than the limit of 20"):
            await backend.service.patch(DEPLOYMENTS, "default", "d", {"spec": {"replicas": 31}}, "merge", OPTIONS)
        assert (await read(backend.service, DEPLOYMENTS, "default", "d"))["spec"]["replicas"] == 30
