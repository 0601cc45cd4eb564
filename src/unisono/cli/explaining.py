"""Why an object waits: from any kind down to its PodGroups and pods, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unisono.api.membership import pod_group_name
from unisono.api.verdict import Cause, Verdict, to_json, verdict_in
from unisono.cli.failures import FailedPod, failed_pods
from unisono.cli.refusals import Refusal, refusals
from unisono.cli.verdicts import verdict_lines, verdicts_of
from unisono.errors import UnisonoError
from unisono.sdk.waiting import (
    UnboundPod,
    WaitingContainer,
    pods_text,
    suspended_by,
    unbound_pods,
    waiting_containers,
)

if TYPE_CHECKING:
    from unisono.api.kind import Kind
    from unisono.cli.resources import Resource
    from unisono.kube.http import HttpClient
    from unisono.sdk.dependents import Dependents

# Pods that are told of one by one.
_SHOWN = 10
_FAILURES = 3

# Phases of a Volcano Job in which its message says how it came to that.
_TELLING = ("Aborting", "Aborted", "Failed", "Restarting", "Terminating", "Terminated")
# Phases and conditions after which no pods are wanted any more.
_OVER = frozenset({"Aborted", "Complete", "Completed", "Failed", "Finished", "Succeeded", "Terminated"})


class NothingToExplain(UnisonoError):
    """The object has nothing that could wait for a place."""


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

    def json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "kind": self.kind,
            "name": self.name,
            "state": self.state,
            "verdicts": [to_json(verdict) for verdict in self.verdicts],
            "pods": [pod.json() for pod in self.pods],
            "waiting_containers": [container.json() for container in self.containers],
            "suspended_by": self.suspended,
            "failures": [pod.json() for pod in self.failures],
            "refused": [refusal.json() for refusal in self.refused],
        }

    def lines(self) -> list[str]:
        """For people."""
        lines = []
        # That a PodGroup has no pods says nothing where it is known why they are not there.
        verdicts = [one for one in self.verdicts if not (self.refused and one.cause == Cause.NO_PODS)]
        if self.suspended:
            lines.append(f"{self.title} is suspended: {self.state}; it goes on when {self.suspended} is false.")
        elif self.containers:
            lines.append(f"{self.title} waits on its node: {self.state}.")
        elif self.refused and not verdicts:
            lines.append(f"{self.title} waits for pods that the server refuses: {self.state}.")
        elif self.pods and not verdicts:
            lines.append(f"{self.title} waits: {self.state}.")
        elif not verdicts:
            lines.append(f"{self.title} does not wait: {self.state}.")
        alone = self.title if len(verdicts) == 1 and self.kind != "Queue" else ""
        for verdict in verdicts:
            lines += verdict_lines(verdict, alone)
        lines += [f"  {refusal}" for refusal in self.refused]
        told = [str(pod) for pod in self.pods]
        told += [f"pod/{each.pod}: {each}" for each in self.containers] if self.kind != "Pod" else []
        lines += [f"  {text}" for text in told[:_SHOWN]]
        if len(told) > _SHOWN:
            lines.append(f"  and {len(told) - _SHOWN} more")
        return lines + self._failures()

    def _failures(self) -> list[str]:
        if not self.failures:
            return []
        lines = [f"  {line}" for pod in self.failures[:_FAILURES] for line in pod.lines()]
        if len(self.failures) > _FAILURES:
            lines.append(f"  and {len(self.failures) - _FAILURES} more pods failed")
        return [*lines, f"  all lines: unisono logs {self.title}"]


async def explain(client: HttpClient, words: Sequence[str], namespace: str) -> Explanation:
    """Look an object up and say why it waits.

    Args:
        client: the server.
        words: ``KIND/NAME`` or ``KIND NAME``.
        namespace: where objects are that have one.

    Raises:
        UnknownKind: the server has no such kind.
        NothingToExplain: objects of that kind have no pods.
        ApiError: the server cannot answer.

    """
    from unisono.cli.resources import UnknownKind, discover, request_json
    from unisono.cli.targets import one

    resources = await discover(client)
    try:
        target = one(words, resources)
    except UnknownKind as error:
        raise UnknownKind(f"{error} Kinds that can be explained: {_known([*resources.resources])}.") from None
    resource, name = target.resource, target.name or ""
    item = await request_json(client, "GET", resource.path(namespace, name))
    title = f"{resources.typed(resource)}/{name}"
    if (resource.group, resource.kind) == ("scheduling.volcano.sh", "Queue"):
        verdicts = await verdicts_of(client, "Queue", item)
        return Explanation("Queue", name, title, _queue_state(item), verdicts)
    if (resource.group, resource.kind) == ("scheduling.volcano.sh", "PodGroup"):
        verdicts = await verdicts_of(client, "PodGroup", item)
        phase = (item.get("status") or {}).get("phase") or "Pending, the next cycle decides"
        return Explanation("PodGroup", name, title, f"its phase is {phase}", verdicts)
    if (resource.group, resource.kind) == ("", "Pod"):
        return await _pod(client, item, title)
    return await _owner(client, resource, item, title, resources.resources)


async def _pod(client: HttpClient, item: dict[str, Any], title: str) -> Explanation:
    from unisono.api.decode import decode
    from unisono.api.kinds import PODS

    pod = decode(PODS, item).obj
    verdicts = [] if pod.spec.node_name else await verdicts_of(client, "Pod", item)
    containers = waiting_containers(pod)
    place = f" on node {pod.spec.node_name}" if pod.spec.node_name else ", not bound yet"
    state = "; ".join([f"its phase is {pod.status.phase or 'Pending'}{place}", *map(str, containers)])
    alone = [] if verdicts else unbound_pods([pod])
    failures = await failed_pods(client, [pod])
    return Explanation("Pod", pod.metadata.name, title, state, verdicts, alone, containers, failures=failures)


async def _owner(
    client: HttpClient, resource: Resource, item: dict[str, Any], title: str, served: Sequence[Resource]
) -> Explanation:
    """Of everything that has pods by way of owner references, however many steps away."""
    from unisono.cli.resources import object_of
    from unisono.sdk.dependents import OWNERS, dependents

    kind, owner = object_of(resource, item)
    found = await dependents(client, resource.name, owner)
    known = resource.name in {each.resource for each in OWNERS}
    if not known and not found.groups and not found.pods:
        raise NothingToExplain(
            f"{title} has neither pods nor PodGroups that could wait. Kinds that can be explained: {_known(served)}."
        )
    waiting = {group.metadata.name: verdict_in(group.metadata.annotations) for group in found.groups}
    verdicts = [verdict for verdict in waiting.values() if verdict]
    alone = [pod for pod in found.pods if not waiting.get(pod_group_name(pod.metadata.annotations))]
    return Explanation(
        resource.kind,
        owner.metadata.name,
        title,
        _state(kind, owner, found),
        verdicts,
        unbound_pods(alone),
        [container for pod in found.pods for container in waiting_containers(pod)],
        suspended_by(item),
        await failed_pods(client, found.pods),
        [] if suspended_by(item) or _over(item) else await refusals(client, [owner, *found.parts], found.pods),
    )


def _over(item: dict[str, Any]) -> bool:
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
    from unisono.api.kinds import JOBS
    from unisono.sdk.job_kinds import job_kind_of

    pods = pods_text(found.pods)
    if kind is None:
        return pods
    if kind.resource == JOBS.resource:
        state = owner.status.state
        if state is None or not state.phase:
            return "its phase is Pending, its PodGroup comes next"
        told = (state.message or state.reason or "").rstrip(".")
        return f"its phase is {state.phase}" + (f": {told}" if told and state.phase in _TELLING else "")
    if job_kind_of(kind) is None:
        parts = f"{len(found.parts)} {found.parts[0].kind or 'part'}s, and " if len(found.parts) > 1 else ""
        return pods.replace("it has ", f"it has {parts}", 1)
    from unisono.sdk.followed import workload_view

    view = workload_view(owner, found.parts, found.groups, found.pods)
    message = f": {view.message.rstrip('.')}" if view.message else ""
    return f"its phase is {view.phase}{message}; {pods}"


def _queue_state(item: dict[str, Any]) -> str:
    status = item.get("status") or {}
    counts = ", ".join(f"{status.get(name) or 0} {name}" for name in ("pending", "inqueue", "running"))
    return f"it is {status.get('state') or 'not opened yet'}, with {counts} PodGroups"


def _known(served: Sequence[Resource]) -> str:
    """Kinds that have pods and that the server serves, as users type them."""
    from unisono.api.kinds import POD_GROUPS, PODS, QUEUES
    from unisono.sdk.dependents import OWNERS

    explained = {kind.resource for kind in (*OWNERS, PODS, POD_GROUPS, QUEUES)}
    there = [each for each in served if each.name in explained]
    shared = {each.singular for each in there if sum(other.singular == each.singular for other in there) > 1}
    return ", ".join(sorted({each.title if each.singular in shared else each.singular for each in there}))
