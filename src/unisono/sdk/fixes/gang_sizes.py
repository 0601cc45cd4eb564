"""Where the kinds of jobs say how many pods their gang needs, which queue and priority it has (pure)."""

from __future__ import annotations

from typing import Any

from unisono.api.keys import (
    GROUP_MIN_MEMBER,
    NETWORK_TOPOLOGY_HIGHEST_TIER,
    NETWORK_TOPOLOGY_HIGHEST_TIER_ALLOWED,
    POD_QUEUE,
    QUEUE_NAME,
)
from unisono.sdk.fixes.pod_specs import Manifest, pod_specs

_SCHEDULED_KINDS = ("MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob")


class NoSuchField(Exception):
    """The kind has no field for it; the message says what to do instead."""


def lower(manifest: Manifest, to: int) -> None:
    """Let the gang start with ``to`` pods.

    Raises:
        NoSuchField: the kind's gang has all its pods.

    """
    spec, kind = manifest["spec"], manifest["kind"]
    if _is_workload_group(manifest):
        spec["schedulingPolicy"] = {"gang": {"minCount": to}}
    elif kind == "PodGroup":
        spec["minMember"] = to
        spec["minTaskMember"] = {name: min(number, to) for name, number in (spec.get("minTaskMember") or {}).items()}
        if not spec["minTaskMember"]:
            del spec["minTaskMember"]
    elif _is_volcano_job(manifest):
        spec["minAvailable"] = to
        for task in spec.get("tasks") or ():
            if task.get("minAvailable") is not None:
                task["minAvailable"] = min(task["minAvailable"], to)
    elif kind in _SCHEDULED_KINDS:
        policy = spec.setdefault("runPolicy", {}).setdefault("schedulingPolicy", {})
        policy["minAvailable"] = to
        policy.pop("minResources", None)
    elif kind in ("RayCluster", "RayJob", "RayService"):
        _fewer_ray_workers(manifest, to)
    elif kind in ("JobSet", "TrainJob", "HyperJob", "JobFlow"):
        raise NoSuchField(f"a {kind} starts with all its pods: run fewer of them")
    else:
        notes = manifest["metadata"].get("annotations") or {}
        manifest["metadata"]["annotations"] = notes | {GROUP_MIN_MEMBER: str(to)}


def grow(manifest: Manifest, by: int) -> None:
    """Have so many more pods.

    Raises:
        NoSuchField: it is not known which of its roles should have them.

    """
    spec, kind = manifest["spec"], manifest["kind"]
    if kind in ("Deployment", "StatefulSet", "ReplicaSet"):
        spec["replicas"] = spec.get("replicas", 1) + by
    elif manifest["apiVersion"] == "batch/v1" and kind == "Job":
        spec["parallelism"] = spec.get("parallelism", 1) + by
        if spec.get("completions") is not None:
            spec["completions"] = max(spec["completions"], spec["parallelism"])
    elif _is_volcano_job(manifest) and len(spec["tasks"]) == 1:
        spec["tasks"][0]["replicas"] = spec["tasks"][0].get("replicas", 1) + by
    else:
        raise NoSuchField(f"let the {kind} have more pods of the role that lacks them")


def set_min_resources(manifest: Manifest, amounts: dict[str, str]) -> None:
    """State other minResources.

    Raises:
        NoSuchField: the kind states none.

    """
    spec, kind = manifest["spec"], manifest["kind"]
    if kind == "PodGroup":
        spec["minResources"] = (spec.get("minResources") or {}) | amounts
    elif kind in _SCHEDULED_KINDS:
        policy = spec.setdefault("runPolicy", {}).setdefault("schedulingPolicy", {})
        policy["minResources"] = (policy.get("minResources") or {}) | amounts
    else:
        raise NoSuchField(f"a {kind} states no minResources: change those of its PodGroup")


def _fewer_ray_workers(manifest: Manifest, to: int) -> None:
    spec = manifest["spec"]
    cluster = spec.get("rayClusterSpec") or spec.get("rayClusterConfig") or spec
    groups = cluster.get("workerGroupSpecs") or []
    if len(groups) != 1 or to < 2:
        raise NoSuchField("a Ray cluster starts with all its workers: lower replicas of a worker group")
    for name in ("replicas", "minReplicas"):
        groups[0][name] = min(groups[0].get(name, to - 1), to - 1)


def allow_tier(manifest: Manifest, tier: int) -> None:
    """Let the job, and its sub-groups where they are bounded, span HyperNodes of this tier."""
    spec, wide = manifest["spec"], {"mode": "hard", "highestTierAllowed": tier}
    for one in (spec, *(spec.get("tasks") or ()), *(spec.get("subGroupPolicy") or ())):
        if one.get("networkTopology"):
            one["networkTopology"] = dict(wide)
        if (one.get("partitionPolicy") or {}).get("networkTopology"):
            one["partitionPolicy"]["networkTopology"] = dict(wide)
    for notes in _all_annotations(manifest):
        for key in (NETWORK_TOPOLOGY_HIGHEST_TIER, NETWORK_TOPOLOGY_HIGHEST_TIER_ALLOWED):
            if key in notes:
                notes[key] = str(tier)


def use_queue(manifest: Manifest, queue: str) -> None:
    """Wait in another queue."""
    spec, kind = manifest["spec"], manifest["kind"]
    if _is_workload_group(manifest):
        manifest["metadata"]["annotations"] = (manifest["metadata"].get("annotations") or {}) | {POD_QUEUE: queue}
        return
    if kind == "PodGroup" or _is_volcano_job(manifest):
        spec["queue"] = queue
        return
    if kind in _SCHEDULED_KINDS:
        policy = (spec.get("runPolicy") or {}).get("schedulingPolicy") or {}
        if policy.get("queue"):
            policy["queue"] = queue
    for place in (*_all_annotations(manifest), manifest["metadata"].get("labels") or {}):
        for key in (POD_QUEUE, QUEUE_NAME):
            if key in place:
                place[key] = queue


def use_priority(manifest: Manifest, name: str) -> None:
    """Have another priority class."""
    spec = manifest["spec"]
    if manifest["kind"] == "PodGroup" or _is_volcano_job(manifest):
        spec["priorityClassName"] = name
    elif manifest["kind"] in _SCHEDULED_KINDS:
        spec.setdefault("runPolicy", {}).setdefault("schedulingPolicy", {})["priorityClass"] = name
    for pod in pod_specs(manifest):
        pod["priorityClassName"] = name
        pod.pop("priority", None)


def _is_workload_group(manifest: Manifest) -> bool:
    return bool(manifest["kind"] == "PodGroup" and manifest["apiVersion"].startswith("scheduling.k8s.io/"))


def _is_volcano_job(manifest: Manifest) -> bool:
    return bool(manifest["kind"] == "Job" and manifest["apiVersion"].startswith("batch.volcano"))


def _all_annotations(manifest: Manifest) -> list[dict[str, Any]]:
    found = [manifest["metadata"].get("annotations") or {}]
    spec = manifest.get("spec") or {}
    template = (spec.get("template") or {}).get("metadata") or {}
    return [*found, template.get("annotations") or {}]
