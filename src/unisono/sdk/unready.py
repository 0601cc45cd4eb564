"""Pods that run and are not ready: the probe that says so, and who waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unisono.jobkinds.registry import one_by_one
from unisono.sdk.pod_warnings import newest_warnings

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient

_UNHEALTHY = "Unhealthy"


def unready_containers(pods: Sequence[Pod]) -> list[tuple[str, str]]:
    """Names of pods and of their first container that runs, has a probe that must succeed, and is not ready (pure)."""
    found = []
    for pod in pods:
        if pod.status.phase != "Running" or pod.metadata.deletion_timestamp:
            continue
        probed = {each.name for each in pod.spec.containers or () if each.readiness_probe or each.startup_probe}
        for status in pod.status.container_statuses or ():
            runs = status.state is not None and status.state.running is not None
            if runs and not status.ready and status.name in probed:
                found.append((pod.metadata.name, status.name))
                break
    return found


async def unready_text(client: HttpClient, namespace: str, item: Mapping[str, Any], pods: Sequence[Pod]) -> str:
    """``2 of 3 pods are not ready: Readiness probe failed: ...``; empty where all that run are.

    Args:
        client: the server; where it does not let events be read, the probe's own words are missing.
        namespace: of the pods.
        item: the object whose pods they are.
        pods: all its pods.

    """
    found = unready_containers(pods)
    if not found:
        return _by_gates(item, pods)
    warnings = await newest_warnings(client, namespace, {pod for pod, _ in found})
    said = [warning.message.strip() for warning in warnings.values() if warning.reason == _UNHEALTHY]
    first_pod, container = found[0]
    why = said[0] if said else f"the probe of container {container} has not succeeded"
    if len(pods) == 1:
        who = f"pod {first_pod} is not ready"
    else:
        who = f"{len(found)} of {len(pods)} pods {'is' if len(found) == 1 else 'are'} not ready"
    return f"{who}: {why}{_next_pod(item, len(pods))}"


def _by_gates(item: Mapping[str, Any], pods: Sequence[Pod]) -> str:
    """The same of pods that run and lack a condition that something outside of the cluster has to set."""
    for pod in pods:
        if pod.status.phase != "Running" or pod.metadata.deletion_timestamp:
            continue
        told = {each.type for each in pod.status.conditions or () if each.status == "True"}
        gates = [each.condition_type for each in pod.spec.readiness_gates or () if each.condition_type not in told]
        if gates:
            why = f"readiness gate {gates[0]} is not set to True in its conditions"
            return f"pod {pod.metadata.name} is not ready: {why}{_next_pod(item, len(pods))}"
    return ""


def _next_pod(item: Mapping[str, Any], pods: int) -> str:
    """A StatefulSet makes its pods one after the other."""
    spec = item.get("spec") or {}
    wanted = spec.get("replicas", 1)
    return f"; pod {pods + 1} of {wanted} is made when it is" if pods < wanted and one_by_one(item) else ""
