"""What is accepted without effect is told: on jobs, on other objects, and on clusters that are no hub."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.backends import OPTIONS, job_body, namespace_body, opened, value
from unisono.api.annotations import APART, NEAR, SPREAD, TIER
from unisono.api.kind import Kind
from unisono.api.kind_families import (
    ATTACHED_CLUSTERS,
    FLEETS,
    HYPER_JOBS,
    PROPAGATION_POLICIES,
    PYTORCH_JOBS,
    RAY_CLUSTERS,
    RAY_JOBS,
)
from unisono.api.kinds import COMMANDS, HYPER_NODES, JOBS, NAMESPACES, PODS, QUEUES, RESOURCE_QUOTAS
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
HEAD = {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": POD}}}
CLASS = "ray.io/priority-class-name"
SYSTEM = "system-node-critical"
NODES_OWN = {"priorityClassName": SYSTEM}
PARTS = {"replicatedJobs": [{"name": "p", "clusterNames": ["gpu1"], "templateSpec": job_body("x")["spec"]}]}
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
        (RAY_CLUSTERS, body(RAY_CLUSTERS, HEAD | {"workerGroupSpecs": [{"groupName": "w", "replicas": 5,
            "maxReplicas": 3, "rayStartParams": {}, "template": {"spec": POD}}]}), "replicas: 5 counts as 3"),
        (FLEETS, body(FLEETS, {}), "no cluster is attached"),
        (PROPAGATION_POLICIES, body(PROPAGATION_POLICIES, POLICY), "no cluster is attached"),
        (PODS, body(PODS, POD, annotations={NEAR: "app=a@tier-7"}), f"metadata.annotations[{NEAR}]: no HyperNode is of "
            '"tier-7", so that no node is in such a domain; there are no HyperNodes'),
        (JOBS, job_body("x") | {"metadata": {"name": "x", "namespace": "default", "annotations": {SPREAD: "@rack"}}},
            f'metadata.annotations[{SPREAD}]: no HyperNode is of "rack"'),
        (PODS, body(PODS, POD | {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": f"{TIER}tier-1",
            "whenUnsatisfiable": "DoNotSchedule"}]}), 'topologySpreadConstraints[0].topologyKey: no HyperNode is of'),
        (HYPER_JOBS, body(HYPER_JOBS, PARTS), "no cluster is attached: all jobs run here, whatever clusterNames says"),
    ],
    ids=lambda value: value.kind if isinstance(value, Kind) else "",
)  # fmt: skip
async def test_it_is_told_when_it_is_made(backend: Backend, kind: Kind[Any], obj: dict[str, Any], told: str) -> None:
    written = await backend.service.create(kind, "default" if kind.namespaced else None, obj, OPTIONS)
    (warning,) = written.warnings
    assert told in warning


@pytest.mark.parametrize(
    ("action", "target", "told"),
    [
        ("AbortJob", {"name": "nobody"}, "target: there is no Job nobody"),
        ("AbortJob", {"uid": "another"}, "target.uid: Job x has another uid"),
        ("CloseQueue", {}, "action: a Job does not obey CloseQueue: write one of AbortJob, "),
        ("AbortJob", {"apiVersion": "batch/v1"}, "target: Jobs of batch.volcano.sh and Queues obey commands"),
        ("OpenQueue", {"kind": "Queue", "apiVersion": QUEUES.api_version, "name": "default", "uid": "old"}, ""),
        ("AbortJob", {}, ""),
    ],
)
async def test_a_command_that_nobody_will_obey(
    backend: Backend, action: str, target: dict[str, Any], told: str
) -> None:
    written = await backend.service.create(JOBS, "default", job_body("x"), OPTIONS)
    uid = value(written.object)["metadata"]["uid"]
    about = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "x", "uid": uid} | target
    command = body(COMMANDS, {}) | {"action": action, "target": about}
    del command["spec"]
    warnings = (await backend.service.create(COMMANDS, "default", command, OPTIONS)).warnings
    assert ([told] if told else []) == [each[: len(told)] for each in warnings]


def training(policy: dict[str, Any], pod: dict[str, Any]) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "torch"}], **pod}}
    spec = {"runPolicy": {"schedulingPolicy": policy}, "pytorchReplicaSpecs": {"Worker": {"template": template}}}
    return body(PYTORCH_JOBS, spec)


@pytest.mark.parametrize(
    ("kind", "obj", "told"),
    [
        (RAY_CLUSTERS, body(RAY_CLUSTERS, HEAD, labels={CLASS: SYSTEM}), "is refused in this namespace"),
        (RAY_JOBS, body(RAY_JOBS, {"entrypoint": "a", "rayClusterSpec": HEAD}, labels={CLASS: "nowhere"}),
            f"metadata.labels[{CLASS}]: there is no PriorityClass \"nowhere\", and until there is one the gang counts"),
        (PYTORCH_JOBS, training({"priorityClass": "nowhere"}, {}), "until there is one the gang counts"),
        (PYTORCH_JOBS, training({}, {"priorityClassName": "nowhere"}), "one pods that have it are refused"),
        (PYTORCH_JOBS, training({}, NODES_OWN), "Worker.template.spec.priorityClassName: what has the class"),
        (JOBS, job_body("x") | {"spec": {**job_body("x")["spec"], "priorityClassName": "none"}}, "pods that have it"),
    ],
)  # fmt: skip
async def test_a_class_that_is_not_there_or_not_for_tenants_is_told(
    backend: Backend, kind: Kind[Any], obj: dict[str, Any], told: str
) -> None:
    (warning,) = (await backend.service.create(kind, "default", obj, OPTIONS)).warnings
    assert told in warning


async def test_a_quota_for_a_class_of_the_system_allows_it(backend: Backend) -> None:
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": [SYSTEM]}
    quota = body(RESOURCE_QUOTAS, {"hard": {"pods": "5"}, "scopeSelector": {"matchExpressions": [scope]}})
    await backend.service.create(RESOURCE_QUOTAS, "default", quota, OPTIONS)
    assert not (await backend.service.create(PYTORCH_JOBS, "default", training({}, NODES_OWN), OPTIONS)).warnings


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


async def test_tiers_that_exist_are_named_and_no_reason_for_a_warning(backend: Backend) -> None:
    member = {"type": "Node", "selector": {"exactMatch": {"name": "n"}}}
    for name, tier, called in (("a", 1, "rack"), ("s", 2, "spine")):
        spec = {"tier": tier, "tierName": called, "members": [member]}
        made = {"apiVersion": HYPER_NODES.api_version, "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}
        await backend.service.create(HYPER_NODES, None, made, OPTIONS)
    good = body(PODS, POD, annotations={NEAR: "app=a@tier-2", SPREAD: "@rack; @example.com/zone"})
    assert not (await backend.service.create(PODS, "default", good, OPTIONS)).warnings
    bad = body(PODS, POD, annotations={APART: "app=a@tier-3"})
    bad["metadata"]["name"] = "y"
    (told,) = (await backend.service.create(PODS, "default", bad, OPTIONS)).warnings
    assert told.endswith("there are tier-1, rack, tier-2, spine")
