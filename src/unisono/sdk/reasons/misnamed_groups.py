"""Pods whose PodGroup does not exist: what they name, and the group that was probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from unisono.api.kinds import POD_GROUPS, PODS
from unisono.api.names import did_you_mean, nearest
from unisono.api.selecting import pod_group_name
from unisono.api.verdict import Cause, Verdict
from unisono.errors import ApiError
from unisono.sdk.fixes.fix import Fix, Operation
from unisono.sdk.fixes.operations import changed
from unisono.sdk.fixes.owners import Raw, owner_of_pod
from unisono.sdk.fixes.references import rename
from unisono.sdk.fixes.workload_groups import read_workload_group, why_unscheduled
from unisono.sdk.reasons.refusal_causes import meant_in
from unisono.sdk.state.dependents import listed
from unisono.sdk.state.waiting import Misnamed, UnboundPod, unbound_pods

if TYPE_CHECKING:
    from unisono.api.base import ObjectMeta
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient


async def _workload_group(client: HttpClient, pod: Pod, name: str) -> str | None:
    """What is known of a PodGroup of ``scheduling.k8s.io`` that has none of ours; None where it is missing."""
    if pod.spec.scheduling_group is None:
        return None
    group = await read_workload_group(client, name, pod.metadata.namespace)
    if group is None:
        return None
    why = why_unscheduled(group) or "no controller has looked at it yet; see whether they run"
    return f"PodGroup {name} of scheduling.k8s.io: {why}"


async def _elsewhere(client: HttpClient, name: str, namespace: str) -> str:
    """That a group of this name is in other namespaces, where a pod cannot join it; empty where not, or not known."""
    try:
        groups = await listed(client, POD_GROUPS, None)
    except ApiError:
        return ""
    spaces = sorted({group.metadata.namespace or "" for group in groups if group.metadata.name == name})
    if not spaces:
        return ""
    return f" in namespace {namespace} of the pod; one of its name is in {spaces[0]}"


async def pods_with_groups(client: HttpClient, pods: list[Pod]) -> list[UnboundPod]:
    """Pods without a node, with the PodGroups that they name and that do not exist."""
    unbound, names_by_namespace = unbound_pods(pods), dict[str, list[str]]()
    named = {pod.metadata.name: pod for pod in pods}
    for at, each in enumerate(unbound):
        pod = named[each.name]
        name, namespace = pod_group_name(pod.metadata.annotations, pod.spec), pod.metadata.namespace or ""
        if not name and each.message:
            text, wrong = await meant_in(client, each.message, namespace)
            unbound[at] = UnboundPod(each.name, each.reason, text, wrong or each.misnamed)
        if not name:
            continue
        if namespace not in names_by_namespace:
            try:
                groups = await listed(client, POD_GROUPS, namespace)
            except ApiError:
                return unbound
            names_by_namespace[namespace] = sorted(group.metadata.name for group in groups)
        if name not in names_by_namespace[namespace]:
            theirs = await _workload_group(client, pod, name)
            if theirs is not None:
                unbound[at] = UnboundPod(each.name, "PodGroupRefused", *await meant_in(client, theirs, namespace))
                continue
            near = nearest(name, names_by_namespace[namespace])
            text = f"PodGroup {name}, which it names, does not exist{did_you_mean(name, names_by_namespace[namespace])}"
            wrong = Misnamed(POD_GROUPS.kind, name, near)
            text += "" if near else await _elsewhere(client, name, namespace)
            unbound[at] = UnboundPod(each.name, "PodGroupMissing", text, wrong)
    return unbound


_MOST_PODS = 50
_NAMED = 3
_LACKING = (Cause.NO_PODS, Cause.TOO_FEW_PODS)


async def meant_for(
    client: HttpClient, meta: ObjectMeta, verdicts: list[Verdict]
) -> tuple[list[Verdict], Misnamed | None]:
    """The verdicts of a PodGroup that lacks pods, with those that name it wrongly, and the name that these have."""
    namespace = meta.namespace or ""
    if not any(verdict.cause in _LACKING for verdict in verdicts):
        return verdicts, None
    try:
        groups = {each.metadata.name for each in await listed(client, POD_GROUPS, namespace)}
        pods = [pod for pod in await listed(client, PODS, namespace) if not pod.spec.node_name]
    except ApiError:
        return verdicts, None
    named = [(pod, pod_group_name(pod.metadata.annotations, pod.spec)) for pod in pods]
    stray = [(pod, name) for pod, name in named if name and name not in groups and nearest(name, groups) == meta.name]
    if not stray:
        return verdicts, None
    wrong = stray[0][1]
    text = f"{_told([pod for pod, name in stray if name == wrong])} PodGroup {wrong}, which does not exist"
    amended = [msgspec.structs.replace(each, message=f"{each.message}; {text}", suggestion="") for each in verdicts]
    return amended, Misnamed(POD_GROUPS.kind, wrong, meta.name)


def _told(pods: list[Pod]) -> str:
    names = sorted(pod.metadata.name for pod in pods)
    if len(names) > _NAMED:
        return f"{len(names)} pods such as {names[0]} name"
    return f"pod {names[0]} names" if len(names) == 1 else f"pods {', '.join(names[:-1])} and {names[-1]} name"


async def renamed(client: HttpClient, namespace: str, wrong: Misnamed) -> list[Fix]:
    """Let all pods that name a PodGroup wrongly name the one that was meant: a gang needs all of them."""
    try:
        pods = await listed(client, PODS, namespace)
    except ApiError:
        return []
    keys = [
        f"{namespace}/{pod.metadata.name}"
        for pod in pods
        if not pod.spec.node_name and pod_group_name(pod.metadata.annotations, pod.spec) == wrong.name
    ]
    owners: dict[str, Raw] = {}
    for key in keys[:_MOST_PODS]:
        owner = await owner_of_pod(client, key)
        if owner is not None:
            owners.setdefault(owner["metadata"].get("uid", key), owner)

    operations: list[Operation] = [
        one
        for owner in owners.values()
        for one in changed(owner, lambda body: rename(body, POD_GROUPS.kind, wrong.name, wrong.near))
    ]
    names = [f"{owner['kind'].lower()}/{owner['metadata']['name']}" for owner in owners.values()]
    where = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "the pods"
    change = {"kind": "UsePodGroup", "name": wrong.name, "instead": wrong.near}
    return [Fix(f"name PodGroup {wrong.near} in {where}", False, change, tuple(operations))]
