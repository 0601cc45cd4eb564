"""Quotas and limit ranges: what they refuse, in which words, and that accounts are always right."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.backends import DELETE, WriteOptions, config_map, opened, pod_body, read, value
from support.examples import examples
from unisono.api.keys import CLASS_BETA
from unisono.api.kinds import (
    CONFIG_MAPS,
    JOBS,
    LIMIT_RANGES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SERVICES,
)
from unisono.api.resources import resource_list
from unisono.apiserver.backend import Backend
from unisono.errors import ApiError, Invalid

OPTIONS = WriteOptions()


def quota(name: str = "q", *, scopes: list[str] | None = None, selector: Any = None, **hard: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"hard": {key.replace("__", "/").replace("_", "."): str(one) for key, one in hard.items()}}
    if scopes:
        spec["scopes"] = scopes
    if selector:
        spec["scopeSelector"] = {"matchExpressions": selector}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": spec}


def pod(name: str, requests: dict[str, str] | None = None, limits: dict[str, str] | None = None, **spec: Any) -> Any:
    resources = {"requests": requests or {}, "limits": limits or {}}
    container = {"name": "main", "image": "busybox:1", "resources": resources}
    return pod_body(name, spec_containers=[container], **{f"spec_{key}": each for key, each in spec.items()})


async def made(backend: Backend, kind: Any, body: dict[str, Any]) -> Any:
    return value((await backend.service.create(kind, "default", body, OPTIONS)).object)


async def used(backend: Backend, name: str = "q") -> dict[str, str]:
    found: dict[str, str] = (await read(backend.service, RESOURCE_QUOTAS, "default", name))["status"]["used"]
    return found


async def refused(backend: Backend, kind: Any, body: dict[str, Any]) -> str:
    with pytest.raises(ApiError) as caught:
        await made(backend, kind, body)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    return caught.value.message


async def test_what_is_over_the_quota_is_refused_with_numbers() -> None:
    async with opened() as backend:
        await made(backend, RESOURCE_QUOTAS, quota(requests_cpu="1", pods=2))
        await made(backend, PODS, pod("a", {"cpu": "600m"}))
        assert await refused(backend, PODS, pod("b", {"cpu": "1500m"})) == (
            'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=1500m, used: requests.cpu=600m, '
            "limited: requests.cpu=1"
        )
        await made(backend, PODS, pod("c", {"cpu": "400m"}))
        assert "requested: pods=1,requests.cpu=1m, used: pods=2,requests.cpu=1," in await refused(
            backend, PODS, pod("d", {"cpu": "1m"})
        )
        assert await used(backend) == {"requests.cpu": "1", "pods": "2"}
        await backend.service.delete(PODS, "default", "a", DELETE)
        assert await used(backend) == {"requests.cpu": "400m", "pods": "1"}
        await made(backend, PODS, pod("e", {"cpu": "600m"}))


async def test_what_a_quota_limits_must_be_given() -> None:
    async with opened() as backend:
        await made(backend, RESOURCE_QUOTAS, quota(requests_cpu="1", limits_memory="1Gi"))
        assert await refused(backend, PODS, pod("a")) == (
            'pods "a" is forbidden: failed quota: q: must specify limits.memory for: main; requests.cpu for: main'
        )


async def test_everything_that_quotas_count() -> None:
    async with opened() as backend:
        hard = {
            "configmaps": 5,
            "count__jobs.batch.volcano.sh": 5,
            "services": 5,
            "services_nodeports": 5,
            "services_loadbalancers": 5,
            "persistentvolumeclaims": 5,
            "requests_storage": "10Gi",
            "count__pods": 5,
            "pods": 5,
            "requests_nvidia.com__gpu": 8,
            "memory": "8Gi",
        }
        body = quota(**hard)
        body["spec"]["hard"]["fast.storageclass.storage.k8s.io/requests.storage"] = "5Gi"
        await made(backend, CONFIG_MAPS, config_map("before"))
        await made(backend, RESOURCE_QUOTAS, body)
        assert (await used(backend))["configmaps"] == "1"
        gpus = {"nvidia.com/gpu": "2", "memory": "1Gi"}
        await made(backend, PODS, pod("a", gpus, gpus))
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast",
                "resources": {"requests": {"storage": "2Gi"}},
            },
        }
        await made(backend, PERSISTENT_VOLUME_CLAIMS, claim)
        notes, older = {CLASS_BETA: "fast"}, {**claim["spec"], "storageClassName": None}
        named = {**claim["metadata"], "name": "older", "annotations": notes}
        await made(backend, PERSISTENT_VOLUME_CLAIMS, {**claim, "metadata": named, "spec": older})
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s", "namespace": "default"},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]},
        }
        await made(backend, SERVICES, service)
        task = {"containers": [{"name": "main", "image": "b", "resources": {"requests": {"memory": "1"}}}]}
        job = {
            "apiVersion": JOBS.api_version,
            "kind": "Job",
            "metadata": {"name": "j", "namespace": "default"},
            "spec": {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": {"spec": task}}]},
        }
        await made(backend, JOBS, job)
        assert await used(backend) == {
            "configmaps": "1",
            "count/jobs.batch.volcano.sh": "1",
            "services": "1",
            "services.nodeports": "2",
            "services.loadbalancers": "1",
            "persistentvolumeclaims": "2",
            "requests.storage": "4Gi",
            "fast.storageclass.storage.k8s.io/requests.storage": "4Gi",
            "count/pods": "1",
            "pods": "1",
            "requests.nvidia.com/gpu": "2",
            "memory": "1Gi",
        }
        done = {"status": {"phase": "Succeeded"}}
        await backend.service.patch(PODS, "default", "a", done, "merge", OPTIONS, "status")
        after = await used(backend)
        assert [after[name] for name in ("count/pods", "pods", "requests.nvidia.com/gpu", "memory")] == [
            "1",
            "0",
            "0",
            "0",
        ]


SCOPES = [
    (["Terminating"], None, {"a"}),
    (["NotTerminating"], None, {"b", "c"}),
    (["BestEffort"], None, {"b"}),
    (["NotBestEffort"], None, {"a", "c"}),
    (None, [{"scopeName": "PriorityClass", "operator": "In", "values": ["urgent"]}], {"c"}),
    (None, [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["urgent"]}], {"a", "b"}),
    (None, [{"scopeName": "PriorityClass", "operator": "Exists"}], {"c"}),
    (None, [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}], {"a", "b"}),
    (["CrossNamespacePodAffinity"], None, set()),
]


@pytest.mark.parametrize(("scopes", "selector", "counted"), SCOPES)
async def test_scopes(scopes: list[str] | None, selector: Any, counted: set[str]) -> None:
    pods = (
        pod("a", {"cpu": "1"}, activeDeadlineSeconds=60),
        pod("b"),
        pod("c", {"cpu": "1"}, priorityClassName="urgent"),
    )
    async with opened() as backend:
        urgent = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": "PriorityClass", "value": 7}
        await backend.service.create(PRIORITY_CLASSES, None, {**urgent, "metadata": {"name": "urgent"}}, OPTIONS)
        await made(backend, RESOURCE_QUOTAS, quota(scopes=scopes, selector=selector, pods=3))
        for body in pods:
            before = int((await used(backend))["pods"])
            await made(backend, PODS, body)
            grown = int((await used(backend))["pods"]) - before
            assert (grown == 1) is (body["metadata"]["name"] in counted)


async def test_a_changed_quota_counts_anew_and_may_be_exceeded_but_not_further() -> None:
    async with opened() as backend:
        await made(backend, RESOURCE_QUOTAS, quota(pods=5))
        for name in ("a", "b", "c"):
            await made(backend, PODS, pod(name))
        change = {"spec": {"hard": {"pods": "2", "count/pods": "9"}}}
        await backend.service.patch(RESOURCE_QUOTAS, "default", "q", change, "merge", OPTIONS)
        assert await used(backend) == {"pods": "3", "count/pods": "3"}
        assert "used: pods=3, limited: pods=2" in await refused(backend, PODS, pod("d"))
        # A change that uses no more is none of the quota's business.
        label = {"metadata": {"labels": {"x": "y"}}}
        await backend.service.patch(PODS, "default", "a", label, "merge", OPTIONS)
        await backend.service.delete(RESOURCE_QUOTAS, "default", "q", DELETE)
        await made(backend, PODS, pod("d"))


async def test_nobody_writes_accounts_by_hand() -> None:
    async with opened() as backend:
        await made(backend, RESOURCE_QUOTAS, quota(pods=1))
        await made(backend, PODS, pod("a"))
        lie = {"status": {"hard": {"pods": "9"}, "used": {"pods": "0"}}}
        await backend.service.patch(RESOURCE_QUOTAS, "default", "q", lie, "merge", OPTIONS, "status")
        assert await used(backend) == {"pods": "1"}
        await refused(backend, PODS, pod("b"))


async def test_requests_at_the_same_moment_share_what_is_left() -> None:
    async with opened() as backend:
        await made(backend, RESOURCE_QUOTAS, quota(pods=3))
        results = await asyncio.gather(
            *(made(backend, PODS, pod(f"p{number}")) for number in range(10)), return_exceptions=True
        )
        assert sum(not isinstance(result, BaseException) for result in results) == 3
        assert await used(backend) == {"pods": "3"}


steps = st.lists(
    st.tuples(
        st.sampled_from(["create", "delete", "finish", "shrink", "grow", "dry"]),
        st.integers(0, 5),
        st.integers(1, 4),
    ),
    max_size=25,
)


@settings(max_examples=examples(40), deadline=None)
@given(steps)
async def test_accounts_are_right_and_never_over_whatever_happens(story: list[tuple[str, int, int]]) -> None:
    async with opened() as backend:
        service, hard = backend.service, 6
        await made(backend, RESOURCE_QUOTAS, quota(requests_cpu=hard, count__pods=4))
        for what, number, amount in story:
            name = f"p{number}"
            with contextlib.suppress(ApiError):
                if what == "create":
                    await made(backend, PODS, pod(name, {"cpu": str(amount)}))
                elif what == "dry":
                    body = pod(name, {"cpu": str(amount)})
                    await service.create(PODS, "default", body, WriteOptions(dry_run=True))
                elif what == "delete":
                    await service.delete(PODS, "default", name, DELETE)
                elif what == "finish":
                    await service.patch(
                        PODS, "default", name, {"status": {"phase": "Failed"}}, "merge", OPTIONS, "status"
                    )
                else:
                    new = hard + amount if what == "grow" else max(6, hard - amount)
                    change = {"spec": {"hard": {"requests.cpu": str(new)}}}
                    await service.patch(RESOURCE_QUOTAS, "default", "q", change, "merge", OPTIONS)
                    hard = new
            pods = [value(item) for item in (await service.list(PODS, "default")).items]
            running = [one for one in pods if one["status"]["phase"] != "Failed"]
            cpu = sum(int(one["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for one in running)
            account = resource_list(await used(backend))
            assert account == resource_list({"requests.cpu": str(cpu), "count/pods": str(len(pods))})
            assert len(pods) <= 4
            assert cpu <= hard or what == "shrink"
            if cpu > hard:
                return


async def test_accounts_survive_a_restart(tmp_path: Any) -> None:
    async with opened(tmp_path / "state.db") as backend:
        await made(backend, RESOURCE_QUOTAS, quota(pods=2))
        await made(backend, PODS, pod("a"))
    async with opened(tmp_path / "state.db") as backend:
        assert await used(backend) == {"pods": "1"}
        await made(backend, PODS, pod("b"))
        await refused(backend, PODS, pod("c"))


WRONG_QUOTAS = [
    (quota(cpus=1), 'spec.hard[cpus]: Invalid value: "cpus": must be a standard resource for quota'),
    (quota(scopes=["BestEffort", "NotBestEffort"], pods=1), "conflicting scopes"),
    (quota(scopes=["BestEffort"], requests_cpu=1), "unsupported scope applied to resource"),
    (quota(scopes=["Often"], pods=1), "unsupported scope"),
    (quota(selector=[{"scopeName": "PriorityClass", "operator": "In"}], pods=1), "must be at least one value"),
    (quota(pods=-1), "must be greater than or equal to 0"),
]


@pytest.mark.parametrize(("body", "message"), WRONG_QUOTAS)
async def test_invalid_quotas(body: dict[str, Any], message: str) -> None:
    async with opened() as backend:
        with pytest.raises(Invalid) as caught:
            await made(backend, RESOURCE_QUOTAS, body)
        assert message in caught.value.message


def limit_range(*items: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": "l", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": list(items)}}


async def test_defaults_of_containers() -> None:
    async with opened() as backend:
        item = {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "250m", "memory": "64Mi"}}
        await made(backend, LIMIT_RANGES, limit_range(item))
        found = await made(backend, PODS, pod("a"))
        assert found["spec"]["containers"][0]["resources"] == {
            "requests": {"cpu": "250m", "memory": "64Mi"},
            "limits": {"cpu": "1"},
        }
        assert found["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
            "LimitRanger plugin set: cpu, memory request for container main; cpu limit for container main"
        )
        given_all = await made(backend, PODS, pod("b", {"cpu": "500m", "memory": "1Mi"}, {"cpu": "1"}))
        assert "annotations" not in given_all["metadata"]


BOUNDS = [
    (
        {"type": "Container", "max": {"cpu": "2"}},
        {},
        {"cpu": "3"},
        "maximum cpu usage per Container is 2, but limit is 3",
    ),
    (
        {"type": "Container", "min": {"cpu": "1"}},
        {"cpu": "500m"},
        {},
        "minimum cpu usage per Container is 1, but request is 500m",
    ),
    ({"type": "Pod", "max": {"memory": "1Gi"}}, {}, {}, "maximum memory usage per Pod is 1Gi.  No limit is specified"),
    ({"type": "Pod", "min": {"cpu": "1"}}, {}, {}, "minimum cpu usage per Pod is 1.  No request is specified"),
    (
        {"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}},
        {"cpu": "1"},
        {"cpu": "3"},
        "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
    ),
]


@pytest.mark.parametrize(("item", "requests", "limits", "message"), BOUNDS)
async def test_bounds(item: dict[str, Any], requests: dict[str, str], limits: dict[str, str], message: str) -> None:
    async with opened() as backend:
        await made(backend, LIMIT_RANGES, limit_range(item))
        assert await refused(backend, PODS, pod("a", requests, limits)) == f'pods "a" is forbidden: {message}'


async def test_limit_ranges_fill_in_before_quotas_count() -> None:
    async with opened() as backend:
        await made(backend, LIMIT_RANGES, limit_range({"type": "Container", "defaultRequest": {"cpu": "600m"}}))
        await made(backend, RESOURCE_QUOTAS, quota(requests_cpu="1"))
        await made(backend, PODS, pod("a"))
        assert "requested: requests.cpu=600m" in await refused(backend, PODS, pod("b"))


WRONG_LIMITS = [
    (
        {"type": "Often"},
        'spec.limits[0].type: Invalid value: "Often": must be a standard limit type or fully qualified',
    ),
    ({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}, "min value 2 is greater than max value 1"),
    ({"type": "Pod", "default": {"cpu": "2"}}, "may not be specified when `type` is 'Pod'"),
    ({"type": "PersistentVolumeClaim"}, "either minimum or maximum storage value is required"),
    ({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}, "ratio 500m is less than 1"),
    ({"type": "Container", "default": {"x.y/z": 2}, "defaultRequest": {"x.y/z": 1}}, "must equal to defaultRequest"),
]


@pytest.mark.parametrize(("item", "message"), WRONG_LIMITS)
async def test_invalid_limit_ranges(item: dict[str, Any], message: str) -> None:
    async with opened() as backend:
        with pytest.raises(Invalid) as caught:
            await made(backend, LIMIT_RANGES, limit_range(item))
        assert message in caught.value.message
