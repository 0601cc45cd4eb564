"""Why an object waits: from any kind down to its PodGroups and pods, and what is known of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.groups.scheduling import QueueSpec
from unisono.api.keys import KUEUE_QUEUE
from unisono.api.kind_families import WORKLOAD_POD_GROUPS
from unisono.api.kinds import NAMESPACES, POD_GROUPS, PODS, QUEUES
from unisono.api.queues import warnings_of
from unisono.api.selecting import pod_group_name
from unisono.api.verdict import Cause, verdict_in
from unisono.jobkinds.idle_fields import idle_fields
from unisono.jobkinds.kueue import words_read
from unisono.jobkinds.registry import OWNERS, job_kind_of
from unisono.jobkinds.word_places import misplaced, unreadable
from unisono.jobkinds.words_without_effect import without_effect
from unisono.sdk.fixes.owners import read, writer_of
from unisono.sdk.fixes.pod_specs import unlimited
from unisono.sdk.fixes.workload_groups import top_name, why_unscheduled
from unisono.sdk.follow.owner_state import (
    DEFAULT_SCHEDULER,
    is_over,
    queue_state,
    scheduler_names,
    scheduler_of,
    state_text,
    unseen_by,
)
from unisono.sdk.overview.components import scheduler_health, server_time
from unisono.sdk.reasons.behind import add_what_others_know
from unisono.sdk.reasons.explanation import Explanation, NothingToExplain
from unisono.sdk.reasons.failed_flows import failed_step
from unisono.sdk.reasons.failures import failed_pods, looping_pods
from unisono.sdk.reasons.fleet_notes import fleet_notes
from unisono.sdk.reasons.group_verdicts import (
    MISSING_PODS,
    gates_in_template,
    gates_of_group,
    group_verdicts,
    verdicts_beside,
    verdicts_of,
    with_quota_holders,
)
from unisono.sdk.reasons.misnamed_groups import meant_for, pods_with_groups
from unisono.sdk.reasons.not_begun import (
    complaints,
    empty_by,
    has_conditions,
    kept_empty,
    next_run,
    not_begun,
    paused_by,
    suspended_part,
)
from unisono.sdk.reasons.offered import candidates, offer_fixes
from unisono.sdk.reasons.refusal_causes import meant_in, with_meant_names, with_names, with_template
from unisono.sdk.reasons.refusals import refusals
from unisono.sdk.state.bound_pods import (
    WaitingContainer,
    has_fixed_names,
    overdue_text,
    unready_text,
    waiting_containers,
    with_warnings,
)
from unisono.sdk.state.dependents import Dependents, dependents, of_newest_revision
from unisono.sdk.state.running import running_notes
from unisono.sdk.state.waiting import (
    SERVED_NAMES,
    gates_text,
    is_unserved,
    suspended_by,
    unscheduled,
    unserved,
    without_group,
)

if TYPE_CHECKING:
    from unisono.api.base import Object, ObjectMeta
    from unisono.api.core import Pod
    from unisono.api.kind import Kind
    from unisono.kube.http import HttpClient

__all__ = [
    "Explanation",
    "NothingToExplain",
    "explain_group",
    "explain_owner",
    "explain_pod",
    "explain_queue",
    "explain_workload_group",
    "group_verdicts",
    "verdicts_of",
]


async def _completed(
    client: HttpClient, told: Explanation, scheduler: str | None, item: Mapping[str, Any] | None
) -> Explanation:
    """The explanation, with what is known of the scheduler that it waits for, and with ways out."""
    if told.waits:
        health = await scheduler_health(client, scheduler or DEFAULT_SCHEDULER)
        told.silent, told.configuration_error = health.silent, health.configuration_error
        if health.alive:
            told.pods = [without_group(pod) for pod in told.pods]
        if told.silent:
            told.outdated, told.verdicts = told.verdicts, []
    kind = job_kind_of(item) if item is not None else None
    if kind is not None and item is not None:
        told.warnings += idle_fields(kind.kind, item)
        served = await words_served(client, item)
        told.warnings += without_effect(item, (*kind.inner, *kind.templates), served)
        told.warnings += unreadable(item, (*kind.inner, *kind.templates))
        told.warnings += misplaced(kind, item)
    told.verdicts = [await with_template(client, await with_quota_holders(client, each)) for each in told.verdicts]
    offered = await offer_fixes(client, told, dict(item) if item is not None else None)
    told.fixes = [each.here() for each in offered]
    told.candidates = await candidates(client, told, dict(item)) if item is not None else []
    if item is not None:
        await add_what_others_know(client, told, dict(item))
    return told


async def words_served(client: HttpClient, item: Mapping[str, Any]) -> frozenset[str]:
    """Kueue's words that are read on an object, as its namespace says; none where nobody may see the namespace."""
    meta = item.get("metadata") or {}
    if KUEUE_QUEUE not in (meta.get("labels") or {}) or not meta.get("namespace"):
        return frozenset()
    space = await read(client, NAMESPACES, meta["namespace"], None)
    return words_read(job_kind_of(item), space["metadata"].get("annotations") if space is not None else None)


async def _without_scheduler(client: HttpClient, told: Explanation, item: Mapping[str, Any], found: Dependents) -> None:
    """Whatever its PodGroup lacks: where no scheduler serves the name that its pods have, none would place them."""
    names = scheduler_names(found) or [scheduler_of(item, found)]
    unknown = [name for name in names if name not in SERVED_NAMES and not (await scheduler_health(client, name)).known]
    if not told.verdicts or not unknown:
        return
    if len(unknown) < len(names):  # for the scheduler of the others these pods do not exist
        told.verdicts = [verdict for verdict in told.verdicts if verdict.cause not in MISSING_PODS]
    else:
        told.verdicts = []
    if not found.pods:
        _unseen_by(told, unknown[0])


def _unseen_by(told: Explanation, scheduler: str) -> None:
    told.unseen, told.misnamed = unscheduled(scheduler), unserved(scheduler)


async def explain_queue(client: HttpClient, meta: ObjectMeta, item: Mapping[str, Any], title: str) -> Explanation:
    """What is known of a queue: its state, and the verdicts of its PodGroups."""
    verdicts = await verdicts_of(client, QUEUES.kind, meta)
    explanation = Explanation(QUEUES.kind, meta.name, title, queue_state(item), verdicts)
    health = await scheduler_health(client, DEFAULT_SCHEDULER)
    with suppress(msgspec.ValidationError):  # a queue that no server of ours has checked
        explanation.warnings = warnings_of(msgspec.convert(item.get("spec") or {}, QueueSpec), health.annotations)
    return await _completed(client, explanation, None, None)


async def explain_group(client: HttpClient, meta: ObjectMeta, item: Mapping[str, Any], title: str) -> Explanation:
    """What is known of a PodGroup."""
    phase = (item.get("status") or {}).get("phase") or "Pending, the next cycle decides"
    verdicts, wrong = await meant_for(client, meta, await verdicts_of(client, POD_GROUPS.kind, meta))
    explanation = Explanation(POD_GROUPS.kind, meta.name, title, f"its phase is {phase}", verdicts, misnamed=wrong)
    explanation.gates = await gates_of_group(client, meta.namespace, verdicts)
    return await _completed(
        client, explanation, None, {"kind": POD_GROUPS.kind, "apiVersion": POD_GROUPS.api_version, **item}
    )


async def explain_workload_group(
    client: HttpClient, meta: ObjectMeta, item: Mapping[str, Any], title: str
) -> Explanation:
    """What is known of a group of ``scheduling.k8s.io``: of ours for its tree, or why there is none."""
    live = {"apiVersion": WORKLOAD_POD_GROUPS.api_version, "kind": WORKLOAD_POD_GROUPS.kind, **item}
    ours = await read(client, POD_GROUPS, await top_name(client, item), meta.namespace)
    why = why_unscheduled(item)
    explanation = Explanation(live["kind"], meta.name, title, "no pod of a scheduler that is known here names it")
    if ours is not None:
        phase = (ours.get("status") or {}).get("phase") or "Pending, the next cycle decides"
        explanation.state = f"its phase is {phase}"
        verdict = verdict_in((ours.get("metadata") or {}).get("annotations"))
        explanation.verdicts = [verdict] if verdict is not None else []
    elif why:
        explanation.stalled, explanation.misnamed = await meant_in(client, why, meta.namespace)
        explanation.state = "no PodGroup of volcano.sh is there for it"
    return await _completed(client, explanation, None, live)


async def _on_nodes(
    client: HttpClient, namespace: str, containers: Sequence[WaitingContainer]
) -> list[WaitingContainer]:
    """Containers that wait on their nodes, with what the nodes say, and the names that were meant."""
    return await with_meant_names(client, await with_warnings(client, namespace, containers), namespace)


async def explain_pod(client: HttpClient, pod: Pod, title: str) -> Explanation:
    """What is known of a pod."""
    verdicts = [] if pod.spec.node_name else await verdicts_of(client, PODS.kind, pod.metadata)
    containers = await _on_nodes(client, pod.metadata.namespace or "", waiting_containers(pod))
    place = f" on node {pod.spec.node_name}" if pod.spec.node_name else ", not bound yet"
    state = f"its phase is {pod.status.phase or 'Pending'}{place}"
    alone = [] if verdicts else await pods_with_groups(client, [pod])
    failures = await failed_pods(client, [pod])
    gates = gates_text([pod]) or await gates_of_group(client, pod.metadata.namespace, verdicts)
    explanation = Explanation(
        "Pod",
        pod.metadata.name,
        title,
        state,
        verdicts,
        pods=alone,
        containers=containers,
        failures=failures,
        gates=gates,
        loops=await looping_pods(client, [pod]),
    )
    named = explanation.waits or explanation.containers
    item = await read(client, PODS, pod.metadata.name, pod.metadata.namespace) if named else None
    if pod.status.phase == "Running":
        explanation.unready = await unready_text(client, pod.metadata.namespace or "", {}, [pod])
        explanation.running = await running_notes(client, [], [pod], await server_time(client))
    return await _completed(client, explanation, pod.spec.scheduler_name or "default-scheduler", item)


async def explain_owner(
    client: HttpClient, resource: str, kind: Kind[Any] | None, owner: Object, item: Mapping[str, Any], title: str
) -> Explanation:
    """What is known of an object that has pods, however many owners are between them.

    Args:
        client: the server.
        resource: of the object, such as ``rayjobs.ray.io``.
        kind: of the object; None where it is not known here.
        owner: the object.
        item: the same as the server sent it.
        title: as a user types the object.

    Raises:
        NothingToExplain: it has neither pods nor PodGroups, and its kind is not known to have any.
        ApiError: the server cannot answer.
    """
    owned = of_newest_revision(await dependents(client, resource, owner))
    makes_pods = resource in {each.resource for each in OWNERS}
    if not makes_pods and not owned.groups and not owned.pods:
        return _by_conditions(item, owner.metadata.name, title)
    waiting = {each.metadata.name for each in owned.groups if verdict_in(each.metadata.annotations) is not None}
    alone = [
        pod
        for pod in owned.pods
        if pod_group_name(pod.metadata.annotations, pod.spec) not in waiting or is_unserved(pod)
    ]
    wants_none = bool(suspended_by(item) or is_over(item) or empty_by(item))  # events tell of what it wanted before
    refused = [] if wants_none else await refusals(client, [owner, *owned.parts], owned.pods)
    refused = [await with_names(client, each, owner.metadata.namespace, unlimited(dict(item))) for each in refused]
    bound = [container for pod in owned.pods for container in waiting_containers(pod)]
    explanation = Explanation(
        item.get("kind") or (kind.kind if kind else ""),
        owner.metadata.name,
        title,
        state_text(kind, owner, owned),
        # Whatever stands on the PodGroup of an object that has ended: it waits for nothing.
        [] if is_over(item) else gates_in_template(verdicts_beside(refused, item, owner, owned), owned.pods, title),
        pods=await pods_with_groups(client, alone),
        containers=await _on_nodes(client, owner.metadata.namespace or "", bound),
        suspended=suspended_by(item),
        failures=await failed_pods(client, owned.pods),
        refused=refused,
        gates=gates_text(owned.pods),
        loops=await looping_pods(client, owned.pods),
    )
    if scheduler := unseen_by(item, owned):
        _unseen_by(explanation, scheduler)
    served = await words_served(client, item)
    if explanation.suspended == suspended_by(item) and KUEUE_QUEUE in served and owned.groups:
        explanation.suspended = ""  # its queue lifts that
    if explanation.suspended:
        above = await writer_of(client, dict(item), suspended_by)
        if above["metadata"].get("uid") != owner.metadata.uid:
            explanation.suspended = suspended_by(above)
            explanation.suspended_in = f"{above['kind'].lower()}/{above['metadata']['name']}"
    explanation.partly = len(explanation.pods) < len(owned.pods)
    explanation.fleet = await fleet_notes(client, owner, owned.groups)
    if not (explanation.verdicts or explanation.refused or explanation.suspended or explanation.pods):
        explanation.failed_step = failed_step(item, owned.parts)
        explanation.stalled = str(explanation.failed_step or "")
    await _without_scheduler(client, explanation, item, owned)
    if any(pod.status.phase == "Running" for pod in owned.pods):
        explanation.running = await running_notes(client, owned.groups, owned.pods, await server_time(client))
        name_lost_pods(explanation)
        explanation.unready = await unready_text(client, owner.metadata.namespace or "", item, owned.pods)
    if makes_pods and not (owned.pods or owned.groups or explanation.suspended or is_over(item)):
        explanation.suspended, explanation.empty = paused_by(item), empty_by(item)
        explanation.kept = await kept_empty(client, item) if explanation.empty else None
        if not (explanation.suspended or explanation.empty or refused or explanation.stalled):
            now = await server_time(client)
            stalled = await not_begun(client, resource, item, [owner, *owned.parts], now)
            explanation.stalled, explanation.misnamed = await meant_in(client, stalled, owner.metadata.namespace)
            explanation.stalled = explanation.stalled or suspended_part(owned.parts)
            explanation.state = (next_run(resource, item, now) if not owned.parts else "") or explanation.state
    if has_fixed_names(item) and not (explanation.verdicts or explanation.pods or refused or explanation.suspended):
        explanation.stalled = explanation.stalled or overdue_text(owned.pods, await server_time(client))
    return await _completed(client, explanation, scheduler_of(item, owned), item)


def _by_conditions(item: Mapping[str, Any], name: str, title: str) -> Explanation:
    """All that is known of an object without pods, of a kind that need not have any.

    Raises:
        NothingToExplain: it has no conditions either.
    """
    if not has_conditions(item):
        raise NothingToExplain(f"{title} has neither pods nor PodGroups that could wait.")
    explanation = Explanation(str(item.get("kind") or ""), name, title, "it has no pods of its own")
    explanation.stalled = complaints(item)
    return explanation


def name_lost_pods(told: Explanation) -> None:
    """A gang that runs below its minimum because pods failed waits for no scheduler: its pods are the cause."""
    below = next((note for note in told.running if note.kind == "BelowMinimum"), None)
    if below is None or not told.failures:
        return
    told.verdicts = [verdict for verdict in told.verdicts if verdict.cause != Cause.TOO_FEW_PODS]
    lost = told.failures[0]
    told.state += f", and it {below.text}, because pod {lost.name} failed: {lost.cause}"
