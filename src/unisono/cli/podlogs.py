"""Which pods ``unisono logs KIND/NAME`` reads, and what it says where none has a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from unisono.cli.targets import BadTarget

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.discovery import Resource
    from unisono.kube.http import HttpClient
    from unisono.sdk.log_selection import LogSelection


async def pods_with_logs(
    client: HttpClient, resource: Resource, owner: Any, title: str, wanted: LogSelection
) -> Sequence[Pod]:
    """The pods of an object whose logs are meant.

    Raises:
        BadTarget: there is none; says what to look at instead.

    """
    from unisono.jobkinds.registry import OWNERS
    from unisono.sdk.dependents import dependents

    pods = (await dependents(client, resource.name, owner)).pods
    if not pods and resource.name not in {kind.resource for kind in OWNERS}:
        raise BadTarget(f"{title} has no pods, and so no logs: name a pod, or an object that has pods.")
    if not pods and (elsewhere := in_member(owner, resource.kind)):
        raise BadTarget(f"{title} {elsewhere}")
    if problem := lacking(pods, title, wanted):
        raise BadTarget(problem)
    return [pod for pod in pods if wanted.is_ready(pod)]


def in_member(owner: Any, kind: str) -> str:
    """Where its logs are, of an object that a hub has sent to a member; empty for others."""
    from unisono.api.annotations import CLUSTER

    cluster = (owner.metadata.annotations or {}).get(CLUSTER)
    name = owner.metadata.name if kind == "Job" else f"{kind.lower()}/{owner.metadata.name}"
    return f"runs in cluster {cluster}: 'unisono fleet logs {name}' prints its logs." if cluster else ""


def lacking(pods: Sequence[Pod], title: str, wanted: LogSelection) -> str:
    """Why there is no line to be had of these pods; empty where there may be one."""
    from unisono.sdk.log_selection import STARTED_PHASES, container_names

    if not pods:
        return f"{title} has no pods now: 'unisono explain {title}' says why."
    if all(pod.status.phase not in STARTED_PHASES for pod in pods):
        number = f"{len(pods)} pods, and none has" if len(pods) > 1 else "one pod, which has not"
        return f"{title} has {number} started: 'unisono explain {title}' says why, and --follow waits for them."
    names = container_names(pods)
    if wanted.container and wanted.container not in names:
        return f"no pod of {title} has a container {wanted.container!r}: their containers are {', '.join(names)}."
    return ""
