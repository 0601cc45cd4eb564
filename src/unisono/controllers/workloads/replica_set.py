"""ReplicaSets, and ReplicationControllers, their older form: a number of equal pods."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unisono.api.base import LabelSelector
from unisono.api.core import Pod, PodTemplateSpec
from unisono.api.groups.apps import (
    ReplicaSet,
    ReplicaSetStatus,
    ReplicationController,
    ReplicationControllerStatus,
    WorkloadCondition,
)
from unisono.api.kind import Kind
from unisono.api.kind_families import REPLICA_SETS, REPLICATION_CONTROLLERS
from unisono.api.kinds import PODS
from unisono.api.pod_states import has_ended
from unisono.api.times import rfc3339
from unisono.controllers.execution import retry_when_allowed
from unisono.controllers.objects import PATIENCE_SECONDS, LastWritten, write_status
from unisono.controllers.pod_facts import (
    cheapest_first,
    is_active,
    is_available,
    is_deleting,
    is_ready,
    next_available,
)
from unisono.controllers.recorder import Notice, Recorder
from unisono.controllers.workloads.dependents import Dependents, raise_first
from unisono.controllers.workloads.node_fit import refusal_wait
from unisono.controllers.workloads.templates import generated_name, pod_from
from unisono.errors import NotFound
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


def decide(replica_set: Replicas, pods: Sequence[Pod], now: float) -> ReplicaPlan:
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


def status_of(
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
    told: dict[str, Any] = {
        "replicas": len(active),
        "fully_labeled_replicas": sum(template_labels <= (pod.metadata.labels or {}).items() for pod in active) or None,
        "ready_replicas": sum(map(is_ready, active)) or None,
        "available_replicas": sum(is_available(pod, spec.min_ready_seconds or 0, now) for pod in active) or None,
        "observed_generation": replica_set.metadata.generation,
        "conditions": _conditions(old.conditions or [], failure, now),
    }
    if isinstance(replica_set, ReplicationController):
        return ReplicationControllerStatus(**told)
    terminating = sum(is_deleting(pod) and not has_ended(pod) for pod in pods)
    return ReplicaSetStatus(**told, terminating_replicas=terminating or None)


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
        self._client, self._clock = context.client, context.clock
        self._sets = context.watch(self.kind)
        retry_when_allowed(context, self._sets)
        self._pods: Dependents[Replicas, Pod] = Dependents(context, self.kind, PODS, _selector)

    async def reconcile(self, key: str) -> float | None:
        """Make or delete pods, then tell how many there are."""
        replica_set = self._written.newest(key, self._sets.get(key))
        if replica_set is None:
            return None
        pods = await self._pods.claim(replica_set)
        plan = decide(replica_set, pods, self._clock.time())
        errors: list[Exception] = []
        failure = None
        if self._pods.settled(replica_set):
            errors = await self._carry_out(replica_set, plan)
            if errors:
                failure = ("FailedDelete" if plan.delete else "FailedCreate", str(errors[0]))
        status = status_of(replica_set, pods, self._clock.time(), failure)
        try:
            self._written.keep(await write_status(self._client, self.kind, replica_set, status))
        except NotFound:
            return None
        raise_first(errors)
        return sooner(plan.requeue_after, None if self._pods.settled(replica_set) else PATIENCE_SECONDS)

    async def _carry_out(self, replica_set: Replicas, plan: ReplicaPlan) -> list[Exception]:
        name = replica_set.metadata.name
        fresh = [
            pod_from(_template(replica_set), self.kind, replica_set, generated_name(name, self._random))
            for _ in range(plan.create)
        ]
        errors = await self._pods.create(replica_set, fresh)
        if fresh and not errors:
            listed = ", ".join(pod.metadata.name for pod in fresh[:5])
            self._tell(replica_set, Notice("Normal", "SuccessfulCreate", f"Created pod: {listed}"))
        if errors:
            self._tell(replica_set, Notice("Warning", "FailedCreate", f"Error creating: {errors[0]}"))
        errors += await self._pods.delete(replica_set, plan.delete)
        for pod in plan.delete[:5]:
            self._tell(replica_set, Notice("Normal", "SuccessfulDelete", f"Deleted pod: {pod.metadata.name}"))
        return errors

    def _tell(self, replica_set: Replicas, notice: Notice) -> None:
        self._recorder.event(replica_set, notice.type, notice.reason, notice.message)


class ReplicationControllerController(ReplicaSetController):
    """Runs ReplicationControllers."""

    name = "replication-controller"
    kind = REPLICATION_CONTROLLERS
