"""DaemonSets: one pod on every node that the template fits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field

import msgspec

from unisono.api import keys
from unisono.api.core import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Toleration,
)
from unisono.api.groups.apps import ControllerRevision, DaemonSet, DaemonSetStatus
from unisono.api.kind_families import CONTROLLER_REVISIONS, DAEMON_SETS
from unisono.api.kinds import NODES, PODS
from unisono.api.pod_states import has_ended
from unisono.controllers import pod_facts
from unisono.controllers.objects import PATIENCE_SECONDS, LastWritten, write_status
from unisono.controllers.recorder import Recorder
from unisono.controllers.workloads import templates
from unisono.controllers.workloads.dependents import Dependents, first_text, raise_first
from unisono.errors import NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller, sooner

# The next step of a DaemonSet: a pure function from nodes and pods to a plan.

# A pod that ended is replaced no sooner.
_PAUSE_SECONDS = 10.0
_BURST = 250
_NODE_PROBLEMS = (
    (keys.NODE_NOT_READY, "NoExecute"),
    (keys.NODE_UNREACHABLE, "NoExecute"),
    (keys.NODE_DISK_PRESSURE, "NoSchedule"),
    (keys.NODE_MEMORY_PRESSURE, "NoSchedule"),
    (keys.NODE_PID_PRESSURE, "NoSchedule"),
    (keys.NODE_UNSCHEDULABLE, "NoSchedule"),
)


@dataclass(slots=True)
class DaemonPlan:
    """What to do about a DaemonSet's pods.

    Attributes:
        create: names of nodes that get a pod.
        delete: pods to delete.
        status: counts of nodes.
        requeue_after: seconds until something is due by waiting.
    """

    create: list[str] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    status: DaemonSetStatus = field(default_factory=DaemonSetStatus)
    requeue_after: float | None = None


def daemon_spec(spec: PodSpec, node: str = "") -> PodSpec:
    """The pod's spec with the tolerations that daemons have, bound to ``node`` by affinity where one is named."""
    made = copy(spec)
    tolerations = list(made.tolerations or ())
    problems = list(_NODE_PROBLEMS)
    if spec.host_network:
        problems.append((keys.NODE_NETWORK_UNAVAILABLE, "NoSchedule"))
    for key, effect in problems:
        toleration = Toleration(key=key, operator="Exists", effect=effect)
        if toleration not in tolerations:
            tolerations.append(toleration)
    made.tolerations = tolerations
    if node:
        only = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node])
        made.affinity = copy(made.affinity) or Affinity()
        nodes = made.affinity.node_affinity = copy(made.affinity.node_affinity) or NodeAffinity()
        nodes.required_during_scheduling_ignored_during_execution = NodeSelector(
            node_selector_terms=[NodeSelectorTerm(match_fields=[only])]
        )
    return made


def node_of(pod: Pod) -> str:
    """The node that the pod is on, or that it was made for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in (required.node_selector_terms if required is not None else None) or ():
        for each in term.match_fields or ():
            if each.key == "metadata.name" and each.values:
                return each.values[0]
    return ""


def decide(daemon_set: DaemonSet, nodes: Sequence[Node], pods: Sequence[Pod], update: str, now: float) -> DaemonPlan:
    """The next step, and the status.

    Args:
        daemon_set: one that is being deleted gets no steps.
        nodes: all nodes.
        pods: the set's pods.
        update: hash of the present template's revision.
        now: seconds since 1970.
    """
    spec, waiting = daemon_set.spec, daemon_set.spec.min_ready_seconds or 0
    plan = DaemonPlan(requeue_after=pod_facts.next_available(pods, waiting, now))
    by_node: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=lambda each: (pod_facts.created(each), each.metadata.name)):
        by_node.setdefault(node_of(pod), []).append(pod)
    probe = daemon_spec(spec.template.spec)
    eligible, tolerated = set[str](), set[str]()
    for node in nodes:
        if templates.fits(probe, node) and not templates.blocking(probe, node, ("NoExecute",)):
            tolerated.add(node.metadata.name)
            if not templates.blocking(probe, node, ("NoSchedule",)):
                eligible.add(node.metadata.name)
    plan.status = _status(daemon_set, by_node, eligible, update, now)
    if daemon_set.metadata.deletion_timestamp:
        return plan
    for node_name in sorted({*by_node, *eligible}):
        present = pod_facts.staying(by_node.get(node_name, []))
        if node_name not in eligible:
            # A pod that runs stays on a node that only takes no new ones.
            plan.delete += [pod for pod in present if node_name not in tolerated or has_ended(pod)]
            continue
        _keep_one(plan, daemon_set, node_name, by_node.get(node_name, []), present, update, now)
    if spec.update_strategy.type != "OnDelete":
        _roll(plan, daemon_set, by_node, eligible, update, now)
    plan.create = plan.create[:_BURST]
    return plan


def _keep_one(
    plan: DaemonPlan,
    daemon_set: DaemonSet,
    node: str,
    every: Sequence[Pod],
    present: Sequence[Pod],
    update: str,
    now: float,
) -> None:
    """One pod on the node; ended ones are replaced after a pause, of several the oldest of each template stays."""
    ended = [pod for pod in present if has_ended(pod)]
    for pod in ended:
        left = pod_facts.finished_at(pod) + _PAUSE_SECONDS - now
        if left > 0:
            plan.requeue_after = sooner(plan.requeue_after, left)
        else:
            plan.delete.append(pod)
    alive = [pod for pod in present if not has_ended(pod)]
    surging = _surge(daemon_set, 1) > 0 and daemon_set.spec.update_strategy.type != "OnDelete"
    kept: set[bool] = set()
    for pod in alive:
        # While an update surges a new pod may stand beside an old one.
        which = templates.revision_of(pod) == update if surging else True
        if which in kept:
            plan.delete.append(pod)
        kept.add(which)
    if not alive and not ended and not [pod for pod in every if pod_facts.is_deleting(pod)]:
        plan.create.append(node)


def _roll(
    plan: DaemonPlan, daemon_set: DaemonSet, by_node: dict[str, list[Pod]], wanted: set[str], update: str, now: float
) -> None:
    waiting = daemon_set.spec.min_ready_seconds or 0
    rolling = daemon_set.spec.update_strategy.rolling_update
    surge = _surge(daemon_set, len(wanted))
    allowed = templates.amount(rolling.max_unavailable if rolling is not None else 1, len(wanted), up=True)
    if not allowed and not surge:
        allowed = 1
    missing, surged = 0, 0
    old: list[tuple[Pod, bool, bool]] = []
    for node in sorted(wanted):
        alive = [p for p in by_node.get(node, []) if pod_facts.is_active(p)]
        before = [pod for pod in alive if templates.revision_of(pod) != update]
        after = [pod for pod in alive if templates.revision_of(pod) == update]
        works = any(pod_facts.is_available(pod, waiting, now) for pod in alive)
        missing += not works
        surged += bool(before and after)
        replaced = any(pod_facts.is_available(pod, waiting, now) for pod in after)
        old += [(pod, pod_facts.is_available(pod, waiting, now), replaced) for pod in before[:1]]
    for pod, works, replaced in old:
        has_new = any(templates.revision_of(each) == update for each in by_node.get(node_of(pod), []))
        if replaced or (not works and not surge):
            plan.delete.append(pod)
        elif surge:
            if not has_new and (surged < surge or not works):
                plan.create.append(node_of(pod))
                surged += 1
        elif missing < allowed:
            plan.delete.append(pod)
            missing += 1
    seen: dict[str | None, Pod] = {pod.metadata.uid: pod for pod in plan.delete}
    plan.delete = list(seen.values())


def _surge(daemon_set: DaemonSet, nodes: int) -> int:
    rolling = daemon_set.spec.update_strategy.rolling_update
    return templates.amount(rolling.max_surge, nodes, up=True) if rolling is not None else 0


def _status(
    daemon_set: DaemonSet, by_node: dict[str, list[Pod]], wanted: set[str], update: str, now: float
) -> DaemonSetStatus:
    waiting = daemon_set.spec.min_ready_seconds or 0
    alive = {node: [pod for pod in pods if pod_facts.is_active(pod)] for node, pods in by_node.items()}
    there = [node for node in wanted if alive.get(node)]
    available = sum(any(pod_facts.is_available(pod, waiting, now) for pod in alive[node]) for node in there)
    return msgspec.structs.replace(
        daemon_set.status,
        desired_number_scheduled=len(wanted),
        current_number_scheduled=len(there),
        number_misscheduled=sum(bool(pods) for node, pods in alive.items() if node and node not in wanted),
        number_ready=sum(any(pod_facts.is_ready(pod) for pod in alive[node]) for node in there),
        updated_number_scheduled=sum(any(templates.revision_of(pod) == update for pod in alive[node]) for node in there)
        or None,
        number_available=available or None,
        number_unavailable=len(wanted) - available or None,
        observed_generation=daemon_set.metadata.generation,
    )


class DaemonSetController(Controller):
    """Runs DaemonSets."""

    name = "daemonset-controller"

    def __init__(self, recorder: Recorder, source: random.Random | None = None) -> None:
        """``source`` makes the ends of pods' names."""
        self._recorder, self._random = recorder, source or random.Random()  # noqa: S311  # nosec B311 # no secret
        self._written: LastWritten[DaemonSet] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch DaemonSets, their pods and revisions, and the nodes."""
        self._sets = context.watch(DAEMON_SETS)
        self._pods: Dependents[DaemonSet, Pod] = Dependents(
            context, DAEMON_SETS, PODS, lambda daemon_set: daemon_set.spec.selector
        )
        self._revisions: Dependents[DaemonSet, ControllerRevision] = Dependents(
            context, DAEMON_SETS, CONTROLLER_REVISIONS, lambda daemon_set: daemon_set.spec.selector
        )
        self._nodes = context.informer(NODES)
        self._nodes.on_change(self._node_changed)

    async def reconcile(self, key: str) -> float | None:
        """Take the next step, then tell on how many nodes there are pods."""
        daemon_set = self._written.newest(key, self._sets.get(key))
        if daemon_set is None:
            return None
        pods = await self._pods.claim(daemon_set)
        revisions = await self._revisions.claim(daemon_set)
        if not self._revisions.settled(daemon_set):
            return 1.0
        marks = {templates.revision_of(pod) for pod in pods}
        used = {
            each.metadata.name for each in revisions if (each.metadata.labels or {}).get(templates.HASH_LABEL) in marks
        }
        revised = templates.revise(DAEMON_SETS, daemon_set, revisions, used)
        if not daemon_set.metadata.deletion_timestamp:
            await templates.bring_to_server(self._client, self._revisions, daemon_set, revised)
        update = (revised.update.metadata.labels or {})[templates.HASH_LABEL]
        plan = decide(daemon_set, self._nodes.items(), pods, update, self._clock.time())
        errors: list[Exception] = []
        if self._pods.settled(daemon_set):
            errors = await self._carry_out(daemon_set, plan, update)
        try:
            self._written.keep(await write_status(self._client, DAEMON_SETS, daemon_set, plan.status))
        except NotFound:
            return None
        raise_first(errors)
        return sooner(plan.requeue_after, None if self._pods.settled(daemon_set) else PATIENCE_SECONDS)

    async def _carry_out(self, daemon_set: DaemonSet, plan: DaemonPlan, update: str) -> list[Exception]:
        fresh = [self._pod(daemon_set, node, update) for node in plan.create]
        errors = await self._pods.create(daemon_set, fresh)
        for pod in fresh[:5] if not errors else ():
            self._recorder.event(daemon_set, "Normal", "SuccessfulCreate", f"Created pod: {pod.metadata.name}")
        if errors:
            self._recorder.event(daemon_set, "Warning", "FailedCreate", f"Error creating: {first_text(errors, fresh)}")
        errors += await self._pods.delete(daemon_set, plan.delete)
        for pod in plan.delete[:5]:
            self._recorder.event(daemon_set, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}")
        return errors

    def _pod(self, daemon_set: DaemonSet, node: str, update: str) -> Pod:
        made = templates.pod_from(
            daemon_set.spec.template,
            DAEMON_SETS,
            daemon_set,
            templates.generated_name(daemon_set.metadata.name, self._random),
            labels={keys.CONTROLLER_REVISION_HASH: update},
        )
        made.spec = daemon_spec(made.spec, node)
        return made

    def _node_changed(self, event_type: EventType, new: Node, old: Node | None) -> None:
        """Only labels and taints decide where daemons run."""
        if event_type == "MODIFIED" and old is not None:
            same = (new.metadata.labels, new.spec.taints) == (old.metadata.labels, old.spec.taints)
            if same:
                return
        for daemon_set in self._sets.items():
            self._context.enqueue(daemon_set.key)
