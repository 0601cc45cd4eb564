"""Where the kinds of jobs say how many pods their gang needs, which queue and priority it has (pure)."""

from __future__ import annotations

from typing import Any

from unisono.api.keys import (
    GROUP_MIN_MEMBER,
    NETWORK_TOPOLOGY_HIGHEST_TIER,
    NETWORK_TOPOLOGY_HIGHEST_TIER_ALLOWED,
)
from unisono.api.kind import Kind
from unisono.api.kind_families import BATCH_JOBS, KUBEFLOW_KINDS, RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from unisono.api.kinds import JOBS, POD_GROUPS
from unisono.jobkinds.paths import first, put, walk
from unisono.jobkinds.registry import JOB_KINDS, between, job_kind_of
from unisono.sdk.fixes.pod_specs import Manifest, pod_specs
from unisono.sdk.fixes.workload_groups import is_workload_group

_RAY = (RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES)
# Jobs that are made of other objects have no gang of their own to make smaller.
_COMPOSED = tuple(kind for kind in JOB_KINDS if between(kind.resource) and kind not in _RAY)


class NoSuchField(Exception):
    """The kind has no field for it; the message says what to do instead."""


def lower(manifest: Manifest, to: int) -> None:
    """Let the gang start with ``to`` pods.

    Raises:
        NoSuchField: the kind's gang has all its pods.

    """
    spec = manifest["spec"]
    if is_workload_group(manifest):
        spec["schedulingPolicy"] = {"gang": {"minCount": to}}
    elif _is_of(manifest, POD_GROUPS):
        spec["minMember"] = to
        spec["minTaskMember"] = {name: min(number, to) for name, number in (spec.get("minTaskMember") or {}).items()}
        if not spec["minTaskMember"]:
            del spec["minTaskMember"]
    elif _is_of(manifest, JOBS):
        spec["minAvailable"] = to
        for task in spec.get("tasks") or ():
            if task.get("minAvailable") is not None:
                task["minAvailable"] = min(task["minAvailable"], to)
    elif _is_of(manifest, *KUBEFLOW_KINDS):
        policy = spec.setdefault("runPolicy", {}).setdefault("schedulingPolicy", {})
        policy["minAvailable"] = to
        policy.pop("minResources", None)
    elif _is_of(manifest, *_RAY):
        _fewer_ray_workers(manifest, to)
    elif _is_of(manifest, *_COMPOSED):
        raise NoSuchField(f"a {manifest['kind']} starts with all its pods: run fewer of them")
    else:
        notes = manifest["metadata"].get("annotations") or {}
        manifest["metadata"]["annotations"] = notes | {GROUP_MIN_MEMBER: str(to)}


def grow(manifest: Manifest, by: int) -> None:
    """Have so many more pods.

    Raises:
        NoSuchField: it is not known which of its roles should have them.

    """
    spec, kind = manifest["spec"], job_kind_of(manifest)
    path = kind.replicas if kind is not None else ""
    if _is_of(manifest, JOBS) and len(spec["tasks"]) == 1:
        path = "spec.tasks[0].replicas"
    if not path or "*" in path:
        raise NoSuchField(f"let the {manifest['kind']} have more pods of the role that lacks them")
    more = first(manifest, path)
    put(manifest, path, (1 if more is None else more) + by)
    if _is_of(manifest, BATCH_JOBS) and spec.get("completions") is not None:
        spec["completions"] = max(spec["completions"], spec["parallelism"])


def use_role(manifest: Manifest, name: str, instead: str) -> None:
    """Name another role in minTaskMember.

    Raises:
        NoSuchField: the kind states none.

    """
    if not _is_of(manifest, POD_GROUPS):
        raise NoSuchField(f"a {manifest['kind']} states no minTaskMember: change that of its PodGroup")
    roles = manifest["spec"].get("minTaskMember") or {}
    if name in roles:
        roles[instead] = roles.pop(name)


def set_min_resources(manifest: Manifest, amounts: dict[str, str]) -> None:
    """State other minResources.

    Raises:
        NoSuchField: the kind states none.

    """
    spec = manifest["spec"]
    if _is_of(manifest, POD_GROUPS):
        spec["minResources"] = (spec.get("minResources") or {}) | amounts
    elif _is_of(manifest, *KUBEFLOW_KINDS):
        policy = spec.setdefault("runPolicy", {}).setdefault("schedulingPolicy", {})
        policy["minResources"] = (policy.get("minResources") or {}) | amounts
    else:
        raise NoSuchField(f"a {manifest['kind']} states no minResources: change those of its PodGroup")


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
    for notes in all_annotations(manifest):
        for key in (NETWORK_TOPOLOGY_HIGHEST_TIER, NETWORK_TOPOLOGY_HIGHEST_TIER_ALLOWED):
            if key in notes:
                notes[key] = str(tier)


def use_queue(manifest: Manifest, queue: str) -> None:
    """Wait in another queue: wherever one is named, and where its kind looks first if none is."""
    kind = job_kind_of(manifest)
    places = () if kind is None else kind.places
    found = [path for place in places for path, value in walk(manifest, place) if value]
    for path in found or (() if kind is None else (one for one in kind.queues[:1] if "*" not in one)):
        put(manifest, path, queue)


def use_priority(manifest: Manifest, name: str) -> None:
    """Have another priority class."""
    spec = manifest["spec"]
    if _is_of(manifest, POD_GROUPS, JOBS):
        spec["priorityClassName"] = name
    elif _is_of(manifest, *KUBEFLOW_KINDS):
        spec.setdefault("runPolicy", {}).setdefault("schedulingPolicy", {})["priorityClass"] = name
    for pod in pod_specs(manifest):
        pod["priorityClassName"] = name
        pod.pop("priority", None)


def _is_of(manifest: Manifest, *kinds: Kind[Any]) -> bool:
    return any(kind.matches(manifest["apiVersion"], manifest["kind"]) for kind in kinds)


def all_annotations(manifest: Manifest) -> list[dict[str, Any]]:
    """Those of the object and of its pod template; may be changed in place."""
    found = [manifest["metadata"].get("annotations") or {}]
    spec = manifest.get("spec") or {}
    template = (spec.get("template") or {}).get("metadata") or {}
    return [*found, template.get("annotations") or {}]
