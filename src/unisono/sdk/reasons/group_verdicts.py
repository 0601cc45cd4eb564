"""The verdicts that concern an object, those of them that say something, and who holds a quota."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.kinds import JOBS, POD_GROUPS, PODS, QUEUES
from unisono.api.pod_states import has_ended
from unisono.api.resources import amounts_text, pod_limits, pod_requests
from unisono.api.selecting import pod_group_name, queue_of
from unisono.api.verdict import Cause, Holder, Verdict, verdict_in
from unisono.errors import ApiError, NotFound
from unisono.jobkinds.registry import FROM_TEMPLATES, missing_parts, one_by_one
from unisono.sdk.fixes.change_texts import change_text
from unisono.sdk.fixes.owners import owner_of_pod
from unisono.sdk.follow.owner_state import missing_now
from unisono.sdk.reasons.refusal_causes import quota_verdict, refuses_parts
from unisono.sdk.state.dependents import Dependents, listed
from unisono.sdk.state.waiting import gates_text

if TYPE_CHECKING:
    from unisono.api.base import Object, ObjectMeta
    from unisono.api.core import Pod
    from unisono.api.groups.scheduling import PodGroup
    from unisono.kube.client import Client
    from unisono.kube.http import HttpClient
    from unisono.sdk.reasons.refusals import Refusal

# Causes that say only that pods are missing.
MISSING_PODS = frozenset({Cause.NO_PODS, Cause.TOO_FEW_PODS})


async def verdicts_of(client: Client, kind: str, meta: ObjectMeta) -> list[Verdict]:
    """Verdicts that concern an object: of its PodGroup, or for a queue those of all its PodGroups.

    Args:
        client: the server.
        kind: ``PodGroup``, ``Pod``, ``Queue`` or ``Job``; objects of other kinds have none.
        meta: of the object.

    Raises:
        ApiError: the server cannot answer.
    """
    groups: list[PodGroup] = []
    if kind == POD_GROUPS.kind:
        return _verdicts(verdict_in(meta.annotations))
    if kind == PODS.kind:
        name = pod_group_name(meta.annotations)
        try:
            if not name:
                pod = await client.get(PODS, meta.name, meta.namespace)
                name = pod_group_name(pod.metadata.annotations, pod.spec)
            groups = [await client.get(POD_GROUPS, name, meta.namespace)] if name else []
        except NotFound:
            groups = []
    elif kind == QUEUES.kind:
        groups = [each for each in await listed(client, POD_GROUPS, None) if queue_of(each) == meta.name]
    elif kind == JOBS.kind:
        groups = [
            each
            for each in await listed(client, POD_GROUPS, meta.namespace)
            if any(owner.uid == meta.uid for owner in each.metadata.owner_references or ())
        ]
    return _verdicts(*(verdict_in(group.metadata.annotations) for group in groups))


def group_verdicts(found: Dependents) -> list[Verdict]:
    """The verdicts of the PodGroups that wait."""
    return _verdicts(*(verdict_in(group.metadata.annotations) for group in found.groups))


def _verdicts(*found: Verdict | None) -> list[Verdict]:
    return [verdict for verdict in found if verdict is not None]


def verdicts_beside(refused: list[Refusal], item: Mapping[str, Any], owner: Object, found: Dependents) -> list[Verdict]:
    """What the scheduler says, without what only follows from refused pods; else the quota that refuses them."""
    verdicts = [_in_order(one, item) for one in telling(group_verdicts(found), refused)]
    if verdicts or not refused:
        return verdicts
    there = sum(not has_ended(pod) for pod in found.pods)
    key = f"{owner.metadata.namespace}/{owner.metadata.name}"
    if refuses_parts(refused[0]) and (missing := missing_parts(item, len(found.parts))):
        verdict = quota_verdict(refused[0], key, missing, "job")
    else:
        verdict = quota_verdict(refused[0], key, missing_now(item, there))
    return [verdict] if verdict is not None else []


def _in_order(verdict: Verdict, item: Mapping[str, Any]) -> Verdict:
    """Of a StatefulSet: a gang whose pods are made one after the other, each when the one before it is ready."""
    spec = item.get("spec") or {}
    need, have = (amounts.get("pods", 0) for amounts in (verdict.need, verdict.have))
    if not one_by_one(item) or verdict.cause != Cause.TOO_FEW_PODS or not have < need:
        return verdict
    replicas = spec.get("replicas", 1)
    few = f", spec.replicas is {replicas}" if replicas < need else ""
    message = (
        f"{need} pods must start together{few} and {have} of them is there: podManagementPolicy OrderedReady makes "
        "the next one when it is ready"
    )
    changes: list[dict[str, Any]] = [{"kind": "SetField", "field": "spec.podManagementPolicy", "value": "Parallel"}]
    changes += [{"kind": "SetField", "field": "spec.replicas", "value": need}] if few else []
    change = changes[0] if len(changes) == 1 else {"kind": "Together", "changes": changes}
    others = tuple(one for one in (verdict.change or {}, *verdict.otherwise) if one.get("kind") == "LowerMinAvailable")
    text = f"{' and '.join(map(change_text, changes))} (not tried)"
    return msgspec.structs.replace(
        verdict,
        message=message,
        change={**change, "tried": False},
        otherwise=type(verdict.otherwise)(others),
        suggestion=text,
    )


def telling(verdicts: list[Verdict], refused: list[Refusal]) -> list[Verdict]:
    """That pods are missing says nothing where it is known why they are not there."""
    return [one for one in verdicts if not (refused and one.cause in MISSING_PODS)]


async def gates_of_group(client: Client, namespace: str | None, verdicts: list[Verdict]) -> str:
    """Which pods of a PodGroup have which gates, where its verdict is that they have some; else empty."""
    gated = next((each.job.partition("/")[2] for each in verdicts if each.cause == Cause.GATED), "")
    if not gated:
        return ""
    try:
        pods = await listed(client, PODS, namespace)
    except ApiError:
        return ""
    return gates_text([pod for pod in pods if pod_group_name(pod.metadata.annotations, pod.spec) == gated])


def gates_in_template(verdicts: list[Verdict], pods: list[Pod], title: str) -> list[Verdict]:
    """Gates that come from a template are removed there: pods that follow have them again."""
    gated = [pod for pod in pods if pod.spec.scheduling_gates and not pod.spec.node_name]
    owners = {
        reference.kind
        for pod in gated
        for reference in pod.metadata.owner_references or ()
        if reference.controller and not (reference.api_version or "").startswith("batch.volcano.sh")
    }
    if not owners & FROM_TEMPLATES:
        return verdicts
    text = f"remove spec.schedulingGates from the pod template of {title}"
    return [msgspec.structs.replace(one, suggestion=text) if one.cause == Cause.GATED else one for one in verdicts]


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
    pods_by_owner: dict[tuple[str, str], list[Pod]] = defaultdict(list)
    for mine in list(sets.values())[:_MOST_SETS]:
        owner_of = await owner_of_pod(client, mine[0].key)
        if owner_of is not None:
            pods_by_owner[owner_of["kind"], owner_of["metadata"]["name"]] += mine
    held = []
    for (kind, name), mine in pods_by_owner.items():
        amounts = {each: sum(_of(pod, each) for pod in mine) for each in names}
        if f"{namespace}/{name}" != verdict.job and any(amounts.values()):
            waits = not any(pod.spec.node_name for pod in mine)
            held.append((not waits, -max(amounts.values()), Holder(kind, f"{namespace}/{name}", amounts), waits))
    held.sort(key=lambda one: one[:2])
    texts = [
        f"{one.kind} {one.name} holds {amounts_text(one.amounts)}, and none of its pods has a node"
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
