"""Pods that name a PodGroup that does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unisono.api.kinds import POD_GROUPS
from unisono.api.names import did_you_mean, nearest
from unisono.api.selecting import pod_group_name
from unisono.errors import ApiError
from unisono.sdk.fixes.workload_groups import read_workload_group, why_unscheduled
from unisono.sdk.refusal_causes import meant_in
from unisono.sdk.state.dependents import listed
from unisono.sdk.waiting import Misnamed, UnboundPod, unbound_pods

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient


async def _workload_group(client: HttpClient, pod: Pod, name: str) -> str | None:
    """What is known of a PodGroup of ``scheduling.k8s.io`` that has none of ours; None where it is missing."""
    if pod.spec.scheduling_group is None:
        return None
    found = await read_workload_group(client, name, pod.metadata.namespace)
    if found is None:
        return None
    why = why_unscheduled(found) or "no controller has looked at it yet; see whether they run"
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
    unbound, known = unbound_pods(pods), dict[str, list[str]]()
    named = {pod.metadata.name: pod for pod in pods}
    for at, each in enumerate(unbound):
        pod = named[each.name]
        name, namespace = pod_group_name(pod.metadata.annotations, pod.spec), pod.metadata.namespace or ""
        if not name and each.message:
            text, wrong = await meant_in(client, each.message, namespace)
            unbound[at] = UnboundPod(each.name, each.reason, text, wrong or each.misnamed)
        if not name:
            continue
        if namespace not in known:
            try:
                groups = await listed(client, POD_GROUPS, namespace)
            except ApiError:
                return unbound
            known[namespace] = sorted(group.metadata.name for group in groups)
        if name not in known[namespace]:
            theirs = await _workload_group(client, pod, name)
            if theirs is not None:
                unbound[at] = UnboundPod(each.name, "PodGroupRefused", *await meant_in(client, theirs, namespace))
                continue
            near = nearest(name, known[namespace])
            text = f"PodGroup {name}, which it names, does not exist{did_you_mean(name, known[namespace])}"
            wrong = Misnamed(POD_GROUPS.kind, name, near)
            text += "" if near else await _elsewhere(client, name, namespace)
            unbound[at] = UnboundPod(each.name, "PodGroupMissing", text, wrong)
    return unbound
