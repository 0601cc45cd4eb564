"""Deployments, whose pods are replaced step by step, ReplicaSets and ReplicationControllers: numbers of equal pods."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from unisono.api.base import LabelSelector
from unisono.api.conditions import find_condition
from unisono.api.core import Pod, PodTemplateSpec
from unisono.api.groups.apps import (
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
    ReplicaSet,
    ReplicaSetStatus,
    ReplicationController,
    ReplicationControllerStatus,
    WorkloadCondition,
)
from unisono.api.kind import Kind
from unisono.api.kind_families import DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS
from unisono.api.kinds import PODS
from unisono.api.pod_states import has_ended
from unisono.api.times import parse_time, rfc3339
from unisono.controllers import owners
from unisono.controllers.objects import PATIENCE_SECONDS, LastWritten, write_status
from unisono.controllers.owners import index
from unisono.controllers.pod_facts import cheapest_first, is_active, is_available, is_deleting, is_ready, next_available
from unisono.controllers.recorder import Notice, Recorder
from unisono.controllers.workloads.dependents import Dependents, first_text, raise_first
from unisono.controllers.workloads.deployment_decide import (
    REVISION,
    Change,
    DeploymentPlan,
    decide,
    find_new,
    is_complete,
    limits,
    size,
    wanted,
)
from unisono.controllers.workloads.templates import generated_name, pod_from, refusal_wait
from unisono.errors import AlreadyExists, NotFound
from unisono.kube.client import EventType
from unisono.kube.controller import Context, Controller, sooner

Replicas = ReplicaSet | ReplicationController

# Pods that are made or deleted at one look.
BURST = 500


@dataclass(slots=True)
class ReplicaPlan:
    """What to do about a ReplicaSet's pods.

    Attributes:
        create: how many pods to make.
        delete: pods to delete.
        requeue_after: seconds until something is due by waiting.
    """

    create: int = 0
    delete: list[Pod] = field(default_factory=list)
    requeue_after: float | None = None


def decide_replicas(replica_set: Replicas, pods: Sequence[Pod], now: float) -> ReplicaPlan:
    """How the pods come to the wanted number.

    Args:
        replica_set: one that is being deleted gets an empty plan.
        pods: its pods, ended ones too.
        now: seconds since 1970.
    """
    spec = replica_set.spec
    active = [pod for pod in pods if is_active(pod)]
    plan = ReplicaPlan(requeue_after=next_available(active, spec.min_ready_seconds or 0, now))
    if replica_set.metadata.deletion_timestamp:
        return plan
    missing = (spec.replicas or 0) - len(active)
    if missing >= 0:
        wait = refusal_wait(pods, missing, now)
        if wait > 0:
            plan.requeue_after = sooner(plan.requeue_after, wait)
        else:
            plan.create = min(missing, BURST)
        return plan
    neighbours = Counter(pod.spec.node_name or "" for pod in active if pod.spec.node_name)
    plan.delete = cheapest_first(active, neighbours)[: min(-missing, BURST)]
    return plan


def replicas_status(
    replica_set: Replicas, pods: Sequence[Pod], now: float, failure: tuple[str, str] | None
) -> ReplicaSetStatus | ReplicationControllerStatus:
    """The status for these pods.

    Args:
        replica_set: the ReplicaSet.
        pods: its pods.
        now: seconds since 1970.
        failure: reason and message when pods could not be made or deleted.
    """
    spec, old = replica_set.spec, replica_set.status
    active = [pod for pod in pods if is_active(pod)]
    template_labels = (_template(replica_set).metadata.labels or {}).items()
    fields: dict[str, Any] = {
        "replicas": len(active),
        "fully_labeled_replicas": sum(template_labels <= (pod.metadata.labels or {}).items() for pod in active) or None,
        "ready_replicas": sum(map(is_ready, active)) or None,
        "available_replicas": sum(is_available(pod, spec.min_ready_seconds or 0, now) for pod in active) or None,
        "observed_generation": replica_set.metadata.generation,
        "conditions": _conditions(old.conditions or [], failure, now),
    }
    if isinstance(replica_set, ReplicationController):
        return ReplicationControllerStatus(**fields)
    terminating = sum(is_deleting(pod) and not has_ended(pod) for pod in pods)
    return ReplicaSetStatus(**fields, terminating_replicas=terminating or None)


def _template(replica_set: Replicas) -> PodTemplateSpec:
    return replica_set.spec.template or PodTemplateSpec()


def _selector(replica_set: Replicas) -> LabelSelector | None:
    selector = replica_set.spec.selector
    return LabelSelector(match_labels=selector) if isinstance(selector, dict) else selector


def _conditions(
    old: list[WorkloadCondition], failure: tuple[str, str] | None, now: float
) -> list[WorkloadCondition] | None:
    kept = [each for each in old if each.type != "ReplicaFailure"]
    if failure is None:
        return kept or None
    before = next((each for each in old if each.type == "ReplicaFailure"), None)
    if before is not None and (before.status, before.reason) == ("True", failure[0]):
        # The message names a pod that gets another name at every try: each write would bring the next try at once.
        return old
    since = before.last_transition_time if before is not None and before.status == "True" else rfc3339(now)
    condition = WorkloadCondition(
        type="ReplicaFailure", status="True", last_transition_time=since, reason=failure[0], message=failure[1]
    )
    return [*kept, condition]


class ReplicaSetController(Controller):
    """Runs ReplicaSets."""

    name = "replicaset-controller"
    kind: Kind[Any] = REPLICA_SETS

    def __init__(self, recorder: Recorder, source: random.Random | None = None) -> None:
        """``source`` makes the ends of pods' names."""
        self._recorder, self._random = recorder, source or random.Random()  # noqa: S311  # nosec B311 # no secret
        self._written: LastWritten[Replicas] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch the kind's objects and their pods."""
        self._sets = context.watch(self.kind)
        self._pods: Dependents[Replicas, Pod] = Dependents(context, self.kind, PODS, _selector)

    async def reconcile(self, key: str) -> float | None:
        """Make or delete pods, then tell how many there are."""
        replica_set = self._written.newest(key, self._sets.get(key))
        if replica_set is None:
            return None
        pods = await self._pods.claim(replica_set)
        plan = decide_replicas(replica_set, pods, self._clock.time())
        errors: list[Exception] = []
        failure = None
        if self._pods.settled(replica_set):
            errors, text = await self._carry_out(replica_set, plan)
            if errors:
                failure = ("FailedDelete" if plan.delete else "FailedCreate", text)
        status = replicas_status(replica_set, pods, self._clock.time(), failure)
        try:
            self._written.keep(await write_status(self._client, self.kind, replica_set, status))
        except NotFound:
            return None
        raise_first(errors)
        return sooner(plan.requeue_after, None if self._pods.settled(replica_set) else PATIENCE_SECONDS)

    async def _carry_out(self, replica_set: Replicas, plan: ReplicaPlan) -> tuple[list[Exception], str]:
        """What went wrong, and the first of it in words."""
        name = replica_set.metadata.name
        fresh = [
            pod_from(_template(replica_set), self.kind, replica_set, generated_name(name, self._random))
            for _ in range(plan.create)
        ]
        errors = await self._pods.create(replica_set, fresh)
        if fresh and not errors:
            listed = ", ".join(pod.metadata.name for pod in fresh[:5])
            self._tell(replica_set, Notice("Normal", "SuccessfulCreate", f"Created pod: {listed}"))
        text = first_text(errors, fresh) if errors else ""
        if errors:
            self._tell(replica_set, Notice("Warning", "FailedCreate", f"Error creating: {text}"))
        errors += await self._pods.delete(replica_set, plan.delete)
        for pod in plan.delete[:5]:
            self._tell(replica_set, Notice("Normal", "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}"))
        return errors, text or next(map(str, errors), "")

    def _tell(self, replica_set: Replicas, notice: Notice) -> None:
        self._recorder.event(replica_set, notice.type, notice.reason, notice.message)


class ReplicationControllerController(ReplicaSetController):
    """Runs ReplicationControllers."""

    name = "replication-controller"
    kind = REPLICATION_CONTROLLERS


# Status of a Deployment: counts, and whether it gets on (pure).

_NO_DEADLINE = 2**31 - 1
_AVAILABLE = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
_UNAVAILABLE = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
_PAUSED = ("Unknown", "DeploymentPaused", "Deployment is paused")
_RESUMED = ("Unknown", "DeploymentResumed", "Deployment is resumed")
_DONE = "NewReplicaSetAvailable"
_STUCK = "ProgressDeadlineExceeded"


def status_of(deployment: Deployment, sets: Sequence[ReplicaSet], plan: DeploymentPlan, now: float) -> DeploymentStatus:
    """The status for these ReplicaSets, with the conditions that ``kubectl rollout status`` and ``wait`` read.

    Args:
        deployment: the Deployment.
        sets: its ReplicaSets as they were before the plan.
        plan: what is being done about them.
        now: seconds since 1970.
    """
    old = deployment.status
    total = sum(each.status.replicas or 0 for each in sets)
    available = sum(each.status.available_replicas or 0 for each in sets)
    status = DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=total or None,
        updated_replicas=(plan.new.status.replicas or None) if plan.new is not None else None,
        ready_replicas=sum(each.status.ready_replicas or 0 for each in sets) or None,
        available_replicas=available or None,
        unavailable_replicas=max(0, total - available) or None,
        terminating_replicas=sum(each.status.terminating_replicas or 0 for each in sets) or None,
        collision_count=old.collision_count,
        conditions=list(old.conditions or ()),
    )
    enough = available >= wanted(deployment) - limits(deployment)[1]
    _set(status, "Available", _AVAILABLE if enough else _UNAVAILABLE, now)
    _progress(deployment, status, plan, now)
    failure = next((c for each in sets for c in each.status.conditions or () if c.type == "ReplicaFailure"), None)
    if failure is not None and failure.status == "True":
        _set(status, "ReplicaFailure", ("True", failure.reason or "", failure.message or ""), now)
    else:
        status.conditions = [each for each in status.conditions or () if each.type != "ReplicaFailure"]
    return status


def deadline(deployment: Deployment, status: DeploymentStatus, now: float) -> float | None:
    """Seconds until the Deployment counts as stuck if nothing happens; None when it never does."""
    progress = _find(status, "Progressing")
    seconds = deployment.spec.progress_deadline_seconds
    if progress is None or seconds in (None, _NO_DEADLINE) or progress.reason in (_DONE, _STUCK):
        return None
    if deployment.spec.paused or not progress.last_update_time:
        return None
    return max(0.0, parse_time(progress.last_update_time) + (seconds or 0) - now) + 1.0


def _progress(deployment: Deployment, status: DeploymentStatus, plan: DeploymentPlan, now: float) -> None:
    if deployment.spec.progress_deadline_seconds in (None, _NO_DEADLINE):
        status.conditions = [each for each in status.conditions or () if each.type != "Progressing"]
        return
    before = _find(status, "Progressing")
    reason = before.reason if before is not None else None
    if deployment.spec.paused:
        if reason not in (_STUCK, _PAUSED[1]):
            _set(status, "Progressing", _PAUSED, now)
        return
    if reason == _PAUSED[1]:
        _set(status, "Progressing", _RESUMED, now)
        return
    name = plan.create.metadata.name if plan.create is not None else plan.new.metadata.name if plan.new else ""
    if plan.create is not None:
        _set(status, "Progressing", ("True", "NewReplicaSetCreated", f'Created new replica set "{name}"'), now)
        return
    if before is None and plan.new is not None:
        _set(status, "Progressing", ("True", "FoundNewReplicaSet", f'Found new replica set "{name}"'), now)
        return
    if reason == _DONE and status.replicas == status.updated_replicas:
        # A pod that fails after the update is none of the update's business.
        return
    subject = f'ReplicaSet "{name}"' if name else f'Deployment "{deployment.metadata.name}"'
    if is_complete(msgspec.structs.replace(deployment, status=status)):
        _set(status, "Progressing", ("True", _DONE, f"{subject} has successfully progressed."), now)
    elif _moved(deployment.status, status):
        _set(status, "Progressing", ("True", "ReplicaSetUpdated", f"{subject} is progressing."), now, touch=True)
    elif before is not None and reason != _STUCK and _is_late(deployment, before, now):
        _set(status, "Progressing", ("False", _STUCK, f"{subject} has timed out progressing."), now)


def _is_late(deployment: Deployment, progress: DeploymentCondition, now: float) -> bool:
    since = progress.last_update_time
    return bool(since) and parse_time(since or "") + (deployment.spec.progress_deadline_seconds or 0) < now


def _moved(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    """More new pods, fewer old ones, or more that are ready or available."""

    def outdated(status: DeploymentStatus) -> int:
        return (status.replicas or 0) - (status.updated_replicas or 0)

    return (
        (new.updated_replicas or 0) > (old.updated_replicas or 0)
        or outdated(new) < outdated(old)
        or (new.ready_replicas or 0) > (old.ready_replicas or 0)
        or (new.available_replicas or 0) > (old.available_replicas or 0)
    )


def _find(status: DeploymentStatus, name: str) -> DeploymentCondition | None:
    return find_condition(status.conditions, name)


def _set(status: DeploymentStatus, name: str, value: tuple[str, str, str], now: float, *, touch: bool = False) -> None:
    """Set a condition; one with the same status and reason stays as it is unless ``touch`` renews its update time."""
    before, stamp = _find(status, name), rfc3339(now)
    state, reason, message = value
    if before is not None and (before.status, before.reason) == (state, reason) and not touch:
        return
    since = before.last_transition_time if before is not None and before.status == state else stamp
    condition = DeploymentCondition(
        type=name, status=state, reason=reason, message=message, last_update_time=stamp, last_transition_time=since
    )
    status.conditions = [*(each for each in status.conditions or () if each.type != name), condition]


_POD_INDEX = "controller-uid"


class DeploymentController(Controller):
    """Runs Deployments."""

    name = "deployment-controller"

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._written: LastWritten[Deployment] = LastWritten()
        self._written_sets: LastWritten[ReplicaSet] = LastWritten()

    def setup(self, context: Context) -> None:
        """Watch Deployments, their ReplicaSets and, for those that recreate, the end of pods."""
        self._deployments = context.watch(DEPLOYMENTS)
        self._sets: Dependents[Deployment, ReplicaSet] = Dependents(
            context, DEPLOYMENTS, REPLICA_SETS, lambda deployment: deployment.spec.selector
        )
        self._pods = context.informer(PODS)
        index(self._pods, _POD_INDEX, owners.controller_keys)
        self._pods.on_change(self._pod_changed)

    async def reconcile(self, key: str) -> float | None:
        """Take the next step, then tell how far the Deployment is."""
        deployment = self._written.newest(key, self._deployments.get(key))
        if deployment is None:
            return None
        claimed = await self._sets.claim(deployment)
        sets = [found for each in claimed if (found := self._written_sets.newest(each.key, each)) is not None]
        if not self._sets.settled(deployment):
            return 1.0
        plan = decide(deployment, sets, old_pods=self._old_pods(deployment, sets))
        now = self._clock.time()
        errors = await self._carry_out(deployment, sets, plan)
        status = status_of(deployment, sets, plan, now)
        if any(isinstance(error, AlreadyExists) for error in errors):
            # The name is taken by another template with the same hash: the next look makes another name.
            status.collision_count = (status.collision_count or 0) + 1
            errors = []
        if not await self._tell(deployment, status, plan):
            return None
        raise_first(errors)
        return deadline(deployment, status, now)

    async def _carry_out(self, deployment: Deployment, sets: list[ReplicaSet], plan: DeploymentPlan) -> list[Exception]:
        by_name = {each.metadata.name: each for each in sets}
        for name, change in plan.changes.items():
            await self._change(deployment, by_name[name], change)
        await self._sets.delete(deployment, plan.delete)
        if plan.create is None:
            return []
        errors = await self._sets.create(deployment, [plan.create])
        if not errors:
            self._scaled(deployment, plan.create, 0, size(plan.create))
        elif not isinstance(errors[0], AlreadyExists):
            text = f'Failed to create new replica set "{plan.create.metadata.name}": {errors[0]}'
            self._recorder.event(deployment, "Warning", "ReplicaSetCreateError", text)
        return errors

    async def _change(self, deployment: Deployment, replica_set: ReplicaSet, change: Change) -> None:
        meta = replica_set.metadata
        metadata: dict[str, Any] = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        spec: dict[str, Any] = {}
        if change.annotations:
            metadata["annotations"] = change.annotations
        if change.replicas is not None:
            spec["replicas"] = change.replicas
        if change.min_ready_seconds is not None:
            spec["minReadySeconds"] = change.min_ready_seconds
        patch = {"metadata": metadata, "spec": spec} if spec else {"metadata": metadata}
        try:
            written = await self._client.patch(REPLICA_SETS, meta.name, patch, namespace=meta.namespace)
        except NotFound:
            return
        self._written_sets.keep(written)
        if change.replicas is not None:
            self._scaled(deployment, replica_set, size(replica_set), change.replicas)

    async def _tell(self, deployment: Deployment, status: Any, plan: DeploymentPlan) -> bool:
        """Write revision and status; False when the Deployment is gone."""
        meta = deployment.metadata
        try:
            if plan.revision and (meta.annotations or {}).get(REVISION) != plan.revision:
                patch = {
                    "metadata": {"resourceVersion": meta.resource_version, "annotations": {REVISION: plan.revision}}
                }
                deployment = await self._client.patch(DEPLOYMENTS, meta.name, patch, namespace=meta.namespace)
                self._written.keep(deployment)
            self._written.keep(await write_status(self._client, DEPLOYMENTS, deployment, status))
        except NotFound:
            return False
        return True

    def _scaled(self, deployment: Deployment, replica_set: ReplicaSet, before: int, after: int) -> None:
        way = "up" if after > before else "down"
        text = f"Scaled {way} replica set {replica_set.metadata.name} from {before} to {after}"
        self._recorder.event(deployment, "Normal", "ScalingReplicaSet", text)

    def _old_pods(self, deployment: Deployment, sets: list[ReplicaSet]) -> bool:
        """Whether pods of another template than the present one have not ended."""
        new = find_new(deployment, sets)
        return any(
            not has_ended(pod)
            for each in sets
            if each is not new
            for pod in self._pods.by_index(_POD_INDEX, owners.family(each))
        )

    def _pod_changed(self, event_type: EventType, pod: Pod, _old: Pod | None) -> None:
        """The last old pod of a Deployment that recreates has gone: the new ones may start."""
        if event_type != "DELETED" and not has_ended(pod):
            return
        for name in owners.keys_of(REPLICA_SETS, pod):
            replica_set = self._sets.informer.get(name)
            for key in owners.keys_of(DEPLOYMENTS, replica_set) if replica_set is not None else ():
                deployment = self._deployments.get(key)
                if deployment is not None and deployment.spec.strategy.type == "Recreate":
                    self._context.enqueue(key)
