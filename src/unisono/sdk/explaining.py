"""Why an object waits: from any kind down to its PodGroups and pods, and what is known of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from unisono.api.kinds import JOBS, POD_GROUPS, PODS, QUEUES
from unisono.api.membership import pod_group_name, queue_of
from unisono.api.near_names import did_you_mean
from unisono.api.verdict import Cause, Verdict, verdict_in
from unisono.errors import ApiError, NotFound, UnisonoError
from unisono.sdk.dependents import OWNERS, Dependents, dependents, listed
from unisono.sdk.failures import FailedPod, failed_pods
from unisono.sdk.followed import workload_view
from unisono.sdk.job_kinds import job_kind_of
from unisono.sdk.refusal_causes import missing_pods, quota_verdict, with_names
from unisono.sdk.refusals import Refusal, refusals
from unisono.sdk.scheduler_health import scheduler_health
from unisono.sdk.waiting import (
    UnboundPod,
    WaitingContainer,
    gates_text,
    pods_text,
    suspended_by,
    unbound_pods,
    unscheduled,
    waiting_containers,
)

if TYPE_CHECKING:
    from unisono.api.base import Object, ObjectMeta
    from unisono.api.core import Pod
    from unisono.api.kind import Kind
    from unisono.api.scheduling import PodGroup
    from unisono.kube.client import Client
    from unisono.kube.http import HttpClient

# What Volcano Jobs and PodGroups are scheduled by where they name no scheduler.
DEFAULT_SCHEDULER = "volcano"
# Phases of a Volcano Job in which its message says how it came to that.
_TELLING = ("Aborting", "Aborted", "Failed", "Restarting", "Terminating", "Terminated")
# Causes that say only that pods are missing.
_MISSING_PODS = frozenset({Cause.NO_PODS, Cause.TOO_FEW_PODS})
# Controllers that make pods with new names from a template: what is changed on a pod is lost with it.
_FROM_TEMPLATES = frozenset({"ReplicaSet", "Job", "DaemonSet", "StatefulSet"})
# Phases and conditions after which no pods are wanted any more.
_OVER = frozenset({"Aborted", "Complete", "Completed", "Failed", "Finished", "Succeeded", "Terminated"})


class NothingToExplain(UnisonoError):
    """The object has nothing that could wait for a node."""


@dataclass(slots=True)
class Explanation:
    """What is known about why an object waits.

    Attributes:
        kind: of the object.
        name: of the object.
        title: ``job/train``.
        state: what the object itself says it is doing.
        verdicts: of its PodGroups that wait, as the scheduler wrote them.
        pods: pods without a node that no verdict speaks of.
        containers: containers of bound pods that wait on their nodes.
        suspended: the field that stops it.
        failures: pods that have failed.
        refused: pods that it wants and that the server does not let be created.
        gates: which of its pods have which scheduling gates.
        unseen: that no scheduler has looked at its PodGroup.
        silent: that no scheduler is alive; ``verdicts`` is empty then, because what stood there may no longer hold.
        outdated: the verdicts that a scheduler wrote before it fell silent.
        configuration_error: why the scheduler refuses its newest configuration.

    """

    kind: str
    name: str
    title: str
    state: str
    verdicts: list[Verdict] = field(default_factory=list)
    pods: list[UnboundPod] = field(default_factory=list)
    containers: list[WaitingContainer] = field(default_factory=list)
    suspended: str = ""
    failures: list[FailedPod] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    gates: str = ""
    unseen: str = ""
    silent: str = ""
    outdated: list[Verdict] = field(default_factory=list)
    configuration_error: str = ""

    def __post_init__(self) -> None:
        self.verdicts = _telling(self.verdicts, self.refused)

    @property
    def waits(self) -> bool:
        """Whether it is for a scheduler to do something."""
        return bool(self.verdicts or self.pods or self.unseen or self.gates)


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


async def _with_health(client: HttpClient, told: Explanation, scheduler: str | None) -> Explanation:
    """The explanation, and what is known of the scheduler that it waits for."""
    if not told.waits:
        return told
    health = await scheduler_health(client, scheduler or DEFAULT_SCHEDULER)
    told.silent, told.configuration_error = health.silent, health.configuration_error
    if told.silent:
        told.outdated, told.verdicts = told.verdicts, []
    return told


async def explain_queue(client: HttpClient, meta: ObjectMeta, item: Mapping[str, Any], title: str) -> Explanation:
    """What is known of a queue: its state, and the verdicts of its PodGroups."""
    verdicts = await verdicts_of(client, QUEUES.kind, meta)
    return await _with_health(client, Explanation(QUEUES.kind, meta.name, title, _queue_state(item), verdicts), None)


async def explain_group(client: HttpClient, meta: ObjectMeta, item: Mapping[str, Any], title: str) -> Explanation:
    """What is known of a PodGroup."""
    phase = (item.get("status") or {}).get("phase") or "Pending, the next cycle decides"
    verdicts = await verdicts_of(client, POD_GROUPS.kind, meta)
    told = Explanation(POD_GROUPS.kind, meta.name, title, f"its phase is {phase}", verdicts)
    return await _with_health(client, told, None)


async def explain_pod(client: HttpClient, pod: Pod, title: str) -> Explanation:
    """What is known of a pod."""
    verdicts = [] if pod.spec.node_name else await verdicts_of(client, PODS.kind, pod.metadata)
    containers = waiting_containers(pod)
    place = f" on node {pod.spec.node_name}" if pod.spec.node_name else ", not bound yet"
    state = "; ".join([f"its phase is {pod.status.phase or 'Pending'}{place}", *map(str, containers)])
    alone = [] if verdicts else await _with_groups(client, [pod])
    failures = await failed_pods(client, [pod])
    gates = gates_text([pod])
    told = Explanation(
        "Pod",
        pod.metadata.name,
        title,
        state,
        verdicts,
        alone,
        containers,
        failures=failures,
        gates=gates,
    )
    return await _with_health(client, told, pod.spec.scheduler_name or "default-scheduler")


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
    found = await dependents(client, resource, owner)
    known = resource in {each.resource for each in OWNERS}
    if not known and not found.groups and not found.pods:
        raise NothingToExplain(f"{title} has neither pods nor PodGroups that could wait.")
    waiting = {each.metadata.name for each in found.groups if verdict_in(each.metadata.annotations) is not None}
    alone = [pod for pod in found.pods if pod_group_name(pod.metadata.annotations) not in waiting]
    refused = [] if suspended_by(item) or _over(item) else await refusals(client, [owner, *found.parts], found.pods)
    refused = [await with_names(client, each, owner.metadata.namespace) for each in refused]
    told = Explanation(
        item.get("kind") or (kind.kind if kind else ""),
        owner.metadata.name,
        title,
        _state(kind, owner, found),
        _gates_in_template(_verdicts_beside(refused, item, owner, found), found.pods, title),
        await _with_groups(client, alone),
        [container for pod in found.pods for container in waiting_containers(pod)],
        suspended_by(item),
        await failed_pods(client, found.pods),
        refused,
        gates_text(found.pods),
        _unseen(item, found),
    )
    return await _with_health(client, told, _scheduler_of(item, found))


def _verdicts_beside(
    refused: list[Refusal], item: Mapping[str, Any], owner: Object, found: Dependents
) -> list[Verdict]:
    """What the scheduler says, without what only follows from refused pods; else the quota that refuses them."""
    verdicts = _telling(group_verdicts(found), refused)
    if verdicts or not refused:
        return verdicts
    there = sum(pod.status.phase not in ("Succeeded", "Failed") for pod in found.pods)
    key = f"{owner.metadata.namespace}/{owner.metadata.name}"
    verdict = quota_verdict(refused[0], key, missing_pods(item, there))
    return [verdict] if verdict is not None else []


def _telling(verdicts: list[Verdict], refused: list[Refusal]) -> list[Verdict]:
    """That pods are missing says nothing where it is known why they are not there."""
    return [one for one in verdicts if not (refused and one.cause in _MISSING_PODS)]


def _gates_in_template(verdicts: list[Verdict], pods: list[Pod], title: str) -> list[Verdict]:
    """Gates that come from a template are removed there: pods that follow have them again."""
    gated = [pod for pod in pods if pod.spec.scheduling_gates and not pod.spec.node_name]
    owners = {
        reference.kind
        for pod in gated
        for reference in pod.metadata.owner_references or ()
        if reference.controller and not (reference.api_version or "").startswith("batch.volcano.sh")
    }
    if not owners & _FROM_TEMPLATES:
        return verdicts
    text = f"remove spec.schedulingGates from the pod template of {title}"
    return [
        msgspec.structs.replace(one, suggestion=text, change={}, otherwise=()) if one.cause == Cause.GATED else one
        for one in verdicts
    ]


async def _with_groups(client: HttpClient, pods: list[Pod]) -> list[UnboundPod]:
    """Pods without a node, with the PodGroups that they name and that do not exist."""
    unbound, known = unbound_pods(pods), dict[str, list[str]]()
    named = {pod.metadata.name: pod for pod in pods}
    for at, each in enumerate(unbound):
        pod = named[each.name]
        name, namespace = pod_group_name(pod.metadata.annotations), pod.metadata.namespace or ""
        if not name:
            continue
        if namespace not in known:
            try:
                groups = await listed(client, POD_GROUPS, namespace)
            except ApiError:
                return unbound
            known[namespace] = sorted(group.metadata.name for group in groups)
        if name not in known[namespace]:
            text = f"PodGroup {name}, which it names, does not exist{did_you_mean(name, known[namespace])}"
            unbound[at] = UnboundPod(each.name, "PodGroupMissing", text)
    return unbound


def _scheduler_of(item: Mapping[str, Any], found: Dependents) -> str:
    """``schedulerName`` of the pods that have no node, or of those that the object will have."""
    unbound = [pod.spec.scheduler_name or "default-scheduler" for pod in found.pods if not pod.spec.node_name]
    return unbound[0] if unbound else (item.get("spec") or {}).get("schedulerName") or DEFAULT_SCHEDULER


def _unseen(item: Mapping[str, Any], found: Dependents) -> str:
    """That no scheduler has looked at a PodGroup of the object; empty where one has, or there is none."""
    waiting = any((group.status.phase or "Pending") == "Pending" for group in found.groups)
    if not waiting or found.pods or _over(item):
        return ""
    return unscheduled((item.get("spec") or {}).get("schedulerName") or DEFAULT_SCHEDULER)


def _over(item: Mapping[str, Any]) -> bool:
    """Whether the object wants no more pods."""
    status = item.get("status") or {}
    state = status.get("state") or {}
    phases = {state.get("phase") if isinstance(state, dict) else state, status.get("jobDeploymentStatus")}
    conditions = status.get("conditions")
    if isinstance(conditions, list):  # those of a JobFlow are a map by job
        phases |= {each.get("type") for each in conditions if each.get("status") == "True"}
    return not _OVER.isdisjoint(phases)


def _state(kind: Kind[Any] | None, owner: Any, found: Dependents) -> str:
    """What the object itself says it is doing."""
    pods = pods_text(found.pods)
    if kind is None:
        return pods
    if kind.resource == JOBS.resource:
        state = owner.status.state
        if state is None or not state.phase:
            return "its phase is Pending, its PodGroup comes next"
        told = (state.message or state.reason or "").rstrip(".")
        text = f"its phase is {state.phase}" + (f": {told}" if told and state.phase in _TELLING else "")
        again = f"; unisono job resume --name {owner.metadata.name} starts it again"
        return text + (again if state.phase in ("Aborting", "Aborted") else "")
    if job_kind_of(kind) is None:
        parts = f"{len(found.parts)} {found.parts[0].kind or 'part'}s, and " if len(found.parts) > 1 else ""
        return pods.replace("it has ", f"it has {parts}", 1)
    view = workload_view(owner, found.parts, found.groups, found.pods)
    message = f": {view.message.rstrip('.')}" if view.message else ""
    return f"its phase is {view.phase}{message}; {pods}"


def _queue_state(item: Mapping[str, Any]) -> str:
    status = item.get("status") or {}
    counts = ", ".join(f"{status.get(name) or 0} {name}" for name in ("pending", "inqueue", "running"))
    return f"it is {status.get('state') or 'not opened yet'}, with {counts} PodGroups"
