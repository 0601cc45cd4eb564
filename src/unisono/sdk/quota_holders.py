"""Who holds what a ResourceQuota has given, and whether that is for pods which wait themselves."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from unisono.api.kinds import PODS
from unisono.api.pod_states import has_ended
from unisono.api.resources import pod_limits, pod_requests, readable
from unisono.api.verdict import Cause, Holder, Verdict
from unisono.errors import ApiError
from unisono.sdk.fixes.owners import owner_of_pod

if TYPE_CHECKING:
    from unisono.api.core import Pod
    from unisono.kube.http import HttpClient

_MOST_SETS, _SHOWN = 50, 3
_REQUESTS, _LIMITS = "requests.", "limits."


async def with_quota_holders(client: HttpClient, verdict: Verdict) -> Verdict:
    """The verdict; where a quota is the cause and others hold it, with the largest of them, those that wait first."""
    namespace = verdict.job.partition("/")[0]
    names = [name for name in verdict.need if name == "pods" or not name.startswith("count/")]
    if verdict.cause != Cause.QUOTA or verdict.holders or not names:
        return verdict
    try:
        pods = [pod for pod in (await client.list(PODS, namespace)).items if not has_ended(pod)]
    except ApiError:
        return verdict
    sets: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:  # equal pods are asked for their owner once
        owner = next((each for each in pod.metadata.owner_references or () if each.controller), None)
        sets[pod.metadata.uid or "" if owner is None else owner.uid].append(pod)
    found: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for mine in list(sets.values())[:_MOST_SETS]:
        owner_of = await owner_of_pod(client, mine[0].key)
        if owner_of is not None:
            found[owner_of["kind"], owner_of["metadata"]["name"]] += mine
    held = []
    for (kind, name), mine in found.items():
        amounts = {each: sum(_of(pod, each) for pod in mine) for each in names}
        if f"{namespace}/{name}" != verdict.job and any(amounts.values()):
            waits = not any(pod.spec.node_name for pod in mine)
            held.append((not waits, -max(amounts.values()), Holder(kind, f"{namespace}/{name}", amounts), waits))
    held.sort(key=lambda one: one[:2])
    texts = [
        f"{one.kind} {one.name} holds {_amounts(one)}, and none of its pods has a node"
        for _, _, one, waits in held[:_SHOWN]
        if waits
    ]
    return msgspec.structs.replace(
        verdict,
        holders=tuple(one for _, _, one, _ in held[:_SHOWN]),
        message="; ".join((verdict.message, *texts)),
    )


def _of(pod: Pod, name: str) -> int:
    """What a pod takes of what a quota calls ``name``, in engine units."""
    if name == "pods":
        return 1
    if name.startswith(_LIMITS):
        return pod_limits(pod.spec).get(name.removeprefix(_LIMITS), 0)
    return pod_requests(pod.spec).get(name.removeprefix(_REQUESTS), 0)


def _amounts(holder: Holder) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in readable(holder.amounts).items())
